"""A store of feature maps: each image encoded once, the recent maps in memory, the others on disk."""

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Container, Iterable
from functools import lru_cache
from pathlib import Path

from geco import images
from geco.errors import FileError, InputError
from geco.extraction import manifest
from geco.extraction.files import read_features, write_features
from geco.extraction.folder import FeatureFolder
from geco.system import Progress, files, silent
from geco.types import Encoder, FeatureMap, Size, View, Window


class FeatureStore:
    """Feature maps by image; at most `memory` bytes are held, what does not fit is on disk.

    With a `folder` every map is written there when it is made, and the next run reads it: a subfolder is keyed by the
    encoder's fingerprint, each file by the content of the image (`content_key`), so that datasets that share a
    image share its map; `lasting` restricts what is written to the maps of these keys. If the folder is one that
    `geco extract` wrote, maps of whole images are read from its shards, in half precision, before any is encoded.
    Without a folder, a temporary one takes what memory cannot hold. Use it in a `with` statement.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        memory: int,
        batch_size: int = 8,
        folder: Path | None = None,
        lasting: Container[str] | None = None,
        progress: Progress = silent,
    ) -> None:
        self.encoder, self.memory, self.batch_size, self.progress = encoder, memory, batch_size, progress
        self.encoded = 0
        self._lasting = lasting
        self._held: OrderedDict[str, tuple[View, FeatureMap]] = OrderedDict()  # least recently used first
        self._bytes = 0
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._extracted = None if folder is None else _extracted(folder, encoder)
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="geco-features-")
            self._folder = Path(self._temporary.name)
        else:
            self._folder = folder / encoder.fingerprint()

    def __enter__(self) -> "FeatureStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def ensure(self, views: Iterable[View], *, total: int = 0) -> None:
        """Encode those views that are neither held nor on disk; `total` is for the progress alone."""
        missing = list({content_key(view): view for view in views if not self.has(view)}.values())
        for start in range(0, len(missing), self.batch_size):
            group = missing[start : start + self.batch_size]
            pictures = [images.read_view(view) for view in group]
            maps = list(self.encoder.extract_stream(pictures, batch_size=self.batch_size))
            for view, features in zip(group, maps, strict=True):
                self._put(view, FeatureMap(features.values.cpu(), features.size))
            self.encoded += len(group)
            self.progress("encode", self.encoded, max(total, self.encoded))

    def has(self, view: View) -> bool:
        """Whether the view's map is available without encoding."""
        key = content_key(view)
        return (
            key in self._held or (self._extracted is not None and key in self._extracted) or self._file(view).exists()
        )

    def get(self, view: View) -> FeatureMap:
        """The map of a view, on the encoder's device, encoded now if need be."""
        self.ensure([view])
        key = content_key(view)
        if key not in self._held:
            self._hold(view, self._read(view))
        self._held.move_to_end(key)
        features = self._held[key][1]
        return FeatureMap(features.values.to(self.encoder.device), features.size)

    def _read(self, view: View) -> FeatureMap:
        if self._extracted is not None and (key := content_key(view)) in self._extracted:
            return self._extracted[key]
        path = self._file(view)
        try:
            features = read_features(path)
            if features.values.shape[0] != self.encoder.dim or features.size != tuple(view.size):
                raise InputError(f"they are {tuple(features.values.shape)} of an image of {features.size}")
        except InputError as error:
            reason = str(error).removeprefix(f"{path}")[:120].strip(" :")
            raise InputError(f"the features in {path} are damaged or of another layout ({reason}); delete it") from None
        return features

    def drop(self, view: View) -> None:
        """Forget a map that no pair needs any more; what a given folder holds stays there."""
        key = content_key(view)
        if key in self._held:
            self._bytes -= self._held.pop(key)[1].values.nbytes
        if self._temporary is not None:
            self._file(view).unlink(missing_ok=True)

    def keep_only(self, views: Iterable[View]) -> None:
        """Delete every map from the folder but those of these views."""
        kept = {self._file(view) for view in views}
        for path in self._folder.glob("*.safetensors"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _put(self, view: View, features: FeatureMap) -> None:
        if self._temporary is None and (self._lasting is None or content_key(view) in self._lasting):
            write_features(self._file(view), features)
        self._hold(view, features)

    def _hold(self, view: View, features: FeatureMap) -> None:
        self._held[content_key(view)] = view, features
        self._bytes += features.values.nbytes
        while self._bytes > self.memory and len(self._held) > 1:
            _, (oldest_view, oldest) = self._held.popitem(last=False)
            self._bytes -= oldest.values.nbytes
            if not self._file(oldest_view).exists():
                write_features(self._file(oldest_view), oldest)

    def _file(self, view: View) -> Path:
        return self._folder / f"{content_key(view)}.safetensors"


class _Extracted:
    """The maps of a folder of features by the content of their images."""

    def __init__(self, features: FeatureFolder) -> None:
        self._features = features
        self._names = {
            _key(record.size, None, record.sha256.encode()): record.source.name for record in features.records()
        }

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __getitem__(self, key: str) -> FeatureMap:
        return self._features[self._names[key]]


def _extracted(folder: Path, encoder: Encoder) -> _Extracted | None:
    """What `geco extract` wrote to the folder, if it is such a one and of this encoder."""
    if not manifest.exists(folder):
        return None
    features = FeatureFolder(folder, partial=True)
    if features.fingerprint != encoder.fingerprint():
        raise InputError(
            f"{folder} has features of {features.model} ({features.fingerprint}), this model is {encoder.name} "
            f"({encoder.fingerprint()}); give another cache"
        )
    if features.what != "maps" or features.projection is not None:
        kind = f"--what {features.what}" if features.what != "maps" else f"--pca {features.dim}"
        raise InputError(f"{folder} was extracted with {kind}; a cache needs whole maps (--what maps, no --pca)")
    return _Extracted(features)


def _key(size: Size, window: Window | None, content: bytes) -> str:
    """`content` is the hash of a file as text, or pixels."""
    return hashlib.sha256(repr((size, window)).encode() + content).hexdigest()[:24]


def content_key(view: View) -> str:
    """Hash of what decides the view's pixels: the content of its file (or its pixels), its size and its window."""
    if not isinstance(view.image, Path):
        return _key(view.size, view.window, view.image.contiguous().numpy().tobytes())
    try:
        stat = view.image.stat()
        return _key(view.size, view.window, _file_digest(view.image, stat.st_size, stat.st_mtime_ns).encode())
    except OSError as error:
        raise FileError(f"{view.image} cannot be read: {error.strerror}; expected an image") from None


@lru_cache(maxsize=1 << 17)
def _file_digest(path: Path, size: int, modified: int) -> str:
    """Hash of a file's content, read again only if its length or date have changed."""
    return files.sha256(path)
