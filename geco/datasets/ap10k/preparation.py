"""The AP-10K pair lists from the raw release: the protocol of GeoAware-SC, made deterministic.

The published lists depend on the order in which a file system lists files. Here images are sorted, and every
list of pairs is drawn from its own seeded stream, so the same release and seed give the same files
everywhere. Images are neither moved nor copied.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

from geco import checks
from geco.data import field, numbers, read_json, read_text
from geco.errors import InputError
from geco.system import files

FILES = ("train", "test", "val")  # of split 1, in the order in which the protocol joins them
N_TEST, N_VAL = 30, 20  # images per species, from the end of the sorted list
MIN_SHARED = 3  # keypoints that must be visible in both images, and in an image at all
PAIRS_PER_TRAIN_IMAGE = 50
CROSS_SPECIES = {"val": 400, "test": 900}  # pairs per family
CROSS_FAMILY = {"val": 20, "test": 30}  # pairs per two families


@dataclass(frozen=True)
class Animal:
    """The first animal of an image."""

    family: str
    species: str
    image: str  # twelve digits
    visible: int  # bit k: keypoint k is visible

    @property
    def path(self) -> str:
        """Its annotation, under the root."""
        return f"ImageAnnotation/{self.family}/{self.species}/{self.image}.json"


_Step = Callable[[str, int], None]


def prepare(
    root: str | Path, *, exclude: str | Path | None = None, seed: int = 42, step: _Step | None = None
) -> dict[str, int]:
    """Write ImageAnnotation and PairAnnotation beside the release's annotations; returns each list's size.

    `exclude` names a file of images to leave out (one per line), such as those with several animals. `step`
    is called with the name and size of each finished list.
    """
    root = Path(root)
    crowded = _names(Path(exclude)) if exclude else set()
    splits = _split(_animals(root, crowded))
    counts = {}
    for name, pairs in _lists(splits, seed):
        counts[name] = _write(root / "PairAnnotation" / f"{name}.jsonl", pairs)
        if step:
            step(name, counts[name])
    return counts


def _animals(root: Path, crowded: set[str]) -> list[Animal]:
    """The first animal of each image, its annotation written; without those that are not to be paired."""
    animals = []
    for record in _records(root):
        image = f"{checks.whole(record['id'], 'the id of an image', least=0, most=10**12 - 1):012d}"
        where = f"image {image}"
        flat = numbers(record["keypoints"], 51, f"{where}: keypoints", form="17 × (x, y, v)")
        animal = Animal(
            record["supercategory"],
            record["name"],
            image,
            sum(1 << k for k, v in enumerate(flat[2::3]) if v > 0),
        )
        path = root / animal.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**record, "is_crowd": int(image in crowded)}), encoding="utf-8")
        if image not in crowded and animal.visible.bit_count() >= MIN_SHARED:
            animals.append(animal)
    return sorted(animals, key=lambda a: (a.family, a.species, a.image))


def _records(root: Path) -> Iterator[dict[str, Any]]:
    done = set()
    for name in FILES:
        path = root / "annotations" / f"ap10k-{name}-split1.json"
        content = read_json(path, what="a file of the AP-10K release")
        where = str(path)
        images = {field(i, "id", int, where): i for i in field(content, "images", list, where)}
        kinds = {field(c, "id", int, where): c for c in field(content, "categories", list, where)}
        for number, record in enumerate(field(content, "annotations", list, where)):
            place = f"{path}: annotations[{number}]"
            image, kind = field(record, "image_id", int, place), field(record, "category_id", int, place)
            if image not in images or kind not in kinds:
                raise InputError(f"{place}: image {image} or category {kind} is not in the file")
            field(record, "keypoints", list, place)
            if image not in done:
                done.add(image)
                kind_fields = {key: _folder_name(kinds[kind], key, where) for key in ("name", "supercategory")}
                yield {**record, **images[image], **kind_fields}


def _folder_name(record: Any, key: str, where: str) -> str:
    """A text that becomes the name of a folder; one that would lead elsewhere is refused."""
    name: str = field(record, key, str, where)
    if not name.strip(". ") or len(name) > 100 or any(c in '/\\:"' or not c.isprintable() for c in name):
        raise InputError(f"{where}: {key} names a folder here, and should be a plain name, got {checks.shown(name)}")
    return name


def _names(path: Path) -> set[str]:
    lines = read_text(path, what="one image name per line").splitlines()
    return {Path(line.strip()).stem for line in lines if line.strip()}


# --- lists ------------------------------------------------------------------------------------------

_BySpecies = dict[str, list[Animal]]
_Pairs = Iterator[tuple[Animal, Animal]]


def _split(animals: Iterable[Animal]) -> dict[str, _BySpecies]:
    """Per species the last 30 images for test, the 20 before for val, the rest for train."""
    of_species: _BySpecies = {}
    for animal in animals:
        of_species.setdefault(animal.species, []).append(animal)
    splits: dict[str, _BySpecies] = {"train": {}, "val": {}, "test": {}}
    for species, members in of_species.items():
        rest, test = members[:-N_TEST], members[-N_TEST:]
        for split, part in (("train", rest[:-N_VAL]), ("val", rest[-N_VAL:]), ("test", test)):
            if part:
                splits[split][species] = part
    return splits


def _lists(splits: dict[str, _BySpecies], seed: int) -> Iterator[tuple[str, _Pairs]]:
    yield "trn", intra_species(splits["train"], seed, PAIRS_PER_TRAIN_IMAGE)
    for split in ("val", "test"):
        yield split, intra_species(splits[split], seed, None)
        yield f"{split}_cross_species", _cross_species(splits[split], seed, CROSS_SPECIES[split])
        yield f"{split}_cross_family", _cross_family(splits[split], seed, CROSS_FAMILY[split])


def intra_species(of_species: _BySpecies, seed: int, per_image: int | None) -> _Pairs:
    """Pairs within each species: all, or this many times as many as the species has images."""
    for species, members in of_species.items():
        random = Random(f"{seed} {species}")
        shuffled = _sample(members, len(members), random)  # else the smaller number would be the source
        valid = [pair for pair in combinations(shuffled, 2) if _fits(*pair)]
        yield from valid if per_image is None else _sample(valid, per_image * len(members), random)


def _cross_species(of_species: _BySpecies, seed: int, count: int) -> _Pairs:
    for family, kinds in _families(of_species).items():
        blocks = (product(of_species[a], of_species[b]) for a, b in combinations(kinds, 2))
        valid = [pair for block in blocks for pair in block if _fits(*pair)]
        yield from _sample(valid, count, Random(f"{seed} {family}"))


def _cross_family(of_species: _BySpecies, seed: int, count: int) -> _Pairs:
    members = {f: [a for kind in kinds for a in of_species[kind]] for f, kinds in _families(of_species).items()}
    for first, second in combinations(members, 2):
        valid = [pair for pair in product(members[first], members[second]) if _fits(*pair)]
        yield from _sample(valid, count, Random(f"{seed} {first} {second}"))


def _families(of_species: _BySpecies) -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for species, members in of_species.items():
        families.setdefault(members[0].family, []).append(species)
    return families


def _fits(a: Animal, b: Animal) -> bool:
    return (a.visible & b.visible).bit_count() >= MIN_SHARED


def _sample(items: Iterable[Any], count: int, random: Random) -> list[Any]:
    """`count` items (all, if there are fewer) in random order, from `random()` alone, which is stable."""
    items = list(items)
    for i in range(min(count, len(items))):
        j = i + int(random.random() * (len(items) - i))
        items[i], items[j] = items[j], items[i]
    return items[:count]


def _write(path: Path, pairs: _Pairs) -> int:
    """One pair a line, as they come; the file has its name only when it is complete."""
    count = 0

    def write(draft: Path) -> None:
        nonlocal count
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            for source, target in pairs:
                file.write(json.dumps({"src_json_path": source.path, "trg_json_path": target.path}) + "\n")
                count += 1

    files.replace(path, write)
    return count
