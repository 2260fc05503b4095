"""ONNX files: written from a traced model, checked when read, run by ONNX Runtime."""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from geco.errors import FileError, InputError, MissingFileError, MissingPackageError
from geco.export import quantisation
from geco.export.metadata import ADVICE, INPUT, OUTPUT, PREFIX, Metadata, from_texts
from geco.export.quiet import gist, quiet
from geco.system import documents, signatures

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

OPSET = 18  # of 2022, so that runtimes of other years read it too
LARGEST = 2**31 - 2**24  # bytes: a file of protobuf ends at 2 GB
EXPECTED = "an ONNX file"
SMALLEST_HALVED = 1024  # numbers: what is smaller is worth nothing
DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8, "uint8": torch.uint8}


def require() -> None:
    """Raise unless ONNX files can be written."""
    _package("onnx", "exporting to ONNX")
    _package("onnxscript", "exporting to ONNX")
    _package("onnxruntime", "exporting to ONNX")


def write(program: Any, path: Path, metadata: Metadata, calibration: Sequence[np.ndarray]) -> None:
    """Write the traced graph with its metadata, its weights in the precision that the metadata names."""
    size = sum(value.nbytes for value in program.state_dict.values())
    if size > LARGEST:
        raise InputError(f"{size / 1e9:.1f} GB of weights do not fit an ONNX file of 2 GB; export to a .xml instead")
    with quiet():
        exported = torch.onnx.export(program, (), opset_version=OPSET, input_names=[INPUT], output_names=[OUTPUT])
        model = exported.model_proto  # type: ignore[union-attr]
    if metadata.precision == "float16":
        _halve(model.graph)
    elif metadata.precision == "int8":
        operations = [(node.name, node.op_type, node.input, node.output) for node in model.graph.node]
        spared = quantisation.independent(operations, INPUT)
        model = quantisation.quantised(model, [{INPUT: pixels} for pixels in calibration], spared=spared)
    _name_sides(model.graph, metadata)
    model.producer_name, model.producer_version, model.doc_string = "geco", metadata.geco, metadata.note
    del model.metadata_props[:], model.graph.value_info[:]
    for key, text in metadata.texts().items():
        model.metadata_props.add(key=f"{PREFIX}{key}", value=text)
    try:
        path.write_bytes(model.SerializeToString())
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}; give another --out") from None


def _halve(graph: "GraphProto") -> None:
    """Store weights in 16 bits; a cast, which runtimes make once when they load, gives them back in 32."""
    import onnx
    from onnx import helper, numpy_helper

    casts = []
    for tensor in list(graph.initializer):
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != onnx.TensorProto.FLOAT or values.size < SMALLEST_HALVED:
            continue
        name, stored = tensor.name, f"{tensor.name}.half"
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), stored))
        casts.append(helper.make_node("Cast", [stored], [name], name=f"{stored}.cast", to=onnx.TensorProto.FLOAT))
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend([*casts, *nodes])


def _name_sides(graph: "GraphProto", metadata: Metadata) -> None:
    """Give the free dimensions of input and output names that people read."""
    rows = ("batch", 3, "height", "width"), ("batch", metadata.channels, "rows", "columns")
    for value, names in zip((graph.input[0], graph.output[0]), rows, strict=True):
        for dimension, name in zip(value.type.tensor_type.shape.dim, names, strict=True):
            if isinstance(name, str) and not dimension.HasField("dim_value"):
                dimension.dim_param = name


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> "tuple[ModelProto, Metadata]":
    """The graph of a file and its metadata, checked before any runtime sees it; nothing is executed."""
    onnx = _package("onnx", f"{path.name}")
    from google.protobuf.message import DecodeError

    documents.check_file(path, expected=EXPECTED)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, UnicodeDecodeError, ValueError, RuntimeError):
        raise InputError(f"{path} is not {EXPECTED}: it is {signatures.identify(path)}; {ADVICE}") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}; expected {EXPECTED}") from None
    if not model.graph.node:
        raise InputError(f"{path} is not {EXPECTED} with a network: it is {signatures.identify(path)}; {ADVICE}")
    texts = {entry.key: entry.value for entry in model.metadata_props if entry.key.startswith(PREFIX)}
    metadata = from_texts({key.removeprefix(PREFIX): text for key, text in texts.items()}, name=str(path))
    _check_operators(model, path, newest=onnx.defs.onnx_opset_version())
    _check_outside(model.graph, path)
    return model, metadata


def _check_operators(model: "ModelProto", path: Path, *, newest: int) -> None:
    """Refuse operators that a plain runtime does not have: they come in libraries, which are code."""
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise InputError(f"{path} asks for opset {opset.version}, the installed onnx knows {newest}; upgrade it")
    functions = {(entry.domain, entry.name) for entry in model.functions}
    for node in _nodes(model):
        if node.domain not in ("", "ai.onnx") and (node.domain, node.op_type) not in functions:
            operator = documents.shown(f"{node.domain}.{node.op_type}")
            raise InputError(f"{path} uses the custom operator {operator}, which is not loaded; {ADVICE}")


def _nodes(model: "ModelProto") -> Iterator[Any]:
    """Every node of the graph, of graphs within it, and of its functions."""
    pending = [model.graph.node, *(entry.node for entry in model.functions)]
    while pending:
        for node in pending.pop():
            yield node
            for attribute in node.attribute:
                pending += [graph.node for graph in (attribute.g, *attribute.graphs)]


def _check_outside(graph: "GraphProto", path: Path) -> None:
    """Refuse weights in other files that are not there, or lie outside the file's folder."""
    for tensor in graph.initializer:
        places = [entry.value for entry in tensor.external_data if entry.key == "location"]
        for place in places:
            if Path(place).is_absolute() or ".." in Path(place).parts:
                raise InputError(f"{path} has weights in {documents.shown(place)}, outside of its folder; {ADVICE}")
            if not (path.parent / place).is_file():
                raise MissingFileError(f"{path} has weights in {documents.shown(place)}, which is missing beside it")


class Network:
    """An ONNX file in ONNX Runtime, on the CPU."""

    def __init__(self, path: Path) -> None:
        runtime = _package("onnxruntime", path.name)
        model, self.metadata = read(path)
        self.weights = _weights(model)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # fatal: its errors are raised as well
        try:
            with quiet():  # it prints that it tries again
                self.session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no base class
            raise InputError(f"{path}: ONNX Runtime {runtime.__version__} cannot load it: {gist(error)}") from None
        names = [entry.name for entry in (*self.session.get_inputs(), *self.session.get_outputs())]
        if names != [INPUT, OUTPUT]:
            raise InputError(f"{path} has inputs and outputs {documents.listed(names)}; {ADVICE}")
        self.path = path

    def run(self, pixels: np.ndarray) -> np.ndarray:
        """Feature maps of normalised images."""
        try:
            values: np.ndarray = self.session.run(None, {INPUT: pixels})[0]
        except Exception as error:  # onnxruntime's errors share no base class
            raise InputError(f"{self.path}: ONNX Runtime failed on images {pixels.shape}: {gist(error)}") from None
        return values


def _weights(model: "ModelProto") -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and precision of every weight."""
    from onnx import helper

    kinds = [(entry.dims, helper.tensor_dtype_to_np_dtype(entry.data_type).name) for entry in model.graph.initializer]
    return [(tuple(shape), DTYPES[kind]) for shape, kind in kinds if kind in DTYPES]


def _package(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError.of_extra("export", name, what=what) from None
