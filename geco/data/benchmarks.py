"""Images of the benchmarks: what a validation or test list holds, so that training lists can leave it out.

SPair-71k, PF-PASCAL, Animal-Pose and the PASCAL keypoints all take images from PASCAL VOC: one that is trained on
in one dataset may be tested on in another. They have the same name everywhere, VOC's id, such as 2008_000585;
benchmark_images.json lists the ids by dataset and split.
"""

import json
from functools import cache
from importlib.resources import files


@cache
def benchmark_lists() -> dict[str, frozenset[str]]:
    """VOC ids of the images of each list, such as "spair test"."""
    lists = json.loads(files("geco.data").joinpath("benchmark_images.json").read_text())
    return {name: frozenset(ids) for name, ids in lists.items()}


def benchmark_images(*, besides: str = "") -> frozenset[str]:
    """VOC ids of the images of all lists, except the list named `besides`."""
    return frozenset[str]().union(*(ids for name, ids in benchmark_lists().items() if name != besides))
