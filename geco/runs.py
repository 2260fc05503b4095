"""Run folders: configuration, environment, log, checkpoint, models, curves; whole at any moment, even after kill -9.

    config.json  environment.json  data.json      what was asked for, where it ran, pairs per dataset and category
    log.jsonl    curves.png  pictures/            one line per step and per validation; drawn at each validation
    checkpoint.pt                                 all that is needed to go on, in one file
    last/  best/                                  models (adapters in PEFT layout) that `geco.load` takes

Every file is written under another name and then renamed, so a reader finds the old one or the new one.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from geco import report
from geco.config.training import FREE, LENGTH, TrainConfig, as_dict

CHUNK = bytes(1 << 20)
VALIDATION = "validation"  # folder through which processes share a validation; a kill may leave it
COMPARED = {"config.json": "configuration", "data.json": "training pairs"}


class RunFolder:
    """One folder of a run; with `writes=False` (all processes but the first) nothing is written."""

    def __init__(self, path: str | Path, *, writes: bool = True, tensorboard: bool = False) -> None:
        self.path, self.writes = Path(path), writes
        self._board = _tensorboard(self.path / "tensorboard") if tensorboard and writes else None

    # --- before the first step --------------------------------------------------------------------------------

    def prepare(self, config: TrainConfig, data: Mapping[str, int], *, room: int) -> None:
        """Make the folder, or check that what is there can be gone on with; `room` bytes must fit on its disk."""
        if not self.writes:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._try_room(room)
        except OSError as error:
            raise OSError(
                f"{self.path} cannot take the run, which needs {room / 1e6:.0f} MB: {error.strerror}; "
                "give another --out"
            ) from None
        for leftover in (*self.path.glob(".*.draft"), *self.path.glob(VALIDATION)):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        free = FREE + LENGTH if config.schedule == "constant" else FREE
        self._check_same("config.json", as_dict(config), apart_from=free, completed=_with_defaults)
        self._check_same("data.json", dict(data))
        self._write("config.json", config.to_json())
        self._write("data.json", json.dumps(dict(data), indent=2))
        self._write("environment.json", json.dumps(report.provenance(config.seed), indent=2))

    def _try_room(self, room: int) -> None:
        """Write as much as the run will and delete it again: quotas do not show in the disk's free space."""
        handle, name = tempfile.mkstemp(prefix=".room-", suffix=".draft", dir=self.path)
        try:
            with os.fdopen(handle, "wb") as file:
                for start in range(0, room, len(CHUNK)):
                    file.write(CHUNK[: room - start])
        finally:
            os.unlink(name)

    def _check_same(
        self,
        file: str,
        values: Mapping[str, Any],
        *,
        apart_from: Iterable[str] = (),
        completed: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        if not (self.path / file).is_file() or not self.checkpoint_file.is_file():
            return
        found = completed(json.loads((self.path / file).read_text(encoding="utf-8")))
        keys = sorted((found.keys() | values.keys()) - set(apart_from))
        other = [key for key in keys if found.get(key) != values.get(key)]
        if other:
            raise ValueError(
                f"{self.path} holds a run with another {COMPARED[file]} ({', '.join(other[:5])} differ); "
                "give the same command to go on with it, or another --out"
            )

    # --- the log ----------------------------------------------------------------------------------------------

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line; `record` has a "step" and a "kind"."""
        if not self.writes:
            return
        with (self.path / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._board.add_scalar(f"{record['kind']}/{name}", value, record["step"])

    def records(self) -> list[dict[str, Any]]:
        """The lines of the log; one that a kill cut short is left out."""
        path = self.path / "log.jsonl"
        found = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found

    def rewind(self, step: int) -> None:
        """Forget what was logged after this step: it will be done again."""
        if self.writes:
            kept = [json.dumps(record) + "\n" for record in self.records() if record["step"] <= step]
            self._write("log.jsonl", "".join(kept))

    # --- checkpoint and models ----------------------------------------------------------------------------------

    @property
    def checkpoint_file(self) -> Path:
        """The one file that a run goes on from."""
        return self.path / "checkpoint.pt"

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint."""
        if self.writes:
            self._replace("checkpoint.pt", lambda draft: torch.save(dict(state), draft))

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The state to go on from; None if there is none."""
        if not self.checkpoint_file.is_file():
            return None
        try:
            return torch.load(self.checkpoint_file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises half a dozen kinds for a damaged file
            raise ValueError(
                f"{self.checkpoint_file} is damaged: {str(error).splitlines()[0][:100]}; delete it to start anew"
            ) from None

    def save_model(self, name: str, model: Any, card: str) -> None:
        """The model as the folder `name`, file by file: only the weights' own file ever changes in a run."""
        if not self.writes:
            return
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=".draft", dir=self.path))
        model.save_pretrained(draft, card=card)
        for file in sorted(draft.iterdir(), key=lambda file: file.name == "geco.json"):  # the last one opens the door
            file.replace(folder / file.name)
        draft.rmdir()

    # --- pictures -----------------------------------------------------------------------------------------------

    def save_picture(self, name: str, figure: Figure) -> None:
        """A picture under pictures/."""
        if self.writes:
            (self.path / "pictures").mkdir(exist_ok=True)
            self._save_figure(f"pictures/{name}.png", figure)

    def draw_curves(self) -> None:
        """Loss, its terms and the validation so far, as curves.png."""
        if self.writes:
            self._save_figure("curves.png", curves(self.records()))

    def _save_figure(self, file: str, figure: Figure) -> None:
        self._replace(file, lambda draft: figure.savefig(draft, format="png"))

    # --- all or nothing -----------------------------------------------------------------------------------------

    def _write(self, file: str, text: str) -> None:
        self._replace(file, lambda draft: draft.write_text(text, encoding="utf-8"))

    def _replace(self, file: str, write: Callable[[Path], object]) -> None:
        draft = self.path / f".{file.replace('/', '-')}.draft"
        write(draft)
        with draft.open("rb+") as written:
            os.fsync(written.fileno())  # the rename must not reach the disk before the content
        draft.replace(self.path / file)


def curves(records: Iterable[Mapping[str, Any]]) -> Figure:
    """Loss and its terms over the steps, and the validation."""
    rows = list(records)
    steps = [row for row in rows if row["kind"] == "step"]
    judged = [row for row in rows if row["kind"] == "validation"]
    figure = Figure(figsize=(10, 3.6), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in [key for key in (steps[-1] if steps else {}) if key == "loss" or key.startswith("loss ")]:
        left.plot([row["step"] for row in steps], [row[name] for row in steps], lw=1, label=name)
    for name in [key for key in (judged[-1] if judged else {}) if key.startswith("PCK")]:
        right.plot([row["step"] for row in judged], [row[name] for row in judged], marker=".", label=name)
    left.set(xlabel="step", ylabel="loss and terms")
    left.set_ylim(bottom=0)
    right.set(xlabel="step", ylabel="validation PCK@0.1 in %", ylim=(0, 100))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(frameon=False, fontsize=8)
    return figure


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError("the TensorBoard log needs: pip install tensorboard; or leave it off") from None
    return SummaryWriter(str(folder))


def _with_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """A configuration written before there were all of today's settings, with their defaults."""
    try:
        return as_dict(TrainConfig.from_json(json.dumps(values)))
    except ValueError:
        return values  # of settings that no longer exist: the difference will be named
