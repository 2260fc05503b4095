"""A bright disc to segment, and tiny networks that segment: SAM, SAM 2, and a saliency network."""

from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper
from transformers import Sam2Config, Sam2HieraDetConfig, Sam2Model, Sam2VisionConfig, SamConfig, SamModel

from geco.types import Keypoints, View

DECODER = {
    "hidden_size": 16,
    "mlp_dim": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "iou_head_hidden_dim": 16,
}
PROMPTS = {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}


def disc(height: int, width: int, centre: tuple[float, float], radius: float) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2


def bright_disc(height: int = 50, width: int = 80, *, name: str = "disc") -> View:
    """A bright disc around (50, 25) on a dark ground, two keypoints on it and one hidden far off it."""
    image = torch.full((3, height, width), 20, dtype=torch.uint8)
    image[:, disc(height, width, (50, 25), 14)] = 240
    xy = torch.tensor([[50.0, 25.0], [58.0, 25.0], [3.0, 3.0]])
    return View(
        image,
        (height, width),
        Keypoints(xy, torch.tensor([True, True, False])),
        torch.tensor([36.0, 11.0, 64.0, 39.0]),
        name=name,
    )


def tiny_sam(folder: Path) -> Path:
    torch.manual_seed(0)
    vision = {
        "hidden_size": 16,
        "output_channels": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 16,
        "window_size": 2,
        "global_attn_indexes": [0],
        "mlp_dim": 16,
        "num_pos_feats": 8,
    }
    config = SamConfig(vision_config=vision, prompt_encoder_config=PROMPTS, mask_decoder_config=DECODER)
    SamModel(config).save_pretrained(folder)
    return folder


def tiny_sam2(folder: Path) -> Path:
    torch.manual_seed(0)
    backbone = Sam2HieraDetConfig(
        hidden_size=8,
        num_attention_heads=1,
        image_size=[64, 64],
        blocks_per_stage=[1, 1, 1, 1],
        embed_dim_per_stage=[8, 16, 32, 64],
        num_attention_heads_per_stage=[1, 1, 1, 1],
        window_size_per_stage=[4, 2, 2, 2],
        window_positional_embedding_background_size=[4, 4],
        global_attention_blocks=[],
    )
    vision = Sam2VisionConfig(
        backbone_config=backbone,
        backbone_channel_list=[64, 32, 16, 8],
        backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]],
        fpn_hidden_size=16,
    )
    config = Sam2Config(vision_config=vision, prompt_encoder_config=PROMPTS, mask_decoder_config=DECODER)
    Sam2Model(config).save_pretrained(folder)
    return folder


def brightness_network(path: Path, side: int | str = 32) -> Path:
    """An ONNX graph in U²-Net's form whose saliency is the mean of the colours."""
    node = helper.make_node("ReduceMean", ["image"], ["salient"], axes=[1], keepdims=1)
    shape = [1, 3, side, side]
    graph = helper.make_graph(
        [node],
        "brightness",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("salient", TensorProto.FLOAT, [1, 1, side, side])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path
