"""Features on disk: of one image, of a collection in shards, and a store that encodes each image once."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.extraction import bulk, cluster
    from geco.extraction.beginning import begin
    from geco.extraction.files import read_features, write_features
    from geco.extraction.folder import FeatureFolder, Patches, open
    from geco.extraction.jobs import Job
    from geco.extraction.records import Failure, Record, Source
    from geco.extraction.sources import find
    from geco.extraction.store import FeatureStore, content_key
    from geco.extraction.writing import FAILED, write_folder

__all__, __getattr__, __dir__ = lazy.door(__name__)
