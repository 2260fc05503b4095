"""AP-10K (Yu et al. 2021) with the pairs of GeoAware-SC (Zhang et al. 2024): 54 species of 23 families.

    root/ImageAnnotation/<family>/<species>/<image>.json
    root/PairAnnotation/<list>.jsonl, or a folder root/PairAnnotation/<list>/*.json made by others
    root/data/<image>.jpg as released, or root/JPEGImages/<family>/<species>/<image>.jpg

`geco data prepare ap10k root` writes the first two from the release. The lists are trn, val and test (pairs
within a species), {val,test}_cross_species and {val,test}_cross_family. The paths in a pair are those of the
machine that made it: only their end, <family>/<species>/<image>.json, counts.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from geco import checks
from geco.data import (
    PIXEL_CENTRE,
    PairBuilder,
    Pairs,
    box_on,
    choose,
    field,
    image_size,
    keypoints,
    numbers,
    parse_json,
    published_skeletons,
    read_json,
    read_text,
    tolerating,
)
from geco.datasets.ap10k.preparation import prepare
from geco.errors import InputError, MissingFileError
from geco.types import Skeleton, View

__all__ = ["PROTOCOLS", "PUBLISHED", "SPLITS", "load", "prepare", "variants"]

SPLITS = ("train", "val", "test")
PROTOCOLS = ("intra-species", "cross-species", "cross-family")
# of all protocols, in thousands: the exact numbers depend on how a file system lists its files
PUBLISHED = {"train": {"pairs": 261_000}, "val": {"pairs": 17_000}, "test": {"pairs": 36_000}}
# The authors' code exchanges only eyes, elbows and knees; others count as points without counterpart.
_AUTHORS_TWINS = (1, 0, 2, 3, 4, 5, 9, 7, 8, 6, 10, 11, 15, 13, 14, 12, 16)


def load(
    root: str | Path,
    split: str,
    *,
    protocol: str = "intra-species",
    twins: str = "all",
    faults: list[str] | None = None,
) -> Pairs:
    """The listed pairs, in the order of the list (of the file names, for a folder of pair files).

    `twins="authors"` gives `twin` the counterparts that the authors' evaluation really uses, to compare its
    classes. `faults`: collects what is wrong and leaves those pairs out, instead of raising.
    """
    root = Path(root)
    choose(split, SPLITS, what="split")
    choose(protocol, PROTOCOLS, what="protocol")
    choose(twins, ("all", "authors"), what="twins")
    if split == "train" and protocol != "intra-species":
        raise InputError(f"{protocol} pairs exist for val and test only, got split 'train'")
    skeleton = published_skeletons("ap10k")["animal"]
    if twins == "authors":
        skeleton = replace(skeleton, twin=_AUTHORS_TWINS)
    builder = PairBuilder(partial(_view, root, skeleton), faults)
    list_name = ("trn" if split == "train" else split) + {
        "intra-species": "",
        "cross-species": "_cross_species",
        "cross-family": "_cross_family",
    }[protocol]
    for where, text in _pair_texts(root, list_name):
        with tolerating(faults):
            source, target = _ends(text, where)
            category = {"intra-species": source[1], "cross-species": source[0]}.get(protocol, "all")
            builder.add(source, target, category, skeleton)
    return builder.pairs()


def variants(split: str) -> list[dict[str, str]]:
    """The options under which a split is to be counted: its protocols."""
    return [{"protocol": p} for p in (PROTOCOLS[:1] if split == "train" else PROTOCOLS)]


def _pair_texts(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """(where it stands, JSON text) of every pair of a list."""
    lines = root / "PairAnnotation" / f"{name}.jsonl"
    folder = root / "PairAnnotation" / name
    if lines.is_file():
        for number, line in enumerate(read_text(lines, what="one pair per line").splitlines(), 1):
            yield f"{lines}:{number}", line
    elif folder.is_dir():
        for path in sorted(folder.glob("*.json")):
            yield str(path), read_text(path, what="a pair")
    else:
        raise MissingFileError(
            f"{lines}: no such file, and no folder {name} of pair files; "
            f"make them with `geco data prepare ap10k {root}`"
        )


def _ends(text: str, where: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """(family, species, image) of the two images of a pair."""
    record = parse_json(text, where, what="src_json_path and trg_json_path")
    ends = []
    for key in ("src_json_path", "trg_json_path"):
        parts = field(record, key, str, where).replace("\\", "/").split("/")
        if len(parts) < 3:
            raise InputError(f"{where}: {key} should end in <family>/<species>/<image>.json, got {'/'.join(parts)!r}")
        ends.append((parts[-3], parts[-2], parts[-1].removesuffix(".json")))
    return ends[0], ends[1]


def _view(root: Path, skeleton: Skeleton, family: str, species: str, image: str) -> View:
    path = root / "ImageAnnotation" / family / species / f"{image}.json"
    record = read_json(path, what="an image annotation of AP-10K")
    where = str(path)
    x, y, width, height = numbers(field(record, "bbox", list, where), 4, f"{where}: bbox", form="[x, y, width, height]")
    count = len(skeleton)
    flat = numbers(
        field(record, "keypoints", list, where), 3 * count, f"{where}: keypoints", form=f"{count} × (x, y, v)"
    )
    size = image_size(field(record, "height", int, where), field(record, "width", int, where), where)
    moved = root / "JPEGImages" / family / species / f"{image}.jpg"
    file = field({"file_name": f"{image}.jpg", **record}, "file_name", str, where)
    return View(
        moved if checks.is_file(moved) else root / "data" / file,
        size,
        # Clicks on whole pixels, counted from 0.
        keypoints(list(zip(flat[0::3], flat[1::3], strict=True)), [v > 0 for v in flat[2::3]], shift=PIXEL_CENTRE),
        box_on(size, (x, y, x + width, y + height), f"{where}: bbox"),
        name=image,
    )
