"""Foreground masks: which pixels are the object."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.masks.files import (
        Quality,
        Summary,
        attach,
        check_folder,
        check_foreground,
        default_folder,
        file_name,
        instances,
        made_folders,
        make,
        quality,
        read,
        to_look_at,
    )
    from geco.masks.segmenters import Saliency, Sam, Segmenter, box, own

__all__, __getattr__, __dir__ = lazy.door(__name__)
