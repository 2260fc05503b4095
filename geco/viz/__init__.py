"""Every picture: matches, heat maps, charts, sheets of examples, parts, annotations, contact sheets, web pages."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.viz.annotations import draw_pair, draw_parts
    from geco.viz.canvas import Picture, png, save
    from geco.viz.charts import (
        Band,
        SpeedPoint,
        bands,
        confusion,
        curves,
        imbalance,
        loss_curves,
        reliability,
        speed,
        speed_panels,
    )
    from geco.viz.contact import Tile, contact_sheet
    from geco.viz.hits import Crop, hit_sheet
    from geco.viz.html import embedded_image, escape, html_figure, html_table, page
    from geco.viz.matches import draw_components, draw_heatmap, draw_matches, draw_transfer, principal_components
    from geco.viz.meshes import SurfacePicture, draw_pose, draw_surface_matches, surface_colours
    from geco.viz.misses import Miss, MissedPair, Place, miss_sheet
    from geco.viz.overlays import components_png, heat_png, labels_png
    from geco.viz.palette import PALETTE
    from geco.viz.parts import palette_image, part_colours, part_map
    from geco.viz.review import Card, Shown, review_page
    from geco.viz.sheets import MEANING, Example, sheet
    from geco.viz.stamps import stamp

__all__, __getattr__, __dir__ = lazy.door(__name__)
