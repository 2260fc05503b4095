"""Training on coloured squares with a ViT of 24 channels: it learns, it goes on after a kill, processes agree."""

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
from training_data import config, pairs, plain_config, tiny_vit

import geco
from geco import jobs, losses, runs, steps
from geco.batches import StepKeys
from geco.config.augment import AugmentSettings
from geco.config.encoder import EncoderConfig
from geco.config.sampling import SamplingSettings
from geco.config.transport import TERMS, LossSettings
from geco.loading import collate
from geco.losses import LossValue, TransportLoss
from geco.sampling import Joint
from geco.train import fit

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logged(folder, key="loss", kind="step"):
    return [record[key] for record in runs.RunFolder(folder).records() if record["kind"] == kind]


@pytest.fixture(scope="module")
def overfitted(vit, tmp_path_factory):
    """Four pairs seen 240 times; the outcome, the model that was trained, its weights before, the settings."""
    torch.set_num_threads(1)
    settings = plain_config(vit, epochs=240, validate_every=60, save_every=100)
    model = jobs.build(settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    folder = tmp_path_factory.mktemp("runs") / "squares"
    data = {"squares": pairs(4)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "build", lambda _: model)
        return fit(settings, data, data, folder), model, before, settings


def test_the_bin_of_a_saved_model_is_calibrated_on_validation(vit, tmp_path):
    data = {"squares": pairs(4)}
    settings = plain_config(vit, epochs=3, validate_every=2, calibrate=True)
    outcome = fit(settings, data, data, tmp_path / "run")
    found = logged(outcome.folder, "bin", "validation")
    assert geco.load(outcome.folder / "last", device="cpu").config.bin == found[-1]
    assert -1 < found[-1] < 1
    assert found[-1] != settings.encoder.bin
    again = fit(replace(settings, epochs=4), data, data, tmp_path / "run")
    assert again.step == 4
    assert geco.load(again.folder / "last", device="cpu").config.bin == logged(again.folder, "bin", "validation")[-1]
    with pytest.raises(ValueError, match="calibrate finds the bin on validation pairs, there are none"):
        fit(settings, data, {}, tmp_path / "blind")
    plain = fit(replace(settings, calibrate=False), data, data, tmp_path / "plain")
    assert geco.load(plain.folder / "last", device="cpu").config.bin == settings.encoder.bin


def test_a_run_starts_where_an_adapter_ends(overfitted, vit, tmp_path):
    outcome, _, _, settings = overfitted
    again = jobs.build(replace(settings, start=str(outcome.folder / "last")))
    last = geco.load(outcome.folder / "last", device="cpu")
    batch = collate([_plain(pair) for pair in pairs(2)])
    for ours, wanted in zip(steps.encode(again, batch), steps.encode(last, batch), strict=True):
        assert_close(ours.values, wanted.values, atol=1e-5, rtol=1e-4)  # one of them is merged
    assert again.trainable() == jobs.build(settings).trainable()
    with pytest.raises(ValueError, match="is no adapter to start from"):
        jobs.build(replace(settings, start=str(vit)))
    other = replace(settings.encoder, lora=replace(settings.encoder.lora, rank=3))
    with pytest.raises(ValueError, match=r"an adapter for another encoder: lora .*rank=10.*, not .*rank=3"):
        jobs.build(replace(settings, encoder=other, start=str(outcome.folder)))


def test_the_length_of_a_run_is_fixed_if_its_learning_rate_falls(vit, tmp_path):
    data = {"squares": pairs(4)}
    settings = plain_config(vit, epochs=3, schedule="cosine", warmup=1, pairing="all")
    outcome = fit(settings, data, {}, tmp_path / "run")
    rates = logged(outcome.folder, "learning_rate")
    assert rates == pytest.approx([0.005, 0.01, 0.005])
    with pytest.raises(ValueError, match=r"another configuration \(epochs differ\)"):
        fit(replace(settings, epochs=5), data, {}, tmp_path / "run")


def test_a_run_of_an_older_version_goes_on(vit, tmp_path):
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


def test_schedule_self_pairs_and_all_pairs_survive_a_stop(vit, tmp_path):
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
        sampling=SamplingSettings(self_pairs=0.5, self_points=9),
    )
    whole = fit(settings, data, data, tmp_path / "whole")
    job = jobs.Job(settings, data, data, tmp_path / "parts")
    job.validate()
    for parts, _ in zip(job.batches(), range(3), strict=False):
        job.log(job.take(parts), seconds=1.0, waited=0.0)
    job.save()
    again = fit(settings, data, data, tmp_path / "parts")
    assert logged(again.folder) == logged(whole.folder)
    assert logged(again.folder, "learning_rate") == logged(whole.folder, "learning_rate")
    one, other = (geco.load(folder / "last", device="cpu") for folder in (again.folder, whole.folder))
    assert one.fingerprint() == other.fingerprint()


