"""What readers of annotations share: the contract of a dataset, loading, parsing, pairs, skeletons, an audit."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.data import audit
    from geco.data.benchmarks import benchmark_images, benchmark_lists
    from geco.data.contract import DatasetFormat, PairDataset, PartDataset, find, names, views_of
    from geco.data.derived import attach_masks, spread
    from geco.data.loading import EmptySplitError, Options, load
    from geco.data.outlines import OutlinedViews, check_outline
    from geco.data.pairs import PairBuilder, Pairs, draw, sharing
    from geco.data.parsing import (
        MATLAB_CENTRE,
        PIXEL_CENTRE,
        VOC_CLASSES,
        box_on,
        choose,
        field,
        hashed_split,
        image_size,
        keypoints,
        locate,
        mask_file,
        matlab,
        matrix,
        named_mask,
        number,
        numbers,
        on_image,
        parse_json,
        read_json,
        read_rows,
        read_text,
        read_xml,
        squared,
        tolerating,
    )
    from geco.data.skeletons import guess_twins, involution, named, published_skeletons, rows_named, subset, unnamed

__all__, __getattr__, __dir__ = lazy.door(__name__)
