"""The tour on the images of the gradio wheel: real pictures, a tiny random encoder."""

import importlib.util

import pytest
from PIL import Image
from tiny_model import fresh
from typer.testing import CliRunner

from geco.cli import build
from geco.demo import gallery

needs_examples = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None,
    reason="needs the images of gradio (pip install --no-deps gradio)",
)


@needs_examples
def test_the_gallery_is_pictures_and_one_self_contained_page(tiny_folder, tmp_path):
    arguments = [
        "gallery",
        "-o",
        str(tmp_path / "tour"),
        "-m",
        str(tiny_folder),
        "--size",
        "112",
        "--bin",
        "0.5",
    ]
    result = CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert result.exit_code == 0
    pictures = sorted((tmp_path / "tour").glob("*.png"))
    assert len(pictures) == 7
    for path in pictures:
        with Image.open(path) as picture:
            assert picture.width == 1500
            assert len(picture.convert("RGB").getcolors(1 << 24)) > 1000, "an image, not an empty panel"
    page = (tmp_path / "tour" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 7
    assert "http" not in page.replace("http-equiv", ""), "nothing is fetched"
    assert "bare backbone" in page
    assert "below 0.50" in page


@needs_examples
def test_a_trained_model_is_shown_beside_its_backbone(tiny_folder, tmp_path):
    fresh(tiny_folder).save_pretrained(tmp_path / "adapter")
    arguments = ["gallery", "-o", str(tmp_path / "tour"), "-m", str(tmp_path / "adapter")]
    result = CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert result.exit_code == 0
    names = [path.name for path in sorted((tmp_path / "tour").glob("*.png"))]
    assert len(names) == 8
    assert names[3:5] == ["4-heat-left-eye.png", "5-heat-before-training.png"]
    assert (tmp_path / "tour" / "index.html").read_text().count("data:image/png;base64,") == 8


@needs_examples
def test_the_points_lie_on_their_images():
    for points, name in ((gallery.FACE, "cheetah"), (gallery.TAIL, "runner")):
        with Image.open(gallery.find_images()[name]) as picture:
            assert all(0 < x < picture.width and 0 < y < picture.height for x, y in points.values())


def test_without_gradio_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps gradio"):
        gallery.find_images()
