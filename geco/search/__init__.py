"""Search: an index of the patches of many images, and the images and places where a part occurs."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.search.collection import Collection
    from geco.search.index import Card, PartIndex, build_index, read_card, read_index, write_index
    from geco.search.opening import default_folder, open_index
    from geco.search.refinement import Found, Hit, check_encoder, find, find_by_features
    from geco.search.settings import IndexSettings, SearchSettings

__all__, __getattr__, __dir__ = lazy.door(__name__)
