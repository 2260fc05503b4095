"""Every row as a small random model: nothing but the image decides its features, and it can be evaluated."""

import json

import pytest
import torch
from dataset_trees import write_birds
from small_rows import ROWS, write_row
from typer.testing import CliRunner

from geco.cli import build
from geco.models.geco import Geco

SIZES = dict.fromkeys(ROWS, 64) | dict.fromkeys(("diy-sc", "sphere", "geco", "marco"), 84)


@pytest.fixture(scope="module")
def rows(tmp_path_factory, tiny_folder):
    root = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GECO_CACHE", str(root / "cache"))
        yield {name: write_row(name, root, tiny_folder) for name in ROWS}


def pictures(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [(torch.rand(3, *size, generator=generator) * 255).byte() for size in sizes]


@pytest.mark.parametrize("name", ROWS)
def test_features_depend_on_nothing_but_the_image(rows, name):
    """Not on the place in a batch, its size, or the other images in it; and twice the same is the same."""
    model = Geco.from_pretrained(rows[name], size=SIZES[name], device="cpu")
    first, second, third = pictures((60, 90), (90, 80), (50, 50))
    alone = model.extract(first)
    assert alone.values.shape[0] == model.dim
    assert alone.size == (60, 90)
    assert model.extract(first).values.equal(alone.values)
    assert alone.values.std() > 1e-4
    for batch, place in (([first, second], 0), ([second, first], 1), ([third, second, first], 2)):
        maps = model.extract_batch(batch, batch_size=len(batch))
        torch.testing.assert_close(maps[place].values, alone.values, rtol=1e-4, atol=1e-5)


def test_rows_are_evaluated_side_by_side(rows, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    chosen = ("dino", "sphere", "marco", "swin")
    words = ["evaluate", "keypoints", "cub", write_birds(tmp_path / "birds"), "--set", "n_pairs=3", "--size", "64"]
    models = [word for name in chosen for word in ("-m", rows[name])]
    result = CliRunner().invoke(build(), [*map(str, [*words, *models]), "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    report = json.loads(result.stdout)
    tables = [numbers for numbers in report.values() if isinstance(numbers, dict)]
    pck = {key: value for numbers in tables for key, value in numbers.items() if isinstance(value, float)}
    for label in ("original.pth", "sphere", "marco", "swin"):
        assert 0 <= pck[f"{label}-64px: geco PCK@0.1"] <= 1
