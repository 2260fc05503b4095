"""The table: equal to separate evaluations, each image encoded once, resumed after a kill, complete with failures."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import painted
import pytest
import torch
from torch import nn

from geco.errors import InputError
from geco.evaluation import keypoints, load_report, parts, published, table
from geco.evaluation.settings import PROTOCOLS, KeypointSettings, TableSettings
from geco.evaluation.table import KeypointColumn, PartsColumn, Row, cost
from geco.evaluation.table.summary import RowResult, summarise
from geco.types import Skeleton

QUICK = TableSettings(KeypointSettings(resamples=10, batch_size=3, radii=(0.1,)), repeats=0)


class PartViews:
    """Painted animals, of which every keypoint's patch is a part; the first images are those of other views."""

    def __init__(self, views):
        self.views, self.categories, self.listed = [], ["cat"] * len(views), len(views)
        self.skeletons = {"cat": painted.SKELETON}
        for view in views:
            labels = torch.zeros(view.size, dtype=torch.long)
            for part, ((x, y), seen) in enumerate(zip(view.points.xy.tolist(), view.points.visible, strict=True), 1):
                if seen:
                    labels[int(y) - 4 : int(y) + 4, int(x) - 4 : int(x) + 4] = part
            self.views.append(replace(view, keypoints=None, box=None, parts=labels))

    def __iter__(self):
        return iter(self.views)

    def __getitem__(self, index):
        return self.views[index]

    def __len__(self):
        return len(self.views)


