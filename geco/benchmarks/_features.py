"""Feature maps of a benchmark's images: each encoded once, the recent ones in memory, the others on disk."""

import hashlib
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from geco import images
from geco.types import FeatureMap, View

Progress = Callable[[str, int, int], None]  # what, done, total


def silent(what: str, done: int, total: int) -> None:
    """The progress that nobody watches."""


@runtime_checkable
class Encoder(Protocol):
    """What a benchmark asks of a model."""

    def extract_batch(self, pictures: Iterable[Any], *, batch_size: int = 8) -> list[FeatureMap]:
        """Feature maps (c, h, w) of images, each with the size of its image."""

    def fingerprint(self) -> str:
        """Equal for models that give equal features."""


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, and how they wait for each other (accelerate knows)."""

    index: int = 0
    count: int = 1
    wait: Callable[[], None] = lambda: None


def name_of(view: View) -> str:
    """What identifies the view's image content."""
    if view.name:
        return str(view.name)
    if isinstance(view.image, Path):
        return str(view.image)
    raise ValueError("a view that holds pixels needs a name, so that its image is encoded only once")


def load_image(view: View) -> Tensor:
    """The view's pixels; its mask is left unread."""
    image = images.load_view(replace(view, mask=None, parts=None)).image
    assert isinstance(image, Tensor)
    return image


class FeatureStore:
    """Feature maps by image; at most `memory` bytes are held, what does not fit lies on disk.

    With a `folder` every map is written there when it is made and found again by the next run: a
    subfolder is keyed by the model's fingerprint, each file by the image's name, size and date. Without
    one, a temporary folder takes what memory cannot hold. Use it in a `with` statement.
    """

    def __init__(
        self,
        model: Encoder,
        *,
        memory: int,
        batch_size: int = 8,
        folder: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self.model, self.memory, self.batch_size, self.progress = model, memory, batch_size, progress
        self.device = getattr(model, "device", torch.device("cpu"))
        self.encoded = 0
        self._held: OrderedDict[str, tuple[View, FeatureMap]] = OrderedDict()  # least recently used first
        self._bytes = 0
        self._keeps = folder is not None
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="geco-features-")
        self._folder = folder / model.fingerprint() if folder else Path(self._temporary.name)  # type: ignore[union-attr]

    def __enter__(self) -> "FeatureStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def ensure(self, views: Iterable[View], *, total: int = 0) -> None:
        """Encode those views that are neither held nor on disk; `total` is for the progress alone."""
        missing = list({name_of(view): view for view in views if not self.has(view)}.values())
        for start in range(0, len(missing), self.batch_size):
            group = missing[start : start + self.batch_size]
            maps = self.model.extract_batch([load_image(view) for view in group], batch_size=self.batch_size)
            for view, features in zip(group, maps, strict=True):
                self._put(view, FeatureMap(features.values.cpu(), features.size))
            self.encoded += len(group)
            self.progress("encode", self.encoded, max(total, self.encoded))

    def has(self, view: View) -> bool:
        """Whether the view's map can be had without encoding."""
        return name_of(view) in self._held or self._file(view).exists()

    def get(self, view: View) -> FeatureMap:
        """The map of a view, on the model's device, encoded now if need be."""
        name = name_of(view)
        self.ensure([view])
        if name not in self._held:
            self._hold(view, _read(self._file(view)))
        self._held.move_to_end(name)
        features = self._held[name][1]
        return FeatureMap(features.values.to(self.device), features.size)

    def drop(self, view: View) -> None:
        """Forget a map that no pair needs any more; what a given folder holds stays there."""
        if name_of(view) in self._held:
            self._bytes -= self._held.pop(name_of(view))[1].values.nbytes
        if not self._keeps:
            self._file(view).unlink(missing_ok=True)

    def _put(self, view: View, features: FeatureMap) -> None:
        if self._keeps:
            _write(self._file(view), features)
        self._hold(view, features)

    def _hold(self, view: View, features: FeatureMap) -> None:
        self._held[name_of(view)] = view, features
        self._bytes += features.values.nbytes
        while self._bytes > self.memory and len(self._held) > 1:
            _, (oldest, given_up) = self._held.popitem(last=False)
            self._bytes -= given_up.values.nbytes
            if not self._file(oldest).exists():
                _write(self._file(oldest), given_up)

    def _file(self, view: View) -> Path:
        return self._folder / f"{_identity(view)}.safetensors"


def _identity(view: View) -> str:
    """Hash of what decides the view's pixels: name, size, window, and the file's length and date."""
    digest = hashlib.sha256(repr((name_of(view), view.size, view.window)).encode())
    if isinstance(view.image, Path):
        stat = view.image.stat()
        digest.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
    else:
        digest.update(view.image.contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def _write(path: Path, features: FeatureMap) -> None:
    """All or nothing: a process killed while it writes leaves no half file under this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    height, width = features.size
    save_file({"values": features.values.contiguous()}, unfinished, {"height": str(height), "width": str(width)})
    unfinished.replace(path)


def _read(path: Path) -> FeatureMap:
    try:
        with safe_open(path, framework="pt") as opened:
            size = opened.metadata()
            return FeatureMap(opened.get_tensor("values"), (int(size["height"]), int(size["width"])))
    except SafetensorError as error:
        raise ValueError(f"{path} of the feature cache is damaged ({error}); delete it") from None
