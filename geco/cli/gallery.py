"""`geco gallery`: a tour in pictures on four animal photographs, as PNGs and one self-contained page."""

import base64
import html
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _options as options
from geco.config.matching import MatchSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.model import Geco

PANEL = "About"

# They ship in the wheel of gradio, which is looked up but never imported.
PHOTOGRAPHS = {
    "cheetah": "media_assets/images/cheetah1.jpg",
    "cub": "test_data/cheetah2.jpg",
    "lion": "media_assets/images/lion.jpg",
    "runner": "media_assets/images/cheetah.jpg",
}
# Left and right are the animal's own; pixels of the 256 × 256 photograph of the cheetah.
FACE: dict[str, tuple[float, float]] = {
    "right eye": (89, 92),
    "left eye": (162, 92),
    "nose": (125, 147),
    "right ear": (45, 50),
    "left ear": (208, 47),
    "chin": (130, 182),
}
TAIL: dict[str, tuple[float, float]] = {
    "tail tip": (90, 141),
    "hind foot": (230, 222),
    "nose": (372, 147),
}  # of the running cheetah
LEFT_OR_RIGHT = "heat-left-eye.png"


@dataclass(frozen=True)
class Exhibit:
    """One picture of the tour: its file, what to look at, and how it is made."""

    file: str
    heading: str
    about: str
    draw: Callable[[], "Figure"]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL)(gallery)


def gallery(
    output: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("geco-gallery"),
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    bin: options.Bin = None,
    device: options.Device = "auto",
) -> None:
    """Draw a tour on four animal photographs: transfers, matches, heat maps, components, and a hidden point.

    The photographs are those in the wheel of gradio ([b]pip install --no-deps gradio[/b]).

    Example: [b]geco gallery -o geco-gallery[/b]
    """
    from geco import images

    pictures = {name: images.read(path) for name, path in find_photographs().items()}
    encoder = options.load_model(model, layer=layer, size=size, device=device)
    times: list[tuple[str, float]] = []
    with _Clock("encoding four photographs", times):
        maps = dict(zip(pictures, encoder.extract_batch(list(pictures.values())), strict=True))
    output.mkdir(parents=True, exist_ok=True)
    threshold = encoder.config.bin if bin is None else bin
    shown = exhibits(encoder, pictures, maps, MatchSettings(bin=threshold))
    if encoder.adapted:
        with _Clock("encoding two of them without the adapter", times):
            after = [exhibit.file for exhibit in shown].index(LEFT_OR_RIGHT) + 1
            shown.insert(after, _before_training(encoder, pictures, device=device))
    shown = [replace(exhibit, file=f"{number}-{exhibit.file}") for number, exhibit in enumerate(shown, 1)]
    for exhibit in shown:
        from geco import viz

        with _Clock(exhibit.heading, times):
            viz.save(exhibit.draw(), output / exhibit.file)
    page = output / "index.html"
    page.write_text(_page(encoder, shown, output, times, threshold), encoding="utf-8")
    options.notes.print(f"{len(shown)} pictures and a page: [b]{page}[/b]", soft_wrap=True)


def find_photographs() -> dict[str, Path]:
    """The photographs in the installed gradio."""
    spec = importlib.util.find_spec("gradio")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "the gallery draws on photographs that ship with gradio, which is not installed; "
            "pip install --no-deps gradio, or try geco match on two photographs of your own"
        )
    folder = Path(spec.submodule_search_locations[0])
    paths = {name: folder / file for name, file in PHOTOGRAPHS.items()}
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"this version of gradio has no {missing[0]}; pip install --no-deps gradio==6.31.0")
    return paths


def exhibits(encoder: "Geco", pictures: Any, maps: Any, settings: MatchSettings) -> list[Exhibit]:
    """The pictures of the tour, best first."""
    from geco import matching, viz

    name = encoder.name if encoder.adapted else f"{encoder.name}, bare backbone"

    def carried(start: str, end: str, points: dict[str, tuple[float, float]]) -> "Figure":
        matches = matching.transfer(maps[start], maps[end], _tensor(points.values()), settings)
        return viz.draw_transfer(
            pictures[start], pictures[end], matches, names=list(points), title=name, labels=(start, end)
        )

    def heat(start: str, end: str, point: tuple[float, float]) -> "Figure":
        return _heat(pictures, maps, (start, end), point, settings, title=name)

    def joined(start: str, end: str) -> "Figure":
        matches = matching.mutual(maps[start], maps[end], settings)
        return viz.draw_matches(pictures[start], pictures[end], matches, title=name, labels=(start, end))

    left_eye, tail = FACE["left eye"], TAIL["tail tip"]
    return [
        Exhibit(
            "cheetah-to-cub.png",
            "From a cheetah to a cub",
            "Six points of one face, found on another animal of the same kind. The numbers below are similarities.",
            lambda: carried("cheetah", "cub", FACE),
        ),
        Exhibit(
            "cheetah-to-lion.png",
            "From a cheetah to a lion",
            "The same six points on another species.",
            lambda: carried("cheetah", "lion", FACE),
        ),
        Exhibit(
            "hidden.png",
            "What is not there",
            f"Three points of a running cheetah; the portrait shows no tail and no foot. A point whose best similarity "
            f"is below {settings.bin:.2f} is reported as not visible.",
            lambda: carried("runner", "cheetah", TAIL),
        ),
        Exhibit(
            LEFT_OR_RIGHT,
            "Left or right?",
            "Similarity of every pixel to the left eye. Look whether the right eye is as warm as the left one.",
            lambda: heat("cheetah", "cub", left_eye),
        ),
        Exhibit(
            "heat-tail.png",
            "A tail without a counterpart",
            "Similarity of every pixel to a tail that the other photograph does not show.",
            lambda: heat("runner", "cheetah", tail),
        ),
        Exhibit(
            "matches.png",
            "Dense matches",
            "Patches that are each other's most similar one.",
            lambda: joined("cheetah", "cub"),
        ),
        Exhibit(
            "components.png",
            "What the features see",
            "The three strongest principal components of all four feature maps together, as colours: "
            "equal colours are similar features.",
            lambda: viz.draw_components(list(pictures.values()), list(maps.values()), title=name),
        ),
    ]


