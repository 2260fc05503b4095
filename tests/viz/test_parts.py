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


def test_parts_stay_apart_from_a_dark_image():
    """Every part differs visibly from the faded image below it, also where that is black."""
    labels = torch.arange(12).reshape(3, 4)
    figure = part_map(torch.zeros(3, 30, 40), labels, [str(i) for i in range(12)])
    drawn(figure)
    below, above = (shown.get_array() for shown in figure.axes[0].images)
    assert below.min() > 120, "light, however dark the image is"
    grey = below.max() / 255
    for colour in part_colours(12)[1:]:
        mixed = 0.65 * np.array(colour) + 0.35 * grey
        assert np.abs(mixed - grey).max() > 0.1
    assert np.ma.count(above) == 11


def test_a_label_image_holds_the_labels_and_has_a_palette(tmp_path):
    from PIL import Image

    from geco.propagation import read_labels
    from geco.viz import palette_image

    labels = torch.tensor([[0, 1, 2], [255, 3, 0]])
    palette_image(labels).save(tmp_path / "parts.png")
    with Image.open(tmp_path / "parts.png") as image:
        assert image.mode == "P"
        colours = np.asarray(image.convert("RGB"))
    assert (colours[0, 0] == 0).all(), "background is black"
    assert len({tuple(colour) for colour in colours.reshape(-1, 3).tolist()}) == 5
    assert read_labels(tmp_path / "parts.png", (2, 3)).tolist() == labels.tolist()
    palette_image(labels * 2).save(tmp_path / "many.png")
    assert read_labels(tmp_path / "many.png", (2, 3)).tolist() == (labels * 2).tolist()
