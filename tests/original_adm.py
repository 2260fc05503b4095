"""State dicts named as in OpenAI's guided-diffusion (unconditional, 256 × 256), and its forward pass by hand."""

import math

import torch
from torch.nn import functional

LEVELS = (1, 1, 2, 2, 4, 4)
ATTENTION = (3, 4, 5)  # levels that have it
HEAD = 64


def shapes(width=256, *, inputs=3, outputs=6):
    """Names → shapes of every weight, in the order in which the network is built there."""
    table = {}
    emb = 4 * width

    def add(name, *shape):
        table[f"{name}.weight"], table[f"{name}.bias"] = shape, shape[:1]

    def residual(name, before, after):
        add(f"{name}.in_layers.0", before)
        add(f"{name}.in_layers.2", after, before, 3, 3)
        add(f"{name}.emb_layers.1", 2 * after, emb)
        add(f"{name}.out_layers.0", after)
        add(f"{name}.out_layers.3", after, after, 3, 3)
        if before != after:
            add(f"{name}.skip_connection", after, before, 1, 1)

    def attention(name, channels):
        add(f"{name}.norm", channels)
        add(f"{name}.qkv", 3 * channels, channels, 1)
        add(f"{name}.proj_out", channels, channels, 1)

    add("time_embed.0", emb, width)
    add("time_embed.2", emb, emb)
    add("input_blocks.0.0", width, inputs, 3, 3)
    number, channels, skipped = 1, width, [width]
    for level, factor in enumerate(LEVELS):
        for _ in range(2):
            residual(f"input_blocks.{number}.0", channels, factor * width)
            channels = factor * width
            if level in ATTENTION:
                attention(f"input_blocks.{number}.1", channels)
            skipped.append(channels)
            number += 1
        if level < len(LEVELS) - 1:
            residual(f"input_blocks.{number}.0", channels, channels)
            skipped.append(channels)
            number += 1
    residual("middle_block.0", channels, channels)
    attention("middle_block.1", channels)
    residual("middle_block.2", channels, channels)
    number = 0
    for level in reversed(range(len(LEVELS))):
        for place in range(3):
            residual(f"output_blocks.{number}.0", channels + skipped.pop(), LEVELS[level] * width)
            channels = LEVELS[level] * width
            if level in ATTENTION:
                attention(f"output_blocks.{number}.1", channels)
            if place == 2 and level:
                residual(f"output_blocks.{number}.{2 if level in ATTENTION else 1}", channels, channels)
            number += 1
    add("out.0", channels)
    add("out.2", outputs, channels, 3, 3)
    return table


def empty(width=256, **options):
    """The full list of weights, without memory for any of them."""
    return {name: torch.zeros(()).expand(shape) for name, shape in shapes(width, **options).items()}


def original(width=32):
    """A random small one; weights of the size that keeps numbers from growing or vanishing."""
    generator = torch.Generator().manual_seed(7)
    state = {}
    for name, shape in shapes(width).items():
        scale = 1 / math.sqrt(math.prod(shape[1:])) if len(shape) > 1 else 0.1
        state[name] = torch.randn(shape, generator=generator) * scale
        if name.endswith(("layers.0.weight", "norm.weight", "out.0.weight")):
            state[name] += 1
    return state


# --- the forward pass, a line for each step --------------------------------------------------------------------------


def by_hand(state, x, t, block):
    """The hidden state after a block of the decoder."""
    width = state["input_blocks.0.0.weight"].shape[0]
    angles = t * torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    emb = linear(state, "time_embed.0", torch.cat([angles.cos(), angles.sin()])[None])
    emb = linear(state, "time_embed.2", functional.silu(emb))
    h = functional.conv2d(x, state["input_blocks.0.0.weight"], state["input_blocks.0.0.bias"], padding=1)
    skipped = [h]
    for number in range(1, 18):
        h = residual(state, f"input_blocks.{number}.0", h, emb, "down" if number % 3 == 0 else None)
        h = attention(state, f"input_blocks.{number}.1", h)
        skipped.append(h)
    h = residual(state, "middle_block.0", h, emb)
    h = residual(state, "middle_block.2", attention(state, "middle_block.1", h), emb)
    for number in range(block + 1):
        h = residual(state, f"output_blocks.{number}.0", torch.cat([h, skipped.pop()], 1), emb)
        h = attention(state, f"output_blocks.{number}.1", h)
        for place in (1, 2):
            if f"output_blocks.{number}.{place}.in_layers.0.weight" in state:
                h = residual(state, f"output_blocks.{number}.{place}", h, emb, "up")
    return h


def linear(state, name, x):
    return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def norm(state, name, x):
    return functional.group_norm(x, 32, state[f"{name}.weight"], state[f"{name}.bias"], 1e-5)


def conv(state, name, x, padding=0):
    return functional.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], padding=padding)


def residual(state, name, x, emb, resample=None):
    def resampled(y):
        if resample == "down":
            return functional.avg_pool2d(y, 2)
        return functional.interpolate(y, scale_factor=2, mode="nearest") if resample else y

    h = conv(state, f"{name}.in_layers.2", resampled(functional.silu(norm(state, f"{name}.in_layers.0", x))), 1)
    scale, shift = linear(state, f"{name}.emb_layers.1", functional.silu(emb))[..., None, None].chunk(2, 1)
    h = norm(state, f"{name}.out_layers.0", h) * (1 + scale) + shift
    h = conv(state, f"{name}.out_layers.3", functional.silu(h), 1)
    x = resampled(x)
    return (conv(state, f"{name}.skip_connection", x) if f"{name}.skip_connection.weight" in state else x) + h


def attention(state, name, x):
    """Each head has its own run of rows: its queries, its keys, its values."""
    if f"{name}.qkv.weight" not in state:
        return x
    rows = functional.conv1d(
        norm(state, f"{name}.norm", x).flatten(2), state[f"{name}.qkv.weight"], state[f"{name}.qkv.bias"]
    )
    read = []
    for head in range(rows.shape[1] // (3 * HEAD)):
        first = 3 * HEAD * head
        q, k, v = (rows[:, first + HEAD * i : first + HEAD * (i + 1)] for i in range(3))
        read.append(v @ (q.mT @ k / math.sqrt(HEAD)).softmax(-1).mT)
    y = functional.conv1d(torch.cat(read, 1), state[f"{name}.proj_out.weight"], state[f"{name}.proj_out.bias"])
    return x + y.unflatten(-1, x.shape[-2:])
