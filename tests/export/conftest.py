"""Two tiny random models and what they were exported as: each export takes seconds, so all tests share them."""

import pytest
import torch
from PIL import Image
from training_data import tiny_vit
from typer.testing import CliRunner

import geco
from geco import export, images
from geco.cli import build
from geco.export.settings import ExportSettings

onnx = pytest.importorskip("onnx", reason="needs the extra export")
pytest.importorskip("onnxscript", reason="needs the extra export")
pytest.importorskip("onnxruntime", reason="needs the extra export")


@pytest.fixture(scope="session")
def image_files(tmp_path_factory):
    """Three JPEGs of smooth random colours, of different shapes."""
    folder, paths = tmp_path_factory.mktemp("images"), []
    for seed, size in enumerate(((120, 90), (90, 130), (100, 100))):
        noise = torch.randint(0, 256, (6, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
        paths.append(folder / f"{seed}.jpg")
        Image.fromarray(noise.numpy()).resize(size, Image.Resampling.BICUBIC).save(paths[-1])
    return paths


@pytest.fixture(scope="session")
def registered(tmp_path_factory):
    """The folder of a DINOv2 with registers, whose positions are interpolated with antialiasing."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    torch.manual_seed(0)
    config = Dinov2WithRegistersConfig(
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_register_tokens=2,
        image_size=98,
        patch_size=14,
        layerscale_value=0.5,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("models") / "registered"
    Dinov2WithRegistersModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model(registered):
    return geco.load(registered, size=56, device="cpu")


@pytest.fixture(scope="session")
def onnx_file(registered, image_files, tmp_path_factory):
    """The model with registers as a dynamic ONNX file, written by the command."""
    path = tmp_path_factory.mktemp("exported") / "tiny.onnx"
    given = [word for path in image_files for word in ("--images", str(path))]
    line = ["export", "-m", str(registered), "--size", "56", "-o", str(path), *given]
    done = CliRunner().invoke(build(), line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "max difference" in done.stdout
    assert "56×56, 56×28, 42×98" in done.stdout
    return path


@pytest.fixture(scope="session")
def quantised(image_files, tmp_path_factory):
    """(model, outcome) of a plain DINOv2 in eight bits for one size, by OpenVINO."""
    pytest.importorskip("nncf", reason="needs the extra openvino")
    torch.manual_seed(0)
    network = geco.load(tiny_vit(tmp_path_factory.mktemp("models") / "vit"), size=56, device="cpu")
    pictures = [images.read(path) for path in image_files]
    settings = ExportSettings(dynamic=False, precision="int8")
    path = tmp_path_factory.mktemp("exported") / "tiny.xml"
    return network, export.write(network, path, pictures, settings, quality=lambda encoder: {"PCK": 50.0})
