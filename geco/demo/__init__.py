"""Demonstrations: a gallery of pictures, and a page to click on, that show what the features do."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.demo import gallery
    from geco.demo.encoders import Encoders, of_model
    from geco.demo.examples import copy_images, find_images
    from geco.demo.page import Served, check_package, free_port, serve
    from geco.demo.settings import AppSettings
    from geco.demo.studio import Studio

__all__, __getattr__, __dir__ = lazy.door(__name__)
