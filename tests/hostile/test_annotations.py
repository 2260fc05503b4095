"""Files of labels in every format, damaged in every way: a clean line, or labels whose numbers make sense."""

import json

import annotated
import h5py
import numpy as np
import pytest
import torch
from hostile.mutations import byte_mutants, json_mutants, sampled, text_mutants
from hostile.valid import as_users_have_it, cases  # noqa: F401 (a fixture)
from hostile.verdicts import check, refused

from geco.propagation import UNKNOWN, VISIBLE, read_annotations, write_annotations
from geco.propagation.formats import hdf5

FILES = {
    "coco": "l.json",
    "csv": "l.csv",
    "cvat": "l.xml",
    "deeplabcut": "l.csv",
    "hdf5": "l.h5",
    "labelstudio": "l.json",
    "sleap": "l.slp",
}


def valid(name, folder):
    """A file of labels of this format, and the folder with its images."""
    annotated.write_images(folder)
    labels = annotated.label_set(folder, boxes=True, tracks=True, scores=name not in ("sleap", "labelstudio"))
    return write_annotations(labels, folder / FILES[name], format="deeplabcut" if name == "hdf5" else name)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One folder for each format, with the valid file in it."""
    made = {name: tmp_path_factory.mktemp(name) for name in FILES}
    return {name: (folder, valid(name, folder).read_bytes()) for name, folder in made.items()}


def sound(labels):
    """Whether labels are such that work with them can begin."""
    for image in labels.images:
        if not image.path.is_file():
            return False
        for animal in image.animals:
            seen = animal.state == VISIBLE
            placed = torch.isfinite(animal.xy)
            within = animal.xy[placed].abs().max() <= 1e9 + 1 if placed.any() else True
            known = ((animal.state >= UNKNOWN) & (animal.state <= VISIBLE)).all()
            if not (placed[seen].all() and within and known) or placed[animal.state == UNKNOWN].any():
                return False
            if animal.box is not None and not animal.box[0] < animal.box[2]:
                return False
    return bool(labels.images)


def tried(name, folders, content):
    folder, _ = folders[name]
    path = folder / f"mutant{FILES[name][1:]}"
    path.write_bytes(content)
    check(lambda: read_annotations(path, images=folder), right=sound)


def mutants_of(name, count):
    """Mutants of a small file that is written by hand here, since parameters are needed before any fixture."""
    texts = {
        "coco": json.dumps(COCO),
        "labelstudio": json.dumps(TASKS),
        "csv": CSV,
        "deeplabcut": DLC,
        "cvat": CVAT,
    }
    if name in ("coco", "labelstudio"):
        return json_mutants(json.loads(texts[name]), count=count)
    if name == "cvat":
        return sampled(text_mutants(CVAT, separator='"'), count)
    return sampled(text_mutants(texts[name], separator=","), count)


COCO = {
    "info": {"keypoint_origin": "index"},
    "images": [{"id": 1, "file_name": "a.png", "width": 120, "height": 90}],
    "categories": [{"id": 1, "name": "mouse", "keypoints": ["nose", "tail"], "skeleton": [[1, 2]]}],
    "annotations": [
        {
            "id": 1,
            "image_id": 1,
            "category_id": 1,
            "keypoints": [1, 2, 2, 3, 4, 1],
            "bbox": [0, 0, 9, 9],
            "score": [0.5, None],
        }
    ],
}
REGION = {"original_width": 120, "original_height": 90, "id": "p", "image_rotation": 0}
TASKS = [
    {
        "data": {"image": "a.png"},
        "annotations": [
            {
                "result": [
                    {**REGION, "type": "keypointlabels", "value": {"x": 5, "y": 6, "keypointlabels": ["nose"]}},
                    {
                        **REGION,
                        "id": "r",
                        "type": "rectanglelabels",
                        "value": {"x": 1, "y": 1, "width": 9, "height": 9},
                    },
                    {"type": "relation", "from_id": "p", "to_id": "r"},
                    {"type": "choices", "id": "p", "value": {"choices": ["hidden"]}},
                ]
            }
        ],
    }
]
CSV = "image,frame,animal,name,x,y,visible,score,box\na.png,,1,nose,1,2,1,0.5,0 0 9 9\na.png,,1,tail,,,0,,\n"
DLC = "scorer,,,Me,Me\nbodyparts,,,nose,nose\ncoords,,,x,y\nlabeled-data,shots,a.png,1,2\nlabeled-data,shots,b.png,,\n"
CVAT = """<annotations><version>1.1</version>
<image id="0" name="a.png" width="120" height="90">
<skeleton label="mouse" group_id="1"><points label="nose" occluded="0" outside="0" points="1.5,2.5"/></skeleton>
<box label="mouse" xtl="1" ytl="2" xbr="9" ybr="9" group_id="1"/></image></annotations>
"""


@cases(mutants_of("coco", 100))
def test_coco(folders, content):
    tried("coco", folders, content)


@cases(mutants_of("labelstudio", 100))
def test_label_studio(folders, content):
    tried("labelstudio", folders, content)


@cases(mutants_of("csv", 90))
def test_tables_of_points(folders, content):
    tried("csv", folders, content)


@cases(mutants_of("deeplabcut", 90))
def test_tables_of_deeplabcut(folders, content):
    tried("deeplabcut", folders, content)


@cases(mutants_of("cvat", 90))
def test_cvat(folders, content):
    tried("cvat", folders, content)


@pytest.mark.parametrize("name", ["hdf5", "sleap"])
@pytest.mark.parametrize("number", range(40))
def test_damaged_hdf5(folders, name, number):
    tried(name, folders, byte_mutants(folders[name][1], flips=30)[number][1])


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", FILES)
def test_files_that_were_cut_short(folders, name, share):
    folder, content = folders[name]
    path = folder / f"short{FILES[name][1:]}"
    path.write_bytes(content[: int(share * len(content))])
    # The end of a table is as good as any other line's, unless the cut is within one.
    right = sound if FILES[name].endswith(".csv") else None
    check(lambda: read_annotations(path, images=folder), right=right)


def test_hdf5_that_would_hang_or_crash_is_not_read(folders):
    folder, content = folders["sleap"]
    place = content.index(hdf5.HEAP)
    with (folder / "l.slp").open("rb") as file:
        assert file.read() == content
    # The size of what is free in a collection of texts: HDF5 2.0 goes round in circles if it is wrong.
    number, start = -1, place + 16
    while number != 0:
        number, length = np.frombuffer(content, "<u2", 1, start)[0], int(np.frombuffer(content, "<u8", 1, start + 8)[0])
        free, start = start, start + 16 + (length + 7) // 8 * 8
    (folder / "hang.slp").write_bytes(content[: free + 8] + b"\x07" + content[free + 9 :])
    refused(lambda: read_annotations(folder / "hang.slp"), "hang.slp is damaged (at byte")
    (folder / "crash.slp").write_bytes(content)
    with h5py.File(folder / "crash.slp", "r+") as file:
        del file["tracks_json"]
        file.create_dataset("tracks_json", (1,), dtype=h5py.vlen_dtype(np.int8))
    refused(lambda: read_annotations(folder / "crash.slp"), "tracks_json should be text")
