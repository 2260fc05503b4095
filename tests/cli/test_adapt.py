"""`geco adapt`, end to end: twenty small images with three keypoints each, and a ViT of 24 channels."""

import json

import pytest
import torch
from hostile.command_lines import write_labels
from training_data import tiny_vit
from typer.testing import CliRunner

import geco as package
from geco.cli import build


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("adapt")
    write_labels(root)
    tiny_vit(root / "vit")
    return root


@pytest.fixture
def adapt(place):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(*words):
        line = ["adapt", place / "animals.json", "-m", place / "vit", "--workers", 0, *words]
        return CliRunner().invoke(build(), [str(word) for word in line])

    yield run
    torch.set_num_threads(threads)


def test_labels_are_trained_on_and_the_folder_is_a_model(adapt, tmp_path):
    result = adapt("--steps", 1, "-o", tmp_path / "run", "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    values = json.loads(result.stdout)
    assert (values["trained"], values["held_out"]) == (15, 5)
    assert values["after"] >= values["before"]
    assert values["improved"] == (values["outcome"]["best_step"] > 0)
    assert package.load(tmp_path / "run", device="cpu").adapted


def test_a_plan_writes_nothing_and_too_few_labels_are_one_line(adapt, place, tmp_path):
    result = adapt("--dry-run", "--json", "-o", tmp_path / "run")
    assert json.loads(result.stdout)["held out"] == 5
    assert not (tmp_path / "run").exists()
    raw = json.loads((place / "animals.json").read_text())
    raw["annotations"] = raw["annotations"][:7]
    few = place / "few.json"
    few.write_text(json.dumps(raw))
    result = CliRunner().invoke(build(), ["adapt", str(few), "-o", str(tmp_path / "run")])
    assert result.exit_code == 1
    assert "adapting needs 20 labelled animals" in str(result.exception)
    assert "got 7" in str(result.exception)