def columns(folder):
    """Pairs, other pairs of copies of the same images, and parts of animals of which some are among the pairs."""
    for name in ("first", "copies", "parts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    first = painted.pairs(20, images=8, folder=folder / "first")
    copies = {}
    for pair in first:
        for view in (pair.source, pair.target):
            copy = folder / "copies" / view.image.name
            if not copy.exists():
                shutil.copy(view.image, copy)
            copies[view.name] = replace(view, image=copy, name=f"copy of {view.name}")
    second = [
        replace(pair, source=copies[pair.target.name], target=copies[pair.source.name], category="pot")
        for pair in first[::3]
    ]
    animals = PartViews([*painted.views(6, seed=5, folder=folder / "parts"), *list(copies.values())[:2]])
    train, test = PartViews([]), PartViews([])
    train.views, test.views = animals.views[:4], animals.views[4:]
    train.categories, test.categories = ["cat"] * 4, ["cat"] * 4
    return [
        KeypointColumn("spair", first),
        PartsColumn("pascal_part", train, test),
        KeypointColumn("ap10k", second, protocol=PROTOCOLS["geco-apk"]),
    ]


def rows(*blind, **options):
    return [Row(f"painter-{kind}", lambda kind=kind: painted.Painter(blind=kind, **options)) for kind in blind]


def test_numbers_are_those_of_separate_evaluations_and_each_image_is_encoded_once(tmp_path):
    first, animals, second = columns(tmp_path)
    log = tmp_path / "log"
    report = table.run(rows(True, log=log), [first, animals, second], tmp_path / "out", settings=QUICK)
    encoded = log.read_text().splitlines()
    assert len(encoded) == len(set(encoded)) == 8 + 6
    pck, pgck, _, labelled = (entry.rows[0] for entry in report.tables)
    alone = keypoints.run(painted.Painter(blind=True), first.pairs, settings=QUICK.keypoints)
    assert pck[1] == alone.measure("PCK", radius=0.1).cell
    assert pgck[1:] == tuple(alone.measure(metric).cell for metric in ("11 clear", "11 both", "11 to twin"))
    assert pgck[3].value > 0, "a blind painter confuses twins"
    apk = keypoints.run(painted.Painter(blind=True), second.pairs, [second.protocol], settings=QUICK.keypoints)
    assert pck[2] == apk.measure("PCK", radius=0.1).cell
    separate = parts.run(painted.Painter(blind=True), animals.train, animals.test)
    assert labelled[1:] == tuple(100 * separate.measure(metric).value for metric in parts.COLUMNS)
    assert not (tmp_path / "out" / "features").exists()
    assert repr(load_report(tmp_path / "out").tables) == repr(report.tables)


def test_what_is_done_is_not_done_again_and_other_rows_and_columns_are_added(tmp_path):
    first, _, second = columns(tmp_path)
    log, out = tmp_path / "log", tmp_path / "out"
    made = table.run(rows(True, log=log), [first], out, settings=QUICK)
    assert len(log.read_text().splitlines()) == 8
    before = (out / "results").rglob("report.json")
    times = {path: path.stat().st_mtime_ns for path in before}
    again = table.run(rows(True, log=log), [first], out, settings=QUICK)
    assert len(log.read_text().splitlines()) == 8
    assert repr(again.tables) == repr(made.tables)
    more = table.run(rows(True, False, log=log), [first, second], out, settings=QUICK)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert more.tables[0].rows[0][1] == again.tables[0].rows[0][1]
    assert len(log.read_text().splitlines()) == 8 + 7 + 8, (
        "the second painter sees every image, the first the new pairs"
    )


def test_a_damaged_result_is_made_again_and_a_given_cache_is_kept(tmp_path):
    first, animals, _ = columns(tmp_path)
    cache, out = tmp_path / "cache", tmp_path / "out"
    made = table.run(rows(True), [first, animals], out, settings=QUICK, cache=cache)
    assert len(list(cache.rglob("*.safetensors"))) == 8, "of the pairs; of what only has parts nothing is kept"
    for path in (out / "results").rglob("report.json"):
        path.write_text("{")
    log = tmp_path / "log"
    again = table.run(rows(True, log=log), [first, animals], out, settings=QUICK, cache=cache)
    assert repr(again.tables) == repr(made.tables)
    assert len(log.read_text().splitlines()) == 2, "predictions and counts were still there; two for the estimate"


SCRIPT = """
import sys
sys.path[:0] = [{tests!r}, {here!r}]
from pathlib import Path
from test_table import QUICK, columns, rows, table

folder, die_after = Path(sys.argv[1]), int(sys.argv[2])
animals = columns(folder)
table.run(rows(False, log=folder / "log"), animals[:1], folder / "out", settings=QUICK)
table.run(rows(False, True, log=folder / "log", die_after=die_after), animals, folder / "out", settings=QUICK)
"""


def test_a_killed_table_resumes_where_it_was(tmp_path):
    here = Path(__file__).parent
    script = tmp_path / "table.py"
    script.write_text(SCRIPT.format(tests=str(here.parent), here=str(here)))
    command = [sys.executable, str(script), str(tmp_path), "9"]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = (tmp_path / "log").read_text().splitlines()
    resumed = table.run(rows(False, True, log=tmp_path / "log"), columns(tmp_path), tmp_path / "out", settings=QUICK)
    fresh = table.run(rows(False, True), columns(tmp_path), tmp_path / "fresh", settings=QUICK)
    assert repr(resumed.tables) == repr(fresh.tables)
    after = (tmp_path / "log").read_text().splitlines()[len(before) :]
    assert before[:8] == list(dict.fromkeys(before))[:8]
    assert len(after) < 8 + 6 + 8 + 6, "what the killed run had encoded of pairs was still there"


def test_a_row_that_cannot_be_had_is_in_the_table_with_the_reason(tmp_path):
    first, _, second = columns(tmp_path)

    def missing():
        raise InputError("geo needs its head; give a folder that names it")

    class Fails(painted.Painter):
        def fingerprint(self):
            return "fails"

        def extract_stream(self, pictures, *, batch_size=8):
            raise InputError("not enough memory to encode 3 images at once")

    wanted = [Row("geo", missing), *rows(False), Row("fails", Fails)]
    report = table.run(wanted, [first, second], tmp_path / "out", settings=QUICK)
    assert report.counts["missing"] == {
        "geo": ["geo needs its head; give a folder that names it"],
        "fails": ["not enough memory to encode 3 images at once"],
    }
    pck, reasons = report.tables[0], report.tables[-1]
    assert [row[0] for row in pck.rows] == ["geo", "Geo (paper)", "painter-False", "fails"]
    assert pck.rows[0][1:] == pck.rows[3][1:] == (None, None, None)
    assert pck.rows[2][1].value > 90
    assert reasons.rows[0] == ("geo", "geo needs its head; give a folder that names it", published.ROWS["geo"].get)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "give a folder that names it" in page
    assert "best_856.PTH" in page


def test_one_damaged_dataset_leaves_the_others(tmp_path):
    first, _, second = columns(tmp_path)
    (tmp_path / "copies" / "3.png").write_bytes(b"damaged")
    report = table.run(rows(False), [second, first], tmp_path / "out", settings=QUICK)
    row = report.tables[0].rows[0]
    assert row[1] is None
    assert row[2].value > 90
    (reason,) = report.counts["missing"]["painter-False"]
    assert "3.png" in reason


def result(label, **changes):
    return RowResult(label, **changes)


def test_the_paper_s_rows_stand_below_ours_in_grey(tmp_path):
    first, animals, second = columns(tmp_path)
    labels = ["dinov2-base", "sphere", "mine"]
    report = summarise([result(label) for label in labels], [first, animals, second], QUICK)
    pck, of_spair, of_apk, labelled = report.tables
    assert [row[0] for row in pck.rows] == ["dinov2-base", "DINOv2-B (paper)", "sphere", "Sphere (paper)", "mine"]
    assert pck.rows[1][1:] == (67.1, 73.0, "38–40")
    assert pck.quoted == (1, 3)
    assert pck.columns == ("model", "SPair", "APK", "ms")
    assert "pair by pair" in pck.note
    assert of_apk.rows[1] == ("DINOv2-B (paper)", 24.5, 51.8, 16.0)
    assert (of_apk.quoted, of_spair.quoted, labelled.quoted) == ((1,), (), (1,))
    assert labelled.rows[1] == ("DINOv2-B (paper)", 39.8, 90.1, 57.6, 97.3)
    assert "Hartwig et al." in of_apk.note
    assert "Hartwig et al." not in of_spair.note


@pytest.mark.parametrize("changes", [{"split": "val"}, {"protocol": PROTOCOLS["bbox-image"]}, {"name": "mine"}])
def test_what_the_paper_did_not_evaluate_has_no_row_of_it(tmp_path, changes):
    column = replace(columns(tmp_path)[0], **changes)
    report = summarise([result("dinov2-base")], [column], QUICK)
    assert [row[0] for row in report.tables[0].rows] == ["dinov2-base"]
    assert not report.tables[0].quoted
    assert not table.draw([result("dinov2-base")], [column])


def test_tables_without_content_are_left_out(tmp_path):
    pairs = [
        replace(pair, skeleton=Skeleton(painted.SKELETON.names, tuple(range(5)), None)) for pair in painted.pairs(4)
    ]
    report = summarise([result("mine")], [KeypointColumn("pfpascal", pairs)], QUICK)
    assert [entry.name for entry in report.tables] == ["pck"], "no twins"
    report = summarise([result("mine")], columns(tmp_path)[1:2], QUICK)
    assert [entry.name for entry in report.tables] == ["parts-pascal_part"]


def test_a_table_has_rows_and_columns_of_different_names(tmp_path):
    first, _, _ = columns(tmp_path)
    for these, columns_given, what in (
        ([*rows(True), *rows(True)], [first], "'painter-True' twice"),
        (rows(True), [first, first], "'spair' twice"),
        ([], [first], "rows of different names, got none"),
        (rows(True), [], "columns of different names, got none"),
    ):
        with pytest.raises(InputError, match=what):
            table.run(these, columns_given, tmp_path / "out", settings=QUICK)
    assert not (tmp_path / "out").exists()
    (tmp_path / "report.json").write_text('{"benchmark": "keypoints", "label": "m", "data": "d", "values": {}}')
    with pytest.raises(InputError, match="holds the report of keypoints: m on d, not a table; give another folder"):
        table.run(rows(True), [first], tmp_path, settings=QUICK)


# --- cost -------------------------------------------------------------------------------------------------------------


class Network(painted.Painter, nn.Module):
    """A painter that can be timed: a thousand parameters."""

    input_size = 16

    def __init__(self):
        nn.Module.__init__(self)
        painted.Painter.__init__(self)
        self.weight = nn.Parameter(torch.zeros(1000))
        self.calls = 0

    def prepare(self, pixels, size):
        return {"pixels": pixels}

    def forward(self, pixels):
        self.calls += 1
        return pixels * 2


def test_what_a_row_will_cost_is_said_before_it_starts(tmp_path):
    announced = []
    first, animals, second = columns(tmp_path)
    network = Network()
    settings = replace(QUICK, repeats=4)
    report = table.run(
        [Row("network", lambda: network)],
        [first, animals, second],
        tmp_path / "out",
        settings=settings,
        announce=lambda label, cost: announced.append((label, network.seen, cost)),
    )
    ((label, encoded, expected),) = announced
    assert (label, encoded) == ("network", 2)
    assert (expected.parameters, expected.weights) == (0.001, pytest.approx(4000 / 2**20))
    assert expected.images == 8 + 8
    assert expected.total == pytest.approx(16 * expected.seconds)
    assert expected.maps == pytest.approx(8 * 4 * 8 * 8 * 4 / 2**20, rel=0.1)  # 64×64 and 48×80 in patches of 8
    assert "0.0 M parameters" in str(expected)
    assert "16 images: about " in str(expected)
    assert network.calls == 3 + 4
    timed = report.tables[0].rows[0][-1]
    assert timed > 0
    assert report.values["network on random images: network, cpu, float32, 16 px, batch 1 ms"] == timed
    assert (tmp_path / "out" / "pck_against_speed.png").exists()
    again = table.run([Row("network", lambda: network)], [first], tmp_path / "out", settings=settings)
    assert network.calls == 3 + 4, "the time of the same model on the same machine"
    assert again.tables[0].rows[0][-1] == timed


def test_a_slow_model_is_timed_less_often():
    network = Network()
    protocol = cost.conditions(network, replace(QUICK, repeats=20))
    cost.timing(network, "network", protocol, seconds=10.0, most=60.0)
    assert network.calls == 1 + 6
    cost.timing(network, "network", protocol, seconds=1000.0, most=60.0)
    assert network.calls == 7 + 1 + 3
    assert cost.conditions(painted.Painter(), QUICK) is None


@pytest.mark.parametrize(
    ("seconds", "images", "says"), [(0.5, 100, "50 s"), (2.0, 1000, "33 min"), (60.0, 6000, "100.0 h")]
)
def test_costs_are_readable(seconds, images, says):
    text = str(table.RowCost(86.6, 330.0, 900.0, seconds, images, 4000.0))
    assert text.startswith("86.6 M parameters, 0.32 GB; 0.88 GB more while encoding; ")
    assert f"{images:,} images: about {says}" in text
    assert text.endswith("up to 3.91 GB of feature maps on disk")
