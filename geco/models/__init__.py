"""Models: a backbone with an adapter, from images to feature maps, and where weights come from."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.models.cache import cache_folder
    from geco.models.cards import model_card
    from geco.models.depth import first_blocks
    from geco.models.extractor import Extractor
    from geco.models.geco import Geco
    from geco.models.hub import HubError
    from geco.models.publishing import push_to_hub
    from geco.models.saving import seal
    from geco.models.shipped import folder_named, packaged, release_name
    from geco.models.untrained import licence_of, why_missing
    from geco.models.weights import (
        adapter_config,
        default_model,
        find_adapter,
        is_available,
        load_backbone,
        locate,
        read_checkpoint,
        sources,
    )

__all__, __getattr__, __dir__ = lazy.door(__name__)
