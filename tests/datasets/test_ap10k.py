"""AP-10K: pair lists made from the release, the same every time; lists made by others; the three protocols."""

import hashlib
import json
import pickle
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from dataset_trees import names, real, real_root, write_image, write_json, write_lines

from geco import images
from geco.data import published_skeletons
from geco.datasets import ap10k
from geco.datasets.ap10k import preparation

KEYPOINTS = 17
KINDS = {
    1: ("Bovidae", "antelope"),
    5: ("Bovidae", "cow"),
    24: ("Felidae", "cat"),
    33: ("Giraffidae", "giraffe"),
}
MEMBERS = {1: 60, 5: 35, 24: 55, 33: 20}  # images per species: some have no train, the giraffe only test


def release(root):
    """A release whose images are spread over the three files of split 1, with a second animal in some."""
    rng = np.random.default_rng(0)
    kinds = [kind for kind, count in MEMBERS.items() for _ in range(count)]
    rng.shuffle(kinds)
    files = {name: {"images": [], "annotations": []} for name in preparation.FILES}
    for number, kind in enumerate(kinds, 1):
        image = {"license": 1, "id": number, "file_name": f"{number:012d}.jpg", "width": 80, "height": 60}
        content = files[preparation.FILES[number % 3]]
        content["images"].append(image)
        for instance in range(1 + (number % 7 == 0)):
            visible = rng.random(KEYPOINTS) < (0.6 if number % 20 else 0.05)
            points = [value for seen in visible for value in ([number % 70, 12, 2] if seen else [0, 0, 0])]
            content["annotations"].append(
                {
                    "id": 10_000 + 2 * number + instance,
                    "image_id": number,
                    "category_id": int(kind),
                    "bbox": [5, 6, 30 + instance, 40],
                    "area": 1200,
                    "iscrowd": 0,
                    "num_keypoints": int(visible.sum()),
                    "keypoints": points,
                }
            )
    categories = [{"id": i, "supercategory": f, "name": s} for i, (f, s) in KINDS.items()]
    for name, content in files.items():
        write_json(root / f"annotations/ap10k-{name}-split1.json", {**content, "categories": categories})
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = release(tmp_path_factory.mktemp("ap10k"))
    ap10k.prepare(root)
    return root


