"""The evaluation commands, end to end: a small random encoder on a small made-up CUB."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import original_adm
import pytest
import torch
from dataset_trees import write_birds
from PIL import Image
from typer.testing import CliRunner

from geco import data, viz
from geco.cli import build
from geco.evaluation import keypoints, load_report


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    return write_birds(tmp_path_factory.mktemp("cub"))


@pytest.fixture
def geco(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(*words, fails=False):
        result = CliRunner().invoke(build(), [str(word) for word in words])
        if not fails:
            assert result.exit_code == 0, (result.output, result.exception)
        return result

    yield run
    torch.set_num_threads(threads)


def test_keypoints_are_evaluated_and_everything_is_saved(geco, birds, tiny_folder, tmp_path):
    out = tmp_path / "run"
    words = [
        "evaluate",
        "keypoints",
        "cub",
        birds,
        "--model",
        tiny_folder,
        "--set",
        "n_pairs=12",
        "--out",
        out,
    ]
    result = geco(*words, "--protocol", "geco", "--protocol", "bbox-image")
    assert "PCK in %, protocol geco" in result.stdout
    assert "mean over pairs of the share of hits in a pair" in " ".join(result.stdout.split())
    files = {path.name for path in out.iterdir()}
    wanted = {"report.json", "samples.json", "index.html", "pck-geco.csv", "imbalance.png", "examples_11.png"}
    assert wanted <= files
    assert not (out / "features").exists()
    raw = json.loads((out / "report.json").read_text())
    assert raw["settings"]["pairs"] == 12
    assert raw["settings"]["model"]["fingerprint"]
    assert raw["provenance"]["versions"]["torch"]
    again = geco(*words, "--protocol", "geco", "--protocol", "bbox-image", "--json")
    assert json.loads(again.stdout)["counts"] == raw["counts"]
    back = load_report(out)
    assert not math.isnan(back.measure("PCK", "geco", 0.1).value)
    assert len(back.samples["geco"]["denominator"]) == 12


def test_two_processes_of_torchrun_share_the_work_and_count_the_same(geco, birds, tiny_folder, tmp_path):
    words = ["evaluate", "keypoints", "cub", birds, "--model", tiny_folder, "--set", "n_pairs=12"]
    geco(*words, "--out", tmp_path / "one")
    code = "from geco.cli import main; main()"
    (tmp_path / "run.py").write_text(code)
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        tmp_path / "run.py",
    ]
    command = [str(word) for word in (*launch, *words, "--out", tmp_path / "two")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("one", "two"))
    assert one["counts"] == two["counts"]
    shares = [len((tmp_path / "two" / f"predictions-{i}.jsonl").read_text().splitlines()) for i in range(2)]
    assert all(shares), "each process did a part"


@pytest.mark.parametrize("name", ["dift-adm", "geo", "geo-empty", "cleandift"])
def test_small_baselines_of_diffusion_models_are_evaluated(geco, birds, diffusion_parts, tmp_path, monkeypatch, name):
    """dift-adm by its short name, from the original file in the cache; the others by the folder of their manifest."""
    monkeypatch.setenv("GECO_CACHE", str(tmp_path))
    model, options = diffusion_parts / name, {}
    if name == "dift-adm":
        model, options = name, {"t": 101, "block": 4, "seed": 42, "ensemble": 1}
        torch.save(original_adm.original(), tmp_path / "256x256_diffusion_uncond.pt")
    words = ("evaluate", "keypoints", "cub", birds, "-m", model, "--size", 64, "--set", "n_pairs=3", "--json")
    report = json.loads(geco(*words, "--limit", 3).stdout)
    about = report["settings"]["model"]
    assert (about["name"], about["size"], about["dtype"]) == (name, 64, "float32")
    assert options.items() <= about.items()
    assert all(0 <= measure["value"] <= 1 for measure in report["measures"] if measure["metric"] == "PCK")


def test_a_baseline_of_several_parts_is_timed(geco, diffusion_parts):
    words = ("bench", "-m", diffusion_parts / "geo-empty", "--batches", 2, "--size", 64, "--warmup", 1, "--repeats", 1)
    report = json.loads(geco(*words, "--json").stdout)
    assert [measure["unit"] for measure in report["measures"]] == ["ms", "fps"]


def test_two_models_are_compared_and_reported_side_by_side(geco, birds, tiny_folder, tmp_path):
    words = ["evaluate", "keypoints", "cub", birds, "--set", "n_pairs=12", "--limit", "6"]
    result = geco(*words, "--model", tiny_folder, "--layers", "1,2", "--sizes", "56", "--out", tmp_path / "sweep")
    assert "Side by side" in result.stdout
    folders = sorted(path for path in (tmp_path / "sweep").iterdir() if path.is_dir())
    assert [folder.name.split("-", 1)[1] for folder in folders] == ["layer1-56px", "layer2-56px"]
    before = geco(*words, "--model", tiny_folder, "--layers", "1", "--sizes", "56", "--no-norm", "--json")
    assert json.loads(before.stdout)["settings"]["model"]["norm"] is False
    after = json.loads((folders[0] / "report.json").read_text())["settings"]["model"]
    assert (after["layer"], after["norm"]) == (1, True)
    compared = geco(*words, "--compare", tiny_folder, tiny_folder, "--json")
    tables = {table["name"]: table for table in json.loads(compared.stdout)["tables"]}
    of_pck = [row[3]["value"] for row in tables["difference"]["rows"] if "PCK" in row[0]]
    assert of_pck == [0] * 4
    assert {row[3]["value"] for row in tables["difference"]["rows"]} <= {0, None}, "None: no such points"
    side = geco("report", *folders, "--out", tmp_path / "both")
    assert "Paired difference in %" in side.stdout
    assert (tmp_path / "both" / "pck__geco.png").exists()
    assert json.loads(geco("report", *folders, "--json").stdout)["benchmark"] == "comparison"


def test_a_limit_is_spread_evenly_over_the_pairs(geco, birds, tiny_folder):
    pairs = data.load("cub", birds, "test", {"n_pairs": 12})
    words = ["evaluate", "keypoints", "cub", birds, "--model", tiny_folder, "--set", "n_pairs=12", "--limit", "5"]
    settings = json.loads(geco(*words, "--json").stdout)["settings"]
    assert settings["pairs"] == 5
    assert settings["digest"] == keypoints.digest([pairs[i] for i in (0, 2, 4, 7, 9)])


def test_examples_are_drawn_as_they_were_matched(geco, birds, tiny_folder, tmp_path, monkeypatch):
    shapes, draw = [], viz.sheet

    def spy(examples, **how):
        shapes.append({tuple(example.heat.shape) for example in examples})
        return draw(examples, **how)

    monkeypatch.setattr(viz, "sheet", spy)
    words = ["evaluate", "keypoints", "cub", birds, "-m", tiny_folder, "--set", "n_pairs=12", "--sizes", "56"]
    for protocol, shape in (("geco-apk", (4, 4)), ("geco", (60, 80))):
        shapes.clear()
        geco(*words, "--protocol", protocol, "--protocol", "bbox-image", "--out", tmp_path / protocol)
        assert shapes
        assert all(of_case == {shape} for of_case in shapes), "patches are not upsampled under geco-apk"


def test_failures_are_counted_and_drawn(geco, birds, tiny_folder, tmp_path):
    words = ["evaluate", "keypoints", "cub", birds, "-m", tiny_folder, "--set", "n_pairs=12", "--sizes", "56"]
    geco(*words, "--failures", "2", "--out", tmp_path / "run")
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"misses-geco.csv", "confusions-geco.csv"} <= files
    assert [name for name in files if name.startswith("failures_")]
    refused = geco(*words, "--failures", "2", fails=True)
    assert "--failures draws sheets into the run folder; give --out" in str(refused.exception)


def test_quality_is_drawn_against_the_speed_of_the_same_model(geco, birds, tiny_folder, tmp_path):
    evaluated, timed, both = (tmp_path / name for name in ("evaluated", "timed", "both"))
    geco("evaluate", "keypoints", "cub", birds, "-m", tiny_folder, "--limit", "4", "--out", evaluated)
    bench = ["bench", "--model", tiny_folder, "--batches", "1", "--sizes", "28", "--repeats", "1", "--warmup", "1"]
    geco(*bench, "--devices", "cpu", "--out", timed)
    geco("report", evaluated, timed, "--out", both)
    assert (both / "pck_against_speed.png").exists()
    values = json.loads((both / "report.json").read_text())["values"]
    name = tiny_folder.name
    pck = load_report(evaluated).measure("PCK", "geco", 0.1).value
    assert values[f"{name} on cub test: geco PCK@0.1"] == pck
    assert values[f"{name} on random images: {name}, cpu, float32, 28 px, batch 1 fps"] > 0


def test_a_model_is_timed(geco, tiny_folder, tmp_path):
    words = [
        "bench",
        "--model",
        tiny_folder,
        "--batches",
        "1,2",
        "--sizes",
        "28",
        "--repeats",
        "2",
        "--warmup",
        "1",
    ]
    result = geco(*words, "--devices", "cpu", "--threads", "1", "--json", "--out", tmp_path)
    rows = json.loads(result.stdout)["tables"][0]["rows"]
    assert [row[4] for row in rows] == [1, 2]
    assert (tmp_path / "runtime.csv").exists()


def test_an_adapter_is_timed_beside_its_backbone_and_merged(geco, tiny_folder, tmp_path):
    from geco.models.geco import Geco
    from geco.models.settings import EncoderConfig, LoraSettings

    bare = Geco.from_pretrained(tiny_folder)
    config = EncoderConfig(backbone=str(tiny_folder), size=56, lora=LoraSettings(rank=2, alpha=2.0))
    Geco(bare.backbone, config, name="adapter").save_pretrained(tmp_path / "adapter")
    words = ["bench", "--model", tmp_path / "adapter", "--batches", "1", "--sizes", "28", "--repeats", "1"]
    rows = json.loads(geco(*words, "--json").stdout)["tables"][0]["rows"]
    assert [row[0] for row in rows] == [tiny_folder.name, "adapter unmerged", "adapter merged"]
    parameters = [row[9] for row in rows]
    assert parameters[1] > parameters[0] == parameters[2]


def test_parts_of_new_images_are_labelled(geco, image_file, tiny_folder, tmp_path):
    known, new = image_file("known.png", seed=1), image_file("new.png", seed=1)
    labels = np.zeros((90, 120), np.uint8)
    labels[20:50, 20:60], labels[50:80, 60:110] = 1, 2
    Image.fromarray(labels).save(tmp_path / "labels.png")
    words = [
        "parts",
        known,
        "--labels",
        tmp_path / "labels.png",
        new,
        "--model",
        tiny_folder,
        "--size",
        "112",
    ]
    result = geco(*words, "--out", tmp_path / "out", "--names", "head,tail")
    found = np.array(Image.open(tmp_path / "out" / "new-parts.png"))
    assert found.shape == (90, 120)
    assert set(np.unique(found)) <= {0, 1, 2}
    assert (tmp_path / "out" / "new-picture.png").exists()
    assert str(tmp_path / "out" / "new-parts.png") in result.stdout.replace("\n", "")
    for words, message in (
        (
            (known, "--labels", tmp_path / "labels.png"),
            "1 label images need 1 labelled images and at least one",
        ),
        ((known, "--labels", tmp_path / "none.png", new), "no such file; expected a label image"),
        ((known, "--labels", known, new), "must have one channel of part numbers"),
        ((image_file("big.png", (99, 99)), "--labels", tmp_path / "labels.png", new), "its image"),
        ((known, "--labels", tmp_path / "labels.png", new, "--names", "head"), "--names gives 1 names"),
    ):
        error = geco("parts", *words, fails=True).exception
        assert isinstance(error, ValueError | FileNotFoundError)
        assert message in str(error)


def test_mistakes_are_explained(geco, birds, tiny_folder, tmp_path):
    for words, message in (
        (("keypoints", "cub", birds, "--protocol", "pck"), "there is no protocol 'pck'; choices: geco"),
        (("keypoints", "cub", tmp_path / "no"), "no such folder; expected the root of cub"),
        (("keypoints", "cub", birds, "--split", "train"), "is empty; see `geco data check cub"),
        (
            ("keypoints", "cub", birds, "--layers", "a", "-m", tiny_folder),
            "--layers takes whole numbers separated",
        ),
        (("parts", "cub", birds, "--unit", "voxel"), "unit must be patch or pixel, got 'voxel'"),
    ):
        error = geco("evaluate", *words, fails=True).exception
        assert isinstance(error, ValueError | FileNotFoundError), words
        assert message in str(error)
    with pytest.raises(FileNotFoundError, match=r"holds no report\.json"):
        raise geco("report", tmp_path, fails=True).exception


def test_help_shows_an_example_of_each_command(geco):
    for words in (("evaluate", "keypoints"), ("evaluate", "parts"), ("bench",), ("report",), ("parts",)):
        assert "Example" in geco(*words, "--help").stdout


def test_a_few_labelled_birds_are_evaluated_with_two_models(geco, birds, tiny_folder, tmp_path):
    out = tmp_path / "run"
    words = [
        "evaluate",
        "fewshot",
        "cub",
        birds,
        "--split",
        "test",
        "--references",
        "1,2",
        "--draws",
        1,
        "--targets",
        2,
    ]
    result = geco(*words, "-m", tiny_folder, "-m", tiny_folder, "--mirror", "--set", "n_pairs=12", "--out", out)
    assert "PCK@0.1 in %" in result.stdout
    report = load_report(out)
    assert {"pck.png", "review.png", "report.json", "comparison.csv"} <= {path.name for path in out.iterdir()}
    (first,) = (
        value for key, value in report.values.items() if key.endswith("2 references, votes wrong") and "-2" not in key
    )
    assert 0 <= first <= 1
    refused = geco(*words, "--references", "0", fails=True)
    assert "references must be 1 or more" in str(refused.exception)
