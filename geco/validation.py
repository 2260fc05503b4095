"""Validation during training: PCK@0.1 on fixed pairs of each dataset, and a picture of one of them."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from matplotlib.figure import Figure

from geco import matching, viz
from geco.benchmarks import keypoints
from geco.benchmarks._features import Encoder, Processes, load_image
from geco.config.evaluation import KeypointSettings, Protocol
from geco.config.matching import MatchSettings
from geco.types import Matches, Pair

ALPHA = 0.1
ALONE = Processes()


def subset(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """At most `count` pairs spread evenly over a split, always the same ones."""
    count = min(count, len(pairs))
    return [pairs[i * len(pairs) // count] for i in range(count)]


def validate(
    model: Encoder,
    sets: Mapping[str, Sequence[Pair]],
    *,
    bin: float,
    folder: Path,
    processes: Processes = ALONE,
    settings: KeypointSettings = KeypointSettings(resamples=1),  # noqa: B008, frozen; intervals are not shown
) -> dict[str, float]:
    """PCK@0.1 in % under the protocol `geco`: of each set ("PCK <name>") and their mean ("PCK").

    "bin" is the similarity that only one in ten visible keypoints stays below, averaged over the sets.

    Several processes share the work through `folder`, which is gone afterwards.
    """
    protocol = Protocol(alphas=(ALPHA,), match=MatchSettings(bin=bin))
    found, thresholds = {}, []
    for name, pairs in sets.items():
        report = keypoints.run(
            model,
            pairs,
            (protocol,),
            settings=settings,
            folder=folder / name if processes.count > 1 else None,
            processes=processes,
        )
        found[f"PCK {name}"] = 100 * report.values[f"{protocol.name} PCK@{ALPHA:g}"]
        thresholds.append(report.values[f"{protocol.name} hidden threshold"])
    processes.wait()
    if processes.index == 0 and processes.count > 1:
        shutil.rmtree(folder)
    known = [threshold for threshold in thresholds if not math.isnan(threshold)]
    return {"PCK": fmean(found.values()), **found, "bin": fmean(known) if known else bin}


@torch.inference_mode()
def picture(model: Encoder, pair: Pair, *, bin: float, title: str) -> Figure:
    """Keypoints of the source and where the model takes them."""
    pictures = load_image(pair.source), load_image(pair.target)
    source, target = model.extract_batch(pictures)
    points = pair.source.keypoints
    assert points is not None
    assert not isinstance(pair.skeleton, tuple)
    asked = points.xy[points.visible].float()
    how = MatchSettings(bin=bin)
    found = matching.transfer(source, matching.prepare(target, how), asked.to(source.values.device), how)
    names = [name for name, shown in zip(pair.skeleton.names, points.visible.tolist(), strict=True) if shown]
    return viz.draw_transfer(*pictures, _on_cpu(found), title=title, names=names)


def _on_cpu(matches: Matches) -> Matches:
    fields = ("source", "target", "score", "visible")
    return replace(matches, **{name: getattr(matches, name).cpu() for name in fields})
