"""`geco train`: the paper's recipe or your own, on any datasets; stop it at any time, the same command resumes it."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _outputs
from geco.cli._recipe import configured, runs_of, training_sources
from geco.cli._terminal import notes, results
from geco.system import processes
from geco.training import ABLATIONS, PRESETS
from geco.training.settings import TrainConfig

if TYPE_CHECKING:
    from geco.training import Outcome, Plan


PANEL = "Data and training"
Split = Mapping[str, Any]  # dataset → its pairs


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", rich_help_panel=PANEL)(train)


def train(
    data: Annotated[
        list[str], typer.Option("--data", help="Dataset and its folder, name=ROOT; several times to join.")
    ],
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", help="Dataset whose split val is validated on, but not trained on, name=ROOT."),
    ] = None,
    preset: Annotated[str, typer.Option(help=f"Recipe: {', '.join(PRESETS)}.")] = "paper",
    out: Annotated[Path | None, _outputs.option("Run folder.", default="runs/<preset>")] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Backbone, or adapter to start from: name, folder, hub id."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", "--sizes", min=1, help="Side of the square that images are resized to, in pixels."),
    ] = None,
    distill: Annotated[
        str | None,
        typer.Option(help="Teacher: a model to distil into its own first blocks; see --preset xs-cpu."),
    ] = None,
    loss: Annotated[str | None, typer.Option(help="transport, contrastive, soft-argmax or distill.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="End the run after N steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Pairs per step, over all processes.")] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes that load pairs.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting, like loss.reduction=conditional."),
    ] = None,
    loader: Annotated[
        list[str] | None, typer.Option("--loader", help="Option of a dataset, like animalpose.crop=square.")
    ] = None,
    masks: Annotated[
        list[str] | None,
        typer.Option(
            "--masks",
            help="Masks of a dataset, name=FOLDER, name=box for its boxes, or name=own-or-box for boxes where it ships "
            "no mask; the name may be left out if there is one dataset.",
            show_default="its own, or masks/<dataset>-<maker>",
        ),
    ] = None,
    overfit: Annotated[
        int | None,
        typer.Option(min=1, help="Train on the first N pairs only, without augmentation, to test that it learns."),
    ] = None,
    ablation: Annotated[str | None, typer.Option(help=f"Runs to compare, with commas: {', '.join(ABLATIONS)}.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, show the plan and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Train an adapter, or a small model by distillation.

    Stopped or killed, the same command resumes it from the last checkpoint. Defaults are the preset's.
    Under [b]accelerate launch[/b] or torchrun the processes share each batch.

    Example: [bold]geco train --data spair=data/SPair-71k --data pfpascal=data/PF-PASCAL --data ap10k=data/ap-10k[/]

    Example: [bold]geco train --preset animals-cpu --data animalpose=data/animalpose --dry-run[/]

    Example: [bold]geco train --preset xs-cpu --distill geco-s --data animalpose=data/animalpose[/]
    """
    from geco import training

    options = {
        "loss.name": loss,
        "epochs": epochs,
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        "workers": workers,
    }
    config = configured(preset, options, distill=distill, model=backbone, size=size, settings=settings or ())
    runs = runs_of(config, ablation)
    sources, only_validated = training_sources(data, valid or (), loader or (), masks or ())
    with notes.status("reading the datasets"):
        needs_masks = any(run.needs_masks for run in runs.values())
        train_sets, valid_sets = training.load_splits(sources, needs_masks=needs_masks, tell=_tell)
        valid_sets |= training.load_validation(only_validated)
    folder = out or Path("runs") / (preset if overfit is None else f"{preset}-overfit")
    if overfit is not None:
        train_sets = valid_sets = {name: _first(pairs, overfit) for name, pairs in train_sets.items()}
        sizes = {name: len(pairs) for name, pairs in train_sets.items()}
        config = training.overfitting(config, sizes, steps=steps)
        runs = runs_of(config, ablation)
    folders = {name: folder / name if name else folder for name in runs}
    if dry_run:
        _show_plans(runs, train_sets, valid_sets, folders, as_json=as_json)
    elif ablation is None:
        outcome = _fit(config, train_sets, valid_sets, folder, label=folder.name)
        if processes.is_first():
            _show_outcome(outcome, as_json=as_json)
    else:
        _compare(runs, config, train_sets, valid_sets, folder, as_json=as_json)


