"""Backbones: one plug-in per family of frozen encoders.

A plug-in is a module in this folder, or an entry point `geco.backbones` of another package. It has

    SOURCES       backbones of this family that have a short name, by that name (`Source`)
    load          `load(location, **options) -> Backbone`: the encoder at a place, read as the options say

and may have

    load_light    `load_light(location, **options) -> Backbone | None`: the same for inference by torch alone, which
                  starts faster; None if only `load` can
    MODEL_TYPES   what the `config.json` of a folder it can load calls its `model_type`
    DEFAULT       how a backbone without a short name is read (`Source`, or a function of its folder that returns one)
    convert       `convert(state) -> (state, config) | None`: weights in the family's original form as a Hugging Face
                  folder; None if the keys are not those of the family
    PARTS         what a backbone of this family is put together from, by name (`Part`); `load` then gets a mapping of
                  these names to folders and files instead of one location, without optional parts that were not given

`geco.models` finds the place of a backbone and calls `load`; docs/extending.md has a complete example.
"""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.backbones._contract import Backbone, FrozenBackbone, PackagedFile, Source
    from geco.backbones._folder import read_config, read_weights
    from geco.backbones._letterbox import Letterboxed, cut, paste
    from geco.backbones._parts import MANIFEST, Manifest, Part, fill, kind, read_manifest, read_part, unwrapped
    from geco.backbones._plain import PlainBackbone, load_plain
    from geco.backbones._vit import ViT, load_encoder

__all__, __getattr__, __dir__ = lazy.door(__name__)
