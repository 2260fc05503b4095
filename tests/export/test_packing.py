"""Packing: a folder that needs no other, near its model, with its notice; or none at all."""

import json

import pytest
import torch
from tiny_model import fresh
from typer.testing import CliRunner

import geco
from geco import export, models
from geco.cli import build
from geco.cli import run as run_cli
from geco.errors import InputError
from geco.export import packing

FILES = {"geco.json", "config.json", "model.safetensors", "checksums.json", "README.md"}


@pytest.fixture
def adapter(tiny_folder, tmp_path):
    model = fresh(tiny_folder)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.constant_(value, 0.1)
    return model.save_pretrained(tmp_path / "adapter", card="# mine\n")


def test_a_packed_model_is_whole_near_and_small(adapter, tmp_path):
    packed = export.pack(adapter, tmp_path / "packed")
    assert {path.name for path in packed.path.iterdir()} == FILES
    assert packed.size == sum(path.stat().st_size for path in packed.path.iterdir())
    assert (packed.path / "README.md").read_text() == "# mine\n"
    assert (packed.path / "model.safetensors").stat().st_mode & 0o044 == (
        packed.path / "geco.json"
    ).stat().st_mode & 0o044
    assert 0 < packed.parity.relative < 2e-3
    adapter.rename(tmp_path / "gone")
    assert geco.load(packed.path, device="cpu").adapted
    assert not list(tmp_path.glob(".*")), "no draft is left behind"


def test_the_notice_of_its_backbone_is_added(adapter, tmp_path):
    line = ["pack", "-m", adapter, "-o", tmp_path / "packed", "--base", "focus-small", "--json"]
    done = CliRunner().invoke(build(), [str(word) for word in line], catch_exceptions=False)
    facts = json.loads(done.stdout)
    assert (facts["base"], facts["licence"]) == ("focus-small", "MIT")
    assert "Copyright (c) Goueffon Jules" in (tmp_path / "packed" / "NOTICE").read_text()
    model = geco.load(tmp_path / "packed", device="cpu")
    assert model.config.untrained == "focus-small"
    assert model.note == models.sources()["focus-small"][1].note + "; licence: MIT"


def test_what_differs_too_much_is_not_written(adapter, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MOST_RELATIVE", 1e-9)
    with pytest.raises(InputError, match=r"was not written: its features differ .* at most 1e-09 is accepted"):
        export.pack(adapter, tmp_path / "packed")
    assert not (tmp_path / "packed").exists()
    assert export.pack(adapter, tmp_path / "packed", dtype="float32").parity.relative == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "adapter"), "is the model itself; give another folder"),
        (("-o", "other"), "holds an adapter, which a whole model must not lie beside"),
        (("-o", "packed", "--base", "focus"), "base must be the short name of a backbone"),
        (("-o", "packed", "--card", "none.md"), "none.md"),
        (("-o", "packed", "--images", "none.jpg"), "none.jpg"),
        (("-o", "packed", "--dtype", "int8"), "int8"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(adapter, tmp_path, monkeypatch, capfd, words, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "adapter_model.safetensors").write_bytes(b"")
    before = {path: path.read_bytes() for path in adapter.iterdir()}
    assert run_cli(["pack", "-m", "adapter", *words]) in (1, 2)
    assert says in " ".join(capfd.readouterr().err.split())
    assert {path: path.read_bytes() for path in adapter.iterdir()} == before
    assert not (tmp_path / "packed").exists() or not list((tmp_path / "packed").iterdir())
