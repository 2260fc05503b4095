"""`geco train`: the paper's recipe or your own, on any datasets; stop it at any time, the same command goes on."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli._options import notes
from geco.config.training import ABLATIONS, PRESETS, TrainConfig

if TYPE_CHECKING:
    from geco.plans import Plan
    from geco.train import Outcome

PANEL = "Data and training"
OVERFIT_STEPS = 200
Split = dict[str, Any]  # dataset → its pairs


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", rich_help_panel=PANEL)(train)


def train(
    data: Annotated[
        list[str], typer.Option("--data", help="Dataset and its folder, name=ROOT; several times to join.")
    ],
    preset: Annotated[str, typer.Option(help=f"Recipe: {', '.join(PRESETS)}.")] = "paper",
    out: Annotated[Path | None, typer.Option(help="Run folder.", show_default="runs/<preset>", file_okay=False)] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Backbone, or adapter to go on from: name, folder, hub id."),
    ] = None,
    size: Annotated[int | None, typer.Option(min=14, help="Side the images are squashed to.")] = None,
    loss: Annotated[str | None, typer.Option(help="transport, contrastive or soft-argmax.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Pairs of a step, all processes.")] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes that load pairs.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting, like settings.reduction=conditional."),
    ] = None,
    loader: Annotated[
        list[str] | None, typer.Option("--loader", help="Option of a dataset, like animalpose.crop=square.")
    ] = None,
    overfit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many pairs, unaltered: does it learn at all?")
    ] = None,
    ablation: Annotated[str | None, typer.Option(help=f"Runs to compare, with commas: {', '.join(ABLATIONS)}.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Train an adapter. Stopped or killed, the same command goes on from the last checkpoint.

    Defaults are the preset's. Under [b]accelerate launch[/b] or torchrun the processes share each batch.

    Example: [bold]geco train --data spair=data/SPair-71k --data pfpascal=data/PF-PASCAL --data ap10k=data/ap-10k[/]

    Example: [bold]geco train --preset animals-cpu --data animalpose=data/animalpose --dry-run[/]
    """
    given = {
        "loss": loss,
        "epochs": epochs,
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        "workers": workers,
    }
    config = configured(preset, given, model=backbone, size=size, settings=settings or ())
    train_sets, valid_sets = _load(data, loader or ())
    folder = out or Path("runs") / (preset if overfit is None else f"{preset}-overfit")
    if overfit is not None:
        config, train_sets = _overfitting(config, train_sets, overfit, steps=steps)
        valid_sets = train_sets
    if dry_run:
        _show_plan(config, train_sets, valid_sets, as_json=as_json)
    elif ablation is not None:
        _compare(ablation.split(","), config, train_sets, valid_sets, folder, as_json=as_json)
    else:
        outcome = _run(config, train_sets, valid_sets, folder)
        if _is_first():
            _tell(outcome, as_json=as_json)


# --- what is asked for --------------------------------------------------------------------------------------


def configured(
    preset: str,
    given: Mapping[str, Any],
    *,
    model: str | None = None,
    size: int | None = None,
    settings: Sequence[str] = (),
) -> TrainConfig:
    """The preset with what the options and `--set key=value` change."""
    from geco.config import training

    config = training.preset(preset)
    config = config if model is None else _starting_from(config, model)
    config = config if size is None else config.at_size(size)
    for key, value in given.items():
        if value is not None:
            config = training.changed(config, key, str(value))
    for setting in settings:
        key, found, text = setting.partition("=")
        if not found:
            raise ValueError(f"--set takes key=value, like settings.reduction=conditional, got {setting!r}")
        config = training.changed(config, key, text)
    return config


def _starting_from(config: TrainConfig, model: str) -> TrainConfig:
    """The recipe on another backbone, or going on from an adapter, whose encoder it then takes over.

    Folders are noted by their full path: the run must find them again from wherever it is loaded.
    """
    from geco import weights

    place = str(Path(model).resolve()) if Path(model).is_dir() else model
    folder = weights.find_adapter(model)
    adapted = None if folder is None else weights.adapter_config(folder)
    if folder is None or adapted is None:
        same = place == config.encoder.backbone
        return config if same else replace(config, encoder=config.encoder.on(place))
    if adapted.lora is None:  # saved whole, so it is a backbone
        return replace(config, encoder=config.encoder.on(str(folder.resolve()), norm=adapted.norm))
    return replace(config, start=place, encoder=replace(adapted, size=config.encoder.size))


