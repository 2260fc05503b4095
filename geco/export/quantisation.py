"""Quantisation after training: weights and activations in eight bits, by NNCF."""

from collections.abc import Iterable, Sequence
from typing import Any

from geco.errors import InputError, MissingPackageError
from geco.export.quiet import gist, quiet


def require() -> None:
    """Raise unless models can be quantised."""
    _nncf()


def quantised(model: Any, calibration: Sequence[Any], *, spared: Sequence[str]) -> Any:
    """An ONNX or OpenVINO model in eight bits, with the ranges of activations seen on these inputs.

    Operations that are `spared` stay in floating point.
    """
    nncf = _nncf()
    try:
        with quiet():
            return nncf.quantize(
                model,
                nncf.Dataset(list(calibration)),
                model_type=nncf.ModelType.TRANSFORMER,  # attention's own products stay in floating point
                preset=nncf.QuantizationPreset.MIXED,
                subset_size=len(calibration),
                ignored_scope=nncf.IgnoredScope(names=list(spared)),
            )
    except Exception as error:  # NNCF's errors share no base class
        raise InputError(f"the model cannot be quantised: {gist(error)}; export it without --int8") from None


def independent(operations: Iterable[tuple[str, str, Sequence[str], Sequence[str]]], start: str) -> list[str]:
    """Names of the products that do not depend on the values of the input `start`, only on its shape: positions.

    Operations are (name, kind, tensors that they take, tensors that they give), in the order of their execution.
    """
    seen, names = {start}, []
    for name, kind, takes, gives in operations:
        if kind not in ("Shape", "ShapeOf") and seen & set(takes):
            seen |= set(gives)
        elif kind == "MatMul":
            names.append(name)
    return names


def _nncf() -> Any:
    try:
        with quiet():
            import nncf
    except ImportError:
        raise MissingPackageError.of_extra("openvino", "nncf", what="quantising to int8") from None
    return nncf
