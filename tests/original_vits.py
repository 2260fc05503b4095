"""State dicts named as in the original releases of DINO and DINOv3, with random weights or none at all."""

import torch


def original_dino(*, width=128, depth=2, patch=8, grid=4, device="cpu"):
    """`dino_vitbase8_pretrain.pth` is width 768, depth 12, patch 8, grid 28: 150 tensors."""
    return _vit(_tensors(device), width=width, depth=depth, patch=patch) | {
        "pos_embed": _tensors(device)(1, 1 + grid**2, width)
    }


def original_dinov3(*, width=128, depth=2, patch=16, gated=False, registers=4, device="cpu"):
    """`dinov3_vitb16_pretrain_lvd1689m-73cec8be.pth` is width 768, depth 12; the plus models are gated."""
    random = _tensors(device)
    state = _vit(random, width=width, depth=depth, patch=patch, gated=gated)
    state |= {"storage_tokens": random(1, registers, width), "mask_token": random(1, width)}
    state["rope_embed.periods"] = 100 ** (torch.arange(16) / 16)  # heads are 64 wide
    for i in range(depth):
        mask = torch.ones(3 * width)
        mask[width : 2 * width] = 0
        state |= {f"blocks.{i}.attn.qkv.bias_mask": mask.to(device)}
        state |= {f"blocks.{i}.ls{n}.gamma": random(width) for n in (1, 2)}
    return state


def _tensors(device):
    generator = torch.Generator().manual_seed(1)
    if device == "meta":
        return lambda *shape: torch.empty(shape, device="meta")
    return lambda *shape: torch.randn(shape, generator=generator) * 0.1


def _vit(random, *, width, depth, patch, gated=False):
    state = {
        "cls_token": random(1, 1, width),
        "patch_embed.proj.weight": random(width, 3, patch, patch),
        "patch_embed.proj.bias": random(width),
        "norm.weight": 1 + random(width),
        "norm.bias": random(width),
    }
    hidden = 4 * width
    mlp = {"fc1": (hidden, width), "fc2": (width, hidden)}
    if gated:
        mlp = {"w1": (hidden, width), "w2": (hidden, width), "w3": (width, hidden)}
    shapes = {"attn.qkv": (3 * width, width), "attn.proj": (width, width), **{f"mlp.{k}": v for k, v in mlp.items()}}
    for i in range(depth):
        for name, shape in shapes.items():
            state |= {f"blocks.{i}.{name}.weight": random(*shape), f"blocks.{i}.{name}.bias": random(shape[0])}
        for name in ("norm1", "norm2"):
            state |= {f"blocks.{i}.{name}.weight": 1 + random(width), f"blocks.{i}.{name}.bias": random(width)}
    return state
