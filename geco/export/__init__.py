"""Export: models as ONNX and OpenVINO files, checked against torch; and those files as encoders."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.export.engine import Exported, converted, load
    from geco.export.loading import ENDINGS, is_exported, load_model
    from geco.export.metadata import Metadata
    from geco.export.packing import Packed, pack
    from geco.export.parity import Parity, compare
    from geco.export.warps import WarpedPair, share_found, warped_pairs
    from geco.export.writing import Outcome, check_exportable, write

__all__, __getattr__, __dir__ = lazy.door(__name__)
