"""Pictures of 2D–3D matching: a mesh laid over an image, and matches coloured by where they lie on the surface."""

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from geco.viz import canvas
from geco.viz.canvas import WIDTH, Picture

SEE_THROUGH = 0.6  # opacity of a mesh laid over an image
PANEL = 3.2  # inches


def surface_colours(
    points: Float[np.ndarray, "n 3"], *, low: Float[np.ndarray, "3"], high: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "n 3"]:
    """RGB of places in a box: red, green and blue along its three sides, none of them dark."""
    return 0.15 + 0.85 * np.clip((points - low) / np.maximum(high - low, 1e-12), 0, 1)


def draw_pose(image: Picture, overlay: Float[np.ndarray, "h w 4"], *, title: str = "", note: str = "") -> Figure:
    """The image, and beside it the same under the posed mesh (RGBA of the image's size)."""
    height, width = image.shape[-2:]
    figure = canvas.figure(WIDTH, min(7.0, WIDTH / 2 * height / width) + 0.6)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        canvas.show(axes, image)
    shown = overlay.copy()
    shown[..., 3] *= SEE_THROUGH
    canvas.overlay(right, shown, size=(height, width), interpolation="nearest")
    right.set_title(note, fontsize=9)
    canvas.title(figure, title)
    return figure


def draw_surface_matches(
    rows: "list[list[SurfacePicture]]", *, columns: tuple[str, ...] = (), title: str = ""
) -> Figure:
    """A row for each image; in each panel its matches, coloured by their place on the mesh, wrong ones outlined."""
    figure = canvas.figure(PANEL * max(len(row) for row in rows), PANEL * len(rows) + 0.5)
    grid = figure.subplots(len(rows), max(len(row) for row in rows), squeeze=False)
    for i, row in enumerate(rows):
        for axes, panel in zip(grid[i], row, strict=False):
            panel.draw(axes)
        for j, label in enumerate(columns if i == 0 else ()):
            text = grid[i][j].get_title()
            grid[i][j].set_title(f"{label}\n{text}" if text else label, fontsize=8)
    canvas.title(figure, title)
    return figure


class SurfacePicture:
    """One panel: an image, perhaps dimmed, with squares on it or a mesh over it."""

    def __init__(
        self,
        image: Picture,
        *,
        xy: Float[np.ndarray, "k 2"] | None = None,
        colours: Float[np.ndarray, "k 3"] | None = None,
        wrong: Bool[np.ndarray, "k"] | None = None,
        overlay: Float[np.ndarray, "h w 4"] | None = None,
        note: str = "",
    ) -> None:
        self.image, self.xy, self.colours, self.wrong, self.overlay, self.note = (
            image,
            xy,
            colours,
            wrong,
            overlay,
            note,
        )

    def draw(self, axes: object) -> None:
        """Draw it on these axes."""
        canvas.show(axes, self.image)
        size = (self.image.shape[-2], self.image.shape[-1])
        if self.overlay is not None:
            canvas.overlay(axes, self.overlay, size=size, interpolation="nearest")
        if self.xy is not None and self.colours is not None:
            edges = np.zeros((len(self.xy), 4))
            if self.wrong is not None:
                edges[self.wrong, 3] = 1.0  # black; the others have none
            axes.scatter(*self.xy.T, c=self.colours, s=26, marker="s", edgecolors=edges, linewidths=1.0)  # type: ignore[attr-defined]
        axes.set_title(self.note, fontsize=8)  # type: ignore[attr-defined]
