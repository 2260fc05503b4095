"""`geco app`: checked before anything is loaded; the page itself is tested in tests/demo."""

import socket

import pytest
from typer.testing import CliRunner

from geco import demo
from geco.cli import build, run


@pytest.fixture
def with_gradio(monkeypatch):
    monkeypatch.setattr("geco.demo.page.check_package", lambda: None)


def test_a_dry_run_loads_the_model_and_serves_nothing(tiny_folder, with_gradio, capfd):
    assert run(["app", "-m", str(tiny_folder), "--size", "56", "--dry-run"]) == 0
    assert "ready to be served at http://127.0.0.1:" in capfd.readouterr().err


def test_it_serves_until_it_is_stopped(tiny_folder, with_gradio, monkeypatch, capfd):
    served = []

    def serve(studio, *, open_browser):
        served.append((studio.settings, open_browser, studio.threshold))
        return demo.Served("http://127.0.0.1:7860/", None, lambda: None, lambda: None)

    monkeypatch.setattr("geco.demo.page.serve", serve)
    options = ["--no-browser", "--minutes", "5", "--threshold", "0.7"]
    assert run(["app", "-m", str(tiny_folder), "--size", "56", *options]) == 0
    ((settings, open_browser, threshold),) = served
    assert (settings.host, settings.share, settings.minutes) == ("127.0.0.1", False, 5)
    assert (open_browser, threshold) == (False, 0.7)
    shown = capfd.readouterr().err
    assert "geco app: http://127.0.0.1:7860/" in shown
    assert "open to anyone" not in shown


def test_control_c_is_how_it_ends(tiny_folder, with_gradio, monkeypatch, capfd):
    closed = []

    def interrupted():
        raise KeyboardInterrupt

    served = demo.Served("http://127.0.0.1:7860/", None, interrupted, lambda: closed.append(True))
    monkeypatch.setattr("geco.demo.page.serve", lambda studio, *, open_browser: served)
    assert run(["app", "-m", str(tiny_folder), "--size", "56"]) == 0
    assert closed
    assert "has ended" in capfd.readouterr().err


def test_mistakes_are_one_line_before_the_model_is_loaded(with_gradio, capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for options, message in (
            (["--port", port], "cannot be served at"),
            (["--host", "example.org"], "host must be an address of this machine"),
            (["--megabytes", "nan"], "megabytes"),
            (["--minutes", "-1"], "minutes"),
        ):
            assert run(["app", "-m", "nowhere", *options]) in (1, 2)
            shown = capfd.readouterr().err
            assert message in shown
            assert len(shown.splitlines()) == 1


def test_the_help_has_examples():
    shown = CliRunner().invoke(build(), ["app", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert "geco app --port 8000" in shown
    assert "127.0.0.1" in shown
