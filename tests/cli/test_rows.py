"""Small random models of the paper's rows, through the commands that measure them."""

import json
import math

import pytest
import torch
from dataset_trees import write_birds
from original_adm import original
from small_rows import write_row
from typer.testing import CliRunner

from geco.cli import build

pytest.importorskip("diffusers", reason="needs the extra diffusion")
SIDE = "128"  # what all of them take, Geo's windows too


@pytest.fixture(scope="module")
def rows(tmp_path_factory, tiny_folder, diffusion_parts):
    root = tmp_path_factory.mktemp("rows")
    torch.save(original(), root / "256x256_diffusion_uncond.pt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GECO_CACHE", str(root / "cache"))
        patch.setenv("COLUMNS", "200")
        yield {
            "dift-adm": root / "256x256_diffusion_uncond.pt",
            "geo": diffusion_parts / "geo",
            **{name: write_row(name, root, tiny_folder) for name in ("sphere", "diy-sc", "geco")},
        }


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    return write_birds(tmp_path_factory.mktemp("cub") / "cub", count=3)


def run(*words):
    return CliRunner().invoke(build(), [str(word) for word in words])


def test_one_table_has_them_all(rows, birds, tmp_path):
    models = [f"{name}={place}" for name, place in rows.items()]
    words = ["--size", SIDE, "--limit", 3, "--repeats", 1, "--device", "cpu", "-o", tmp_path / "table"]
    result = run("table", *models, "--data", f"cub={birds}", *words)
    assert result.exit_code == 0, (result.output, result.exception)
    page = (tmp_path / "table" / "index.html").read_text()
    assert all(name in page for name in rows)
    assert not (tmp_path / "table" / "missing.csv").exists()  # of the beginning, when all were


@pytest.mark.parametrize("name", ["dift-adm", "geo"])
def test_a_row_of_diffusion_is_evaluated_and_timed(rows, birds, tmp_path, name):
    evaluated = ["evaluate", "keypoints", "cub", birds, "-m", rows[name], "--size", SIDE, "--set", "n_pairs=2"]
    result = run(*evaluated, "--out", tmp_path / "run")
    assert result.exit_code == 0, (result.output, result.exception)
    measures = json.loads((tmp_path / "run" / "report.json").read_text())["measures"]
    assert any(m["metric"] == "PCK" and math.isfinite(m["value"]) for m in measures)
    timed = run("bench", "-m", rows[name], "--size", SIDE, "--batches", 1, "--repeats", 1, "--warmup", 1, "--json")
    assert timed.exit_code == 0, (timed.output, timed.exception)
