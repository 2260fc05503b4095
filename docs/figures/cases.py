"""Draws the sheets of docs/model-geco-s.md: `python docs/figures/cases.py` (needs the [backbone] extra and the
example images that come with gradio: `pip install --no-deps gradio`).

Queries of the cases 11, 10 and 01 on four images that were not used in training. Left and right are the animal's own.
The lion's right ear is under its mane, the runner shows its right side.
"""

from pathlib import Path

import torch

import geco
from geco import geometry, images, viz
from geco.demo import gallery
from geco.evaluation import keypoints
from geco.matching.settings import MatchSettings
from geco.types import Keypoints, Pair, Skeleton, View

HERE = Path(__file__).parent
POINTS: dict[str, dict[str, tuple[float, float]]] = {
    "cheetah": {"left eye": (162, 92), "right eye": (89, 92), "left ear": (208, 47), "right ear": (45, 50)},
    "cub": {"left eye": (486, 310), "right eye": (264, 330), "left ear": (647, 175), "right ear": (92, 205)},
    "lion": {"left eye": (133, 65), "right eye": (103, 66), "left ear": (157, 42)},
    "runner": {"right eye": (365, 135)},
}
NAMES = tuple(POINTS["cheetah"])
HEAD = Skeleton(NAMES, twin=(1, 0, 3, 2), mirror=(1, 0, 3, 2))
EYES = Skeleton(NAMES[:2], twin=(1, 0), mirror=(1, 0))
AROUND_RUNNER = (60, 10, 400, 350)  # a square around it, as in the evaluation of animals
PAIRS = (("cheetah", "cub"), ("cub", "lion"), ("cheetah", "lion"), ("cub", "runner"), ("cheetah", "runner"))


def view(name: str, file: Path, skeleton: Skeleton) -> View:
    """An image with the points of a skeleton that are visible in it."""
    xy = torch.tensor([POINTS[name].get(point, (0.0, 0.0)) for point in skeleton.names]).float()
    visible = torch.tensor([point in POINTS[name] for point in skeleton.names])
    shown = View(file, images.size_of(file), Keypoints(xy, visible), name=name)
    return geometry.frame(shown, AROUND_RUNNER) if name == "runner" else shown


def main(folder: Path = HERE) -> None:
    """Write one sheet for each case."""
    files, model = gallery.find_images(), geco.load(device="cpu")
    pairs = []
    for source, target in PAIRS:
        skeleton = EYES if target == "runner" else HEAD  # its two ears cannot be told apart
        sides = (view(name, files[name], skeleton) for name in (source, target))
        pairs.append(Pair(*sides, skeleton, f"{source} → {target}"))
    way = MatchSettings(threshold=model.threshold)
    predictions = keypoints.predict(model, pairs, [way])
    for case, examples in keypoints.examples(model, pairs, predictions, way).items():
        title = f"{case}: {viz.MEANING[case]} ({model.name}, {model.input_size} px)"
        viz.save(viz.sheet(examples, title=title), folder / f"cases-{case}.jpg")


if __name__ == "__main__":
    main()
