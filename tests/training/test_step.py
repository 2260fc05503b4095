"""A training step: every term has its gradient, and the numbers are the same however a batch is divided."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from training_data import batch, config, logged, pairs, plain_config, record_gradients

from geco.losses import TransportLoss
from geco.losses.settings import TERMS, LossSettings
from geco.models import Geco
from geco.training import encode, fit, trainable
from geco.training.build import build

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
def test_every_term_contributes_its_share_of_the_gradient(vit, reduction):
    model = build(plain_config(vit))
    squares = batch(pairs(4))
    everything = LossSettings(reduction=reduction)

    def gradient(settings):
        source, target = encode(model, squares)
        model.zero_grad()
        TransportLoss(settings)(source, target, squares).total.backward()
        return torch.cat([value.grad.flatten() for value in trainable(model).values()])

    whole, weights = gradient(everything), everything.weights()
    alone = []
    for name in TERMS:
        only = {f"weight_{other}": weights[other] if other == name else 0.0 for other in TERMS}
        alone.append(gradient(replace(everything, **only)))
        assert alone[-1].norm() > 1e-4 * whole.norm(), name
    assert_close(torch.stack(alone).sum(0), whole, rtol=1e-4, atol=1e-6 * float(whole.norm()))


def test_both_images_of_all_pairs_go_through_the_encoder_once(vit, tmp_path, monkeypatch):
    seen = []
    forward = Geco.forward

    def counting(self, **inputs):
        seen.extend(len(tensor) for tensor in inputs.values())
        return forward(self, **inputs)

    monkeypatch.setattr(Geco, "forward", counting)
    fit(config(vit, epochs=1), {"squares": pairs(8)}, {}, tmp_path / "run")
    assert seen == [8, 8]


def test_the_gradient_is_clipped(vit, tmp_path, monkeypatch):
    gradients = record_gradients(monkeypatch)
    fit(config(vit, epochs=1, clip=0.001), {"squares": pairs(4)}, {}, tmp_path / "run")
    assert logged(tmp_path / "run", "gradient")[0] > 0.01  # as it was
    assert_close(float(gradients[0].norm()), 0.001, rtol=1e-2, atol=0)


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


def test_recomputed_activations_change_nothing(vit, tmp_path):
    data = {"squares": pairs(4)}
    for again in (False, True):
        fit(config(vit, epochs=2, checkpointing=again), data, {}, tmp_path / str(again))
    assert_close(logged(tmp_path / "True"), logged(tmp_path / "False"))


# --- the same numbers however a batch is divided --------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["reference", "sum", "conditional"])
def test_a_batch_in_parts_gives_the_same_losses_and_gradients(vit, tmp_path, reduction, monkeypatch):
    gradients = record_gradients(monkeypatch)
    settings = LossSettings(reduction=reduction)
    for parts in (1, 3):
        fit(
            config(vit, epochs=1, accumulate=parts, loss=settings, learning_rate=1e-3),
            {"squares": pairs(8)},
            {},
            tmp_path / str(parts),
        )
    assert_close(logged(tmp_path / "1"), logged(tmp_path / "3"), rtol=1e-5, atol=1e-6)
    half = len(gradients) // 2
    for whole, divided in zip(gradients[:half], gradients[half:], strict=True):
        assert (whole - divided).norm() <= 1e-5 * whole.norm()


DISTRIBUTED = """
import os, sys
sys.path.insert(0, {here!r})
import torch
torch.set_num_threads(1)
from training_data import config, pairs
from geco.training import fit
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
    script.write_text(DISTRIBUTED.format(here=str(TESTS), vit=str(vit)))
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


def test_set_sizes_of_a_step_in_parts_cost_no_transport(vit, tmp_path, monkeypatch):
    """The sizes of the sets come from the annotation: each part is encoded and transported once."""
    solved = []
    plan = TransportLoss.plan
    monkeypatch.setattr(TransportLoss, "plan", lambda self, *inputs: solved.append(1) or plan(self, *inputs))
    fit(config(vit, epochs=1, accumulate=2), {"squares": pairs(8)}, {}, tmp_path / "run")
    assert len(solved) == 4  # two steps of two parts
