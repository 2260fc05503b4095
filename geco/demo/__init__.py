"""Demonstrations: a gallery of pictures that shows what the features do."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.demo import gallery

__all__, __getattr__, __dir__ = lazy.door(__name__)
