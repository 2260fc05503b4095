"""Training on coloured squares with a ViT of 24 channels: it learns, it resumes after a kill, it notices."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from training_data import batch, config, logged, pairs, plain_config, without_masks

import geco
from geco.losses import LossValue, TransportLoss, named
from geco.losses.settings import TERMS, LossSettings
from geco.training import RunFolder, encode, fit, setup
from geco.training.build import build
from geco.training.job import Job
from geco.training.settings import SamplingSettings
from geco.training.step import DivergedError

TESTS = Path(__file__).parents[1]


def test_the_threshold_of_a_saved_model_is_calibrated_on_validation(vit, tmp_path):
    data = {"squares": pairs(4)}
    settings = plain_config(vit, epochs=3, validate_every=2, calibrate=True)
    outcome = fit(settings, data, data, tmp_path / "run")
    calibrated = logged(outcome.folder, "bin", "validation")[-1]
    assert geco.load(outcome.folder / "last", device="cpu").threshold == calibrated
    assert -1 < calibrated < 1
    assert calibrated != settings.encoder.threshold
    again = fit(replace(settings, epochs=4), data, data, tmp_path / "run")
    assert again.step == 4
    assert geco.load(again.folder / "last", device="cpu").threshold == logged(again.folder, "bin", "validation")[-1]
    with pytest.raises(ValueError, match="calibrate finds the threshold on validation pairs, and there are none"):
        fit(settings, data, {}, tmp_path / "blind")
    plain = fit(replace(settings, calibrate=False), data, data, tmp_path / "plain")
    assert geco.load(plain.folder / "last", device="cpu").threshold == settings.encoder.threshold


def test_the_length_of_a_run_is_fixed_if_its_learning_rate_falls(vit, tmp_path):
    data = {"squares": pairs(4)}
    settings = plain_config(vit, epochs=3, schedule="cosine", warmup=1, pairing="all")
    outcome = fit(settings, data, {}, tmp_path / "run")
    rates = logged(outcome.folder, "learning_rate")
    assert rates == pytest.approx([0.005, 0.01, 0.005])
    with pytest.raises(ValueError, match=r"another configuration \(epochs differ\)"):
        fit(replace(settings, epochs=5), data, {}, tmp_path / "run")


def test_a_run_of_an_older_version_is_resumed(vit, tmp_path):
    data = {"squares": pairs(4)}
    settings = plain_config(vit, epochs=1)
    fit(settings, data, {}, tmp_path / "run")
    written = json.loads((tmp_path / "run" / "config.json").read_text())
    for key in ("pairing", "schedule", "warmup", "calibrate", "start"):
        del written[key]
    (tmp_path / "run" / "config.json").write_text(json.dumps(written))
    assert fit(replace(settings, epochs=2), data, {}, tmp_path / "run").step == 2
    (tmp_path / "run" / "config.json").write_text(json.dumps({**written, "wheels": 4}))
    with pytest.raises(ValueError, match=r"another configuration \(.*wheels"):
        fit(replace(settings, epochs=3), data, {}, tmp_path / "run")


# --- it learns ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overfitted(vit, tmp_path_factory):
    """Four pairs seen 240 times; the outcome, the model that was trained, its weights before, the settings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    settings = plain_config(vit, epochs=240, validate_every=60, save_every=100)
    model = build(settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    data = {"squares": pairs(4)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "build", lambda _: model)
        outcome = fit(settings, data, data, tmp_path_factory.mktemp("runs") / "squares")
    torch.set_num_threads(threads)
    return outcome, model, before, settings


def test_loss_falls_and_pck_rises_from_chance_to_above_90(overfitted):
    outcome, _, _, _ = overfitted
    loss, pck = logged(outcome.folder), logged(outcome.folder, "PCK", "validation")
    assert len(loss) == 240
    assert sum(loss[-10:]) < 0.5 * sum(loss[:10])
    assert logged(outcome.folder, "step", "validation") == [0, 60, 120, 180, 240]
    assert pck[0] < 25  # a guess among the five squares hits one time in five
    assert max(pck) == outcome.best > 90
    assert outcome.finished


def test_frozen_weights_stay_bit_equal_and_the_adapter_moves(overfitted):
    _, model, before, _ = overfitted
    after = model.state_dict()
    adapter = [name for name in before if "lora_" in name]
    assert len(adapter) == 2 * 2 * 2  # two matrices, two projections, two blocks
    for name, value in before.items():
        assert torch.equal(after[name], value) is (name not in adapter), name


def test_a_run_folder_loads_as_its_best_model(overfitted):
    outcome, _, _, settings = overfitted
    model = geco.load(outcome.folder, device="cpu")
    best = geco.load(outcome.folder / "best", device="cpu")
    assert model.fingerprint() == best.fingerprint()
    assert model.input_size == settings.encoder.size
    card = (outcome.folder / "best" / "README.md").read_text()
    assert "| squares/cat | 2 |" in card
    assert f"Best at step {outcome.best_step}, validation PCK@0.1 in %: PCK {outcome.best:.1f}" in card


def test_a_run_starts_where_an_adapter_ends(overfitted, vit, tmp_path):
    outcome, _, _, settings = overfitted
    again = build(replace(settings, start=str(outcome.folder / "last")))
    last = geco.load(outcome.folder / "last", device="cpu")
    squares = batch(pairs(2))
    for ours, wanted in zip(encode(again, squares), encode(last, squares), strict=True):
        assert_close(ours.values, wanted.values, atol=1e-5, rtol=1e-4)  # one of them is merged
    assert again.trainable() == build(settings).trainable()
    with pytest.raises(ValueError, match="is no adapter to start from"):
        build(replace(settings, start=str(vit)))
    other = replace(settings.encoder, lora=replace(settings.encoder.lora, rank=3))
    with pytest.raises(ValueError, match=r"an adapter for another encoder: lora .*rank=10.*, not .*rank=3"):
        build(replace(settings, encoder=other, start=str(outcome.folder)))


def test_the_run_folder_tells_everything(overfitted):
    outcome, _, _, settings = overfitted
    assert type(settings).from_json((outcome.folder / "config.json").read_text()) == settings
    assert json.loads((outcome.folder / "environment.json").read_text())["versions"]["torch"]
    for name in ("curves.png", "pictures/step-000000.png", "pictures/step-000240.png"):
        assert (outcome.folder / name).read_bytes().startswith(b"\x89PNG"), name
    record = RunFolder(outcome.folder).records()[5]
    assert {f"loss {name}" for name in TERMS} <= set(record)
    assert record["entries background"] > record["entries positive"] > 0
    assert record["skipped"] == record["clamped"] == 0
    assert record["gradient"] > 0
    assert record["images_per_second"] > 1
    assert record["memory"] > 1e7
    assert 0 <= record["waiting"] <= 1


def test_pairs_without_foreground_are_counted_as_skipped(vit, tmp_path):
    good, bad = pairs(2)
    bad = replace(bad, target=replace(bad.target, mask=torch.zeros_like(bad.target.mask)))
    fit(plain_config(vit, epochs=1), {"squares": [good, bad]}, {}, tmp_path / "run")
    assert logged(tmp_path / "run", "skipped") == [0.5]


@pytest.mark.parametrize("loss", ["contrastive", "soft-argmax"])
def test_other_losses_train_without_masks(vit, tmp_path, loss):
    bare = [without_masks(pair) for pair in pairs(4)]
    fit(plain_config(vit, epochs=15, loss=LossSettings(name=loss)), {"squares": bare}, {}, tmp_path / "run")
    values = logged(tmp_path / "run")
    assert values[-1] < values[0]


# --- it resumes ---------------------------------------------------------------------------------------------

RUN = """
import sys, time
sys.path.insert(0, {here!r})
import torch
torch.set_num_threads(1)
from training_data import config, pairs
from geco.training import fit
fit(config({vit!r}, epochs=4), {{"squares": pairs(10)}}, {{"squares": pairs(2)}}, sys.argv[1],
    watch=lambda *_: time.sleep(float(sys.argv[2])))
"""


def start(vit, folder, *, pause):
    script = RUN.format(here=str(TESTS), vit=str(vit))
    return subprocess.Popen([sys.executable, "-c", script, str(folder), str(pause)], env=os.environ)


def wait_for_steps(process, folder, count):
    limit = time.time() + 90
    while len(logged(folder)) < count:
        assert process.poll() is None, "the run ended early"
        assert time.time() < limit, "the run did not start"
        time.sleep(0.05)


def test_after_kill_9_the_same_command_resumes_with_the_same_numbers(vit, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    fit(config(vit, epochs=4), {"squares": pairs(10)}, {"squares": pairs(2)}, whole)
    process = start(vit, killed, pause=0.2)
    wait_for_steps(process, killed, 5)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    saved = RunFolder(killed).read_checkpoint()
    assert saved["state"]["step"] == 3  # a checkpoint every three steps: the others are done again
    assert 5 <= len(logged(killed)) < 12
    outcome = fit(config(vit, epochs=4), {"squares": pairs(10)}, {"squares": pairs(2)}, killed)
    assert outcome.finished
    assert logged(killed, "step") == list(range(1, 13))
    assert logged(killed) == logged(whole)
    assert logged(killed, "PCK", "validation") == logged(whole, "PCK", "validation")
    first, second = (RunFolder(folder).read_checkpoint() for folder in (killed, whole))
    for name, value in first["weights"].items():
        assert torch.equal(value, second["weights"][name])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_step_and_ends_the_run(vit, tmp_path, number):
    settings, data = config(vit, epochs=2), {"squares": pairs(10)}
    fit(settings, data, {}, tmp_path / "whole")

    def interrupt(step, total, record):
        if step == 4:
            os.kill(os.getpid(), number)

    outcome = fit(settings, data, {}, tmp_path / "run", watch=interrupt)
    assert (outcome.step, outcome.total, outcome.finished) == (4, 6, False)
    assert RunFolder(tmp_path / "run").read_checkpoint()["state"]["step"] == 4
    assert fit(settings, data, {}, tmp_path / "run").finished
    assert logged(tmp_path / "run") == logged(tmp_path / "whole")


def test_a_signal_during_a_validation_ends_the_run_after_it(vit, tmp_path):
    def interrupt(step, total, record):
        if step == 2 and record["kind"] == "validation":
            os.kill(os.getpid(), signal.SIGTERM)

    data = {"squares": pairs(4)}
    outcome = fit(config(vit, epochs=4), data, data, tmp_path / "run", watch=interrupt)
    assert (outcome.step, outcome.finished) == (2, False)
    assert RunFolder(tmp_path / "run").read_checkpoint()["state"]["validated"] == 2


def test_more_epochs_may_be_asked_for_later_and_nothing_else(vit, tmp_path):
    data = {"squares": pairs(4)}
    fit(config(vit, epochs=3), data, {}, tmp_path / "whole")
    fit(config(vit, epochs=1), data, {}, tmp_path / "run")
    fit(config(vit, epochs=3, save_every=1), data, {}, tmp_path / "run")
    assert logged(tmp_path / "run") == logged(tmp_path / "whole")
    with pytest.raises(ValueError, match=r"holds a run with another configuration \(learning_rate, seed differ\)"):
        fit(config(vit, epochs=3, learning_rate=0.1, seed=1), data, {}, tmp_path / "run")
    with pytest.raises(ValueError, match=r"another training pairs \(squares/dog differ\)"):
        fit(config(vit, epochs=3), {"squares": pairs(3)}, {}, tmp_path / "run")


def test_schedule_average_self_pairs_and_all_pairs_survive_a_stop(vit, tmp_path):
    data = {"squares": pairs(4)}
    settings = config(
        vit,
        epochs=6,
        pairing="all",
        schedule="cosine",
        warmup=2,
        calibrate=True,
        validate_every=4,
        save_every=1,
        unfreeze=2,
        layer_decay=0.7,
        average=0.6,
        sampling=SamplingSettings(self_pairs=0.5, self_points=9, in_a_row=2),
    )
    whole = fit(settings, data, data, tmp_path / "whole")
    stopped = Job(settings, data, data, tmp_path / "parts")
    stopped.validate()
    for parts, _ in zip(stopped.batches(), range(3), strict=False):
        stopped.log(stopped.take(parts), seconds=1.0, waited=0.0)
    stopped.save()
    again = fit(settings, data, data, tmp_path / "parts")
    assert logged(again.folder) == logged(whole.folder)
    assert logged(again.folder, "learning_rate") == logged(whole.folder, "learning_rate")
    resumed, uninterrupted = (geco.load(folder / "last", device="cpu") for folder in (again.folder, whole.folder))
    assert resumed.fingerprint() == uninterrupted.fingerprint()


def test_a_loading_process_changes_nothing(vit, tmp_path):
    data = {"squares": pairs(6)}
    for workers in (0, 1):
        fit(config(vit, epochs=2, workers=workers), data, {}, tmp_path / str(workers))
    assert logged(tmp_path / "0") == logged(tmp_path / "1")


# --- it notices ---------------------------------------------------------------------------------------------


class Poisoned(TransportLoss):
    """Not a number, or with a gradient that is none, as soon as one view is in the batch."""

    spoil = staticmethod(lambda total: total * float("nan"))

    def __call__(self, source, target, pairs, **options):
        value = super().__call__(source, target, pairs, **options)
        bad = "view 6" in pairs.source.name
        return LossValue(self.spoil(value.total), value.terms, value.counts) if bad else value


class BadGradient(Poisoned):
    spoil = staticmethod(lambda total: total + (total - total).sqrt())


@pytest.mark.parametrize("loss", [Poisoned, BadGradient])
def test_what_is_not_a_number_stops_the_run_names_the_pair_and_keeps_the_weights(vit, tmp_path, monkeypatch, loss):
    monkeypatch.setitem(named.LOSSES, "transport", loss)
    settings = config(vit, epochs=1, batch_size=1)
    with pytest.raises(DivergedError) as caught:
        fit(settings, {"squares": pairs(5)}, {}, tmp_path / "run")
    done = len(logged(tmp_path / "run"))
    what = "loss is not a number for" if loss is Poisoned else "gradient is not a number in a batch of"
    assert f"step {done + 1}: the {what} dog: view 6 → view 7; " in str(caught.value)
    assert str(caught.value).endswith(f"run keeps step {done}")
    saved = RunFolder(tmp_path / "run").read_checkpoint()
    assert saved["state"]["step"] == done
    assert all(value.isfinite().all() for value in saved["weights"].values())