def _before_training(encoder: "Geco", pictures: Any, *, device: str) -> Exhibit:
    """The heat map of the left eye again, by the backbone alone at the same layer and size."""
    config = encoder.config
    bare = options.load_model(config.backbone, layer=config.layer, norm=config.norm, size=config.size, device=device)
    shown = ("cheetah", "cub")
    maps = dict(zip(shown, bare.extract_batch([pictures[name] for name in shown]), strict=True))
    settings, title = MatchSettings(bin=bare.config.bin), f"{bare.name}, bare backbone"
    return Exhibit(
        "heat-before-training.png",
        "The same before training",
        "What the bare backbone makes of the picture above.",
        lambda: _heat(pictures, maps, shown, FACE["left eye"], settings, title=title),
    )


def _heat(
    pictures: Any,
    maps: Any,
    names: tuple[str, str],
    point: tuple[float, float],
    settings: MatchSettings,
    *,
    title: str,
) -> "Figure":
    from geco import matching, viz

    start, end = names
    asked = matching.queries(maps[start], _tensor([point]), settings)
    scores = matching.score_maps(asked, matching.prepare(maps[end], settings))[0]
    return viz.draw_heatmap(pictures[start], pictures[end], point, scores, bin=settings.bin, title=title, labels=names)


def _tensor(points: Any) -> Any:
    import torch

    return torch.tensor(list(points), dtype=torch.float32)


class _Clock:
    """Shows a spinner, then how long the step took, and remembers it for the page."""

    def __init__(self, what: str, times: list[tuple[str, float]]) -> None:
        self.what, self.times = what, times

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self.start
        self.times.append((self.what, seconds))
        options.notes.print(f"[dim]{self.what}: {seconds:.1f} s[/]")


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>geco gallery</title>
<style>
:root {{ color-scheme: light dark; --edge: color-mix(in srgb, currentColor 18%, transparent) }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 3rem auto; padding: 0 1.2rem }}
h1 {{ font-size: 2rem; margin: 0 }} h2 {{ margin: 2.6rem 0 .3rem; font-size: 1.25rem }}
p {{ margin: .3rem 0 .8rem; max-width: 46rem }} .note {{ opacity: .75 }}
img {{ width: 100%; border: 1px solid var(--edge); border-radius: 8px; background: white }}
table {{ border-collapse: collapse; font-size: .9rem }} td {{ padding: .15rem 1.2rem .15rem 0 }}
td:last-child {{ text-align: right; font-variant-numeric: tabular-nums }}
</style></head><body>
<h1>geco gallery</h1>
<p>Model: <b>{model}</b>, layer {layer}, {size} px. {kind}</p>
<p class="note">{note}</p>
{exhibits}
<h2>How long it took</h2>
<table>{times}</table>
<p class="note">On {device}, {threads} threads. Photographs: those in the wheel of gradio.</p>
</body></html>
"""


def _page(encoder: "Geco", shown: list[Exhibit], folder: Path, times: list[tuple[str, float]], threshold: float) -> str:
    import torch

    parts = []
    for exhibit in shown:
        data = base64.b64encode((folder / exhibit.file).read_bytes()).decode()
        heading, about = html.escape(exhibit.heading), html.escape(exhibit.about)
        image = f'<img alt="{heading}" src="data:image/png;base64,{data}">'
        parts.append(f"<h2>{heading}</h2>\n<p>{about}</p>\n{image}")
    kind = (
        "Trained with geco's transport loss."
        if encoder.adapted
        else "This is a bare backbone without an adapter: it was not trained to tell left from right, nor to know what "
        "is hidden, and its mistakes below are its own."
    )
    return PAGE.format(
        model=html.escape(encoder.name),
        layer=encoder.config.layer,
        size=encoder.input_size,
        kind=f"{kind} Not visible: best similarity below {threshold:.2f}.",
        note=html.escape(encoder.note),
        exhibits="\n".join(parts),
        times="".join(f"<tr><td>{html.escape(what)}</td><td>{seconds:.1f} s</td></tr>" for what, seconds in times),
        device=encoder.device,
        threads=torch.get_num_threads(),
    )
