"""The page of review in a real browser: a point is dragged, another hidden, and the corrections load as labels."""

import numpy as np
import pytest
import torch
from browsers import CHROMIUM, FLAGS, NEEDED
from PIL import Image

from geco import viz
from geco.propagation import HIDDEN, VISIBLE, read_annotations
from geco.types import Skeleton

pytestmark = NEEDED


@pytest.fixture
def page(tmp_path):
    from playwright.sync_api import sync_playwright

    cards = []
    for name, unsure in (("sure.png", 0.1), ("unsure.png", 0.9)):
        pixels = np.full((300, 400, 3), 90, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
        places = torch.tensor([[100.0, 150.0], [300.0, 150.0]])
        shown = viz.Shown(places, torch.tensor([2, 2]), torch.full((2,), unsure), [name == "unsure.png", False])
        cards.append(viz.Card(name, str(tmp_path / name), torch.from_numpy(pixels).permute(2, 0, 1), [shown]))
    skeleton = Skeleton(("left eye", "right eye"), (1, 0), (1, 0))
    content = viz.review_page(cards, skeleton, [(0, 1)], title="r", category="cat", following=["unsure.png"], total=9)
    (tmp_path / "review.html").write_text(content)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else faults.append(one.url)
        )
        page.goto((tmp_path / "review.html").as_uri())
        yield page
        browser.close()
        assert not faults


def test_points_are_corrected_and_saved(page, tmp_path):
    assert page.locator(".card h2").all_inner_texts() == ["unsure.png", "sure.png"]
    assert "7 less uncertain ones" in page.locator("#summary").inner_text()
    assert page.locator("#save").is_disabled()
    first = page.locator(".card").first
    left, right = (first.locator(f"circle[aria-label^='{side}']") for side in ("left eye", "right eye"))
    box, picture = left.bounding_box(), first.locator("svg").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    scale = 400 / picture["width"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 10, y + 10)
    page.mouse.move(x + 40, y + 20)
    page.mouse.up()
    right.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("h")
    assert page.locator("#count").inner_text() == "1 image to save"
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "corrections.json")
    (image,) = read_annotations(tmp_path / "corrections.json").images
    assert image.path.name == "unsure.png"
    (animal,) = image.animals
    assert animal.state.tolist() == [VISIBLE, HIDDEN]
    expected = [[100 + 40 * scale, 150 + 20 * scale], [299, 160]]
    assert (animal.xy - torch.tensor(expected)).abs().max() < 1.5


def test_a_filter_shows_one_keypoint_and_only_images_whose_side_is_unsure(page):
    page.check("#sides")
    assert page.locator(".card h2").all_inner_texts() == ["unsure.png"]
    page.select_option("#keypoint", label="right eye")
    assert page.locator(".card").count() == 0
    page.uncheck("#sides")
    shown = page.locator(".card circle").evaluate_all("marks => marks.filter(m => m.style.display === '').length")
    assert shown == 2
