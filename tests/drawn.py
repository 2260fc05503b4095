"""Figures as pixels, to see whether a colour is in them."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg


def drawn(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


def has(pixels, colour, least=10):
    """Whether some pixels are near a colour given as #rrggbb."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels - wanted).sum(-1) < 40).sum()) >= least
