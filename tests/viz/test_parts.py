"""Part maps colour parts and leave background alone."""

import numpy as np
import torch
from drawn import drawn

from geco.viz import part_colours, part_map


def test_a_part_map_colours_parts_and_leaves_background_alone():
    image = torch.full((3, 30, 40), 0.5)
    labels = torch.zeros(3, 4, dtype=torch.long)
    labels[1, 2] = 2
    figure = part_map(image, labels, ["background", "head", "tail"], title="x")
    drawn(figure)
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["tail"]
    assert int(np.ma.count(axes.images[1].get_array())) == 1


def test_colours_of_neighbouring_labels_differ():
    colours = part_colours(20)
    assert len(set(colours)) == 20