# --- it learns ----------------------------------------------------------------------------------------------


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


def test_the_run_folder_tells_everything(overfitted):
    outcome, _, _, settings = overfitted
    assert type(settings).from_json((outcome.folder / "config.json").read_text()) == settings
    assert json.loads((outcome.folder / "environment.json").read_text())["versions"]["torch"]
    for name in ("curves.png", "pictures/step-000000.png", "pictures/step-000240.png"):
        assert (outcome.folder / name).read_bytes().startswith(b"\x89PNG"), name
    record = runs.RunFolder(outcome.folder).records()[5]
    assert {f"loss {name}" for name in TERMS} <= set(record)
    assert record["entries background"] > record["entries positive"] > 0
    assert record["skipped"] == record["clamped"] == 0
    assert record["gradient"] > 0
    assert record["images_per_second"] > 1
    assert record["memory"] > 1e7
    assert 0 <= record["waiting"] <= 1


@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
def test_every_term_contributes_its_share_of_the_gradient(vit, reduction):
    model = jobs.build(plain_config(vit))
    batch = collate([_plain(pair) for pair in pairs(4)])
    everything = LossSettings(reduction=reduction)

    def gradient(settings):
        source, target = steps.encode(model, batch)
        model.zero_grad()
        TransportLoss(settings)(source, target, batch).total.backward()
        return torch.cat([value.grad.flatten() for value in jobs.trainable(model).values()])

    whole, weights = gradient(everything), everything.weights()
    alone = []
    for name in TERMS:
        only = {other: weights[other] if other == name else 0.0 for other in TERMS}
        alone.append(gradient(replace(everything, **only)))
        assert alone[-1].norm() > 1e-4 * whole.norm(), name
    assert_close(torch.stack(alone).sum(0), whole, rtol=1e-4, atol=1e-6 * float(whole.norm()))


def _plain(pair):
    from geco import augment

    return augment.plain(pair, AugmentSettings(size=98))


def test_both_images_of_all_pairs_go_through_the_encoder_once(vit, tmp_path, monkeypatch):
    seen = []
    forward = jobs.Geco.forward
    monkeypatch.setattr(jobs.Geco, "forward", lambda self, x: seen.append(len(x)) or forward(self, x))
    fit(config(vit, epochs=1), {"squares": pairs(8)}, {}, tmp_path / "run")
    assert seen == [8, 8]


def test_pairs_without_foreground_are_counted_as_skipped(vit, tmp_path):
    good, bad = pairs(2)
    bad = replace(bad, target=replace(bad.target, mask=torch.zeros_like(bad.target.mask)))
    fit(plain_config(vit, epochs=1), {"squares": [good, bad]}, {}, tmp_path / "run")
    assert logged(tmp_path / "run", "skipped") == [0.5]


