"""The journal of a long run: every image that is done is a line, so that a killed run resumes where it was."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geco.errors import FileError, InputError
from geco.propagation.annotations import Animal, LabelledImage
from geco.system import documents, files

EXPECTED = "the journal of an unfinished run"
MEASURES = ("score", "uncertainty", "twin_margin")  # of an animal's keypoints; None if they are not known


@dataclass(frozen=True)
class Result:
    """An image with what was found on it, and what it looks like as a whole."""

    image: LabelledImage
    look: Float[Tensor, "c"]  # mean descriptor


class Journal:
    """Results beside the file they are for, until that is written; a run with other `facts` is refused."""

    def __init__(self, result: Path, facts: Mapping[str, Any]) -> None:
        self.path = result.with_name(f"{result.name}.partial.jsonl")
        self._facts = json.loads(json.dumps(dict(facts)))
        self.done: dict[Path, Result] = {}
        files.make_folder(self.path.parent)
        if not self.path.exists() or not self._read():
            self._append({"facts": self._facts}, mode="w")

    def add(self, result: Result) -> None:
        """Note the results of an image."""
        image = result.image
        self.done[image.path] = result
        look = base64.b64encode(result.look.cpu().numpy().astype("<f2").tobytes()).decode()
        animals = [_plain(one) for one in image.animals]
        self._append({"image": str(image.path), "size": image.size, "animals": animals, "look": look})

    def remove(self) -> None:
        """Delete the journal, once everything has been written to the result itself."""
        self.path.unlink(missing_ok=True)

    def _append(self, record: Mapping[str, Any], mode: str = "a") -> None:
        try:
            with self.path.open(mode, encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from None

    def _read(self) -> bool:
        """Take over what an unfinished run noted; False if it was killed before its first line was whole."""
        lines = list(documents.read_lines(self.path, expected=EXPECTED, finite=False))
        if not lines:
            return False
        if lines[0][1].get("facts") != self._facts:
            raise InputError(
                f"{self.path} is of a run with other labels, model or settings; delete it to start anew, or give "
                "another --out"
            )
        for number, record in lines[1:]:
            result = _result(record, f"{self.path}, line {number}")
            self.done[result.image.path] = result
        content = self.path.read_bytes()
        if not content.endswith(b"\n"):  # a line that a kill cut short would swallow the next one
            self.path.write_bytes(content[: content.rfind(b"\n") + 1])
        return True


def _plain(animal: Animal) -> dict[str, Any]:
    measures = {name: getattr(animal, name) for name in MEASURES}
    return {
        "xy": animal.xy.tolist(),
        "state": animal.state.tolist(),
        **{name: None if value is None else value.tolist() for name, value in measures.items()},
        "box": animal.box,
        "track": animal.track,
    }


def _result(record: Any, name: str) -> Result:
    try:
        animals = tuple(_animal(values) for values in record["animals"])
        height, width = record["size"]
        look = np.frombuffer(base64.b64decode(record["look"]), dtype="<f2").astype(np.float32)
        image = LabelledImage(Path(record["image"]), animals, size=(int(height), int(width)))
        return Result(image, torch.from_numpy(look))
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError(
            f"{name}: expected the results of an image; the file is damaged, delete it to start anew"
        ) from None


def _animal(values: Mapping[str, Any]) -> Animal:
    measures = [None if values[name] is None else torch.tensor(values[name]) for name in MEASURES]
    x0, y0, x1, y1 = map(float, values["box"])
    xy = torch.tensor(values["xy"], dtype=torch.float32).reshape(-1, 2)
    return Animal(xy, torch.tensor(values["state"]), (x0, y0, x1, y1), str(values["track"]), *measures)