# --- what is done -----------------------------------------------------------------------------------------------------


def _first(pairs: Any, count: int) -> list[Any]:
    return [pairs[i] for i in range(min(count, len(pairs)))]


def _fit(config: TrainConfig, train_sets: Split, valid_sets: Split, folder: Path, *, label: str) -> "Outcome":
    """Train with a progress bar; interrupted, the command ends as a shell expects."""
    from geco.cli import INTERRUPTED
    from geco.cli._progress import progress_bars, watching
    from geco.training import fit

    with progress_bars(shown=processes.is_first(), transient=False) as update:
        outcome = fit(config, train_sets, valid_sets, folder, watch=watching(label, update))
    if not outcome.finished:
        if processes.is_first():
            notes.print(f"step {outcome.step} of {outcome.total} saved in {folder}; the same command resumes it")
        raise typer.Exit(INTERRUPTED)
    return outcome


def _compare(
    runs: Mapping[str, TrainConfig],
    config: TrainConfig,
    train_sets: Split,
    valid_sets: Split,
    folder: Path,
    *,
    as_json: bool,
) -> None:
    """Run after run, each in its own folder, then one table of all."""
    from geco import training
    from geco.cli import _reports

    outcomes = {}
    for number, (name, run) in enumerate(runs.items(), 1):
        label = f"{name} ({number}/{len(runs)})"
        outcomes[name] = _fit(run, train_sets, valid_sets, folder / name, label=label)
    if processes.is_first():
        report = training.compare(outcomes, config, list(valid_sets))
        _reports.present(report, out=folder, as_json=as_json)


# --- what is printed --------------------------------------------------------------------------------------------------


def _tell(line: str) -> None:
    if processes.is_first():
        notes.print(line, style="dim")


def _show_outcome(outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        _print_json({**asdict(outcome), "folder": str(outcome.folder)})
    elif outcome.best_step >= 0:
        notes.print(f"best: mean PCK@0.1 {outcome.best:.1f} at step {outcome.best_step}")
    notes.print(f"try it: geco match --model {outcome.folder} SOURCE TARGET", style="dim")


def _show_plans(
    runs: Mapping[str, TrainConfig],
    train_sets: Split,
    valid_sets: Split,
    folders: Mapping[str, Path],
    *,
    as_json: bool,
) -> None:
    from geco.system import codec
    from geco.training import plan

    count = processes.launched_count()
    plans = {name: plan(run, train_sets, valid_sets, folders[name], processes=count) for name, run in runs.items()}
    if not processes.is_first():
        return
    if as_json:
        values = {name: {**asdict(plans[name]), "config": codec.as_dict(run)} for name, run in runs.items()}
        _print_json(values.get("", values))
        return
    for name, run in runs.items():
        _show_plan(plans[name], run, title=f"Plan of {name}" if name else "Plan")


def _show_plan(plan: "Plan", config: TrainConfig, *, title: str) -> None:
    from rich.table import Table

    table = Table("pairs", "available", "in each epoch", title=title)
    for group, (available, taken) in plan.pairs.items():
        table.add_row(group, f"{available:,}", f"{taken:,}")
    validation = ", ".join(f"{name} {count}" for name, count in plan.validation.items()) or "none"
    console = results()
    console.print(table)
    console.print(
        f"steps: {plan.steps:,} ({plan.steps_per_epoch:,} an epoch) of {config.batch_size} pairs, "
        f"{config.loss.name} loss\n"
        f"validation pairs: {validation}\n"
        f"model: {config.encoder.backbone} at {config.encoder.size} px{_taught(config)}, "
        f"{plan.trainable:,} of {plan.parameters:,} parameters trained\n"
        f"memory: about {plan.memory / 2**30:.2f} GB a process"
    )


def _taught(config: TrainConfig) -> str:
    return (
        f", taught by {config.loss.distill.teacher} at {config.augment.size} px"
        if config.loss.name == "distill"
        else ""
    )


def _print_json(values: Mapping[str, Any]) -> None:
    import json

    print(json.dumps(values, indent=2))
