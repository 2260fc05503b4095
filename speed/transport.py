"""Time and memory of the transport layer against two common implementations.

    python speed/transport.py                # the table: seconds (median, fastest, slowest) and peak memory
    python speed/transport.py --profile      # which operations take our time
    python speed/transport.py --grid 16      # smaller images

All three go from given scores to the gradient of the scores, through a loss that reads 100 entries of each plan and
the whole foreground × background block. They run in turns in one process after a warm-up; the peak of each is that of
a process of its own, above its inputs.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from _memory import peak, peak_in_subprocess
from torch import Tensor

from geco.transport import marginals, scores, sinkhorn
from geco.transport.settings import TransportSettings
from geco.types import FeatureMap

SETTINGS = TransportSettings()
CHANNELS = 768


@dataclass(frozen=True)
class Inputs:
    C: Tensor  # (b, r, c) scores with the bin
    a: Tensor
    b: Tensor
    foregrounds: tuple[Tensor, Tensor]  # (b, r) and (b, c)
    i: Tensor  # (b, 100) entries that are read
    j: Tensor


def make_inputs(pairs: int, grid: int) -> Inputs:
    """Random cosines and discs as objects, which cover a third of each image."""
    torch.manual_seed(0)
    n = grid * grid
    C = torch.full((pairs, n + 1, n + 1), SETTINGS.z)
    C[:, :-1, :-1] = torch.rand(pairs, n, n) * 1.2 - 0.4
    y, x = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    disc = ((x - grid / 2) ** 2 + (y - grid / 2) ** 2 < n / 3 / 3.14).expand(pairs, -1, -1)
    mass = marginals(disc, torch.full((pairs,), 0.8))
    foreground = torch.nn.functional.pad(disc.flatten(1), (0, 1))
    i, j = torch.randint(n, (2, pairs, 100))
    return Inputs(C.requires_grad_(), mass, mass, (foreground, foreground), i, j)


def plain_loss(P: Tensor, inputs: Inputs) -> Tensor:
    entries = P[torch.arange(len(P))[:, None], inputs.i, inputs.j]
    rows, columns = inputs.foregrounds
    block = P[:, :-1, :-1][rows[:, :-1, None] ^ columns[:, None, :-1]]
    return -entries.log().mean() - torch.log1p(-block).mean()


def log_domain(inputs: Inputs) -> Tensor:
    """(a) The loop of log-sum-exps that SuperGlue-style code differentiates."""
    Z, log_a, log_b = inputs.C / SETTINGS.lam, inputs.a.log(), inputs.b.log()
    phi, psi = 1 / (1 + SETTINGS.lam / SETTINGS.alpha), 1 / (1 + SETTINGS.lam / SETTINGS.beta)
    g = torch.zeros_like(log_b)
    for _ in range(SETTINGS.iterations):
        f = phi * (log_a - torch.logsumexp(Z + g[:, None], dim=2))
        g = psi * (log_b - torch.logsumexp(Z + f[:, :, None], dim=1))
    return plain_loss(torch.exp(Z + f[:, :, None] + g[:, None]), inputs)


def kernel_autograd(inputs: Inputs) -> Tensor:
    """(b) Matrix–vector products with the kernel, differentiated by autograd."""
    K = torch.exp(inputs.C / SETTINGS.lam)
    phi, psi = 1 / (1 + SETTINGS.lam / SETTINGS.alpha), 1 / (1 + SETTINGS.lam / SETTINGS.beta)
    v = torch.ones_like(inputs.b)
    for _ in range(SETTINGS.iterations):
        u = (inputs.a / (K @ v[..., None])[..., 0]) ** phi
        v = (inputs.b / (K.mT @ u[..., None])[..., 0]) ** psi
    return plain_loss(u[:, :, None] * K * v[:, None], inputs)


def ours(inputs: Inputs) -> Tensor:
    plan = sinkhorn(inputs.C, inputs.a, inputs.b)
    rows, columns = inputs.foregrounds
    inside, outside = torch.stack([rows, ~rows]), torch.stack([~columns, columns])
    inside[..., -1] = outside[..., -1] = False
    entries = plan.log_at(inputs.i, inputs.j)
    block, _ = plan.log_complement(inside, outside)
    return -entries.mean() - block.sum() / (inside.sum(-1) * outside.sum(-1)).sum()


WAYS: dict[str, Callable[[Inputs], Tensor]] = {
    "log domain, autograd (a)": log_domain,
    "kernel, autograd (b)": kernel_autograd,
    "geco.transport": ours,
}


def seconds(way: Callable[[Inputs], Tensor], inputs: Inputs) -> float:
    inputs.C.grad = None
    start = time.perf_counter()
    way(inputs).backward()
    return time.perf_counter() - start


def peak_megabytes(name: str, pairs: int, grid: int) -> float:
    """Peak above the inputs, in this process; libraries are warmed up on a small problem."""
    seconds(WAYS[name], make_inputs(1, 4))
    inputs = make_inputs(pairs, grid)
    return peak(lambda: seconds(WAYS[name], inputs))


def check_gradients(inputs: Inputs) -> float:
    """Largest difference between our gradient and that of (b), relative to the largest entry."""
    gradients = []
    for way in (kernel_autograd, ours):
        seconds(way, inputs)
        assert inputs.C.grad is not None
        gradients.append(inputs.C.grad.clone())
    return ((gradients[0] - gradients[1]).abs().max() / gradients[0].abs().max()).item()


def cosine_seconds(pairs: int, grid: int, repeats: int) -> float:
    """Median time of the product of the features, forward and backward."""
    maps = [FeatureMap(torch.randn(pairs, CHANNELS, grid, grid), (grid * 14, grid * 14)).unit() for _ in range(2)]
    for features in maps:
        features.values.requires_grad_()
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        scores(*maps, SETTINGS.z).sum().backward()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def profile(inputs: Inputs) -> str:
    seconds(ours, inputs)
    with torch.profiler.profile() as profiler:
        seconds(ours, inputs)
    return str(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=20, max_name_column_width=40))


def report(pairs: int, grid: int, repeats: int) -> dict[str, object]:
    inputs = make_inputs(pairs, grid)
    difference = check_gradients(inputs)  # and warms both up
    seconds(log_domain, inputs)
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repeats):
        for name, way in WAYS.items():
            times[name].append(seconds(way, inputs))
    inputs.C.grad = None
    rows = {
        name: {
            "median_s": statistics.median(values),
            "min_s": min(values),
            "max_s": max(values),
            "peak_mb": peak_in_subprocess(__file__, "--peak", name, "--pairs", pairs, "--grid", grid),
        }
        for name, values in times.items()
    }
    return {
        "pairs": pairs,
        "side": grid * grid + 1,
        "threads": torch.get_num_threads(),
        "gradient_difference": difference,
        "cosines_s": cosine_seconds(pairs, grid, repeats),
        "ways": rows,
    }


def table(measured: dict) -> str:
    ways = measured["ways"]
    baseline = ways["log domain, autograd (a)"]
    lines = [
        f"{measured['pairs']} pairs, {measured['side']}×{measured['side']} scores, {SETTINGS.iterations} iterations, "
        f"{measured['threads']} threads; forward + backward",
        f"{'':28}{'median':>9}{'min':>9}{'max':>9}{'faster':>9}{'peak MB':>10}{'share':>8}",
    ]
    for name, row in ways.items():
        faster, share = (
            baseline["median_s"] / row["median_s"],
            row["peak_mb"] / max(baseline["peak_mb"], 1e-9),
        )
        lines.append(
            f"{name:28}{row['median_s']:8.3f}s{row['min_s']:8.3f}s{row['max_s']:8.3f}s{faster:8.1f}×"
            f"{row['peak_mb']:10.0f}{share:8.3f}"
        )
    lines.append(f"cosine product of {CHANNELS} channels, forward + backward: {measured['cosines_s']:.3f}s")
    lines.append(f"largest relative difference of the gradients of ours and (b): {measured['gradient_difference']:.1e}")
    return "\n".join(lines)


def result(ways: dict) -> dict[str, float]:
    """Ours against the log-domain loop (a): how many times faster, and what share of its memory."""
    slow, ours = ways["log domain, autograd (a)"], ways["geco.transport"]
    return {
        "speedup": round(slow["median_s"] / ours["median_s"], 1),
        "memory_ratio": round(ours["peak_mb"] / max(slow["peak_mb"], 1e-9), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--grid", type=int, default=37, help="patches on a side")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--peak", choices=list(WAYS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(peak_megabytes(given.peak, given.pairs, given.grid))
    elif given.profile:
        print(profile(make_inputs(given.pairs, given.grid)))
    else:
        measured = report(given.pairs, given.grid, given.repeats)
        print(json.dumps(measured, indent=2) if given.json else table(measured))
        print("RESULT", json.dumps(result(measured["ways"])))


if __name__ == "__main__":
    main()
