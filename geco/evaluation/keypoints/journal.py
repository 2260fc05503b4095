"""The journal of a keypoint run: predictions pair by pair, on disk as they are made, read again after a stop.

folder/run.json                 what is being evaluated; another model or other pairs do not continue it
folder/predictions-<n>.jsonl    written by process n, one pair a line
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from jaxtyping import Float
from torch import Tensor

from geco.errors import FileError, InputError, MissingFileError
from geco.system import documents, files
from geco.types import PairSequence

RUN = "what a run was made of"


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
            files.make_folder(folder)
            check_run(folder / "run.json", about, writes=process == 0)
            self.read()

    def read(self) -> None:
        """Take in what all processes have written so far."""
        if self.folder is None:
            return
        for path in sorted(self.folder.glob("predictions-*.jsonl")):
            self.done.update(_entries(path))

    def open(self) -> None:
        """Get ready to add; a line that a killed process left unfinished is cut off."""
        if self.folder is None:
            return
        path = self.folder / f"predictions-{self.process}.jsonl"
        try:
            if path.exists():
                lines = (_line(index, prediction) for index, prediction in _entries(path))
                files.replace_text(path, "".join(lines))
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path} cannot be written: {error.strerror or error}; give another folder") from None

    def add(self, predictions: Mapping[int, Prediction]) -> None:
        """Remember these pairs, and put them on disk before anything else happens."""
        self.done.update(predictions)
        if self._file is not None:
            self._file.write("".join(_line(index, prediction) for index, prediction in predictions.items()))
            self._file.flush()

    def close(self) -> None:
        """Close the file; nothing more can be added."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_predictions(folder: Path, pairs: PairSequence) -> dict[int, Prediction]:
    """Predictions of a finished run by number of the pair; another run's pairs are refused."""
    path = folder / "run.json"
    if not path.exists():
        raise MissingFileError(f"{folder} has no run.json; expected the folder of a run of `geco evaluate keypoints`")
    about = documents.read(path, expected=RUN)
    done = Journal(folder, about={**about, "pairs": digest(pairs)}).done
    check_complete(done, pairs, folder)
    return done


def check_complete(predictions: Mapping[int, Prediction], pairs: PairSequence, folder: Path | None) -> None:
    """Refuse predictions that are not one of each pair, of each of its visible keypoints."""
    for index in range(len(pairs)):
        queries = int(pairs[index].source.points.visible.sum())
        prediction = predictions.get(index)
        if prediction is None or prediction.score.shape[1] != queries:
            got = "none" if prediction is None else f"{prediction.score.shape[1]}"
            raise InputError(
                f"{folder}: predictions of pair {index}: expected {queries} keypoints, got {got}; "
                "delete the folder and evaluate again"
            )


def digest(pairs: PairSequence) -> str:
    """Hash of the pairs' images and annotations: equal for runs that may be compared pair by pair."""
    hashed = hashlib.sha256()
    for pair in pairs:
        hashed.update(repr((pair.category, pair.skeleton)).encode())
        for view in (pair.source, pair.target):
            points = view.points
            hashed.update(repr((view.identity, view.size, points.visible.tolist(), points.xy.tolist())).encode())
    return hashed.hexdigest()[:16]


def check_run(path: Path, about: Mapping[str, Any], *, writes: bool = True) -> None:
    """Refuse to continue a run of something else; a run that begins is written down."""
    current = json.loads(json.dumps(about))
    if not path.exists():
        if writes:
            files.replace_text(path, json.dumps(current, indent=1))
        return
    earlier = documents.read(path, expected=RUN)
    different = sorted(key for key in current.keys() | earlier.keys() if current.get(key) != earlier.get(key))
    if different:
        raise InputError(
            f"{path.parent} holds a run with another {' and '.join(different)}; give another folder, or delete this one"
        )


def _line(index: int, prediction: Prediction) -> str:
    return json.dumps({"pair": index, "xy": prediction.xy.tolist(), "score": prediction.score.tolist()}) + "\n"


def _entries(path: Path) -> Iterator[tuple[int, Prediction]]:
    """The pairs and their predictions in a file; a last line that was cut short is left out."""
    for number, raw in documents.read_lines(path, expected="predictions of a run, one pair a line", finite=True):
        try:
            score = torch.tensor(raw["score"], dtype=torch.float64)
            xy = torch.tensor(raw["xy"], dtype=torch.float64).reshape(*score.shape, 2)
            index = raw["pair"]
            fits = score.ndim == 2 and isinstance(index, int) and not isinstance(index, bool) and index >= 0
        except (TypeError, KeyError, ValueError, RuntimeError, OverflowError):
            fits = False
        if not fits:
            raise InputError(
                f"{path}, line {number}: expected pair, xy and score of a prediction, got {documents.shown(raw)}; "
                "delete the line to predict it again"
            )
        yield index, Prediction(xy, score)
