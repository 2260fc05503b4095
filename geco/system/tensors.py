"""Files of tensors: safetensors and PyTorch checkpoints, read without running anything in them, whole and finite.

What a file is, if it is not what was expected, is told from its first bytes.
"""

import contextlib
import pickle
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from geco.errors import FileError, InputError
from geco.system import documents, signatures

# --- safetensors ------------------------------------------------------------------------------------------------------


def read_safetensors(path: str | Path, *, expected: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, on the CPU, every number finite, and its metadata."""
    with _opened(path, expected) as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        metadata = dict(file.metadata() or {})
    check_finite(state, str(path))
    return state, metadata


def map_safetensors(path: str | Path, *, expected: str) -> Any:
    """A safetensors file opened, its tensors mapped: `get_tensor` and `get_slice` read no others."""
    with _guarded(path, expected):
        return safe_open(path, framework="pt").__enter__()


@contextlib.contextmanager
def _opened(path: str | Path, expected: str) -> Iterator[Any]:
    with _guarded(path, expected), safe_open(path, framework="pt") as file:
        yield file


@contextlib.contextmanager
def _guarded(path: str | Path, expected: str) -> Iterator[None]:
    documents.check_file(path, expected=expected)
    try:
        yield
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        if isinstance(error, FileError | InputError):
            raise
        raise _unexpected(path, expected, error) from None


# --- PyTorch's own format ---------------------------------------------------------------------------------------------


def read_torch(path: str | Path, *, expected: str) -> Any:
    """What a PyTorch checkpoint holds, on the CPU; one that would run code is refused."""
    documents.check_file(path, expected=expected)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of old formats; either it can be read or it cannot
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen kinds for a file that is not a plain checkpoint
        wanted = _global(str(error)) if isinstance(error, pickle.UnpicklingError) else ""
        if wanted:
            raise InputError(f"{path} is not {expected}: it asks for {wanted}, and nothing in it is run") from None
        raise _unexpected(path, expected, error) from None


def _global(message: str) -> str:
    """The name that a refused pickle asks for, as torch reports it."""
    start = message.find("GLOBAL ")
    return message[start + 7 :].split()[0][:60] if start >= 0 else ""


def read_state(path: str | Path, *, expected: str) -> dict[str, Tensor]:
    """Names → tensors of a file of either format, every number finite; nothing in it is executed."""
    documents.check_file(path, expected=expected)
    if Path(path).suffix == ".safetensors":
        return read_safetensors(path, expected=expected)[0]
    return checked_state(read_torch(path, expected=expected), str(path))


def checked_state(values: Any, name: str) -> dict[str, Tensor]:
    """What a checkpoint holds, if it is names → tensors with finite numbers."""
    if not isinstance(values, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in values.items()
    ):
        raise InputError(
            f"{name} must hold a state dict (names → tensors), got {documents.shown(type(values).__name__)}"
        )
    check_finite(values, name)
    return values


# --- what is in them --------------------------------------------------------------------------------------------------


def check_finite(state: Mapping[str, Tensor], name: str) -> None:
    """Refuse numbers that are not finite, with the name of the tensor they are in."""
    for key, value in state.items():
        if value.layout != torch.strided or value.is_meta:
            raise InputError(f"{name}: {documents.shown(key)} is a {value.layout} tensor; expected a dense one")
        if value.is_quantized:
            raise InputError(f"{name}: {documents.shown(key)} is quantised; expected floating point")
        if (value.is_floating_point() or value.is_complex()) and not _is_finite(value):
            raise InputError(
                f"{name}: {documents.shown(key)} has numbers that are not finite (NaN or infinity); "
                "the file is damaged, or its training diverged"
            )


def _is_finite(value: Tensor) -> bool:
    if value.element_size() == 1:  # eight-bit floats have no arithmetic of their own
        value = value.float()
    return bool(torch.isfinite(value).all())


def check_floating(state: Mapping[str, Tensor], name: str) -> None:
    """Refuse weights that are not real numbers in 16 bits or more."""
    for key, value in state.items():
        if value.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise InputError(f"{name}: {documents.shown(key)} is {value.dtype}; expected floating point")


def _unexpected(path: str | Path, expected: str, error: Exception) -> Exception:
    """The error of a file that is not what was expected: what it is, as far as its first bytes tell."""
    try:
        what = signatures.identify(path)
    except OSError as problem:
        return FileError(f"{path} cannot be read: {problem.strerror or problem}; expected {expected}")
    if isinstance(error, OSError) and error.errno is not None:
        return FileError(f"{path} cannot be read: {error.strerror or error}; expected {expected}")
    if what.startswith(("damaged", "a zip archive or")):
        reason = _said(error)
        what = f"damaged or of another kind ({reason})" if reason else what
    return InputError(f"{path} is not {expected}: it is {what}")


def _said(error: Exception) -> str:
    """The gist of a library's message."""
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split())[:80] if lines else type(error).__name__
