"""Pairs per second of a training step against the naive arrangement, and compared with its encoder alone.

    python speed/training.py                      # ViT-S, 224 and 518 px, 6 pairs
    python speed/training.py --sizes 224 --repeats 5

Ours: both images of all pairs in one forward pass, transport in batches with its own backward pass. Naive: two
forward passes per pair, then for each pair a log-domain Sinkhorn loop and the whole plan, differentiated by autograd.
Encoder: its forward and backward pass over the same 12 images, alone. They take turns in one process after a
warm-up; loading is not included. Weights are random: they do not change the time.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from _memory import peak, peak_in_subprocess
from accelerate import Accelerator
from torch import Tensor
from torch.nn import functional

from geco import batching
from geco.losses import CellSets, TransportLoss, cell_sets, visible_shares
from geco.models.settings import EncoderConfig
from geco.training import Stepper, build_model, encode, trainable
from geco.training.settings import TrainConfig
from geco.transport import marginals
from geco.types import FeatureMap, Keypoints, Pair, Skeleton, View

KEYPOINTS = 20
TWIN = tuple(i + 1 if i % 2 == 0 else i - 1 for i in range(KEYPOINTS))
SKELETON = Skeleton(tuple(map(str, range(KEYPOINTS))), TWIN, TWIN)


def model_of_size(side: int, blocks: int) -> Any:
    from transformers import Dinov2Config, Dinov2Model
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(0)
    sizes = {"hidden_size": 384, "num_attention_heads": 6, "image_size": 518, "patch_size": 14}
    config = Dinov2Config(num_hidden_layers=blocks, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        Dinov2Model(config).save_pretrained(folder)
        settings = TrainConfig(encoder=EncoderConfig(backbone=folder))
        return build_model(settings.at_size(side))


def batch_of(pairs: int, side: int) -> Pair:
    """Noise with a disc as object and four of five keypoints visible."""

    def view(name: str) -> View:
        y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        disc = (x - side / 2) ** 2 + (y - side / 2) ** 2 < side**2 / 10
        points = Keypoints(torch.rand(pairs, KEYPOINTS, 2) * side, torch.rand(pairs, KEYPOINTS) < 0.8)
        pixels = torch.randint(0, 255, (pairs, 3, side, side), dtype=torch.uint8)
        return View(pixels, (side, side), points, None, disc.expand(pairs, -1, -1), name=(name,) * pairs)

    return Pair(view("source"), view("target"), (SKELETON,) * pairs, ("noise",) * pairs)


# --- the ways -------------------------------------------------------------------------------------------------


def naive_loss(model: Any, batch: Pair, loss: TransportLoss) -> Tensor:
    """The same number as ours, pair by pair."""
    sums, counts = [], []
    for i in range(len(batch.category)):
        pair = batching.pick(batch, torch.tensor([i]))
        maps = []
        for view in (pair.source, pair.target):
            maps.append(FeatureMap(model(**model.prepare(view.image, view.size)), view.size).unit())
        sets = cell_sets(pair, (maps[0].grid, maps[1].grid))
        P = log_domain_plan(maps, pair, sets, loss)
        sums.append(set_sums(P, sets))
        counts.append(sets.counts())
    divisors = torch.stack(counts).sum(0).clamp(min=1) * torch.tensor([len(P), len(P), 1, 1])
    weights = torch.tensor(list(loss.settings.weights().values()))
    return (weights * torch.stack(sums).sum(0) / divisors).sum()


def log_domain_plan(maps: list[FeatureMap], pair: Pair, sets: CellSets, loss: TransportLoss) -> Tensor:
    settings = loss.settings.transport
    cosines = maps[0].values[0].flatten(1).mT @ maps[1].values[0].flatten(1)
    Z = functional.pad(cosines, (0, 1, 0, 1), value=settings.z) / settings.lam
    shares = visible_shares(pair, settings)
    a, b = (marginals(mask, share, s=settings.s)[0].log() for mask, share in zip(sets.foregrounds, shares, strict=True))
    phi, psi = 1 / (1 + settings.lam / settings.alpha), 1 / (1 + settings.lam / settings.beta)
    g = torch.zeros_like(b)
    for _ in range(settings.iterations):
        f = phi * (a - torch.logsumexp(Z + g, dim=1))
        g = psi * (b - torch.logsumexp(Z + f[:, None], dim=0))
    return torch.exp(Z + f[:, None] + g)


def set_sums(P: Tensor, sets: CellSets) -> Tensor:
    entries = [P[cells.i[0], cells.j[0]][cells.valid[0]] for cells in (sets.positive, sets.bin, sets.negative)]
    block = [
        P[rows[0]][:, columns[0]] for rows, columns in zip(sets.background_rows, sets.background_columns, strict=True)
    ]
    background = sum(torch.log1p(-part).sum() for part in block)
    return torch.stack([-entries[0].log().sum(), -entries[1].log().sum(), -torch.log1p(-entries[2]).sum(), -background])


def ways(model: Any, batch: Pair) -> dict[str, Callable[[], None]]:
    loss = TransportLoss()
    parameters = list(trainable(model).values())
    accelerator = Accelerator(cpu=True)
    wrapped, optimizer = accelerator.prepare(model, torch.optim.Adam(parameters, lr=0.0))
    stepper = Stepper(wrapped, optimizer, loss, accelerator)
    with torch.no_grad():
        source, target = encode(model, batch)
    gradient = torch.randn_like(torch.cat([source.values, target.values]))
    sets = cell_sets(batch, (source.grid, target.grid))

    def encoder() -> None:
        pixels = torch.cat([batch.source.image, batch.target.image])
        model(**model.prepare(pixels, batch.source.size)).backward(gradient)
        optimizer.zero_grad()

    def naive() -> None:
        naive_loss(model, batch, loss).backward()
        optimizer.step()
        optimizer.zero_grad()

    def features() -> list[FeatureMap]:
        return [FeatureMap(each.values.detach().requires_grad_(), each.size) for each in (source, target)]

    def plan() -> None:
        made = loss.plan(*features(), batch, sets)
        (made.f[made.f.isfinite()].sum() + made.g[made.g.isfinite()].sum()).backward()

    def whole_loss() -> None:
        loss(*features(), batch).total.backward()

    return {
        "ours": lambda: stepper([batch]) and None,
        "naive": naive,
        "encoder": encoder,
        "transport": plan,
        "transport and loss": whole_loss,
    }


# --- measuring --------------------------------------------------------------------------------------------------


def measure(side: int, pairs: int, repeats: int, blocks: int) -> dict[str, list[float]]:
    """Seconds of each way, taken in turns."""
    torch.manual_seed(1)
    model, batch = model_of_size(side, blocks), batch_of(pairs, side)
    todo = ways(model, batch)
    with torch.no_grad():
        ours = float(TransportLoss()(*encode(model, batch), batch).total)
        theirs = float(naive_loss(model, batch, TransportLoss()))
    assert abs(ours - theirs) < 1e-3 * abs(theirs), f"the ways disagree: {ours} and {theirs}"
    seconds: dict[str, list[float]] = {name: [] for name in todo}
    for turn in range(repeats + 1):
        for name, work in todo.items():
            start = time.perf_counter()
            work()
            if turn:  # the first is the warm-up
                seconds[name].append(time.perf_counter() - start)
    return seconds


def peak_megabytes(name: str, side: int, pairs: int, blocks: int) -> float:
    """Peak above model and batch, in this process."""
    todo = ways(model_of_size(side, blocks), batch_of(pairs, side))
    return peak(todo[name])


def report(side: int, pairs: int, blocks: int, seconds: dict[str, list[float]]) -> dict[str, float]:
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"{blocks} blocks of a ViT-S, {side} px, {pairs} pairs, {torch.get_num_threads()} threads,")
    print("median (fastest – slowest)")
    for name, values in seconds.items():
        spread = f"{middle[name]:7.2f} s ({min(values):.2f} – {max(values):.2f})"
        print(f"  {name:20s}{spread}{pairs / middle[name]:8.2f} pairs/s")
    loss = middle["transport and loss"] - middle["transport"]
    for name, part in (("encoder", middle["encoder"]), ("transport", middle["transport"]), ("loss", loss)):
        print(f"  share of {name:11s}{part / middle['ours']:7.1%} of our step")
    peaks = {
        name: peak_in_subprocess(__file__, "--peak", name, "--sizes", side, "--pairs", pairs, "--blocks", blocks)
        for name in ("ours", "naive")
    }
    print(f"  peak memory{peaks['ours']:9.0f} MB, naive {peaks['naive']:.0f} MB")
    return {
        "speedup": round(middle["naive"] / middle["ours"], 2),
        "memory_ratio": round(peaks["ours"] / max(peaks["naive"], 1e-9), 3),
        "step_over_encoder": round(middle["ours"] / middle["encoder"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="224,518")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=12, help="of the encoder; a ViT-S has 12")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(peak_megabytes(given.peak, int(given.sizes), given.pairs, given.blocks))
        return
    reports = {}
    for side in map(int, given.sizes.split(",")):
        seconds = measure(side, given.pairs, given.repeats, given.blocks)
        reports[side] = report(side, given.pairs, given.blocks, seconds)
    print("speedup: naive seconds over ours; memory_ratio: our peak over the naive one; step_over_encoder: our whole")
    print("step over the encoder's own passes; first for the worst size, then for each size")
    result: dict[str, float] = {
        "speedup": min(one["speedup"] for one in reports.values()),
        "memory_ratio": max(one["memory_ratio"] for one in reports.values()),
        "step_over_encoder": max(one["step_over_encoder"] for one in reports.values()),
    }
    result |= {f"{name}_{side}": value for side, one in reports.items() for name, value in one.items()}
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
