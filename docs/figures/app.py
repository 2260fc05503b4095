"""Takes the picture of docs/app.md: `python docs/figures/app.py` (needs the extras [backbone] and [demo], playwright,
and Chromium, whose path GECO_CHROMIUM may name)."""

import os
import shutil
import tempfile
from pathlib import Path

from matplotlib import colormaps
from PIL import Image
from playwright.sync_api import sync_playwright

import geco
from geco import demo, viz

HERE = Path(__file__).parent


def in_few_colours(picture: Image.Image) -> Image.Image:
    """The picture in 256 colours, a third of its size; the colours of points and similarity maps are kept."""
    points = [int(colour[i : i + 2], 16) for colour in viz.PALETTE for i in (1, 3, 5)]
    heat = [255, 255, 255]  # white
    heat += [round(255 * value) for share in range(17) for value in colormaps["viridis"](share / 16)[:3]]
    of_images = picture.quantize(256 - (len(points) + len(heat)) // 3).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*of_images, *points, *heat])
    return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def main(folder: Path = HERE) -> None:
    """Write the picture."""
    page = demo.serve(demo.Studio(demo.of_model(geco.load(device="cpu"))))
    chromium = os.environ.get("GECO_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as place:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1180, "height": 900})
        tab.goto(page.url)
        tab.click("[data-example=species]")
        tab.click("text=other side")
        tab.wait_for_selector(".panel[data-slot='2'] .mark.twin")
        tab.wait_for_selector("html:not([data-geco-busy])", state="attached")
        tab.screenshot(path=Path(place) / "app.png", full_page=True)
        browser.close()
        with Image.open(Path(place) / "app.png") as picture:
            in_few_colours(picture.convert("RGB")).save(folder / "app.png", optimize=True)
    page.close()


if __name__ == "__main__":
    main()