def _load(data: Sequence[str], options: Sequence[str]) -> tuple[Split, Split]:
    """Training and validation pairs of every dataset; one without a validation split is only trained on."""
    from geco import plugins
    from geco.cli import _data_check as checking

    by_dataset = _loader_options(options)
    train_sets: Split = {}
    valid_sets: Split = {}
    for text in data:
        name, found, root = text.partition("=")
        if not found:
            raise ValueError(f"--data takes name=ROOT, like spair=data/SPair-71k, got {text!r}")
        plugin = plugins.find("datasets", name)
        name = plugin.__name__.rsplit(".", 1)[1]
        if "train" not in plugin.SPLITS:
            raise ValueError(f"{name} has no training split, only {', '.join(plugin.SPLITS)}")
        if not Path(root).is_dir():
            raise FileNotFoundError(f"{root}: no such folder; expected the root of {name}")
        chosen = checking.load_options(plugin, by_dataset.pop(name, []), option=f"--loader for {name}")
        with notes.status(f"reading {name}"):
            train_sets[name] = plugin.load(root, "train", **chosen)
            if "val" in plugin.SPLITS:
                valid_sets[name] = plugin.load(root, "val", **chosen)
    if by_dataset:
        raise ValueError(f"--loader names {', '.join(by_dataset)}, but --data only {', '.join(train_sets)}")
    return train_sets, {name: pairs for name, pairs in valid_sets.items() if len(pairs)}


