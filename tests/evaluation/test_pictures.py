"""Pictures of a keypoint run: examples of the right cases, drawn the way they were matched."""

from dataclasses import replace

import numpy as np
import painted
import pytest
import torch
from torch.nn import functional

from geco.evaluation import keypoints
from geco.evaluation.settings import PROTOCOLS, KeypointSettings, Protocol
from geco.matching.settings import MatchSettings

QUICK = KeypointSettings(resamples=50, batch_size=3, radii=(0.05, 0.1))
GECO, APK = PROTOCOLS["geco"], PROTOCOLS["geco-apk"]


def test_curves_and_imbalance_of_a_report_are_drawn():
    report = keypoints.run(painted.Painter(blind=True), painted.pairs(), [GECO, APK], settings=QUICK, label="stub")
    figures = keypoints.draw([report])
    assert {"pck__geco", "pck__geco_apk", "imbalance", "roc_of_hidden_points__geco"} <= set(figures)
    (line,) = figures["pck__geco"].axes[0].lines
    assert line.get_label() == "stub"
    np.testing.assert_allclose(line.get_ydata()[1], 100 * report.measure("PCK", "geco", 0.1).value)


def test_examples_are_of_the_cases_they_stand_for():
    pairs = painted.pairs(40)
    model = painted.Painter(blind=True)
    predictions = keypoints.predict(model, pairs, [GECO.match], settings=QUICK)
    sheets = keypoints.examples(model, pairs, predictions, GECO.match, count=3)
    assert {case: len(rows) for case, rows in sheets.items()} == {"11": 3, "10": 3, "01": 3}
    for case, rows in sheets.items():
        for example in rows:
            assert (example.match is not None, example.twin is not None) == (case[0] == "1", case[1] == "1")
            assert example.heat.shape == example.target.shape[-2:]
            peak = int(example.heat.flatten().argmax())
            width = example.heat.shape[1]
            assert example.predicted.tolist() == [peak % width + 0.5, peak // width + 0.5]


# --- drawn as evaluated -----------------------------------------------------------------------------------------------


def naive_heat(pair, query, way):
    """Cosine of the query with the target, which is upsampled channel by channel if the settings say so."""
    source, target = (
        features.values.double()
        for features in painted.Painter().extract_stream([pair.source.image, pair.target.image])
    )
    if way.normalise == "before":
        source, target = functional.normalize(source, dim=0), functional.normalize(target, dim=0)
    x, y = (query // painted.PATCH).long().tolist()  # keypoints are the centres of patches
    if way.upsample:
        target = functional.interpolate(target[None], size=pair.target.size, mode="bilinear")[0]
    if way.normalise == "after":
        target = functional.normalize(target, dim=0)
    return torch.einsum("c,chw->hw", functional.normalize(source[:, y, x], dim=0), target).numpy()


@pytest.mark.parametrize(
    "way",
    [MatchSettings(), MatchSettings(upsample=False), MatchSettings(normalise="before")],
    ids=["geco", "patches", "before"],
)
def test_examples_are_drawn_as_the_first_protocol_matches(way):
    """Heat map and prediction, whatever the protocols after it are."""
    model = painted.Painter()
    protocols = [Protocol("first", match=way), Protocol("second", match=replace(way, upsample=not way.upsample))]
    cases = set()
    for pair in painted.pairs(8, images=16):
        predictions = keypoints.predict(model, [pair], keypoints.ways(protocols), settings=QUICK)
        for name, figure in keypoints.draw_examples(model, [pair], predictions, protocols).items():
            cases.add(name)
            source, _, similarity = figure.axes
            query = torch.from_numpy(source.lines[0].get_xydata()[0])
            np.testing.assert_allclose(similarity.images[1].get_array(), naive_heat(pair, query, way), atol=1e-5)
            visible = pair.source.points.xy[pair.source.points.visible]
            row = (visible == query).all(-1).nonzero().item()
            first, second = predictions[0].xy[:, row].tolist()
            assert first != second, "the test would prove nothing"
            assert similarity.lines[-1].get_xydata()[0].tolist() == first
    assert cases == {"examples_11", "examples_10", "examples_01"}