@pytest.mark.parametrize("loss", ["contrastive", "soft-argmax"])
def test_other_losses_train_without_masks(vit, tmp_path, loss):
    bare = [replace(p, source=replace(p.source, mask=None), target=replace(p.target, mask=None)) for p in pairs(4)]
    fit(plain_config(vit, epochs=15, loss=loss), {"squares": bare}, {}, tmp_path / "run")
    values = logged(tmp_path / "run")
    assert values[-1] < values[0]


def test_transport_without_masks_says_how_to_get_them(vit, tmp_path):
    one = pairs(1)[0]
    with pytest.raises(ValueError, match="view 0 has no foreground mask; make masks with `geco masks squares`"):
        fit(
            config(vit),
            {"squares": [replace(one, source=replace(one.source, mask=None))]},
            {},
            tmp_path / "run",
        )


# --- it goes on ---------------------------------------------------------------------------------------------

RUN = """
import sys, time
sys.path.insert(0, {here!r})
import torch
torch.set_num_threads(1)
from training_data import config, pairs
from geco.train import fit
fit(config({vit!r}, epochs=4), {{"squares": pairs(10)}}, {{"squares": pairs(2)}}, sys.argv[1],
    watch=lambda *_: time.sleep(float(sys.argv[2])))
"""


def start(vit, folder, *, pause):
    script = RUN.format(here=str(HERE), vit=str(vit))
    return subprocess.Popen([sys.executable, "-c", script, str(folder), str(pause)], env=os.environ)


def wait_for_steps(process, folder, count):
    limit = time.time() + 90
    while len(logged(folder)) < count:
        assert process.poll() is None, "the run ended early"
        assert time.time() < limit, "the run did not start"
        time.sleep(0.05)


