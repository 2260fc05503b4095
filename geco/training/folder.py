"""Run folders: configuration, environment, log, checkpoint, models, curves; whole at any moment, even after kill -9.

config.json  environment.json  data.json      the settings, where it ran, pairs per dataset and category
log.jsonl    curves.png  pictures/            one line per step and per validation; drawn now and then
checkpoint.pt                                 all that is needed to resume, in one file
last/  best/                                  models (adapters in PEFT layout) that `geco.load` takes
"""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from geco import viz
from geco.errors import FileError, InputError, MissingPackageError
from geco.system import codec, documents, files, provenance, tensors
from geco.training.settings import FREE, LENGTH, TrainConfig

VALIDATION = "validation"  # folder through which processes share a validation; a kill may leave it
PICTURES = "pictures"
BETWEEN_CURVES = 20.0  # seconds: a drawing takes as long as many small steps
COMPARED = {"config.json": "configuration", "data.json": "training pairs"}


class RunFolder:
    """The folder of a run; with `writes=False` (all processes but the first) nothing is written."""

    def __init__(self, path: str | Path, *, writes: bool = True, tensorboard: bool = False) -> None:
        self.path, self.writes = Path(path), writes
        self._drawn = time.monotonic()
        self._board = _tensorboard(self.path / "tensorboard") if tensorboard and writes else None

    # --- before the first step ----------------------------------------------------------------------------------------

    def check(self, config: TrainConfig, data: Mapping[str, int]) -> None:
        """Refuse a folder that holds another run; `data` are the pairs of each dataset and category."""
        free = FREE + LENGTH if config.schedule == "constant" else FREE
        self._check_same("config.json", codec.as_dict(config), apart_from=free, upgrade=_with_defaults)
        self._check_same("data.json", dict(data))

    def prepare(self, config: TrainConfig, data: Mapping[str, int], *, room: int) -> None:
        """Make the folder, or check that its run can be resumed; `room` bytes must fit on its disk."""
        if not self.writes:
            return
        self.check(config, data)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            files.try_room(self.path, room)
        except OSError as error:
            raise FileError(
                f"{self.path} cannot take the run, which needs {room / 1e6:.0f} MB: {error.strerror}; "
                "give another --out"
            ) from None
        for folder in (self.path, self.path / PICTURES):
            files.remove_drafts(folder)
        shutil.rmtree(self.path / VALIDATION, ignore_errors=True)
        self._write("config.json", config.to_json())
        self._write("data.json", json.dumps(dict(data), indent=2))
        self._write("environment.json", json.dumps(provenance.collect(config.seed), indent=2))

    def _check_same(
        self,
        file: str,
        values: Mapping[str, Any],
        *,
        apart_from: Iterable[str] = (),
        upgrade: Callable[[Any], Any] = lambda written: written,
    ) -> None:
        if not (self.path / file).is_file() or not self.checkpoint_file.is_file():
            return
        written = upgrade(documents.read(self.path / file, expected=f"the {COMPARED[file]} of a run"))
        keys = sorted((written.keys() | values.keys()) - set(apart_from))
        differing = [key for key in keys if written.get(key) != values.get(key)]
        if differing:
            raise InputError(
                f"{self.path} holds a run with another {COMPARED[file]} ({', '.join(differing[:5])} differ); "
                "give the same command to resume it, or another --out"
            )

    # --- the log ------------------------------------------------------------------------------------------------------

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
        if not path.exists():
            return []
        records = []
        for number, record in documents.read_lines(path, expected="the log of a run", finite=False):
            if not _is_record(record):
                raise InputError(
                    f"{path}, line {number}: expected kind, step and numbers, got {documents.shown(record)}; "
                    "delete the line"
                )
            records.append(record)
        return records

    def rewind(self, step: int) -> None:
        """Forget what was logged after this step: it will be done again."""
        if self.writes:
            lines = [json.dumps(record) + "\n" for record in self.records() if record["step"] <= step]
            self._write("log.jsonl", "".join(lines))

    # --- checkpoint and models ----------------------------------------------------------------------------------------

    @property
    def checkpoint_file(self) -> Path:
        """The one file that a run is resumed from."""
        return self.path / "checkpoint.pt"

    def save_checkpoint(self, values: Mapping[str, Any]) -> None:
        """Replace the checkpoint."""
        if self.writes:
            files.replace(self.checkpoint_file, lambda draft: torch.save(dict(values), draft))

    def read_checkpoint(self) -> dict[str, Any] | None:
        """What `save_checkpoint` was given last; None if there is none."""
        if not self.checkpoint_file.exists():
            return None
        try:
            return tensors.read_torch(self.checkpoint_file, expected="the checkpoint of a run")
        except InputError as error:
            reason = str(error).removeprefix(f"{self.checkpoint_file} ")
            raise InputError(f"{self.checkpoint_file} is damaged: it {reason}; delete it to start anew") from None

    def save_model(self, name: str, model: Any, card: str) -> None:
        """The model as the folder `name`, file by file: only the weights' own file ever changes in a run."""
        if not self.writes:
            return
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        with files.draft_folder(folder) as draft:
            model.save_pretrained(draft, card=card)
            for file in sorted(draft.iterdir(), key=lambda file: file.name == "geco.json"):  # makes it a model: last
                file.replace(folder / file.name)

    # --- pictures -----------------------------------------------------------------------------------------------------

    def save_picture(self, name: str, figure: Figure) -> None:
        """A picture under pictures/."""
        self._save_figure(f"{PICTURES}/{name}.png", figure)

    def draw_curves(self) -> None:
        """Loss, its terms and the validation so far, as curves.png."""
        if self.writes:
            self._save_figure("curves.png", viz.loss_curves(_alike(self.records())))
            self._drawn = time.monotonic()

    def refresh_curves(self) -> None:
        """Draw the curves again, unless that was done a moment ago."""
        if time.monotonic() - self._drawn >= BETWEEN_CURVES:
            self.draw_curves()

    def _save_figure(self, file: str, figure: Figure) -> None:
        if self.writes:
            files.replace(self.path / file, lambda draft: figure.savefig(draft, format="png"))

    def _write(self, file: str, text: str) -> None:
        files.replace_text(self.path / file, text)


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingPackageError("the TensorBoard log needs: pip install tensorboard; or leave it off") from None
    return SummaryWriter(str(folder))


def _is_record(record: dict[str, Any]) -> bool:
    """Whether a line of the log is one that `log` wrote."""
    numbers = [value for name, value in record.items() if name.split(" ")[0] in ("step", "loss", "PCK")]
    plain = all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers)
    needed = {"step": "loss", "validation": "PCK"}.get(str(record.get("kind")))
    return plain and needed in record and isinstance(record.get("step"), int)


def _alike(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records that have all the numbers of the last of their kind: a curve needs each at every step."""
    last = {record["kind"]: record.keys() for record in records}
    return [record for record in records if record.keys() >= last[record["kind"]]]


def _with_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """A configuration of an earlier release as this one writes it, with the defaults of settings it did not have."""
    try:
        return codec.as_dict(codec.build(TrainConfig, values))
    except InputError:
        return values  # of settings that no longer exist: the difference will be named
