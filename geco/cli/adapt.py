"""`geco adapt`: a short training on your own labels, kept only if it helps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _outputs
from geco.cli._options import Model
from geco.cli._terminal import notes
from geco.training.settings import AdaptSettings

if TYPE_CHECKING:
    from geco.training import Adapted

PANEL = "Data and training"
DEFAULTS = AdaptSettings()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("adapt", rich_help_panel=PANEL)(adapt)


def adapt(
    labels: Annotated[
        Path,
        typer.Argument(help="Labelled images: COCO, DeepLabCut, SLEAP, Label Studio, CVAT or CSV.", show_default=False),
    ],
    images: Annotated[Path | None, typer.Option(help="Folder of the images, if they have moved.")] = None,
    category: Annotated[str | None, typer.Option(help="Category to use, if the labels have several.")] = None,
    model: Model = None,
    steps: Annotated[int, typer.Option(min=1, help="Training steps, at most.")] = DEFAULTS.steps,
    learning_rate: Annotated[float, typer.Option()] = DEFAULTS.learning_rate,
    workers: Annotated[int, typer.Option(min=0, help="Processes that load pairs.")] = DEFAULTS.workers,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the held-out labels and of training.")
    ] = DEFAULTS.seed,
    out: Annotated[Path, _outputs.option("Run folder, which loads like any other model.")] = Path("runs/adapted"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, show the plan and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Adapt the model to your own labels: a short training, stopped by labels that are held out, kept only if better.

    Needs 20 labelled animals or more. Stopped or killed, the same command resumes it.

    Example: [bold]geco adapt labels.json -o runs/mine[/]

    Example: [bold]geco adapt dlc-project -m geco-s --steps 60[/]
    """
    import json
    from dataclasses import replace

    from geco import propagation, training
    from geco.cli import INTERRUPTED
    from geco.cli._progress import progress_bars, watching

    settings = replace(DEFAULTS, steps=steps, learning_rate=learning_rate, workers=workers, seed=seed)
    faults: list[str] = []
    read = propagation.read_annotations(labels, images=images, category=category, faults=faults)
    for fault in faults[:5]:
        notes.print(f"left out: {fault}", style="dim")
    if dry_run:
        run = training.prepare_adaptation(read, model, settings)
        plan = run.plan(_outputs.folder(out))
        numbers = {"trained": run.trained, "held out": run.held_out, "steps": plan.steps, "parameters": plan.trainable}
        print(json.dumps(numbers) if as_json else "\n".join(f"{key}: {value:,}" for key, value in numbers.items()))
        return
    with progress_bars(transient=False) as update:
        adapted = training.adapt(read, _outputs.folder(out), model, settings, watch=watching(out.name, update))
    if not adapted.outcome.finished:
        outcome = adapted.outcome
        notes.print(f"step {outcome.step} of {outcome.total} saved in {out}; the same command resumes it")
        raise typer.Exit(INTERRUPTED)
    _show(adapted, out, as_json=as_json)


def _show(adapted: "Adapted", out: Path, *, as_json: bool) -> None:
    if as_json:
        import json
        from dataclasses import asdict

        values = {**asdict(adapted), "improved": adapted.improved}
        values["outcome"] |= {"folder": str(out)}
        print(json.dumps(values, indent=2))
        return
    about = f"PCK@0.1 on {adapted.held_out} held-out animals"
    if adapted.improved:
        notes.print(f"{about}: {adapted.before:.1f} → {adapted.after:.1f} at step {adapted.outcome.best_step}")
    else:
        notes.print(f"{about}: {adapted.before:.1f} before, never better after; the start is kept")
    notes.print(f"use it: geco match --model {out} SOURCE TARGET", style="dim")
