"""`geco app`: a page to click on, served from this machine."""

from typing import Annotated

import typer

from geco.cli import _options as options
from geco.cli._terminal import notes
from geco.demo.settings import AppSettings

PANEL = "Images"
DEFAULTS = AppSettings()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("app", rich_help_panel=PANEL)(serve_page)


def serve_page(
    host: Annotated[
        str, typer.Option("--host", help="Address to serve at; 0.0.0.0 lets the whole network in.")
    ] = DEFAULTS.host,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to serve at.", show_default="the first free one from 7860")
    ] = DEFAULTS.port,
    share: Annotated[
        bool, typer.Option("--share", help="Also ask gradio's servers for a public address, open to anyone.")
    ] = DEFAULTS.share,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    megabytes: Annotated[float, typer.Option(help="Largest file that can be uploaded, in MB.")] = DEFAULTS.megabytes,
    megapixels: Annotated[
        float, typer.Option(help="Largest image that can be uploaded, in megapixels.")
    ] = DEFAULTS.megapixels,
    minutes: Annotated[
        float, typer.Option(help="Minutes without a click after which a visitor's images are deleted.")
    ] = DEFAULTS.minutes,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, load the model, and stop.")] = False,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
) -> None:
    """Open a web page to try a model: find points and parts of images in others, label images, compare models.

    It is served to this machine only, needs no internet, and keeps images in memory until the page is closed.
    Ctrl-C ends it. Needs the extra demo ([b]pip install 'geco-features\\[demo]'[/b]).

    Examples: [b]geco app[/b] · [b]geco app --port 8000 --no-browser[/b] · [b]geco app -m focus-small[/b]
    """
    settings = AppSettings(
        host=host, port=port, share=share, megabytes=megabytes, megapixels=megapixels, minutes=minutes
    )
    from geco import demo

    demo.check_package()
    place = demo.free_port(settings)  # before anything is loaded: a port in use costs no waiting
    encoder = options.load_model(model, layer=layer, size=size, device=device, dtype=dtype)
    studio = demo.Studio(demo.of_model(encoder, device=device, dtype=dtype), settings, threshold=threshold)
    if dry_run:
        notes.print(f"everything is ready to be served at http://{host}:{place}/")
        return
    with notes.status("starting the page"):
        page = demo.serve(studio, open_browser=browser)
    notes.print(f"geco app: {page.url}" + (f" and, open to anyone, {page.public}" if page.public else ""))
    notes.print("Ctrl-C ends it, and deletes what was uploaded.", style="dim")
    try:
        page.wait()
    except KeyboardInterrupt:
        page.close()
        notes.print("geco app has ended.")
