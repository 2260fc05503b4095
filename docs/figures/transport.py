"""Draws the figures of docs/transport.md: `python docs/figures/transport.py` (needs the [backbone] extra and the
example images that come with gradio: `pip install --no-deps gradio`).

Source: a cheetah that looks at us. Target: a cub of which the right half is cut off, so one eye and one ear are hidden.
"""

import importlib.util
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.path import Path as Outline
from torch import Tensor

import geco
from geco import geometry, images, transport
from geco.transport.settings import TransportSettings
from geco.types import FeatureMap

HERE = Path(__file__).parent
NAMES = ("ear", "other ear", "eye", "other eye", "nose", "mouth", "chest")
SOURCE_POINTS = [(50, 57), (204, 56), (89, 93), (162, 93), (123, 147), (122, 177), (129, 219)]
TARGET_POINTS = [(105, 207), (639, 159), (255, 327), (493, 306), (378, 442), (386, 518), (392, 678)]
SOURCE_OUTLINE = [
    (50, 256), (52, 190), (47, 130), (45, 100), (28, 75), (26, 50), (45, 32), (72, 40), (90, 32), (125, 28),
    (165, 34), (180, 45), (205, 38), (224, 55), (222, 78), (206, 92), (207, 140), (200, 170), (232, 215), (246, 256),
]  # fmt: skip
TARGET_OUTLINE = [
    (150, 762), (150, 660), (190, 540), (110, 400), (40, 280), (25, 180), (80, 135), (160, 145), (215, 165),
    (300, 90), (400, 75), (530, 110), (620, 75), (705, 130), (700, 280), (620, 480), (690, 640), (725, 762),
]  # fmt: skip
WINDOW = (0, 100, 440, 720)  # what remains of the target: x0, y0, x1, y1
COLOURS = [mpl.colormaps["tab10"](k) for k in range(len(NAMES))]
SETTINGS = TransportSettings()


def example_image(name: str) -> Tensor:
    """Pixels of an example image in the installed gradio package, which need not be importable."""
    spec = importlib.util.find_spec("gradio")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the example images come with gradio; install it with: pip install --no-deps gradio")
    return images.read(next(Path(spec.origin).parent.rglob(name)))


def mask(outline: list[tuple[float, float]], size: tuple[int, int]) -> Tensor:
    """Pixels inside a polygon."""
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    inside = Outline(outline).contains_points(np.stack([x.ravel(), y.ravel()], 1))
    return torch.from_numpy(inside).view(size)


class Side:
    """One image of the pair: pixels, points, which of them are visible, foreground and features."""

    def __init__(self, pixels: Tensor, points: list, outline: list, model: geco.Geco) -> None:
        self.pixels, self.points = pixels, torch.tensor(points).float()
        self.size = (pixels.shape[1], pixels.shape[2])
        self.visible = geometry.inside(self.points, size=self.size)
        self.features: FeatureMap = model.extract_batch([pixels])[0]
        self.grid = self.features.grid
        self.foreground = geometry.resize_labels(mask(outline, self.size), self.grid)[None]
        self.share = (self.visible.sum() + 1) / (len(points) + 1)

    def marginal(self) -> Tensor:
        """Mass of each patch and of the bin."""
        return transport.marginals(self.foreground, self.share[None], s=SETTINGS.s)

    def cells(self) -> Tensor:
        """Patch cell of each keypoint."""
        return geometry.cells(self.points, size=self.size, grid=self.grid)


def make_pair() -> tuple[Side, Side]:
    """Source and target."""
    model = geco.load()
    x0, y0, x1, y1 = WINDOW
    cub = example_image("cheetah2.jpg")[:, y0:y1, x0:x1]
    shifted = [[(x - x0, y - y0) for x, y in points] for points in (TARGET_POINTS, TARGET_OUTLINE)]
    return Side(example_image("cheetah1.jpg"), SOURCE_POINTS, SOURCE_OUTLINE, model), Side(cub, *shifted, model)


# --- marginals --------------------------------------------------------------------------------------------


def draw_marginal(axes: Axes, side: Side, mass: Tensor, title: str) -> None:
    """Mass of each patch as a tint, and of the bin as a square of the same scale beside the image."""
    rows, columns = side.grid
    patches, bin_ = mass[0, :-1].view(side.grid), mass[0, -1].item()
    axes.imshow(side.pixels.permute(1, 2, 0).float().mean(-1).numpy(), cmap="gray", extent=(0, 1, 1, 0))
    tint = axes.imshow(
        (patches * 1e4).numpy(),
        cmap="viridis",
        vmin=0,
        vmax=15,
        alpha=0.55,
        extent=(0, 1, 1, 0),
        interpolation="nearest",
    )
    axes.hlines(np.linspace(0, 1, rows + 1), 0, 1, color="white", linewidth=0.15)
    axes.vlines(np.linspace(0, 1, columns + 1), 0, 1, color="white", linewidth=0.15)
    edge = np.sqrt(bin_) * 0.5  # so that a bin of all mass would fill a quarter of the image
    axes.add_patch(Rectangle((1.06, 1 - edge), edge, edge, color="tab:red", clip_on=False))
    axes.text(1.06, 1 - edge - 0.02, f"bin {bin_:.2f}", color="tab:red", va="bottom", fontsize=9)
    axes.set(xlim=(0, 1.36), ylim=(1, 0), aspect="equal")  # squares, as the encoder sees them
    axes.set_title(title, fontsize=10, loc="left")
    axes.axis("off")
    axes.tint = tint


