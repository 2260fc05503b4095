"""Exported files as encoders: the features of torch, at any size, by both engines and without geco."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close
from training_data import write_spair
from typer.testing import CliRunner

import geco
from geco import export, images
from geco.cli import build
from geco.errors import InputError, MissingFileError


@pytest.mark.parametrize("engine", ["onnx", "openvino"])
def test_both_engines_give_torch_s_features_at_every_size(model, onnx_file, image_files, engine):
    pytest.importorskip(engine if engine == "openvino" else "onnxruntime")
    encoder = geco.load(onnx_file, engine=engine)
    assert isinstance(encoder, geco.Encoder)
    assert (encoder.dim, encoder.stride, encoder.threshold) == (model.dim, model.stride, model.threshold)
    pictures = [images.read(path) for path in image_files]
    for size in ((56, 56), (98, 98), (14, 140), (154, 42)):
        pixels = torch.stack([model.prepare(picture, size)["pixels"] for picture in pictures])
        with torch.inference_mode():
            expected = model(pixels=pixels)
        assert_close(encoder(pixels=pixels), expected, atol=2e-5, rtol=1e-4)
    for ours, theirs in zip(encoder.extract_batch(image_files), model.extract_batch(image_files), strict=True):
        assert ours.size == theirs.size
        assert_close(ours.values, theirs.values, atol=2e-5, rtol=1e-4)


def test_a_program_without_geco_needs_only_the_file(model, onnx_file, image_files):
    """What docs/export.md says: resize, scale, normalise by the metadata; here by Pillow, NumPy and ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(onnx_file), providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    side, mean, std = (json.loads(facts[f"geco.{name}"]) for name in ("size", "mean", "std"))
    # A square image of the model's own size: Pillow's resizing rounds to 8 bits, torch's does not.
    picture = Image.open(image_files[0]).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    pixels = (np.asarray(picture, np.float32) / 255 - np.float32(mean)) / np.float32(std)
    features = session.run(["features"], {"pixels": pixels.transpose(2, 0, 1)[None].astype(np.float32)})[0][0]
    assert features.shape == (json.loads(facts["geco.channels"]), 4, 4)
    assert_close(torch.from_numpy(features), model.extract(np.asarray(picture)).values, atol=2e-5, rtol=1e-4)
    assert facts["geco.fingerprint"] == model.fingerprint()
    assert facts["geco.model"] == "registered"
    assert facts["geco.geco"] == geco.__version__
    assert float(facts["geco.threshold"]) == model.threshold


def test_points_go_where_they_go_in_torch(model, onnx_file, image_files):
    points = [(30, 40), (70, 20), (110, 80)]
    ours, theirs = (geco.transfer(*image_files[:2], points, model=which) for which in (str(onnx_file), model))
    assert_close(ours.target, theirs.target)
    assert_close(ours.score, theirs.score, atol=1e-5, rtol=1e-5)
    assert len(geco.match(*image_files[:2], model=onnx_file)) == len(geco.match(*image_files[:2], model=model))


def test_eight_bits_are_near_and_of_one_size(quantised, image_files):
    network, outcome = quantised
    encoder = geco.load(outcome.path)
    assert encoder.metadata.precision == "int8"
    ours, theirs = encoder.extract(image_files[0]), network.extract(image_files[0])
    assert float(torch.cosine_similarity(ours.values, theirs.values, dim=0).min()) > 0.9
    assert not torch.allclose(ours.values, theirs.values, atol=1e-4)  # it is quantised
    assert any(dtype == torch.int8 for _, dtype in encoder.network.weights)
    with pytest.raises(InputError, match=r"takes images of 56 pixels only, got 112; export it with --dynamic"):
        geco.load(outcome.path, size=112)
    with pytest.raises(InputError, match=r"engine onnx cannot run it"):
        geco.load(outcome.path, engine="onnx")


def test_a_fingerprint_names_file_engine_and_size(onnx_file):
    encoder = geco.load(onnx_file)
    assert encoder.fingerprint() == geco.load(str(onnx_file)).fingerprint()
    others = [geco.load(onnx_file, size=70), geco.load(onnx_file, engine="openvino")]
    assert len({encoder.fingerprint(), *(other.fingerprint() for other in others)}) == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layer": 2}, "its own layer"),
        ({"dtype": "float16"}, "precision it was exported in"),
        ({"device": "cuda"}, "runs on the cpu"),
        ({"engine": "torch"}, "engine torch cannot run it"),
        ({"engine": "tensorrt"}, "engine must be onnx, openvino or torch"),
        ({"size": 10**6}, "tokens"),
    ],
)
def test_options_of_other_models_are_refused(onnx_file, options, says):
    with pytest.raises(InputError, match=says):
        geco.load(onnx_file, **options)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for name in ("none.onnx", "none.xml"):
        with pytest.raises(MissingFileError, match=rf"{name}: no such file"):
            geco.load(tmp_path / name)
    with pytest.raises(InputError, match="engine must be torch, onnx or openvino"):
        geco.load(engine="caffe")


def test_a_model_for_another_engine_is_exported_once(model, registered, onnx_file, tmp_path, monkeypatch):
    from geco.export import writing

    calls = []

    def write(network, path, pictures, settings):
        calls.append(path)
        path.parent.mkdir(parents=True)
        path.write_bytes(onnx_file.read_bytes())

    monkeypatch.setenv("GECO_CACHE", str(tmp_path))
    monkeypatch.setattr(writing, "write", write)
    for _ in range(2):
        encoder = geco.load(registered, size=56, engine="onnx")
        assert (encoder.name, encoder.engine, encoder.input_size) == ("registered", "onnx", 56)
    (path,) = calls
    assert path.name == f"registered-{model.fingerprint()}-{geco.__version__}.onnx"


def test_training_says_what_it_is_given(onnx_file):
    with pytest.raises(InputError, match="is an exported model, for inference only"):
        geco.Geco.from_pretrained(onnx_file)


# --- commands ---------------------------------------------------------------------------------------------------------


def test_commands_run_on_an_exported_model(model, onnx_file, image_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_spair(tmp_path / "squares", train=2, val=2)

    def invoke(*words):
        done = CliRunner().invoke(build(), [*map(str, words), "-m", str(onnx_file)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done

    transferred = json.loads(invoke("transfer", *image_files[:2], "-p", "30,40", "--json").stdout)
    assert transferred["model"] == "tiny.onnx" if "model" in transferred else transferred
    invoke("features", image_files[0], "-o", "f.safetensors")
    ran = invoke("evaluate", "keypoints", "spair", "squares", "--split", "val", "--limit", "2", "--json")
    ours = json.loads(ran.stdout)["values"]
    assert ours
    timed = invoke("bench", "--batches", "1", "--repeats", "1", "--json")
    (row,) = json.loads(timed.stdout)["tables"][0]["rows"]
    assert row[:5] == ["tiny.onnx", "cpu", "float32", 56, 1]
    count = sum(value.numel() for value in model.parameters()) / 1e6
    assert row[-2] == pytest.approx(count, rel=0.2)  # and the tables that positions are interpolated with
    assert CliRunner().invoke(build(), ["bench", "--dtypes", "float16", "-m", str(onnx_file)]).exit_code


def test_the_door_knows_the_endings():
    assert export.is_exported("a/b.ONNX")
    assert export.is_exported("model.xml")
    assert not export.is_exported("geco-s")
    assert not export.is_exported(None)
