"""State dicts named and shaped as the aggregation heads of Geo and DIY-SC, with random weights."""

import torch


def head_state(widths, dim, *, inner=None, seed=0):
    """A head of these input widths: 48 tensors for Geo's four, 12 or 15 for DIY-SC's one."""
    generator = torch.Generator().manual_seed(seed)
    inner = max(32, dim // 4) if inner is None else inner
    state = {"logit_scale": torch.tensor(2.6), "self_logit_scale": torch.tensor(2.6)}
    state["mixing_weights"] = torch.randn(len(widths), generator=generator)
    for i, width in enumerate(widths):
        shapes = {"conv1": (inner, width, 1, 1), "conv2": (inner, inner, 3, 3), "conv3": (dim, inner, 1, 1)}
        if width != dim:
            shapes["shortcut"] = (dim, width, 1, 1)
        for name, shape in shapes.items():
            prefix = f"bottleneck_layers.{i}.0.{name}"
            scale = (shape[1] * shape[2] * shape[3]) ** -0.5
            state[f"{prefix}.weight"] = torch.randn(shape, generator=generator) * scale
            state[f"{prefix}.norm.weight"] = 1 + torch.randn(shape[0], generator=generator) * 0.1
            state[f"{prefix}.norm.bias"] = torch.randn(shape[0], generator=generator) * 0.1
    return state
