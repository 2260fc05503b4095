"""Foreign and damaged ONNX files: one line each, before any runtime sees them."""

import pytest
from hostile.mutations import HTML, LFS
from hostile.verdicts import refused

import geco
from geco.export import Exported


@pytest.fixture
def spoilt(onnx_file, tmp_path):
    """Writes the exported file with a change, and returns what opening it says."""
    import onnx

    def write(change, *names):
        model = onnx.load(str(onnx_file))
        change(model)
        path = tmp_path / "spoilt.onnx"
        path.write_bytes(model.SerializeToString())
        return refused(lambda: geco.load(path), "spoilt.onnx", *names)

    return write


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (HTML, "web page"), (LFS, "Git LFS"), (b"\x89PNG\r\n", "PNG"), (b"\x00" * 100, ""), (b"hi", "")],
    ids=["empty", "page", "pointer", "picture", "zeros", "text"],
)
def test_what_is_no_onnx_file_is_told(tmp_path, content, says):
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    assert says in refused(lambda: geco.load(path), "other.onnx", "geco export")


def test_a_truncated_file_is_refused_wherever_it_was_cut(onnx_file, tmp_path):
    content, path = onnx_file.read_bytes(), tmp_path / "cut.onnx"
    for share in (0.01, 0.3, 0.6, 0.9, 0.99):
        path.write_bytes(content[: int(len(content) * share)])
        refused(lambda: geco.load(path), "cut.onnx")


def test_a_file_of_somebody_else_says_what_to_give(spoilt):
    def without(model):
        del model.metadata_props[:]

    assert "holds no metadata of geco" in spoilt(without, "geco export -m MODEL -o model.onnx")


def set_fact(key, value):
    def change(model):
        next(entry for entry in model.metadata_props if entry.key == f"geco.{key}").value = value

    return change


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "2"),
        ("size", "nan"),
        ("size", "55"),
        ("size", "99999999999999"),
        ("patch", "0"),
        ("channels", '"many"'),
        ("std", "[0, 1, 1]"),
        ("mean", "[1, 2]"),
        ("mean", "[" * 500),
        ("threshold", "7"),
        ("resize", "nearest"),
        ("similarity", "none"),
        ("precision", "int4"),
        ("options", "[]"),
        ("dynamic", "yes"),
    ],
)
def test_absurd_facts_are_refused(spoilt, key, value):
    spoilt(set_fact(key, value))


def test_operators_and_weights_from_elsewhere_are_refused(spoilt):
    def newest(model):
        model.opset_import[0].version = 99

    def custom(model):
        model.graph.node[3].domain = "evil.library"

    def outside(place):
        def change(model):
            tensor = model.graph.initializer[0]
            tensor.ClearField("raw_data")
            tensor.data_location = 1
            tensor.external_data.add(key="location", value=place)

        return change

    assert "opset 99" in spoilt(newest, "upgrade")
    assert "custom operator 'evil.library." in spoilt(custom, "not loaded")
    assert "missing beside it" in spoilt(outside("weights.bin"), "weights.bin")
    for place in ("/etc/passwd", "../../secret"):
        assert "outside of its folder" in spoilt(outside(place))


def test_a_graph_that_does_not_fit_its_facts_is_refused(spoilt, onnx_file, tmp_path):
    def renamed(model):
        model.graph.output[0].name = model.graph.node[-1].output[0] = "answer"

    def unknown(model):
        model.graph.node[5].op_type = "Imaginary"

    assert "answer" in spoilt(renamed)
    assert "ONNX Runtime" in spoilt(unknown, "cannot load it")
    import onnx

    model, path = onnx.load(str(onnx_file)), tmp_path / "promise.onnx"
    set_fact("channels", "25")(model)
    path.write_bytes(model.SerializeToString())
    encoder = geco.load(path)
    refused(lambda: encoder.extract("docs/none.jpg"), "none.jpg")
    import torch

    assert "promises (1, 25, 4, 4)" in refused(lambda: encoder.extract(torch.zeros(3, 20, 20)), "promise.onnx")


def test_half_the_bits_take_half_the_file_and_stay_near(onnx_file, image_files, tmp_path):
    import onnx
    import torch

    from geco.export.onnx import SMALLEST_HALVED, _halve

    model = onnx.load(str(onnx_file))
    sizes = [len(tensor.raw_data) for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT]
    large = sum(size for size in sizes if size >= 4 * SMALLEST_HALVED)
    _halve(model.graph)
    path = tmp_path / "half.onnx"
    path.write_bytes(model.SerializeToString())
    saved = onnx_file.stat().st_size - path.stat().st_size
    assert saved == pytest.approx(large / 2, rel=0.05)
    encoder: Exported = geco.load(path)
    assert torch.float16 in {dtype for _, dtype in encoder.network.weights}
    ours, theirs = encoder.extract(image_files[0]).values, geco.load(onnx_file).extract(image_files[0]).values
    assert 0 < float((ours - theirs).abs().max()) < 0.01
    assert float(torch.cosine_similarity(ours, theirs, dim=0).min()) > 0.9999
