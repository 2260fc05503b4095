"""The journal of a keypoint run: predictions pair by pair, on disk as they are made, read again after a stop.

folder/run.json                 what is being judged; another model or other pairs do not continue it
folder/predictions-<n>.jsonl    written by process n, one pair a line
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from jaxtyping import Float
from torch import Tensor

from geco.benchmarks._features import name_of
from geco.types import Keypoints, Pair, View


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
        assert self.folder is not None
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
            whole = "".join(line + "\n" for line in lines if _entry(line) is not None)
            mended = path.with_suffix(".mended")
            mended.write_text(whole, encoding="utf-8")
            mended.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def add(self, predictions: Mapping[int, Prediction]) -> None:
        """Remember these pairs, and put them on disk before anything else happens."""
        self.done.update(predictions)
        if self._file is not None:
            self._file.write("".join(_line(index, made) for index, made in predictions.items()))
            self._file.flush()

    def close(self) -> None:
        """Nothing more will be added."""
        if self._file is not None:
            self._file.close()
            self._file = None


def digest(pairs: Sequence[Pair]) -> str:
    """Hash of the pairs' images and annotations: equal for runs that may be compared pair by pair."""
    hashed = hashlib.sha256()
    for pair in pairs:
        hashed.update(repr((pair.category, pair.skeleton)).encode())
        for view in (pair.source, pair.target):
            points = keypoints_of(view)
            hashed.update(repr((name_of(view), view.size, points.visible.tolist(), points.xy.tolist())).encode())
    return hashed.hexdigest()[:16]


def keypoints_of(view: View) -> Keypoints:
    """The view's keypoints, without which it cannot be judged."""
    if view.keypoints is None:
        raise ValueError(f"{name_of(view)} has no keypoints; the keypoint benchmark needs annotated pairs")
    return view.keypoints


def _check(path: Path, about: Mapping[str, Any], *, writes: bool) -> None:
    wanted = json.loads(json.dumps(about))
    if not path.exists():
        if writes:
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(wanted, indent=1), encoding="utf-8")
            unfinished.replace(path)
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    different = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
    if different:
        raise ValueError(
            f"{path.parent} holds a run with another {' and '.join(different)}; give another folder, or delete this one"
        )


def _line(index: int, made: Prediction) -> str:
    return json.dumps({"pair": index, "xy": made.xy.tolist(), "score": made.score.tolist()}) + "\n"


def _entry(line: str) -> tuple[int, Prediction] | None:
    """The pair and its prediction, or None for a line that was cut short."""
    try:
        raw = json.loads(line)
        score = torch.tensor(raw["score"], dtype=torch.float64)
        xy = torch.tensor(raw["xy"], dtype=torch.float64).reshape(*score.shape, 2)
        return int(raw["pair"]), Prediction(xy, score)
    except (json.JSONDecodeError, TypeError, KeyError):
        return None
