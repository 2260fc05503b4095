"""Packing: a model as one self-contained folder, small enough to ship: merged, in half precision, with its notices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.nn import functional

from geco import checks, models
from geco.errors import FileError, InputError
from geco.export import parity
from geco.export.parity import Parity
from geco.export.settings import MOST_RELATIVE
from geco.models import Geco
from geco.system import files

CARD, CONFIG = "README.md", "geco.json"
ADAPTER = "adapter_model.safetensors"  # a folder that holds one is no whole model
STORED = ("float16", "bfloat16", "float32")
GENERATED = 4  # images, where none are given
SIDE = 224  # of these, in pixels


@dataclass(frozen=True)
class Packed:
    """What was written, and how far it is from its model."""

    path: Path
    size: int  # bytes of all files
    base: str  # the backbone that the model was trained from; empty: not known
    licence: str  # … and its licence; empty: not known
    parity: Parity


def pack(
    name: str | Path,
    folder: str | Path,
    *,
    dtype: str = "float16",
    base: str | None = None,
    card: str | None = None,
    pictures: Sequence[UInt8[Tensor, "3 _ _"]] = (),
) -> Packed:
    """Write a model whole, so that it needs neither its backbone nor its adapter: weights, notices, checksums.

    Matrices are stored in `dtype` and computed with in float32. The folder is compared with the model on the pictures
    (on generated ones if there are none), and not written if they differ by more than `MOST_RELATIVE`. `base` is the
    short name of the backbone that the model was trained from, where its folder does not say. The card is that of the
    model unless another is given.
    """
    checks.choice(dtype, "dtype", STORED)
    folder = Path(folder)
    own = models.find_adapter(name) or Path(name)
    if folder.exists() and own.exists() and folder.samefile(own):
        raise InputError(f"{folder} is the model itself; give another folder to pack it into")
    if (folder / ADAPTER).exists():
        raise InputError(f"{folder} holds an adapter, which a whole model must not lie beside; give another folder")
    model = Geco.for_inference(name, device="cpu")
    _say_base(model, base)
    trained_from = model.config.base or model.config.untrained
    licence, notice = _terms(trained_from)
    try:
        with files.draft_folder(folder) as draft:
            model.save_pretrained(draft, card=card or _own_card(name), dtype=dtype)
            models.seal(draft, notice=notice)
            near = _compared(model, draft, list(pictures) or generated(), folder)
            size = sum(file.stat().st_size for file in draft.iterdir())
            _put(draft, folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{folder} cannot be written: {error.strerror or error}; give another --out") from None
    return Packed(folder, size, trained_from, licence, near)


def generated() -> list[UInt8[Tensor, "3 _ _"]]:
    """Images of smooth random colours, the same ones each time."""
    random = torch.Generator().manual_seed(0)
    noise = torch.rand(GENERATED, 3, 8, 8, generator=random)
    smooth = functional.interpolate(noise, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
    return list(smooth.clamp(0, 1).mul(255).byte())


def _say_base(model: Geco, base: str | None) -> None:
    """Note what a model was trained from, by the short name that its licence is found by."""
    if base is None:
        return
    known = models.sources()
    if base not in known:
        raise InputError(f"base must be the short name of a backbone, one of {', '.join(known)}, got {base!r}")
    source = known[base][1]
    model.config, model.adapted = replace(model.config, base=base), True
    model.note = "; ".join(text for text in (source.note, source.licence and f"licence: {source.licence}") if text)


def _terms(backbone: str) -> tuple[str, str]:
    """Licence and notice of a backbone, as far as they are known."""
    _, source = models.sources().get(backbone, ("", None))
    return (source.licence, source.notice) if source is not None else ("", "")


def _own_card(name: str | Path) -> str | None:
    """The card that lies beside the model, if there is one."""
    folder = models.find_adapter(name)
    path = None if folder is None else folder / CARD
    return path.read_text(encoding="utf-8") if path is not None and path.is_file() else None


def _compared(model: Geco, draft: Path, pictures: Sequence[UInt8[Tensor, "3 _ _"]], folder: Path) -> Parity:
    again = Geco.for_inference(draft, device="cpu")
    near = parity.compare(model, lambda pixels: again(pixels=pixels), pictures, dynamic=False)
    if not near.relative <= MOST_RELATIVE:
        raise InputError(
            f"{folder} was not written: its features differ from the model's by {near.relative:.2g} of their length, "
            f"at most {MOST_RELATIVE:g} is accepted; use float32"
        )
    return near


def _put(draft: Path, folder: Path) -> None:
    """The finished files in their place; what makes the folder a model comes last."""
    files.make_folder(folder)
    for file in sorted(draft.iterdir(), key=lambda file: file.name == CONFIG):
        file.replace(folder / file.name)
