"""Small random networks in the layouts of Stable Diffusion, CLIP, ODISE and Geo, and models that are made of them."""

import json
from pathlib import Path

import torch
from aggregation_heads import head_state
from safetensors.torch import load_file, save_file
from sphere_mappers import mapper_state

WIDTHS, CAPTION, EMBEDDING = (32, 64, 96, 96), 32, 24
OLD = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}  # in the VAE's released files


def write_diffusion(folder):
    """Stable Diffusion in diffusers' layout; its VAE has the attention's older names, as the released one."""
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(1)
    unet = UNet2DConditionModel(block_out_channels=WIDTHS, cross_attention_dim=CAPTION, attention_head_dim=4)
    vae = AutoencoderKL(
        block_out_channels=[32] * 4, layers_per_block=2, latent_channels=4,
        down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4,
    )  # fmt: skip
    text = CLIPTextModel(
        CLIPTextConfig(hidden_size=CAPTION, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)
    )
    unet.save_pretrained(folder / "unet")
    vae.save_pretrained(folder / "vae")
    text.save_pretrained(folder / "text_encoder")
    file = folder / "vae" / "diffusion_pytorch_model.safetensors"
    save_file({_older(key): value for key, value in load_file(file).items()}, file)
    return folder


def _older(key):
    before, found, rest = key.partition(".attentions.0.")
    name, _, kind = rest.rpartition(".")
    return f"{before}{found}{OLD[name]}.{kind}" if name in OLD else key


def write_clip(folder):
    """The whole of CLIP, as its repository has it: both towers in one file, with buffers of positions."""
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(2)
    small = {"intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "projection_dim": EMBEDDING}
    model = CLIPModel(
        CLIPConfig(
            text_config={**small, "hidden_size": 16, "vocab_size": 50, "eos_token_id": 49, "bos_token_id": 48},
            vision_config={**small, "hidden_size": 32, "image_size": 28, "patch_size": 14},
            projection_dim=EMBEDDING,
        )
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(model.config.to_dict()))
    state = {**model.state_dict(), "vision_model.embeddings.position_ids": torch.arange(5)[None]}
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def captioner_state(*, embedding=EMBEDDING, width=CAPTION, time=4 * WIDTHS[0], scale=0.3):
    """The weights of ODISE's captioner, without their prefix."""
    generator = torch.Generator().manual_seed(3)
    shapes = {
        "clip_project.linear.weight": (width, embedding),
        "clip_project.linear.bias": (width,),
        "clip_project.positional_embedding": (1, 77, width),
        "alpha_cond": (1, 77, width),
        "time_embed_project.linear.weight": (time, embedding),
        "time_embed_project.linear.bias": (time,),
        "time_embed_project.positional_embedding": (1, 1, time),
        "alpha_cond_time_embed": (time,),
    }
    return {name: scale * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def odise(state):
    """A checkpoint as detectron2 writes it: nested, among weights of other things, some of them whole numbers."""
    captioner = {f"backbone.feature_extractor.{name}": value for name, value in state.items()}
    others = {"sem_seg_head.steps": torch.tensor(3), "backbone.feature_projections.0.0.weight": torch.zeros(2, 2)}
    return {"model": {**others, **captioner}, "iteration": 5}


def write_geo(root, dinov2, *, model="geo"):
    """A folder whose manifest puts Geo together from small parts beside it."""
    root = Path(root)
    (root / "geo").mkdir(parents=True, exist_ok=True)
    if not (root / "sd").exists():
        write_diffusion(root / "sd")
        write_clip(root / "clip")
        torch.save(odise(captioner_state()), root / "odise.pth")
        torch.save(head_state((WIDTHS[1], WIDTHS[2], WIDTHS[3], 24), 32), root / "best_856.PTH")
    parts = {"head": "best_856.PTH", "diffusion": "sd", "dinov2": str(dinov2)}
    parts |= {"captioner": "odise.pth", "clip": "clip"} if model == "geo" else {}
    folder = root / model
    folder.mkdir(exist_ok=True)
    parts = {name: f"../{place}" if not Path(place).is_absolute() else place for name, place in parts.items()}
    (folder / "parts.json").write_text(json.dumps({"model": model, "parts": parts}))
    return folder


def write_cleandift(root):
    """CleanDIFT: its UNet in a file of its own, on the small Stable Diffusion."""
    root = Path(root)
    if not (root / "sd").exists():
        write_diffusion(root / "sd")
    state = load_file(root / "sd" / "unet" / "diffusion_pytorch_model.safetensors")
    save_file({key: value * 1.01 for key, value in state.items()}, root / "cleandift_sd21_unet.safetensors")
    folder = root / "cleandift"
    folder.mkdir(exist_ok=True)
    parts = {"unet": "../cleandift_sd21_unet.safetensors", "diffusion": "../sd"}
    (folder / "parts.json").write_text(json.dumps({"model": "cleandift", "parts": parts}))
    return folder


def write_sphere_pairs(root, dinov2):
    """Sphere as published, of the parts that Geo has, and a mapper."""
    torch.save(mapper_state(24), root / "200.pth")
    folder = root / "sphere-pairs"
    folder.mkdir()
    parts = {"mapper": "../200.pth", "diffusion": "../sd", "captioner": "../odise.pth", "clip": "../clip"}
    manifest = {"model": "sphere-pairs", "parts": {**parts, "dinov2": str(dinov2)}}
    (folder / "parts.json").write_text(json.dumps(manifest))
    return folder
