"""Features on disk, in one layout, and a store that encodes each image once."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.extraction.files import read_features, write_features
    from geco.extraction.store import FeatureStore, content_key

__all__, __getattr__, __dir__ = lazy.door(__name__)
