"""The contract of a backbone is met by ours, and by one that pads its images and has a coarser input than map."""

import torch
from torch import nn

from geco.backbones import Backbone, FrozenBackbone, ViT
from geco.models import Geco
from geco.models.settings import EncoderConfig
from geco.system import plugins


class Letterboxed(FrozenBackbone):
    """Pools colours over 4 × 4 pixels; takes sides that are multiples of 8; pads to a square and cuts it off again."""

    def __init__(self):
        super().__init__(nn.AvgPool2d(4), dim=3, stride=4, multiple=8)
        self.options = {"pad": "grey"}
        self.weight = nn.Parameter(torch.ones(()), requires_grad=False)

    def prepare(self, pixels, size, *, resize="bilinear"):
        height, width = pixels.shape[-2:]
        scale = size[0] / max(height, width)
        inner = round(height * scale), round(width * scale)
        small = nn.functional.interpolate(pixels[None].float() / 255, inner, mode=resize, antialias=True)[0]
        return {"image": nn.functional.pad(small, (0, size[1] - inner[1], 0, size[0] - inner[0]))}

    def forward(self, image):
        return self.encoder(image)

    def finish(self, values, size):
        rows, columns = values.shape[-2:]
        longest = max(size)
        return values[..., : round(rows * size[0] / longest), : round(columns * size[1] / longest)]


def test_ours_meet_it(tiny_folder):
    backbone = plugins.find("backbones", "dinov2").load(str(tiny_folder))
    assert isinstance(backbone, ViT)
    assert isinstance(backbone, Backbone)
    assert (backbone.stride, backbone.multiple) == (14, 14)


def test_a_backbone_with_its_own_preparation_works_as_an_encoder():
    assert isinstance(Letterboxed(), Backbone)
    model = Geco(Letterboxed(), EncoderConfig("letterboxed", size=62, lora=None))
    assert model.input_size == 64
    assert model.config.options == {"pad": "grey"}
    picture = torch.zeros(3, 40, 80, dtype=torch.uint8)
    picture[0, :, 40:] = 255
    features = model.extract(picture)
    assert features.values.shape == (3, 8, 16)  # the padded half is gone
    assert features.size == (40, 80)
    assert features.values[0, :, :7].max() < 0.01
    assert features.values[0, :, 9:].min() > 0.99
    batch = model.extract_batch([picture, torch.zeros(3, 64, 64, dtype=torch.uint8)])
    assert [tuple(maps.values.shape) for maps in batch] == [(3, 8, 16), (3, 16, 16)]


def test_a_backbone_without_projections_cannot_be_adapted():
    import pytest

    with pytest.raises(ValueError, match="letterboxed has no projections to adapt"):
        Geco(Letterboxed(), EncoderConfig("letterboxed"))
