"""The gallery: a tour on four images of animals, as PNGs and one self-contained page."""

import html
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import UInt8
from matplotlib.figure import Figure
from torch import Tensor

from geco import api, images, viz
from geco.demo.examples import find_images
from geco.matching.settings import MatchSettings
from geco.models import Extractor
from geco.system import Progress, files, silent
from geco.types import FeatureMap

Point = tuple[float, float]
# Left and right are the animal's own; pixels of the 256 × 256 image of the cheetah.
FACE: dict[str, Point] = {
    "right eye": (89, 92),
    "left eye": (162, 92),
    "nose": (125, 147),
    "right ear": (45, 50),
    "left ear": (208, 47),
    "chin": (130, 182),
}
TAIL: dict[str, Point] = {
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
    draw: Callable[[], Figure]


def draw(
    encoder: Extractor,
    folder: Path,
    *,
    threshold: float | None = None,
    backbone: Extractor | None = None,
    progress: Progress = silent,
) -> Path:
    """Write the tour's pictures and its page into a folder; returns the page.

    `backbone`, the encoder before training, adds a picture of what training changed.
    """
    times: dict[str, float] = {}
    pictures = {name: images.read(path) for name, path in find_images().items()}
    with _timed("encoding four images", times):
        tour = Tour(encoder, pictures, threshold=threshold)
    exhibits = tour.exhibits()
    if backbone is not None:
        with _timed("encoding two of them without the adapter", times):
            before = Tour(backbone, {name: pictures[name] for name in ("cheetah", "cub")})
        after = [exhibit.file for exhibit in exhibits].index(LEFT_OR_RIGHT) + 1
        exhibits.insert(after, before.untrained())
    exhibits = [replace(exhibit, file=f"{number}-{exhibit.file}") for number, exhibit in enumerate(exhibits, 1)]
    for number, exhibit in enumerate(exhibits, 1):
        with _timed(exhibit.heading, times):
            viz.save(exhibit.draw(), folder / exhibit.file)
        progress("pictures", number, len(exhibits))
    return files.replace_text(folder / "index.html", _page(tour, exhibits, folder, times))


class Tour:
    """One encoder and what it makes of some images."""

    def __init__(
        self, encoder: Extractor, pictures: Mapping[str, UInt8[Tensor, "3 _ _"]], *, threshold: float | None = None
    ) -> None:
        self.encoder, self.pictures = encoder, dict(pictures)
        self.settings: MatchSettings = api.match_settings(encoder, threshold=threshold)
        self.title = encoder.name if encoder.adapted else f"{encoder.name}, bare backbone"
        maps = encoder.extract_batch(list(pictures.values()))
        self.maps: dict[str, FeatureMap] = dict(zip(pictures, maps, strict=True))

    def exhibits(self) -> list[Exhibit]:
        """The pictures of the tour, best first."""
        left_eye, tail = FACE["left eye"], TAIL["tail tip"]
        return [
            Exhibit(
                "cheetah-to-cub.png",
                "From a cheetah to a cub",
                "Six points of one face, found on another animal of the same kind. The numbers below are similarities.",
                lambda: self._transfer("cheetah", "cub", FACE),
            ),
            Exhibit(
                "cheetah-to-lion.png",
                "From a cheetah to a lion",
                "The same six points on another species.",
                lambda: self._transfer("cheetah", "lion", FACE),
            ),
            Exhibit(
                "hidden.png",
                "What is not there",
                f"Three points of a running cheetah; the portrait shows no tail and no foot. A point whose best "
                f"similarity is below {self.settings.threshold:.2f} is reported as not visible.",
                lambda: self._transfer("runner", "cheetah", TAIL),
            ),
            Exhibit(
                LEFT_OR_RIGHT,
                "Left or right?",
                "Similarity of every pixel to the left eye. Look whether the right eye is as warm as the left one.",
                lambda: self._heat("cheetah", "cub", left_eye),
            ),
            Exhibit(
                "heat-tail.png",
                "A tail without a counterpart",
                "Similarity of every pixel to a tail that the other image does not show.",
                lambda: self._heat("runner", "cheetah", tail),
            ),
            Exhibit(
                "matches.png",
                "Dense matches",
                "Patches that are each other's most similar one.",
                lambda: self._matches("cheetah", "cub"),
            ),
            Exhibit(
                "components.png",
                "What the features see",
                "The three strongest principal components of all four feature maps together, as colours: "
                "equal colours are similar features.",
                self._components,
            ),
        ]

    def untrained(self) -> Exhibit:
        """The heat map of the left eye again, for an encoder that was not trained."""
        return Exhibit(
            "heat-before-training.png",
            "The same before training",
            "What the bare backbone makes of the picture above.",
            lambda: self._heat("cheetah", "cub", FACE["left eye"]),
        )

    def _transfer(self, source: str, target: str, points: Mapping[str, Point]) -> Figure:
        pair = self.maps[source], self.maps[target]
        matches = api.transfer(*pair, list(points.values()), model=self.encoder, settings=self.settings)
        pictures = self.pictures[source], self.pictures[target]
        return viz.draw_transfer(*pictures, matches, names=list(points), title=self.title, labels=(source, target))

    def _matches(self, source: str, target: str) -> Figure:
        matches = api.match(self.maps[source], self.maps[target], model=self.encoder, settings=self.settings)
        pictures = self.pictures[source], self.pictures[target]
        return viz.draw_matches(*pictures, matches, title=self.title, labels=(source, target))

    def _heat(self, source: str, target: str, point: Point) -> Figure:
        pair = self.maps[source], self.maps[target]
        heat = api.heatmap(*pair, point, model=self.encoder, settings=self.settings)
        pictures = self.pictures[source], self.pictures[target]
        return viz.draw_heatmap(
            *pictures, point, heat, threshold=self.settings.threshold, title=self.title, labels=(source, target)
        )

    def _components(self) -> Figure:
        return viz.draw_components(list(self.pictures.values()), list(self.maps.values()), title=self.title)


@contextmanager
def _timed(what: str, times: dict[str, float]) -> Iterator[None]:
    """Note how long something took."""
    start = time.perf_counter()
    yield
    times[what] = time.perf_counter() - start


STYLE = """:root { color-scheme: light dark; --edge: color-mix(in srgb, currentColor 18%, transparent) }
body { max-width: 62rem; margin: 3rem auto; color: inherit } h2 { margin: 2.6rem 0 .3rem; font-size: 1.25rem }
p { margin: .3rem 0 .8rem; max-width: 46rem }
img { width: 100%; border: 1px solid var(--edge); border-radius: 8px; background: white }
td { border: none } td:last-child { font-variant-numeric: tabular-nums }"""
TRAINED = "Trained with geco's transport loss."
UNTRAINED = (
    "This is a bare backbone without an adapter: it was not trained to tell left from right, nor to know what is "
    "hidden, and its mistakes below are its own."
)


def _page(tour: Tour, exhibits: list[Exhibit], folder: Path, times: Mapping[str, float]) -> str:
    encoder, threshold = tour.encoder, tour.settings.threshold
    options = "".join(f", {name} {value}" for name, value in encoder.config.options.items())
    body = [
        "<h1>geco gallery</h1>",
        f"<p>Model: <b>{html.escape(encoder.name)}</b>{html.escape(options)}, {encoder.input_size} px. "
        f"{TRAINED if encoder.adapted else UNTRAINED} Not visible: best similarity below {threshold:.2f}.</p>",
        f'<p class="note">{html.escape(encoder.note)}</p>',
    ]
    for exhibit in exhibits:
        heading, about = html.escape(exhibit.heading), html.escape(exhibit.about)
        body.append(f"<h2>{heading}</h2>\n<p>{about}</p>\n{viz.embedded_image(folder / exhibit.file, heading)}")
    rows = "".join(f"<tr><td>{html.escape(what)}</td><td>{seconds:.1f} s</td></tr>" for what, seconds in times.items())
    body.append(f"<h2>How long it took</h2>\n<table>{rows}</table>")
    machine = f"On {encoder.device}, {torch.get_num_threads()} threads."
    body.append(f'<p class="note">{machine} The images are from the wheel of gradio.</p>')
    return viz.page("geco gallery", "\n".join(body), style=STYLE)
