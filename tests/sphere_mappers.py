"""State dicts named and shaped as the mappers of SphericalMaps, with random weights."""

import torch


def mapper_state(width):
    """A mapper on tokens of this width, with what its file also holds and is not read."""
    generator = torch.Generator().manual_seed(2)
    inner = width // 2

    def random(*shape):
        return torch.randn(shape, generator=generator) * 0.1

    linear = {"0": (inner, width), "2.attn.proj": (inner, inner), "2.mlp.fc1": (4 * inner, inner)}
    linear |= {"2.mlp.fc2": (inner, 4 * inner), "3": (3, inner)}
    state = {"sphere.weight": random(1024, 3), "prototypes.proj.weight": random(width, 3)}
    for name, shape in linear.items():
        state |= {f"sphere_mapper.{name}.weight": random(*shape), f"sphere_mapper.{name}.bias": random(shape[0])}
    for name in ("norm1", "norm2"):
        state |= {f"sphere_mapper.2.{name}.weight": 1 + random(inner), f"sphere_mapper.2.{name}.bias": random(inner)}
    return state | {"sphere_mapper.2.attn.qkv.weight": random(3 * inner, inner)}
