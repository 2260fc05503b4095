"""A tiny random encoder with an adapter that has not been trained."""

from geco.models.geco import Geco
from geco.models.settings import EncoderConfig, LoraSettings
from geco.system import plugins


def fresh(folder, *, norm=True, **options):
    backbone = plugins.find("backbones", "dinov2").load(str(folder), norm=norm)
    return Geco(
        backbone, EncoderConfig(backbone=str(folder), size=56, lora=LoraSettings(**options)), name="tiny"
    ).eval()
