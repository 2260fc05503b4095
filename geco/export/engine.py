"""Engines: an exported file as an encoder, run by ONNX Runtime or OpenVINO instead of torch."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from geco import checks, images
from geco.errors import InputError
from geco.export import onnx, openvino
from geco.export.loading import ENDINGS
from geco.export.metadata import Metadata
from geco.export.settings import ExportSettings
from geco.models import Extractor, Geco
from geco.system import cost, devices, files
from geco.types import Image, Size

ENGINES: dict[str, Callable[[Path], "Network"]] = {"onnx": onnx.Network, "openvino": openvino.Network}
NAMES = {"onnx": "ONNX Runtime", "openvino": "OpenVINO"}


@runtime_checkable
class Network(Protocol):
    """An exported file that a runtime has loaded."""

    metadata: Metadata
    weights: list[tuple[tuple[int, ...], torch.dtype]]  # shape and precision of each

    def run(self, pixels: np.ndarray) -> np.ndarray:
        """Feature maps of normalised images."""


class Exported(Extractor):
    """An exported model: images in, `FeatureMap`s out, as from any other encoder. Its weights cannot be changed."""

    def __init__(self, path: Path, network: Network, *, engine: str, size: int | None = None) -> None:
        self.path, self.network, self.engine, self.metadata = path, network, engine, network.metadata
        self.name, self.adapted, self.config = path.name, self.metadata.adapted, self.metadata.config
        self._size = self._checked(size)
        facts = f"{self.metadata.model} exported by geco {self.metadata.geco}, {self.metadata.precision}"
        self.note = "; ".join(text for text in (f"{facts}, by {NAMES[engine]}", self.metadata.note) if text)

    def _checked(self, size: int | None) -> int:
        """The side that images are seen at, if the file takes it."""
        if size is None:
            return self.metadata.size
        side = images.fit((size, size), multiple=self.metadata.patch)[0]
        if side != self.metadata.size and not self.metadata.dynamic:
            raise InputError(
                f"{self.path} takes images of {self.metadata.size} pixels only, got {size}; export it with --dynamic"
            )
        return side

    @property
    def dim(self) -> int:
        """Channels of a feature map."""
        return self.metadata.channels

    @property
    def stride(self) -> int:
        """Side of a patch in pixels of the encoder's input."""
        return self.metadata.patch

    @property
    def threshold(self) -> float:
        """Similarity below which its matches are "not visible"."""
        return self.metadata.threshold

    @property
    def similarity(self) -> str:
        """How its maps are compared: "cosine" or "dot"."""
        return self.metadata.similarity

    @property
    def device(self) -> torch.device:
        """Where feature maps are made: the CPU."""
        return torch.device("cpu")

    @property
    def dtype(self) -> str:
        """Precision of what it takes and returns; that of its weights is `metadata.precision`."""
        return "float32"

    @property
    def input_size(self) -> int:
        """Side of the square the images are squashed to."""
        return self._size

    def fingerprint(self) -> str:
        """Short hash of the file, its engine and the size: equal for encoders that give equal features."""
        digest = hashlib.sha256(f"{self.engine} {self.input_size}".encode())
        for place in (self.path, self.path.with_suffix(openvino.WEIGHTS)):
            if place == self.path or self.path.suffix.lower() == ".xml":
                digest.update(files.sha256(place).encode())
        return digest.hexdigest()[:16]

    def encode(self, pictures: Sequence[UInt8[Tensor, "3 _ _"]]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each image of a batch, in float32."""
        return list(self(pixels=torch.stack([self.prepare(picture)["pixels"] for picture in pictures])))

    # --- as a model is timed ------------------------------------------------------------------------------------------

    def prepare(self, pixels: Image, size: Size | None = None) -> dict[str, Tensor]:
        """What a call takes for 8-bit or [0, 1] images, seen at `size` or at the model's own."""
        for side in size or ():
            self._checked(side)
        metadata, size = self.metadata, size or (self.input_size, self.input_size)
        return {"pixels": images.prepare(pixels, size, mode=metadata.resize, mean=metadata.mean, std=metadata.std)}

    def __call__(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Features of a batch of prepared images."""
        count, height, width = len(pixels), pixels.shape[-2], pixels.shape[-1]
        values = torch.from_numpy(np.array(self.network.run(pixels.float().cpu().numpy()), dtype=np.float32))
        expected = (count, self.dim, height // self.stride, width // self.stride)
        if tuple(values.shape) != expected:
            raise InputError(f"{self.path} gave maps {tuple(values.shape)}, its metadata promises {expected}")
        return values

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights without their values, which stay in the engine."""
        for shape, dtype in self.network.weights:
            yield nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=False)

    def to(self, device: str | torch.device = "cpu", dtype: torch.dtype | str = torch.float32) -> "Exported":
        """The model itself: where and how it computes was decided when it was exported."""
        _check_surroundings(self.path, device=device, dtype=dtype)
        return self

    def eval(self) -> "Exported":
        """The model itself: it is for inference only."""
        return self


def load(
    path: str | Path,
    *,
    engine: str | None = None,
    size: int | None = None,
    device: str | torch.device = "auto",
    dtype: torch.dtype | str = torch.float32,
    force: bool = False,
    **options: Any,
) -> Exported:
    """The encoder of an exported file; nothing in the file is executed but its graph, by the engine.

    A `.onnx` is run by ONNX Runtime, or by OpenVINO if that is the engine; a `.xml` by OpenVINO.
    """
    path = checks.path(path, "an exported model").expanduser()
    given = [key for key, value in options.items() if value is not None]
    if given:
        raise InputError(f"{path} was exported with its own {' and '.join(given)}; such options are for bare backbones")
    _check_surroundings(path, device=device, dtype=dtype)
    own = ENDINGS.get(path.suffix.lower(), "onnx")
    engine = own if engine is None else checks.choice(engine, "engine", [*ENGINES, "torch"])
    if engine == "torch" or (own == "openvino" and engine != own):
        raise InputError(f"{path} is a file of {NAMES[own]}; engine {engine} cannot run it, leave the engine out")
    encoder = Exported(path, ENGINES[engine](path), engine=engine, size=size)
    cost.check(encoder.input_size, stride=encoder.stride, force=force)
    return encoder


def _check_surroundings(path: Path, *, device: str | torch.device, dtype: torch.dtype | str) -> None:
    if str(device) not in ("auto", "cpu"):
        raise InputError(f"{path} is an exported model, which runs on the cpu here, got device {checks.shown(device)}")
    if devices.dtype_named(dtype) is not torch.float32:
        raise InputError(f"{path} computes in the precision it was exported in; export with --half or --int8 instead")


def converted(model: Geco, engine: str, *, folder: Path) -> Exported:
    """The model run by another engine: exported once into the folder, for as long as its weights stay the same."""
    from geco import __version__
    from geco.export.writing import write

    checks.choice(engine, "engine", list(ENGINES))
    ending = next(ending for ending, name in ENDINGS.items() if name == engine)
    path = folder / f"{Path(model.name).stem}-{model.fingerprint()}-{__version__}{ending}"
    if not path.is_file():
        generator = torch.Generator().manual_seed(0)  # no image need be there to see whether it is the same
        noise = torch.randint(0, 256, (3, 12, 16), dtype=torch.uint8, generator=generator)
        write(model, path, [noise], ExportSettings())
    encoder = load(path, engine=engine)
    encoder.name = model.name
    return encoder
