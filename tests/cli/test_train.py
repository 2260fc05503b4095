"""`geco train`, end to end: coloured squares in SPair's layout and a ViT of 24 channels."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from training_data import tiny_vit, write_spair
from typer.testing import CliRunner

import geco as package
from geco.cli import build
from geco.cli._recipe import configured
from geco.training import Source, estimate, load_validation
from geco.training import build as training_build
from geco.training.folder import RunFolder
from geco.training.presets import preset


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    return write_spair(tmp_path_factory.mktemp("spair"))


@pytest.fixture
def words(vit, squares):
    small = ["--model", vit, "--size", 98, "--batch-size", 3, "--workers", 0, "--set", "cpu=true"]
    return ["train", "--data", f"spair={squares}", *small]


@pytest.fixture
def geco(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(*arguments):
        return CliRunner().invoke(build(), [str(word) for word in arguments])

    yield run
    torch.set_num_threads(threads)


def test_a_run_is_trained_validated_and_loads(geco, words, tmp_path):
    out = tmp_path / "run"
    result = geco(*words, "--epochs", 2, "--out", out, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    outcome = json.loads(result.stdout)
    assert (outcome["step"], outcome["total"], outcome["folder"]) == (4, 4, str(out))
    assert {"best", "last", "config.json", "log.jsonl", "curves.png"} <= {path.name for path in out.iterdir()}
    assert package.load(out, device="cpu").input_size == 98
    again = geco(*words, "--epochs", 2, "--out", out)
    assert again.exit_code == 0
    assert "best: mean PCK@0.1" in again.output
    assert [record["step"] for record in RunFolder(out).records() if record["kind"] == "step"] == [1, 2, 3, 4]


def test_a_dataset_can_be_validated_on_without_being_trained_on(geco, words, squares, tmp_path):
    assert len(load_validation([Source("spair", squares)])["spair"]) == 2
    twice = geco(*words, "--valid", f"spair={squares}", "--dry-run")
    assert "--valid names spair, which --data names too; its split val is validated on anyway" in str(twice.exception)
    absent = geco(*words, "--valid", f"pfpascal={tmp_path}", "--dry-run")
    assert absent.exit_code == 1
    assert str(tmp_path) in str(absent.exception)


def test_the_plan_is_shown_and_nothing_is_written(geco, words, tmp_path, vit):
    result = geco(*words, "--dry-run", "--out", tmp_path / "run")
    assert result.exit_code == 0, (result.output, result.exception)
    text = " ".join(result.stdout.split())
    assert re.search(r"spair/cat │ 6 │ 6", text)
    assert "steps: 16 (2 an epoch) of 3 pairs, transport loss" in text
    assert "validation pairs: spair 2" in text
    assert "1,920 of " in text  # 24 channels · rank 10 · 2 matrices · 2 projections · 2 blocks
    assert re.search(r"memory: about 0\.\d\d GB a process", text)
    assert not (tmp_path / "run").exists()
    as_json = json.loads(geco(*words, "--dry-run", "--json").stdout)
    assert as_json["pairs"] == {"spair/cat": [6, 6]}
    assert as_json["trainable"] == 1920
    assert as_json["config"]["encoder"]["backbone"] == str(vit)


def test_stored_activations_are_counted_not_guessed(vit):
    config = configured("paper", {}, model=str(vit), size=98)
    model = training_build.build(config)
    stored = estimate.activations(model, 98)
    tokens, dim = 7 * 7 + 1, 24
    assert stored > 2 * 10 * tokens * dim * 4  # two blocks, each with at least ten maps of all tokens
    again = training_build.build(configured("paper", {"checkpointing": "true"}, model=str(vit), size=98))
    assert estimate.activations(again, 98) < stored / 3
    four, two = (estimate.step_memory(model, images=images) for images in (4, 2))
    assert four - two == 2 * stored + 5 * 50 * 50 * 4
    more = estimate.step_memory(model, images=4, all_pairs=True) - four
    assert more == (6 - 2) * 5 * 50 * 50 * 4  # every two of four images instead of two pairs


def test_a_model_may_be_an_adapter_to_go_on_from(vit, tmp_path):
    assert configured("animals-cpu", {}, model="focus-small").encoder == preset("animals-cpu").encoder
    other = configured("animals-cpu", {}, model=str(vit)).encoder
    assert other.options == {}, "how another backbone is read is no rule for this one"
    first = configured("paper", {}, model=str(vit), size=98, settings=["encoder.lora.rank=4"])
    assert (first.start, first.encoder.backbone) == (None, str(vit.resolve()))
    training_build.build(first).save_pretrained(tmp_path / "adapter")
    then = configured("paper", {}, model=str(tmp_path / "adapter"), size=112)
    assert then.start == str(tmp_path / "adapter")
    assert then.encoder.backbone == str(vit.resolve())
    assert then.encoder.lora.rank == 4
    assert then.encoder.size == then.augment.size == 112
    assert training_build.build(then).trainable() == training_build.build(first).trainable()


def test_overfitting_takes_the_first_pairs_unaltered(geco, words, tmp_path):
    result = geco(*words, "--overfit", 1, "--steps", 30, "--learning-rate", 0.01, "--out", tmp_path / "run")
    assert result.exit_code == 0, (result.output, result.exception)
    records = RunFolder(tmp_path / "run").records()
    losses = [record["loss"] for record in records if record["kind"] == "step"]
    assert len(losses) == 30
    assert losses[-1] < losses[0]
    assert [record["step"] for record in records if record["kind"] == "validation"] == [0, 6, 12, 18, 24, 30]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["batch_size"], config["augment"]["plain"]) == (1, ["spair"])


def test_an_ablation_writes_one_table(geco, words, tmp_path):
    names = ["full", "no-kl", "contrastive"]
    result = geco(*words, "--steps", 1, "--ablation", ",".join(names), "--out", tmp_path / "runs")
    assert result.exit_code == 0, (result.output, result.exception)
    rows = (tmp_path / "runs" / "ablation.csv").read_text().splitlines()
    assert rows[0].startswith("run,mean,spair,step,last loss")
    assert [row.split(",")[0] for row in rows[1:4]] == names
    for name in names:
        assert (tmp_path / "runs" / name / "checkpoint.pt").is_file()
    saved = json.loads((tmp_path / "runs" / "no-kl" / "config.json").read_text())
    assert saved["loss"]["transport"]["alpha"] == "inf"
    assert "Validation PCK@0.1" in result.stdout


def test_options_change_the_preset():
    config = configured("animals-cpu", {"epochs": 3, "seed": None}, size=112, settings=["loss.reduction=sum"])
    expected = preset("animals-cpu")
    assert (config.epochs, config.seed, config.loss.reduction) == (3, expected.seed, "sum")
    assert config.encoder.size == config.augment.size == 112
    assert config.encoder.backbone == expected.encoder.backbone == "focus-small"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--data", "spair"], "--data takes name=ROOT, like spair=data/SPair-71k, got 'spair'"),
        (["--data", "spiar=x"], "datasets has no 'spiar'; did you mean 'spair'?"),
        (["--data", "cub=nowhere"], "nowhere: no such folder; expected the root of cub"),
        (["--data", "pfwillow=."], "pfwillow has no training split, only test"),
        (["--set", "epochs"], "--set takes key=value, like loss.reduction=conditional, got 'epochs'"),
        (["--set", "epoch=3"], "the configuration has unknown keys epoch; known: "),
        (["--preset", "papr"], "there is no preset 'papr'; did you mean 'paper'?"),
        (["--loader", "crop=square"], "--loader takes dataset.key=value, like animalpose.crop=square"),
        (["--loader", "cub.n_pairs=3"], "--loader names cub, but --data only spair"),
        (["--loader", "spair.size=3"], "spair takes key=value with a key of layout, masks"),
        (["--ablation", "full,nokl"], "there is no ablation 'nokl'; did you mean 'no-kl'?"),
        (["--loss", "l2"], "expected one of transport, contrastive, soft-argmax, distill, got 'l2'"),
    ],
)
def test_mistakes_are_one_line(geco, words, tmp_path, extra, message):
    result = geco(*words, "--out", tmp_path / "run", *extra)
    assert isinstance(result.exception, ValueError | FileNotFoundError)
    assert message in str(result.exception)


def test_ctrl_c_saves_and_the_same_command_resumes(words, geco, tmp_path):
    out = tmp_path / "run"
    arguments = [str(word) for word in (*words, "--epochs", 200, "--out", out)]
    code = "import torch; torch.set_num_threads(1); from geco.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    limit = time.time() + 90
    while len(RunFolder(out).records()) < 4:
        assert process.poll() is None, process.stderr.read()
        assert time.time() < limit
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    done = RunFolder(out).read_checkpoint()["state"]["step"]
    assert f"step {done} of 400 saved in {out}; the same command resumes it" in errors
    assert "Traceback" not in errors
    result = geco(*words, "--epochs", 200, "--steps", done + 1, "--out", out)
    assert result.exit_code == 0, (result.output, result.exception)
    assert RunFolder(out).records()[-1]["step"] == done + 1


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--size", 100], "image sides must be multiples of 14 for this backbone, got 100; use 98 or 112"),
        (["--masks", "nowhere"], "nowhere: no such folder; make the masks with `geco masks`"),
        (["--loader", "spair.masks=false"], "have no foreground mask"),
        (["--ablation", "full,nokl"], "there is no ablation 'nokl'; did you mean 'no-kl'?"),
        (["--loss", "l2"], "expected one of transport, contrastive, soft-argmax, distill, got 'l2'"),
        (["--set", "loss.transport.alpha=-1"], "alpha"),
        (["--set", "unfreeze=3"], "unfreeze must be at most 2"),
    ],
)
def test_the_plan_refuses_what_the_run_would(geco, words, tmp_path, extra, message):
    refusals = []
    for more in ([], ["--dry-run"]):
        result = geco(*words, "--out", tmp_path / "run", *extra, *more)
        assert isinstance(result.exception, ValueError | FileNotFoundError), (extra, more)
        refusals.append(str(result.exception))
    assert refusals[0] == refusals[1]
    assert message in refusals[0]
    assert not (tmp_path / "run").exists()


def test_a_calibrated_threshold_needs_validation_pairs(geco, vit, tmp_path):
    root = write_spair(tmp_path / "spair", val=0)
    small = ["--model", vit, "--size", 98, "--set", "cpu=true", "--set", "calibrate=true"]
    for more in ([], ["--dry-run"]):
        result = geco("train", "--data", f"spair={root}", *small, "--out", tmp_path / "run", *more)
        assert "calibrate finds the threshold on validation pairs, and there are none" in str(result.exception)
    assert not (tmp_path / "run").exists()
