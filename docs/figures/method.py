"""Draws the diagram of docs/method.md: `python docs/figures/method.py` (needs the example images: see `geco examples`).

Two images, the features of one encoder, the bordered scores, the plan with its bins, and what training and inference
do with them.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import geco
from geco import batching, images, transport, viz
from geco.demo import find_images
from geco.transport.settings import TransportSettings

HERE = Path(__file__).parent
LOW, HIGH = 1.05, 6.0  # inches that the figure shows
SIZE = 112  # input pixels: few patches, so that single ones can be seen
INK, TEAL, ORANGE = "#222222", "#0f766e", "#c2410c"


def main(folder: Path = HERE) -> None:
    """Write method.png."""
    files = find_images()
    pictures = [images.read(files[name]) for name in ("cheetah", "cub")]
    encoder = geco.load(size=SIZE, device="cpu")
    with torch.inference_mode():
        maps = encoder.extract_batch(pictures)
        source, target = (batching.stack([features.unit()]) for features in maps)
        settings = TransportSettings()
        scores = transport.scores(source, target, settings.z)
        mass = transport.uniform_marginals(1, scores.shape[1] - 1, s=settings.s)
        plan = transport.solve(scores, mass, mass, settings).dense()
    figure = Figure(figsize=(14, HIGH - LOW))
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.set(xlim=(0, 14), ylim=(LOW, HIGH))
    canvas.axis("off")
    for row, (picture, features) in enumerate(zip(pictures, viz.principal_components(maps), strict=True)):
        bottom = 3.55 - 2.35 * row
        show(figure, (0.25, bottom), 1.9, picture.permute(1, 2, 0).numpy(), "target image" if row else "source image")
        arrow(canvas, (2.2, bottom + 0.95), (2.75, bottom + 0.95))
        arrow(canvas, (4.35, bottom + 0.95), (4.9, bottom + 0.95))
        show(figure, (4.95, bottom), 1.9, features.numpy(), "features")
    box(canvas, (2.8, 1.2), (1.5, 4.25), "one encoder\n\nfrozen ViT\n+\nLoRA\n(trained)", TEAL)
    arrow(canvas, (6.9, 4.5), (7.45, 3.9))
    arrow(canvas, (6.9, 2.15), (7.45, 2.75))
    show(figure, (7.5, 2.3), 2.0, scores[0].numpy(), "scores C: cosines,\nbordered by the bin z")
    arrow(canvas, (9.55, 3.3), (10.15, 3.3))
    show(figure, (10.2, 2.3), 2.0, plan[0, :-1, :-1].sqrt().numpy(), "plan P (transport),\nwith a bin")
    box(canvas, (12.5, 3.5), (1.35, 1.5), "training:\nloss on P at\nkeypoints\nand bins", ORANGE)
    box(canvas, (12.5, 1.6), (1.35, 1.5), "inference:\nbest cosine,\nor below the\nthreshold:\nnot visible", TEAL)
    arrow(canvas, (12.25, 3.5), (12.5, 4.1))
    canvas.annotate(
        "", (12.5, 2.0), (8.5, 2.25), arrowprops={"arrowstyle": "-|>", "color": TEAL, "connectionstyle": "arc3,rad=0.3"}
    )
    viz.save(figure, folder / "method.png")


def show(figure: Figure, corner: tuple[float, float], side: float, values: np.ndarray, title: str) -> None:
    """A square picture with a title above it, at a place in inches."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((corner[0] / width, (corner[1] - LOW) / height, side / width, side / height))
    axes.imshow(values, aspect="auto", interpolation="nearest", cmap="viridis")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=13, color=INK, pad=5)


def box(canvas: Axes, corner: tuple[float, float], size: tuple[float, float], text: str, colour: str) -> None:
    """A rounded box with text in its middle."""
    patch = FancyBboxPatch(corner, *size, boxstyle="round,pad=0.02,rounding_size=0.12", fc="white", ec=colour, lw=2)
    canvas.add_patch(patch)
    middle = corner[0] + size[0] / 2, corner[1] + size[1] / 2
    canvas.text(*middle, text, ha="center", va="center", fontsize=14, color=colour)


def arrow(canvas: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow between two places."""
    canvas.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, color=INK, lw=1.4))


if __name__ == "__main__":
    main()
