"""State dicts named as in the original release of DINOv2, with random weights."""

import torch

WIDTH, HEADS, DEPTH, PATCH, GRID = 128, 2, 2, 14, 4  # heads are 64 wide in every DINOv2


def original(*, registers=0, swiglu=False):
    """A random state dict named as in the original release."""
    torch.manual_seed(1)

    def random(*shape):
        return torch.randn(*shape) * 0.1

    state = {
        "cls_token": random(1, 1, WIDTH),
        "pos_embed": random(1, 1 + GRID**2, WIDTH),
        "mask_token": random(1, WIDTH),
        "patch_embed.proj.weight": random(WIDTH, 3, PATCH, PATCH),
        "patch_embed.proj.bias": random(WIDTH),
        "norm.weight": 1 + random(WIDTH),
        "norm.bias": random(WIDTH),
    }
    if registers:
        state["register_tokens"] = random(1, registers, WIDTH)
    hidden = (int(WIDTH * 4 * 2 / 3) + 7) // 8 * 8 if swiglu else 4 * WIDTH
    mlp = (
        {"w12": (2 * hidden, WIDTH), "w3": (WIDTH, hidden)}
        if swiglu
        else {"fc1": (hidden, WIDTH), "fc2": (WIDTH, hidden)}
    )
    for i in range(DEPTH):
        linear = {
            "attn.qkv": (3 * WIDTH, WIDTH),
            "attn.proj": (WIDTH, WIDTH),
            **{f"mlp.{k}": v for k, v in mlp.items()},
        }
        for name, shape in linear.items():
            state |= {
                f"blocks.{i}.{name}.weight": random(*shape),
                f"blocks.{i}.{name}.bias": random(shape[0]),
            }
        for name in ("norm1", "norm2"):
            state |= {
                f"blocks.{i}.{name}.weight": 1 + random(WIDTH),
                f"blocks.{i}.{name}.bias": random(WIDTH),
            }
        state |= {f"blocks.{i}.ls1.gamma": random(WIDTH), f"blocks.{i}.ls2.gamma": random(WIDTH)}
    return state
