"""The contract of a dataset: what is read from a plug-in, and what is said of one that does not keep it."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from geco import data
from geco.data import contract
from geco.types import Skeleton, View


class Parts:
    """Views with part maps, as a third party might write them."""

    categories = ("cat", "dog", "cat")
    skeletons = {name: Skeleton(("head",), (0,), None) for name in ("cat", "dog")}  # noqa: RUF012
    listed = 7

    def __len__(self):
        return 3

    def __iter__(self):
        return (self[i] for i in range(3))

    def __getitem__(self, index):
        parts = torch.zeros(4, 4, dtype=torch.long)
        return View(Path(f"{index}.jpg"), (4, 4), parts=parts, name=str(index))


@pytest.fixture
def plugin(monkeypatch):
    """A module `zebras` that the entry points name; a test gives it what it wants."""
    module = ModuleType("zoo.zebras", "Zebras of the zoo.\n\nMore about them.")
    monkeypatch.setitem(sys.modules, "zoo.zebras", module)
    monkeypatch.setattr(contract.plugins, "spelled", lambda room, name: "zebras")
    monkeypatch.setattr(contract.plugins, "find", lambda room, name: module)
    return module


def test_every_format_of_ours_keeps_the_contract():
    assert data.names() == [
        "animalpose",
        "ap10k",
        "coco",
        "cub",
        "images",
        "pascal_keypoints",
        "pascal_part",
        "pfpascal",
        "pfwillow",
        "spair",
    ]
    for name in data.names():
        entry = data.find(name)
        assert entry.name == name
        assert entry.splits
        assert entry.about.endswith(".")
        assert "faults" not in entry.options
        assert set(entry.published) <= {*entry.splits, "all"}
        assert set(entry.published_pairs) <= set(entry.splits)
        assert all(set(variant) <= set(entry.options) for split in entry.splits for variant in entry.variants(split))
    assert [name for name in data.names() if data.find(name).prepare is not None] == ["ap10k"]


def test_a_name_is_found_however_it_is_written():
    assert data.find("PASCAL-Part").name == "pascal_part"
    with pytest.raises(ValueError, match=r"datasets has no 'cubs'; did you mean 'cub'\?"):
        data.find("cubs")


def test_what_a_plug_in_does_not_define_is_nothing(plugin):
    plugin.SPLITS = ["all"]

    def load(root, split, *, size: "int | None" = None, faults=None):
        return Parts()

    plugin.load = load
    entry = data.find("zebras")
    assert (entry.name, entry.about, entry.splits) == ("zebras", "Zebras of the zoo.", ("all",))
    assert entry.options == {"size": int | None}
    assert (entry.published, entry.published_pairs, entry.prepare) == ({}, {}, None)
    assert entry.variants("all") == [{}]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"load": lambda root, split, *, faults=None: []}, r"the dataset 'zebras' \(zoo.zebras\) must define SPLITS$"),
        ({"SPLITS": ("all",)}, r"the dataset 'zebras' \(zoo.zebras\) must define load$"),
        ({}, r"the dataset 'zebras' \(zoo.zebras\) must define SPLITS and load$"),
        ({"SPLITS": ("all",), "load": lambda root: []}, r"'zebras' .* must define load\(root, split, \*, faults=None"),
    ],
)
def test_a_plug_in_that_lacks_something_is_named(plugin, names, message):
    vars(plugin).update(names)
    with pytest.raises(ValueError, match=message):
        data.find("zebras")


def test_an_annotation_that_cannot_be_resolved_is_explained(plugin):
    def load(root, split, *, size: "Nonsense" = 3, faults=None):
        return Parts()

    plugin.SPLITS, plugin.load = ("all",), load
    with pytest.raises(ValueError, match=r"'zebras' annotates an option of load .*: name 'Nonsense' is not defined"):
        data.find("zebras")


def test_views_of_either_kind():
    assert isinstance(Parts(), data.PartDataset)
    assert not isinstance(Parts(), data.PairDataset)
    pairs = data.Pairs([], [], [], [])
    assert isinstance(pairs, data.PairDataset)
    assert not isinstance(pairs, data.PartDataset)
    assert [view.name for view in data.views_of(Parts())] == ["0", "1", "2"]
    assert list(data.views_of(pairs)) == []
