"""OpenVINO files: written from a traced model, checked when read, run by OpenVINO; ONNX files can be run too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geco.errors import FileError, InputError, MissingFileError, MissingPackageError
from geco.export import onnx, quantisation
from geco.export.metadata import ADVICE, INPUT, OUTPUT, Metadata, from_texts
from geco.export.quiet import gist, quiet
from geco.system import documents, signatures

EXPECTED = "a network of OpenVINO (.xml)"
KEY = "geco"  # under which the metadata stands in the file's <rt_info>
WEIGHTS = ".bin"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "i8": torch.int8, "u8": torch.uint8}


def require() -> None:
    """Raise unless OpenVINO files can be written."""
    _package("exporting to OpenVINO")


def write(program: Any, path: Path, metadata: Metadata, calibration: Sequence[np.ndarray]) -> None:
    """Write the traced graph with its metadata as .xml, its weights in the precision named there as .bin beside it."""
    openvino = _package("exporting to OpenVINO")
    with quiet():
        model = openvino.convert_model(program)
    if metadata.precision == "int8":
        spared = quantisation.independent(_operations(model), model.inputs[0].get_node().get_friendly_name())
        model = quantisation.quantised(model, list(calibration), spared=spared)
    model.inputs[0].get_tensor().set_names({INPUT})
    model.outputs[0].get_tensor().set_names({OUTPUT})
    for key, text in metadata.texts().items():
        model.set_rt_info(text, [KEY, key])
    try:
        openvino.save_model(model, str(path), compress_to_fp16=metadata.precision == "float16")
    except RuntimeError as error:
        raise FileError(f"{path} cannot be written: {gist(error)}; give another --out") from None


def _operations(model: Any) -> list[tuple[str, str, list[str], list[str]]]:
    """Name, kind, what it takes and what it gives of each operation; an operation gives what it is called."""
    return [
        (
            name := node.get_friendly_name(),
            node.get_type_name(),
            [entry.get_source_output().get_node().get_friendly_name() for entry in node.inputs()],
            [name],
        )
        for node in model.get_ordered_ops()
        if node.get_type_name() != "Parameter"
    ]


class Network:
    """An OpenVINO or ONNX file in OpenVINO, on the CPU."""

    def __init__(self, path: Path) -> None:
        openvino = _package(path.name)
        if path.suffix.lower() == ".onnx":
            _, self.metadata = onnx.read(path)
            model = _read(openvino, path)
        else:
            _check_files(path)
            model = _read(openvino, path)
            self.metadata = from_texts(_texts(model), name=str(path))
        self.weights = _weights(model)
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": "f32",  # otherwise newer processors compute in bfloat16
        }
        try:
            self.model = openvino.Core().compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise InputError(f"{path}: OpenVINO cannot run it: {gist(error)}") from None
        names = [name for entry in (*self.model.inputs, *self.model.outputs) for name in sorted(entry.get_names())]
        if names != [INPUT, OUTPUT]:
            raise InputError(f"{path} has inputs and outputs {documents.listed(names)}; {ADVICE}")
        self.path = path

    def run(self, pixels: np.ndarray) -> np.ndarray:
        """Feature maps of normalised images."""
        try:
            values: np.ndarray = self.model(np.ascontiguousarray(pixels))[0]
        except RuntimeError as error:
            raise InputError(f"{self.path}: OpenVINO failed on images {pixels.shape}: {gist(error)}") from None
        return values


def _weights(model: Any) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and precision of every weight."""
    constants = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    kinds = [(node.get_output_shape(0), node.get_element_type().get_type_name()) for node in constants]
    return [(tuple(shape), DTYPES[kind]) for shape, kind in kinds if kind in DTYPES]


def _read(openvino: Any, path: Path) -> Any:
    try:
        return openvino.Core().read_model(str(path))
    except Exception as error:  # also its own kinds, by what the file is
        raise InputError(f"{path}: OpenVINO cannot read it: {gist(error)}; {ADVICE}") from None


def _check_files(path: Path) -> None:
    documents.check_file(path, expected=EXPECTED)
    try:
        with path.open("rb") as file:
            start = file.read(signatures.START)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}; expected {EXPECTED}") from None
    if b"<net" not in start:
        raise InputError(f"{path} is not {EXPECTED}: it is {signatures.identify(path)}; {ADVICE}")
    weights = path.with_suffix(WEIGHTS)
    if not weights.is_file():
        raise MissingFileError(f"{path} has its weights in {weights.name}, which is missing beside it")


def _texts(model: Any) -> dict[str, str]:
    """The metadata of a file as texts; nothing, of a file without."""
    if not model.has_rt_info([KEY]):
        return {}
    return {key: _text(model.get_rt_info([KEY, key])) for key in model.get_rt_info([KEY]).value}


def _text(entry: Any) -> str:
    return str(getattr(entry, "value", entry))


def _package(what: str) -> Any:
    try:
        with quiet():
            import openvino
    except ImportError:
        raise MissingPackageError.of_extra("openvino", "openvino", what=what) from None
    return openvino
