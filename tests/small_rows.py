"""Small random models of every row of the tables that needs no diffusion, as files and folders of users."""

import json

import torch
from aggregation_heads import head_state
from original_vits import original_dino, original_dinov3
from sphere_mappers import mapper_state

STAGES = {"depths": [1, 1, 1, 1], "image_size": 64}
AUTO = {  # transformers' configurations of networks that are nobody's plug-in
    "swin": {**STAGES, "embed_dim": 12, "num_heads": [1, 2, 3, 4], "window_size": 4},
    "convnext": {**STAGES, "hidden_sizes": [8, 12, 16, 20]},
    "resnet": {"depths": [1, 1, 1, 1], "embedding_size": 8, "hidden_sizes": [8, 12, 16, 20]},
    "hiera": {"depths": [1, 1, 1, 1], "image_size": [64, 64], "embed_dim": 8, "num_heads": [1, 1, 1, 1]},
    "beit": {
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 32,
        "image_size": 64,
        "use_relative_position_bias": True,
    },
}
ORIGINALS = {"dino": original_dino, "dinov3": original_dinov3}
HEADS = {"diy-sc": ("head", lambda: head_state((24,), 32)), "sphere": ("mapper", lambda: mapper_state(24))}
ROWS = (*ORIGINALS, *HEADS, "geco", "marco", *AUTO)


def write_row(name, root, tiny_folder):
    """What a user gives for the row: an original file, a folder of parts, or a folder in Hugging Face format."""
    torch.manual_seed(0)
    folder = root / name
    folder.mkdir()
    if name in ORIGINALS:
        torch.save(ORIGINALS[name](), folder / "original.pth")
        return folder / "original.pth"
    if name in AUTO:
        return write_auto(name, folder)
    if name == "marco":
        return write_marco(folder)
    part, make = HEADS.get(name, ("lora", lora_state))
    torch.save(make(), folder / "file.pth")
    return write_parts(folder, name, {part: "file.pth", "dinov2": str(tiny_folder)})


def write_parts(folder, model, parts):
    (folder / "parts.json").write_text(json.dumps({"model": model, "parts": parts}))
    return folder


def lora_state(*, blocks=2, width=24, rank=3):
    """w_a and w_b of queries (even) and values (odd)."""
    shapes = {"a": (rank, width), "b": (width, rank)}
    generator = torch.Generator().manual_seed(0)
    return {
        f"w_{x}_{i:03d}": torch.randn(shapes[x], generator=generator) * 0.3 for x in "ab" for i in range(2 * blocks)
    }


def write_auto(name, folder):
    """A classifier, as most folders on the hub are: names have the model's prefix, and there is a head."""
    from transformers import AutoConfig, AutoModelForImageClassification

    model = AutoModelForImageClassification.from_config(AutoConfig.for_model(name, **AUTO[name]))
    model.save_pretrained(folder)
    return folder


def marco_state(*, width=32, inner=16, blocks=(1, 2), steps=2):
    """`marco_release.pth` is width 1024, inner 512, blocks 15 to 23, two steps."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator) * 0.2

    state = {}
    for i in blocks:
        prefix = f"dino.blocks.{i}.adapter"
        state |= {f"{prefix}.adapter_layer_norm_before.weight": 1 + random(width)}
        state |= {f"{prefix}.adapter_layer_norm_before.bias": random(width)}
        state |= {f"{prefix}.down_proj.weight": random(inner, width), f"{prefix}.down_proj.bias": random(inner)}
        state |= {f"{prefix}.up_proj.weight": random(width, inner), f"{prefix}.up_proj.bias": random(width)}
    for i in range(steps):
        state |= {f"upscale.{i}.conv1.weight": random(width, width, 2, 2), f"upscale.{i}.conv1.bias": random(width)}
        state |= {f"upscale.{i}.conv2.weight": random(width, 1, 3, 3)}
        state |= {f"upscale.{i}.norm.weight": 1 + random(width), f"upscale.{i}.norm.bias": random(width)}
    return state


def write_marco(folder):
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    config = Dinov2WithRegistersConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=56, patch_size=14, layerscale_value=0.5
    )
    Dinov2WithRegistersModel(config).save_pretrained(folder / "vit")
    torch.save({"model": marco_state(), "epoch": 3}, folder / "marco_release.pth")
    return write_parts(folder, "marco", {"weights": "marco_release.pth", "dinov2": "vit"})