def draw_marginals(source: Side, target: Side) -> None:
    """marginals.png."""
    figure, panels = plt.subplots(1, 3, figsize=(10, 2.9), layout="constrained")
    n = target.grid[0] * target.grid[1]
    drawn = (
        (source, source.marginal(), f"a: all {len(NAMES)} keypoints visible, x = 1"),
        (
            target,
            target.marginal(),
            f"b: {int(target.visible.sum())} of {len(NAMES)} visible, x = {target.share:.2f}",
        ),
        (target, transport.uniform_marginals(1, n, s=SETTINGS.s), '"-N": all patches alike'),
    )
    for axes, (side, mass, title) in zip(panels, drawn, strict=True):
        draw_marginal(axes, side, mass, title)
    figure.colorbar(panels[-1].tint, ax=panels, label="mass of a patch, 1/10000", shrink=0.75, pad=0.01)
    figure.savefig(HERE / "marginals.png", dpi=110)
    plt.close(figure)


# --- assignments ------------------------------------------------------------------------------------------


def show(axes: Axes, side: Side, title: str) -> None:
    """The image with its visible keypoints."""
    axes.imshow(side.pixels.permute(1, 2, 0).numpy(), extent=(0, side.size[1], side.size[0], 0))
    for k, (x, y) in enumerate(side.points.tolist()):
        if side.visible[k]:
            axes.plot(x, y, "o", color=COLOURS[k], markersize=7, markeredgecolor="white", markeredgewidth=1)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=10)


def show_assignment(axes: Axes, matrix: Tensor, target: Side, title: str) -> None:
    """A matrix of shares: rows are source keypoints, columns the visible target keypoints and perhaps the bin."""
    shown = [k for k in range(len(NAMES)) if target.visible[k]]
    axes.imshow(matrix.numpy(), cmap="Blues", vmin=0, vmax=1)
    for row, shares in enumerate(matrix.tolist()):
        for column, share in enumerate(shares):
            if share >= 0.005:
                colour = "white" if share > 0.5 else "black"
                axes.text(
                    column,
                    row,
                    f"{share:.2f}".lstrip("0"),
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=7,
                )
    labels = [*(NAMES[k] for k in shown), "bin"][: matrix.shape[1]]
    axes.set_xticks(range(len(labels)), labels, fontsize=8, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(NAMES)), NAMES, fontsize=8)
    for ticks, order in ((axes.get_xticklabels(), shown), (axes.get_yticklabels(), range(len(NAMES)))):
        for label, k in zip(ticks, order, strict=False):
            label.set_color(COLOURS[k])
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=10)


def assignments(source: Side, target: Side) -> dict[str, Tensor]:
    """What each rule makes of the cosines between the annotated patches alone, so that the whole plan can be seen."""
    seen = target.visible
    whole = transport.scores(one(source), one(target), SETTINGS.z)
    cosines = whole[0, :-1, :-1][source.cells()][:, target.cells()[seen]]
    n, m = cosines.shape
    a = torch.tensor([[1 / n] * n + [0.0]])
    b = torch.tensor([[1 / n] * m + [1 - m / n]])
    P = transport.solve(transport.bordered(cosines[None], SETTINGS.z), a, b, SETTINGS).dense()[0, :-1]
    nothing = torch.zeros(n, 1)
    truth = torch.cat([torch.eye(n)[:, seen], (~seen).float()[:, None]], 1)
    return {
        "argmax over rows": torch.cat([torch.eye(m)[cosines.argmax(1)], nothing], 1),
        "argmax over columns": torch.cat([torch.eye(n)[cosines.argmax(0)].T, nothing], 1),
        "transport plan, rows sum to 1": P / P.sum(1, keepdim=True),
        "ground truth": truth,
    }


def draw_assignments(source: Side, target: Side) -> None:
    """assignments.png."""
    figure = plt.figure(figsize=(10, 6.2), layout="constrained")
    pictures, matrices = figure.subfigures(1, 2, width_ratios=(1, 2.3))
    upper, lower = pictures.subplots(2, 1)
    show(upper, source, "source: all keypoints visible")
    show(lower, target, "target: one ear, one eye cut off")
    for axes, (title, matrix) in zip(matrices.subplots(2, 2).flat, assignments(source, target).items(), strict=True):
        show_assignment(axes, matrix, target, title)
    figure.savefig(HERE / "assignments.png", dpi=100)
    plt.close(figure)


def one(side: Side) -> FeatureMap:
    """The side's features as a batch of one, of unit length."""
    values = side.features.values
    return FeatureMap(values if values.ndim == 4 else values[None], side.features.size).unit()


if __name__ == "__main__":
    with torch.inference_mode():
        pair = make_pair()
        draw_marginals(*pair)
        draw_assignments(*pair)
