"""The page of `geco app`: gradio draws tabs and text and serves them; what happens in them is ours (`static/`)."""

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from geco.demo.settings import AppSettings
from geco.errors import InputError, MissingPackageError

TITLE = "geco: point at it, find it again"
ABOUT = """# geco
Point at an eye, an ear or a paw in one image and find it in another. Everything is computed on this machine;
images stay in its memory and are deleted when you leave the page."""
TABS = {
    "point": "Point",
    "parts": "Parts",
    "labels": "Label many",
    "features": "Features",
    "models": "Models",
}
HEAD = (
    '<link rel="stylesheet" href="geco/static/page.css"><script type="module" src="geco/static/page.js"></script>'
    '<meta name="description" content="Geometry-aware image features, to click on">'
)
SWEEP = 30.0  # seconds
PORTS = range(7860, 7960)
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Served:
    """A page that is being served: its address, the public one if it is shared, and how to wait for its end."""

    url: str
    public: str | None
    wait: Callable[[], object]
    close: Callable[[], None]


def check_package() -> None:
    """Raise if gradio is not installed, or without what it needs to serve a page."""
    if any(find_spec(name) is None for name in ("gradio", "gradio_client", "fastapi", "uvicorn")):
        raise MissingPackageError.of_extra("demo", "gradio", what="the page of geco app")


def free_port(settings: AppSettings) -> int:
    """The port to serve at: the one asked for, or the first that is free."""
    host = LOOPBACK if settings.host in ("localhost", "") else settings.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in PORTS if settings.port is None else (settings.port,):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except PermissionError:
                raise InputError(f"port {port} needs rights that you do not have; give another --port") from None
            except OSError as error:
                if settings.port is not None:
                    raise InputError(
                        f"{host}:{port} cannot be served at: {(error.strerror or str(error)).lower()}; "
                        "give another --port, or none"
                    ) from None
                continue
            return port
    raise InputError(f"no port from {PORTS[0]} to {PORTS[-1]} is free at {host}; give one with --port")


def serve(studio: Any, *, open_browser: bool = False) -> Served:
    """Serve the page of a studio in a thread of its own."""
    check_package()
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # gradio reads it on import; no usage is reported
    import gradio
    from starlette.middleware import Middleware

    from geco.demo import routes

    settings: AppSettings = studio.settings
    port = free_port(settings)
    blocks = build()
    fonts = ["system-ui", "sans-serif"]  # others would be fetched
    _, url, public = blocks.launch(
        server_name=settings.host,
        server_port=port,
        share=settings.share,
        inbrowser=open_browser,
        prevent_thread_lock=True,
        quiet=True,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        run_history=False,
        enable_monitoring=False,
        footer_links=[],
        max_file_size=0,
        head=HEAD,
        theme=gradio.themes.Default(font=fonts, font_mono=["ui-monospace", "monospace"]),
        app_kwargs={
            "routes": routes.routes(studio),
            "middleware": [Middleware(routes.Guard, settings=settings)],
            "docs_url": None,
            "redoc_url": None,
            "openapi_url": None,
        },
    )
    ended = threading.Event()

    def close() -> None:
        ended.set()
        blocks.close(verbose=False)
        for key in list(studio.sessions.open_ones):
            studio.close(key)

    threading.Thread(target=_sweep, args=(studio, ended), daemon=True).start()
    return Served(url, public, lambda: bool(ended.wait()), close)


def _sweep(studio: Any, ended: threading.Event) -> None:
    """Delete unused sessions from time to time, also while no requests come."""
    while not ended.wait(SWEEP):
        studio.sessions.expire()


def build() -> Any:
    """gradio's description of the page: a heading, and an empty element in each tab that our script fills."""
    import gradio

    with gradio.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as blocks:
        gradio.Markdown(ABOUT)
        plain: dict[str, Any] = {"js_on_load": None, "apply_default_css": False}
        gradio.HTML('<div class="geco" data-geco="tray"></div>', **plain)
        with gradio.Tabs():
            for identity, label in TABS.items():
                with gradio.Tab(label, id=identity, render_children=True):
                    gradio.HTML(f'<div class="geco" data-geco="{identity}"></div>', **plain)
    return blocks