def pairs_of(root, name):
    lines = (root / "PairAnnotation" / f"{name}.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)[key].split("/")[1:] for key in ("src_json_path", "trg_json_path")) for line in lines]


def visible(root, end):
    flat = json.loads((root / "ImageAnnotation" / "/".join(end)).read_text())["keypoints"]
    return {k for k in range(KEYPOINTS) if flat[3 * k + 2]}


def test_lists_follow_the_protocol(root):
    """Brute force: what every list must hold, from the annotations that were written."""
    of_species = {}
    for path in sorted((root / "ImageAnnotation").rglob("*.json")):
        end = path.relative_to(root / "ImageAnnotation").parts
        if len(visible(root, end)) >= 3:
            of_species.setdefault(end[:2], []).append(end)
    split_of = {}
    for members in of_species.values():
        for place, end in enumerate(reversed(members)):
            split_of[end] = "test" if place < 30 else "val" if place < 50 else "trn"
    assert len(split_of) < sum(MEMBERS.values()), "images with fewer than three keypoints are left out"

    def valid(split, together):
        ends = [end for end, where in split_of.items() if where == split]
        return {
            frozenset(pair)
            for pair in combinations(ends, 2)
            if together(*pair) and len(visible(root, pair[0]) & visible(root, pair[1])) >= 3
        }

    same = {split: valid(split, lambda a, b: a[1] == b[1]) for split in ("trn", "val", "test")}
    found = {name: [frozenset(map(tuple, pair)) for pair in pairs_of(root, name)] for name in LISTS}
    for name, pairs in found.items():
        assert len(set(pairs)) == len(pairs), f"{name}: no pair twice"
    assert set(found["val"]) == same["val"]
    assert set(found["test"]) == same["test"]
    assert set(found["trn"]) <= same["trn"]
    per_species = Counter(next(iter(pair))[1] for pair in found["trn"])
    for (_, species), members in of_species.items():
        train = [end for end in members if split_of[end] == "trn"]
        possible = sum(next(iter(pair))[1] == species for pair in same["trn"])
        assert per_species[species] == min(50 * len(train), possible)
    family = valid("test", lambda a, b: a[0] == b[0] and a[1] != b[1])
    assert set(found["test_cross_species"]) <= family
    assert len(found["test_cross_species"]) == min(900, len(family))
    assert all(len({end[0] for end in pair}) == 2 for pair in found["test_cross_family"])
    assert len(found["test_cross_family"]) == 3 * 30, "three pairs of families"
    assert len(found["val_cross_family"]) == 1 * 20, "giraffes have no val"


LISTS = (
    "trn",
    "val",
    "val_cross_species",
    "val_cross_family",
    "test",
    "test_cross_species",
    "test_cross_family",
)


def digest(root):
    files = sorted((root / "PairAnnotation").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_release_gives_the_same_files(root, tmp_path):
    again = release(tmp_path)
    told = []
    counts = ap10k.prepare(again, step=lambda name, count: told.append((name, count)))
    assert digest(again) == digest(root)
    assert told == list(counts.items())
    assert sorted(counts) == sorted(LISTS)
    ap10k.prepare(again, seed=1)
    assert digest(again) != digest(root)


def test_a_later_version_draws_the_same():
    """Written down, so that a change of the draw is noticed."""
    animals = [preparation.Animal("F", "s", f"{i:012d}", 7) for i in range(4)]
    pairs = list(preparation.intra_species({"s": animals}, 42, 1))
    assert [(int(a.image), int(b.image)) for a, b in pairs] == [(1, 3), (1, 2), (0, 2), (0, 1)]


def test_excluded_images_are_written_but_not_paired(root, tmp_path):
    again = release(tmp_path)
    crowd = [pairs_of(root, "test")[0][0][2][:-5], pairs_of(root, "trn")[0][1][2][:-5]]
    write_lines(again / "crowd.txt", crowd)
    ap10k.prepare(again, exclude=again / "crowd.txt")
    paired = {end[2][:-5] for name in LISTS for pair in pairs_of(again, name) for end in pair}
    assert paired.isdisjoint(crowd)
    (written,) = (again / "ImageAnnotation").rglob(f"{crowd[0]}.json")
    record = json.loads(written.read_text())
    assert record["is_crowd"] == 1
    assert record["id"] == int(crowd[0]), "the image's id, not the annotation's"
    assert record["bbox"][2] == 30, "the first animal of the image"


def test_views(root):
    pairs = ap10k.load(root, "test")
    assert len(pairs) == len(pairs_of(root, "test"))
    assert set(pairs.categories) == {"antelope", "cow", "cat", "giraffe"}
    view = pairs[0].source
    number = int(view.name)
    assert view.size == (60, 80)
    assert view.box.tolist() == [5, 6, 35, 46]
    assert set(view.keypoints.xy[view.keypoints.visible].unique(dim=0).flatten().tolist()) == {
        number % 70 + 0.5,
        12.5,
    }
    assert view.image == root / "data" / f"{number:012d}.jpg"
    write_image(view.image)
    assert images.load_view(view).image.shape == (3, 60, 80)
    assert len({id(v) for p in pairs for v in (p.source, p.target)}) == len(pairs.views)
    pickle.loads(pickle.dumps(pairs))


def test_protocols(root):
    families = ap10k.load(root, "test", protocol="cross-family")
    assert set(families.categories) == {"all"}
    assert len(families) == 90
    species = ap10k.load(root, "val", protocol="cross-species")
    assert set(species.categories) <= {"Bovidae"}
    assert ap10k.load(root, "train").categories[0] in ("antelope", "cat")
    with pytest.raises(ValueError, match=r"cross-family pairs exist for val and test only, got split 'train'"):
        ap10k.load(root, "train", protocol="cross-family")
    with pytest.raises(ValueError, match=r"protocol must be one of intra-species, cross-species, cross-family"):
        ap10k.load(root, "val", protocol="any")


def test_twins(root):
    ours = published_skeletons("ap10k")["animal"]
    assert all(ours.names[j] == ours.names[i].replace("left", "right") for i, j in enumerate(ours.twin) if i < j)
    assert [ours.names[i] for i, j in enumerate(ours.twin) if i == j] == ["nose", "neck", "root_of_tail"]
    authors = ap10k.load(root, "val", twins="authors")[0].skeleton
    assert authors.mirror == ours.mirror
    exchanged = {ours.names[i] for i, j in enumerate(authors.twin) if i < j}
    assert exchanged == {"left_eye", "left_elbow", "left_knee"}


def test_pair_files_made_by_others(root, tmp_path):
    """One file a pair, paths of another machine, images moved to their species' folder."""
    source, target = pairs_of(root, "test")[0]
    for end in (source, target):
        write_json(
            tmp_path / "ImageAnnotation" / "/".join(end),
            json.loads((root / "ImageAnnotation" / "/".join(end)).read_text()),
        )
    moved = write_image(tmp_path / "JPEGImages" / "/".join(source).replace(".json", ".jpg"))
    paths = {
        "src_json_path": f"data/ap-10k/ImageAnnotation/{'/'.join(source)}",
        "trg_json_path": "C:\\x\\ImageAnnotation\\" + "\\".join(target),
    }
    write_json(tmp_path / f"PairAnnotation/val/{source[2][:-5]}-{target[2][:-5]}:{source[1]}.json", paths)
    (pair,) = ap10k.load(tmp_path, "val")
    assert names([pair]) == [(source[2][:-5], target[2][:-5])]
    assert pair.category == source[1]
    assert pair.source.image == moved


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"val.jsonl: no such file, .*make them with `geco data prepare ap10k"):
        ap10k.load(tmp_path, "val")
    with pytest.raises(
        FileNotFoundError, match=r"ap10k-train-split1.json: no such file; expected a file of the AP-10K"
    ):
        ap10k.prepare(tmp_path)
    write_lines(tmp_path / "PairAnnotation/val.jsonl", ['{"src_json_path": "a/b/c.json"}'])
    with pytest.raises(ValueError, match=r"val.jsonl:1: key 'trg_json_path' is missing; found: src_json_path"):
        ap10k.load(tmp_path, "val")
    write_lines(tmp_path / "PairAnnotation/val.jsonl", ['{"src_json_path": "c.json", "trg_json_path": "a/b/c.json"}'])
    with pytest.raises(ValueError, match=r"val.jsonl:1: src_json_path should end in <family>/<species>/<image>.json"):
        ap10k.load(tmp_path, "val")
    write_lines(tmp_path / "PairAnnotation/val.jsonl", ["{", '{"src_json_path": "a/b/c", "trg_json_path": "a/b/d"}'])
    faults = []
    assert len(ap10k.load(tmp_path, "val", faults=faults)) == 0
    assert len(faults) == 3
    assert "val.jsonl:1: not JSON" in faults[0]
    assert "a/b/c.json: no such file; expected an image annotation of AP-10K" in faults[1]


def test_a_damaged_release_is_explained(tmp_path):
    release(tmp_path)
    path = tmp_path / "annotations/ap10k-train-split1.json"
    content = json.loads(path.read_text())
    content["annotations"][2]["image_id"] = 999
    write_json(path, content)
    with pytest.raises(ValueError, match=r"annotations\[2\]: image 999 or category \d+ is not in the file"):
        ap10k.prepare(tmp_path)


@real
def test_real_release_file(tmp_path):
    """The two available images, as the test file of a release: they are of two families."""
    sample = real_root("AP-10K-sample")
    content = json.loads((sample / "test_ap10k.json").read_text())
    for name in preparation.FILES:
        part = content if name == "test" else {**content, "images": [], "annotations": []}
        write_json(tmp_path / f"annotations/ap10k-{name}-split1.json", part)
    (tmp_path / "data").symlink_to(sample)
    counts = ap10k.prepare(tmp_path)
    assert {name: count for name, count in counts.items() if count} == {"test_cross_family": 1}
    (pair,) = ap10k.load(tmp_path, "test", protocol="cross-family")
    assert {pair.source.image.name, pair.target.image.name} == {"000000000004.jpg", "000000037516.jpg"}
    for view in (pair.source, pair.target):
        loaded = images.load_view(view)
        x0, y0, x1, y1 = loaded.box.tolist()
        seen = loaded.keypoints.xy[loaded.keypoints.visible]
        assert len(seen) == 16
        assert ((seen[:, 0] >= x0) & (seen[:, 0] <= x1) & (seen[:, 1] >= y0) & (seen[:, 1] <= y1)).all()