def _loader_options(texts: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts:
        name, dot, option = text.partition(".")
        if not dot or "=" not in option:
            raise ValueError(f"--loader takes dataset.key=value, like animalpose.crop=square, got {text!r}")
        found.setdefault(name, []).append(option)
    return found


def _overfitting(config: TrainConfig, sets: Split, count: int, *, steps: int | None) -> tuple[TrainConfig, Split]:
    """The first pairs of each dataset, unaltered, again and again."""
    few = {name: [pairs[i] for i in range(min(count, len(pairs)))] for name, pairs in sets.items()}
    steps = steps or OVERFIT_STEPS
    return (
        replace(
            config,
            augment=replace(config.augment, plain=tuple(few)),
            batch_size=min(config.batch_size, sum(map(len, few.values()))),
            epochs=steps,
            steps=steps,
            validate_every=max(1, steps // 5),
        ),
        few,
    )


# --- what is done -------------------------------------------------------------------------------------------


def _run(config: TrainConfig, train_sets: Split, valid_sets: Split, folder: Path, label: str = "") -> "Outcome":
    """Train with a progress bar; interrupted, the command ends as a shell expects."""
    from geco.cli import INTERRUPTED
    from geco.train import fit

    with _progress(label or folder.name, shown=_is_first()) as watch:
        outcome = fit(config, train_sets, valid_sets, folder, watch=watch)
    if not outcome.finished:
        if not _is_first():
            raise typer.Exit(INTERRUPTED)
        notes.print(f"step {outcome.step} of {outcome.total} saved in {folder}; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    return outcome


def _is_first() -> bool:
    """Whether this is the process that speaks, of those that `accelerate launch` or torchrun started."""
    return int(os.environ.get("RANK", "0")) == 0


def _tell(outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        _print_json({**asdict(outcome), "folder": str(outcome.folder)})
    elif outcome.best_step >= 0:
        notes.print(f"best: mean PCK@0.1 {outcome.best:.1f} at step {outcome.best_step}")
    notes.print(f"[dim]try it: geco match --model {outcome.folder} SOURCE TARGET[/]")


@contextmanager
def _progress(label: str, *, shown: bool) -> Iterator[Any]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, TimeRemainingColumn(), TextColumn("{task.fields[news]}"), console=notes, disable=not shown
    ) as bars:
        task = bars.add_task(label, total=None, news="")
        latest: dict[str, str] = {}

        def watch(step: int, total: int, record: Mapping[str, Any]) -> None:
            if record["kind"] == "validation":
                latest["PCK@0.1"] = f"{record['PCK']:.1f}"
            else:
                latest["loss"] = f"{record['loss']:.3f}"
                latest["images/s"] = f"{record['images_per_second']:.1f}"
            news = "  ".join(f"{name} {value}" for name, value in latest.items())
            bars.update(task, completed=step, total=total, news=news)

        yield watch


def _show_plan(config: TrainConfig, train_sets: Split, valid_sets: Split, *, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from geco.plans import plan

    made = plan(config, train_sets, valid_sets, processes=int(os.environ.get("WORLD_SIZE", "1")))
    if not _is_first():
        return
    if as_json:
        _print_json({**asdict(made), "config": _config_values(config)})
        return
    table = Table("pairs", "at hand", "in each epoch", title="Plan")
    for group, (at_hand, taken) in made.pairs.items():
        table.add_row(group, f"{at_hand:,}", f"{taken:,}")
    console = Console()
    console.print(table)
    for line in _plan_lines(made, config):
        console.print(line)


def _plan_lines(made: "Plan", config: TrainConfig) -> list[str]:
    validation = ", ".join(f"{name} {count}" for name, count in made.validation.items()) or "none"
    return [
        f"steps: {made.steps:,} ({made.steps_per_epoch:,} an epoch) of {config.batch_size} pairs, {config.loss} loss",
        f"validation pairs: {validation}",
        f"model: {config.encoder.backbone} at {config.encoder.size} px, "
        f"{made.trainable:,} of {made.parameters:,} parameters trained",
        f"memory: about {made.memory / 2**30:.2f} GB a process",
    ]


def _compare(
    names: Sequence[str],
    config: TrainConfig,
    train_sets: Split,
    valid_sets: Split,
    folder: Path,
    *,
    as_json: bool,
) -> None:
    """Run after run, each in its own folder, then one table of all."""
    from geco.cli import _evaluation
    from geco.config.training import ablation

    variants = {name: ablation(name, config) for name in dict.fromkeys(names)}
    rows = []
    for number, (name, variant) in enumerate(variants.items(), 1):
        label = f"{name} ({number}/{len(variants)})"
        outcome = _run(variant, train_sets, valid_sets, folder / name, label)
        rows.append((name, *_summary(outcome, valid_sets)))
    if _is_first():
        _evaluation.present(_ablation_report(rows, config, valid_sets), out=folder, as_json=as_json)


def _summary(outcome: "Outcome", valid_sets: Split) -> list[float | int]:
    """Mean and single PCK of the best step, that step, and the mean loss of the last tenth of the run."""
    from statistics import fmean

    from geco.runs import RunFolder

    records = RunFolder(outcome.folder).records()
    best = next((r for r in records if r["kind"] == "validation" and r["step"] == outcome.best_step), {})
    losses = [record["loss"] for record in records if record["kind"] == "step"]
    scores = [best.get(key, float("nan")) for key in ("PCK", *(f"PCK {name}" for name in valid_sets))]
    return [*scores, outcome.best_step, fmean(losses[-max(1, len(losses) // 10) :])]


def _ablation_report(rows: Sequence[tuple[Any, ...]], config: TrainConfig, valid_sets: Split) -> Any:
    from geco.report import Report, Table, provenance

    table = Table(
        "ablation",
        "Validation PCK@0.1 in % of the best step",
        ("run", "mean", *valid_sets, "step", "last loss"),
        tuple(rows),
        note="losses compare only between runs of the same loss and reduction",
        digits=2,
    )
    return Report(
        benchmark="ablation",
        label=", ".join(row[0] for row in rows),
        data=", ".join(valid_sets),
        values={f"{row[0]} PCK@0.1": row[1] / 100 for row in rows},
        tables=(table,),
        settings={"config": _config_values(config)},
        provenance=provenance(config.seed),
    )


def _config_values(config: TrainConfig) -> dict[str, Any]:
    from geco.config.training import as_dict

    return as_dict(config)


def _print_json(values: Mapping[str, Any]) -> None:
    import json

    print(json.dumps(values, indent=2))
