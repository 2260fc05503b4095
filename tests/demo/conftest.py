"""A studio with a tiny random model, images for it, and a browser for pages that are served."""

import io
import os
from pathlib import Path

import pytest
import torch
from browsers import CHROMIUM, FLAGS
from PIL import Image
from tiny_model import fresh

import geco
from geco.demo import Encoders, Studio, serve
from geco.demo.settings import AppSettings


@pytest.fixture(scope="session")
def tiny_encoder(tiny_folder):
    return fresh(tiny_folder)


@pytest.fixture
def studio(tiny_encoder, tiny_folder):
    """A studio of two models."""

    def other():
        encoder = fresh(tiny_folder, norm=False)
        encoder.name = "other"
        return encoder

    return Studio(Encoders(tiny_encoder, {"other": other}), AppSettings(images=4, points=3, waiting=2))


@pytest.fixture(scope="session")
def uploaded():
    """The content of a small PNG file of smooth random colours."""

    def encode(seed=0, size=(120, 90)):
        noise = (torch.rand(6, 8, 3, generator=torch.Generator().manual_seed(seed)) * 255).byte().numpy()
        buffer = io.BytesIO()
        Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(buffer, "PNG")
        return buffer.getvalue()

    return encode


# --- a page that is served --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def packaged_encoder():
    return geco.load(device="cpu")


@pytest.fixture(scope="module")
def address(studio):
    """Where the module's studio is served; it has one of its own."""
    page = serve(studio)
    yield page.url
    page.close()


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Where screenshots go."""
    folder = Path(os.environ.get("GECO_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
