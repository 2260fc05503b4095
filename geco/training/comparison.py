"""Runs side by side: the report of an ablation."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from geco.evaluation import Measure, Report, Table
from geco.system import codec, provenance
from geco.training.folder import RunFolder
from geco.training.loop import Outcome
from geco.training.settings import TrainConfig
from geco.training.validation import RADIUS


def compare(outcomes: Mapping[str, Outcome], config: TrainConfig, datasets: Sequence[str]) -> Report:
    """Validation PCK of the best step of each run; `config` is the recipe they change, `datasets` they validate on."""
    rows = {name: _row(outcome, datasets) for name, outcome in outcomes.items()}
    table = Table(
        "ablation",
        "Validation PCK@0.1 in % of the best step",
        ("run", "mean", *datasets, "step", "last loss"),
        tuple((name, *row) for name, row in rows.items()),
        note="losses compare only between runs of the same loss and reduction",
        digits=2,
    )
    return Report(
        benchmark="ablation",
        label=", ".join(outcomes),
        data=", ".join(datasets),
        measures=tuple(Measure("PCK", row[0] / 100, case=name, radius=RADIUS) for name, row in rows.items()),
        tables=(table,),
        settings={"config": codec.as_dict(config)},
        provenance=provenance.collect(config.seed),
    )


def _row(outcome: Outcome, datasets: Sequence[str]) -> list[float | int]:
    """Mean and single PCK of the best step, that step, and the mean loss of the last tenth of the run."""
    records = RunFolder(outcome.folder).records()
    validations = {record["step"]: record for record in records if record["kind"] == "validation"}
    best = validations.get(outcome.best_step, {})
    losses = [record["loss"] for record in records if record["kind"] == "step"]
    scores = [best.get(key, math.nan) for key in ("PCK", *(f"PCK {name}" for name in datasets))]
    return [*scores, outcome.best_step, fmean(losses[-max(1, len(losses) // 10) :])]
