"""Writing: what is too far from its model is not written, and what was there stays."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import geco
from geco import images
from geco.cli import build
from geco.errors import InputError
from geco.export import metadata, writing
from geco.export.settings import ExportSettings


@pytest.fixture
def pictures(image_files):
    return [images.read(path) for path in image_files]


@pytest.fixture
def copying(onnx_file, monkeypatch):
    """Exporting without the work: what is "written" is the file that the fixture holds."""

    class Writer:
        require = staticmethod(lambda: None)

        @staticmethod
        def write(program, path, facts, calibration):
            path.write_bytes(onnx_file.read_bytes())

    monkeypatch.setattr(writing, "trace", lambda model, dynamic: None)
    monkeypatch.setitem(writing.WRITERS, ".onnx", Writer)


def test_eight_bits_that_lose_too_much_are_not_written(copying, model, pictures, tmp_path):
    path = tmp_path / "a.onnx"
    path.write_text("what was there")
    found = iter([{"PCK@0.1": 80.0, "PCK@0.05": 50.0}, {"PCK@0.1": 80.5, "PCK@0.05": 48.9}])
    with pytest.raises(InputError, match=r"a.onnx was not written: int8 loses 1\.1 points \(PCK@0.1 80.0 → 80.5"):
        writing.write(model, path, pictures, ExportSettings(precision="int8"), quality=lambda encoder: next(found))
    assert path.read_text() == "what was there"
    found = iter([{"PCK@0.1": 80.0}, {"PCK@0.1": 79.0}])
    outcome = writing.write(
        model, path, pictures, ExportSettings(precision="int8"), quality=lambda encoder: next(found)
    )
    assert outcome.lost == pytest.approx(1.0)
    assert geco.load(path).dim == model.dim
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_differs_is_not_written(copying, model, pictures, tmp_path, registered):
    other = geco.load(registered, size=56, device="cpu")
    other.backbone.encoder.norm.bias.data += 0.01
    with pytest.raises(InputError, match=r"differ from torch's by 0.01, at most 0.001"):
        writing.write(other, tmp_path / "a.onnx", pictures)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_said_before_the_work(model, registered, tmp_path):
    path = tmp_path / "a.onnx"
    with pytest.raises(InputError, match=r"ends in .onnx or .xml, got"):
        writing.check_exportable(model, tmp_path / "a.pt", ExportSettings())
    halved = geco.load(registered, size=56, device="cpu", dtype="bfloat16")
    with pytest.raises(InputError, match="from float32 on the cpu, got bfloat16"):
        writing.check_exportable(halved, path, ExportSettings())
    fitting = geco.load(registered, size=56, device="cpu", resize="fit")
    with pytest.raises(InputError, match="keeps the ratio of images"):
        writing.check_exportable(fitting, path, ExportSettings())
    unmerged = geco.Geco.from_pretrained(registered, size=56, device="cpu")
    with pytest.raises(InputError, match="cannot be exported; vision transformers"):
        writing.check_exportable(unmerged, path, ExportSettings())


def test_metadata_survives_its_texts_and_names_no_folder(model):
    facts = metadata.of_model(model, dynamic=True, precision="float32")
    assert metadata.from_texts(facts.texts(), name="a.onnx") == facts
    assert facts.backbone == "registered"
    assert not any("/" in text and "registered" in text for text in facts.texts().values())
    assert json.loads(facts.texts()["options"]) == dict(model.config.options)
    licensed = geco.Geco(model.backbone, replace(model.config), name="geco-s", note="from here; licence: MIT")
    assert (
        metadata.of_model(licensed, dynamic=True, precision="float32").licence
        == "Apache-2.0; its backbone focus-small: MIT"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "a.pt"), "--out must end in .onnx, .xml"),
        (("-o", "a.onnx", "--half", "--int8"), "give --half or --int8, not both"),
        (("-o", "a.onnx", "--images", "none.jpg"), "none.jpg"),
        (("-o", "a.onnx", "--images", "."), "holds no images"),
        (("-o", "a.onnx", "--int8", "--check", "animalpose"), "--check takes name=ROOT"),
        (("-o", "a.onnx", "--int8", "--check", "animalpose=none"), "no such folder"),
        (("-o", "a.onnx", "--check", "animalpose=none"), "give --int8 too"),
        (("-o", "a.onnx", "--split", "test"), "give --check name=ROOT"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(registered, image_files, tmp_path, monkeypatch, capfd, words, says):
    from geco.cli import run

    monkeypatch.chdir(tmp_path)
    given = () if "--images" in words else ("--images", str(image_files[0]))
    assert run(["export", "-m", str(registered), *words, *given]) in (1, 2)
    assert says in " ".join(capfd.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_a_dataset_measures_what_was_lost(copying, registered, image_files, tmp_path):
    from training_data import write_spair

    write_spair(tmp_path / "squares", train=2, val=2)
    line = ["export", "-m", registered, "--size", "56", "-o", tmp_path / "a.onnx", "--images", image_files[0], "--int8"]
    checked = [*line, "--check", f"spair={tmp_path / 'squares'}", "--limit", "2", "--json"]
    done = CliRunner().invoke(build(), [str(word) for word in checked], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["before"].keys() == {"PCK@0.1", "PCK@0.05"}
    assert facts["before"] == facts["after"]  # the copied file is not quantised