def test_after_kill_9_the_same_command_goes_on_with_the_same_numbers(vit, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    fit(config(vit, epochs=4), {"squares": pairs(10)}, {"squares": pairs(2)}, whole)
    process = start(vit, killed, pause=0.2)
    wait_for_steps(process, killed, 5)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    saved = runs.RunFolder(killed).read_checkpoint()
    assert saved["state"]["step"] == 3  # a checkpoint every three steps: the others are done again
    assert 5 <= len(logged(killed)) < 12
    outcome = fit(config(vit, epochs=4), {"squares": pairs(10)}, {"squares": pairs(2)}, killed)
    assert outcome.finished
    assert logged(killed, "step") == list(range(1, 13))
    assert logged(killed) == logged(whole)
    assert logged(killed, "PCK", "validation") == logged(whole, "PCK", "validation")
    first, second = (runs.RunFolder(folder).read_checkpoint() for folder in (killed, whole))
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
    assert runs.RunFolder(tmp_path / "run").read_checkpoint()["state"]["step"] == 4
    assert fit(settings, data, {}, tmp_path / "run").finished
    assert logged(tmp_path / "run") == logged(tmp_path / "whole")


def test_a_signal_during_a_validation_ends_the_run_after_it(vit, tmp_path):
    def interrupt(step, total, record):
        if step == 2 and record["kind"] == "validation":
            os.kill(os.getpid(), signal.SIGTERM)

    data = {"squares": pairs(4)}
    outcome = fit(config(vit, epochs=4), data, data, tmp_path / "run", watch=interrupt)
    assert (outcome.step, outcome.finished) == (2, False)
    assert runs.RunFolder(tmp_path / "run").read_checkpoint()["state"]["validated"] == 2


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
    monkeypatch.setitem(losses.LOSSES, "poisoned", loss)
    settings = config(vit, epochs=1, batch_size=1, loss="poisoned")
    monkeypatch.setattr(jobs, "loader", _with_masks(jobs.loader))
    with pytest.raises(steps.DivergedError) as caught:
        fit(settings, {"squares": pairs(5)}, {}, tmp_path / "run")
    done = len(logged(tmp_path / "run"))
    what = "loss is not a number for" if loss is Poisoned else "gradient is not a number in a batch of"
    assert f"step {done + 1}: the {what} dog: view 6 → view 7; " in str(caught.value)
    assert str(caught.value).endswith(f"run keeps step {done}")
    saved = runs.RunFolder(tmp_path / "run").read_checkpoint()
    assert saved["state"]["step"] == done
    assert all(value.isfinite().all() for value in saved["weights"].values())


def _with_masks(loader):
    return lambda joint, keys, settings: loader(joint, keys, replace(settings, loss="transport"))


def test_mistakes_are_said_before_the_first_step(vit, tmp_path):
    data = {"squares": pairs(4)}
    with pytest.raises(ValueError, match="there is no loss 'transprot'; choices: transport, contrastive"):
        fit(config(vit, loss="transprot"), data, {}, tmp_path / "a")
    with pytest.raises(ValueError, match="unfreeze must be at most 2, the blocks there are, got 3"):
        fit(config(vit, unfreeze=3), data, {}, tmp_path / "b")
    with pytest.raises(ValueError, match="a training set needs pairs, got none from squares"):
        fit(config(vit), {"squares": []}, {}, tmp_path / "c")
    with pytest.raises(ValueError, match="pairs of all processes, expected a multiple of 3, got 4"):
        StepKeys(Joint(data), config(vit), world=3)
    with pytest.raises(ValueError, match="5 processes need at least as many pairs, got 4"):
        StepKeys(Joint(data), config(vit, batch_size=5), world=5)


# --- the same numbers however a batch is divided --------------------------------------------------------------


def test_processes_share_each_step_and_miss_nothing(vit):
    joint = Joint({"squares": pairs(10)})
    settings = config(vit, sampling=SamplingSettings(4))
    alone = list(StepKeys(joint, settings))
    shares = [list(StepKeys(joint, settings, rank=rank, world=2)) for rank in range(2)]
    assert [len(keys) for keys in alone] == [4, 4]
    for step, keys in enumerate(alone):
        assert sorted(keys) == sorted(shares[0][step] + shares[1][step])
    later = StepKeys(joint, settings)
    later.start = 3  # the second step of the second epoch
    first = StepKeys(joint, settings)
    first.start = 2
    assert list(later) == list(first)[1:]
    assert {epoch for keys in later for epoch, _ in keys} == {1}


@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
def test_a_batch_in_parts_gives_the_same_losses_and_gradients(vit, tmp_path, reduction, monkeypatch):
    kept = record_gradients(monkeypatch)
    settings = LossSettings(reduction=reduction)
    for parts in (1, 3):
        fit(
            config(vit, epochs=1, accumulate=parts, settings=settings, learning_rate=1e-3),
            {"squares": pairs(8)},
            {},
            tmp_path / str(parts),
        )
    assert_close(logged(tmp_path / "1"), logged(tmp_path / "3"), rtol=1e-5, atol=1e-6)
    half = len(kept) // 2
    for one, other in zip(kept[:half], kept[half:], strict=True):
        assert (one - other).norm() <= 1e-5 * one.norm()


def record_gradients(monkeypatch):
    kept = []
    step = torch.optim.Adam.step

    def recording(self, *args, **options):
        kept.append(torch.cat([p.grad.flatten().clone() for p in self.param_groups[0]["params"]]))
        return step(self, *args, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", recording)
    return kept


DISTRIBUTED = """
import os, sys
sys.path.insert(0, {here!r})
import torch
torch.set_num_threads(1)
from training_data import config, pairs
from geco.train import fit
step = torch.optim.Adam.step
for parts in (1, 2):
    kept = []
    def recording(self, *args, **options):
        kept.append(torch.cat([p.grad.flatten().clone() for p in self.param_groups[0]["params"]]))
        return step(self, *args, **options)
    torch.optim.Adam.step = recording
    folder = f"{{sys.argv[1]}}/{{parts}}"
    settings = config({vit!r}, epochs=1, learning_rate=1e-3, accumulate=parts, cpu=False)
    fit(settings, {{"squares": pairs(8)}}, {{"squares": pairs(3)}}, folder)
    torch.save(kept, f"{{folder}}/gradients.{{os.environ['RANK']}}")
"""


def test_two_processes_give_the_losses_and_gradients_of_one(vit, tmp_path, monkeypatch):
    script = tmp_path / "run.py"
    script.write_text(DISTRIBUTED.format(here=str(HERE), vit=str(vit)))
    together = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [*together, str(script), str(tmp_path / "two")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = record_gradients(monkeypatch)
    one_process = config(vit, epochs=1, learning_rate=1e-3)
    fit(one_process, {"squares": pairs(8)}, {"squares": pairs(3)}, tmp_path / "one")
    for parts in ("1", "2"):
        folder = tmp_path / "two" / parts
        for key, kind in (("loss", "step"), ("gradient", "step"), ("PCK", "validation")):
            assert_close(logged(folder, key, kind), logged(tmp_path / "one", key, kind), rtol=1e-5, atol=0)
        for rank in range(2):
            for ours, theirs in zip(torch.load(folder / f"gradients.{rank}"), expected, strict=True):
                assert (ours - theirs).norm() <= 1e-5 * theirs.norm()
        assert not (folder / "validation").exists()


# --- options ------------------------------------------------------------------------------------------------


def test_recomputed_activations_change_nothing(vit, tmp_path):
    data = {"squares": pairs(4)}
    for again in (False, True):
        fit(config(vit, epochs=2, checkpointing=again), data, {}, tmp_path / str(again))
    assert_close(logged(tmp_path / "True"), logged(tmp_path / "False"))


def test_unfrozen_blocks_are_trained_and_saved(vit, tmp_path):
    settings = config(vit, epochs=2, unfreeze=1)
    fit(settings, {"squares": pairs(4)}, {}, tmp_path / "run")
    before, after = jobs.build(settings), geco.load(tmp_path / "run", device="cpu")
    first, last = jobs.transformer_blocks(before)
    new_first, new_last = jobs.transformer_blocks(after)
    assert torch.equal(first.mlp.fc1.weight, new_first.mlp.fc1.weight)
    assert not torch.equal(last.mlp.fc1.weight, new_last.mlp.fc1.weight)
    assert after.config.lora is None  # merged: the folder holds the whole encoder
    saved = runs.RunFolder(tmp_path / "run").read_checkpoint()["weights"]
    key = next(name for name in saved if name.endswith("mlp.fc1.weight"))
    assert torch.equal(saved[key], new_last.mlp.fc1.weight)


def test_blocks_can_be_trained_without_an_adapter(vit, tmp_path):
    bare = EncoderConfig(backbone=str(vit), size=98, lora=None)
    fit(config(vit, epochs=1, encoder=bare, unfreeze=2), {"squares": pairs(4)}, {}, tmp_path / "run")
    assert geco.load(tmp_path / "run", device="cpu").extract(pairs(1)[0].source.image).grid == (7, 7)


def test_half_precision_stays_close(vit, tmp_path):
    from accelerate.state import AcceleratorState

    data = {"squares": pairs(4)}
    fit(plain_config(vit, epochs=3), data, {}, tmp_path / "no")
    AcceleratorState._reset_state()
    fit(plain_config(vit, epochs=3, precision="bf16"), data, {}, tmp_path / "bf16")
    AcceleratorState._reset_state()
    full, half = logged(tmp_path / "no"), logged(tmp_path / "bf16")
    assert full != half
    assert_close(half, full, rtol=0.05, atol=0.05)


def test_the_gradient_is_clipped(vit, tmp_path, monkeypatch):
    kept = record_gradients(monkeypatch)
    fit(config(vit, epochs=1, clip=0.001), {"squares": pairs(4)}, {}, tmp_path / "run")
    assert logged(tmp_path / "run", "gradient")[0] > 0.01  # as it was
    assert_close(float(kept[0].norm()), 0.001, rtol=1e-2, atol=0)
