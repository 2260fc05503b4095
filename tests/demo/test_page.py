"""Serving: what is said without gradio or without a port, and what gradio is told."""

import socket
import sys
import time
import types
from importlib.util import find_spec

import pytest

from geco.demo import page
from geco.demo.settings import AppSettings
from geco.errors import InputError, MissingPackageError


def test_without_gradio_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(page, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(
        MissingPackageError, match=r"needs gradio; install it with: pip install 'geco-features\[demo\]'"
    ):
        page.check_package()


def test_a_port_in_use_is_said_or_passed_over():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port} cannot be served at.*give another --port"):
            page.free_port(AppSettings(port=port))
    assert page.free_port(AppSettings(port=port)) == port
    assert page.free_port(AppSettings()) in page.PORTS
    with pytest.raises(InputError, match="cannot be served at"):
        page.free_port(AppSettings(host="203.0.113.7", port=port))  # an address of no machine here


@pytest.mark.skipif(find_spec("starlette") is None, reason="needs the extra demo (pip install gradio)")
@pytest.mark.parametrize("share", [False, True])
def test_gradio_is_told_to_serve_here_and_to_share_only_if_asked(monkeypatch, studio, share):
    told = {}

    class Blocks:
        def close(self, *, verbose):
            told["closed"] = True

        def launch(self, **options):
            told.update(options)
            return None, "http://127.0.0.1:1/", None

    theme = types.SimpleNamespace(Default=lambda **fonts: fonts)
    monkeypatch.setitem(sys.modules, "gradio", types.SimpleNamespace(themes=theme))
    monkeypatch.setattr(page, "check_package", lambda: None)
    monkeypatch.setattr(page, "build", Blocks)
    studio.settings = AppSettings(share=share)
    monkeypatch.setattr(page, "SWEEP", 0.01)
    served = page.serve(studio)
    assert served.url == "http://127.0.0.1:1/"
    assert (told["server_name"], told["share"], told["inbrowser"]) == ("127.0.0.1", share, False)
    assert told["ssr_mode"] is told["enable_monitoring"] is told["run_history"] is False
    assert all("http" not in font for font in told["theme"]["font"])
    assert "http" not in page.HEAD
    studio.open()
    studio.sessions.clock = lambda: 1e9
    until = time.monotonic() + 10
    while studio.sessions.open_ones and time.monotonic() < until:
        time.sleep(0.01)
    assert not studio.sessions.open_ones, "unused sessions are deleted although no request comes"
    studio.open()
    served.close()
    served.wait()
    assert told["closed"]
    assert not studio.sessions.open_ones, "ending the page deletes everything"
