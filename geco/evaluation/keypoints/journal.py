"""The journal of a keypoint run: predictions pair by pair, on disk as they are made, read again after a stop.

folder/run.json                 what is being evaluated; another model or other pairs do not continue it
folder/predictions-<n>.jsonl    written by process n, one pair a line
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from jaxtyping import Float
from torch import Tensor

from geco.errors import InputError, MissingFileError
from geco.system import files
from geco.types import PairSequence


@dataclass(frozen=True)
class Prediction:
    """Where the visible source keypoints of one pair went, for each of `v` ways of matching."""

    xy: Float[Tensor, "v k 2"]
    score: Float[Tensor, "v k"]


class Journal:
    """Predictions by number of the pair; without a folder they are only remembered."""

    def __init__(self, folder: Path | None, *, about: Mapping[str, Any], process: int = 0) -> None:
        self.folder, self.process = folder, process
        self.done: dict[int, Prediction] = {}
        self._file: TextIO | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _check(folder / "run.json", about, writes=process == 0)
            self.read()

    def read(self) -> None:
        """Take in what all processes have written so far."""
        if self.folder is None:
            return
        for path in sorted(self.folder.glob("predictions-*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = _entry(line)
                if entry is not None:
                    self.done[entry[0]] = entry[1]

    def open(self) -> None:
        """Get ready to add; a line that a killed process left unfinished is cut off."""
        if self.folder is None:
            return
        path = self.folder / f"predictions-{self.process}.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            files.replace_text(path, "".join(line + "\n" for line in lines if _entry(line) is not None))
        self._file = path.open("a", encoding="utf-8")

    def add(self, predictions: Mapping[int, Prediction]) -> None:
        """Remember these pairs, and put them on disk before anything else happens."""
        self.done.update(predictions)
        if self._file is not None:
            self._file.write("".join(_line(index, prediction) for index, prediction in predictions.items()))
            self._file.flush()

    def close(self) -> None:
        """Nothing more will be added."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_predictions(folder: Path, pairs: PairSequence) -> dict[int, Prediction]:
    """Predictions of a finished run by number of the pair; another run's pairs are refused."""
    path = folder / "run.json"
    if not path.is_file():
        raise MissingFileError(f"{folder} has no run.json; expected the folder of a run of `geco evaluate keypoints`")
    about = json.loads(path.read_text(encoding="utf-8"))
    return Journal(folder, about={**about, "pairs": digest(pairs)}).done


def digest(pairs: PairSequence) -> str:
    """Hash of the pairs' images and annotations: equal for runs that may be compared pair by pair."""
    hashed = hashlib.sha256()
    for pair in pairs:
        hashed.update(repr((pair.category, pair.skeleton)).encode())
        for view in (pair.source, pair.target):
            points = view.points
            hashed.update(repr((view.identity, view.size, points.visible.tolist(), points.xy.tolist())).encode())
    return hashed.hexdigest()[:16]


def _check(path: Path, about: Mapping[str, Any], *, writes: bool) -> None:
    current = json.loads(json.dumps(about))
    if not path.exists():
        if writes:
            files.replace_text(path, json.dumps(current, indent=1))
        return
    earlier = json.loads(path.read_text(encoding="utf-8"))
    different = sorted(key for key in current.keys() | earlier.keys() if current.get(key) != earlier.get(key))
    if different:
        raise InputError(
            f"{path.parent} holds a run with another {' and '.join(different)}; give another folder, or delete this one"
        )


def _line(index: int, prediction: Prediction) -> str:
    return json.dumps({"pair": index, "xy": prediction.xy.tolist(), "score": prediction.score.tolist()}) + "\n"


def _entry(line: str) -> tuple[int, Prediction] | None:
    """The pair and its prediction, or None for a line that was cut short."""
    try:
        raw = json.loads(line)
        score = torch.tensor(raw["score"], dtype=torch.float64)
        xy = torch.tensor(raw["xy"], dtype=torch.float64).reshape(*score.shape, 2)
        return int(raw["pair"]), Prediction(xy, score)
    except (json.JSONDecodeError, TypeError, KeyError):
        return None
