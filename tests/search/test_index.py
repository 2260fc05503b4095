"""An index on disk: read back as it was, and refused in one line when it is damaged, foreign, old or too new."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from searched import Collected, Silent, random_maps

from geco.errors import FileError, GecoError, InputError
from geco.search import build_index, find, read_card, read_index, write_index
from geco.search.settings import IndexSettings, SearchSettings
from geco.system import files
from geco.types import FeatureMap

pytest.importorskip("faiss", reason="needs the extra search")


@pytest.fixture(scope="module")
def features():
    return Collected(random_maps(20))


@pytest.fixture(scope="module", params=["flat", "ivfpq"])
def built(request, features):
    settings = IndexSettings(kind=request.param)
    return build_index(features, settings), settings


@pytest.fixture
def folder(built, tmp_path):
    write_index(built[0], tmp_path / "index", features=tmp_path / "features", settings=built[1])
    return tmp_path / "index"


def answers(index):
    source = random_maps(1, seed=3)["0.jpg"]
    return find(index, Silent(), source, (20.0, 20.0), SearchSettings(threshold=-1.0, count=2, refined=5)).hits


def test_an_index_is_read_back_as_it_was(folder, features, built):
    card = read_card(folder)
    assert (card.model, card.fingerprint, card.images, card.vectors) == ("made up", "made-up", 20, 400)
    assert card.features == "../features"
    assert answers(read_index(folder, features)) == answers(built[0])


def test_the_same_collection_gives_the_same_files(folder, features, tmp_path):
    settings = read_card(folder).settings
    write_index(build_index(features, settings), tmp_path / "again", features=tmp_path / "features", settings=settings)
    for name in ("index.json", "vectors.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def rewrite(folder, **changes):
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def damaged_vectors(folder):
    path = folder / "vectors.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def shortened_vectors(folder):
    path = folder / "vectors.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def foreign_vectors(folder):
    """Another file under a checksum that fits it, as somebody else may send it."""
    path = folder / "vectors.safetensors"
    path.write_bytes(b"IxFI" + bytes(500))
    rewrite(folder, checksum=files.sha256(path))


def other_tensors(folder):
    path = folder / "vectors.safetensors"
    save_file({"vectors": torch.zeros(4, 3), "starts": torch.arange(21)}, path)
    rewrite(folder, checksum=files.sha256(path))


def moved_starts(folder):
    path = folder / "vectors.safetensors"
    state = load_file(path)
    state["starts"] = state["starts"].flip(0).contiguous()
    save_file(state, path)
    rewrite(folder, checksum=files.sha256(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damaged_vectors, "vectors.safetensors is damaged or of another index: its checksum differs"),
        (shortened_vectors, "its checksum differs; copy it or index again"),
        (foreign_vectors, "is not the vectors of an index"),
        (other_tensors, "vectors.safetensors is damaged: the"),
        (moved_starts, "its images do not fit its vectors; index again"),
        (lambda folder: (folder / "vectors.safetensors").unlink(), "no such file.*copied whole"),
        (lambda folder: (folder / "index.json").unlink(), "no such file.*was it finished, and copied whole"),
        (lambda folder: (folder / "index.json").write_text("{"), "is not JSON"),
        (lambda folder: (folder / "index.json").write_text("[]"), "expected an object"),
        (lambda folder: rewrite(folder, format=2), "is of format 2, this release reads 1; upgrade geco, or index ag"),
        (lambda folder: rewrite(folder, format=2, new="key"), "is of format 2, this release reads 1"),
        (lambda folder: rewrite(folder, format=0), "is damaged: format 0"),
        (lambda folder: rewrite(folder, kind="hnsw"), "is damaged: format 1, 'hnsw'"),
        (lambda folder: rewrite(folder, dim="384"), "dim: expected a whole number"),
        (lambda folder: rewrite(folder, images=0), "is damaged"),
        (lambda folder: rewrite(folder, vectors=1), "its images do not fit its vectors"),
        (lambda folder: rewrite(folder, dim=11), "vectors.safetensors is damaged"),
        (lambda folder: rewrite(folder, fingerprint="old"), "is of features of made up .old., the folder of features"),
        (lambda folder: rewrite(folder, state="old"), "the features have changed since .* was made of 20 images"),
    ],
)
def test_what_is_no_index_of_these_features_is_one_line(folder, features, change, message):
    change(folder)
    with pytest.raises(GecoError, match=message) as caught:
        read_index(folder, features)
    assert len(str(caught.value)) <= 300


def test_changed_features_are_noticed(folder, features):
    more = Collected(features.maps | {"new.jpg": features.maps["0.jpg"]})
    with pytest.raises(InputError, match="made of 20 images, there are 21 now; index again"):
        read_index(folder, more)
    edited = Collected(features.maps | {"0.jpg": FeatureMap(features.maps["0.jpg"].values + 1, (40, 50))})
    with pytest.raises(InputError, match="the features have changed"):
        read_index(folder, edited)


def test_a_file_is_no_index(tmp_path, features):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file is a file; expected the folder that `geco index` wrote"):
        read_card(tmp_path / "file")
    with pytest.raises(FileError, match="no such file; expected part of the folder"):
        read_card(tmp_path / "nothing")


def test_a_kill_while_writing_leaves_no_index_that_is_half_new(folder, features, monkeypatch):
    other = build_index(Collected(random_maps(5)))
    monkeypatch.setattr("geco.search.index.save_file", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(FileError, match="could not be written: No space left"):
        write_index(other, folder, features=folder)
    with pytest.raises(FileError, match="was it finished"):
        read_card(folder)
