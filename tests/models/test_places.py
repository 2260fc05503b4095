"""Models of several parts: a manifest names them, a file of one is recognised, and what is missing is said."""

import json

import pytest
import torch
from aggregation_heads import head_state

from geco.errors import GecoError
from geco.models import weights
from geco.models.geco import Geco


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return tmp_path / "cache"


@pytest.fixture
def manifest(tmp_path, tiny_folder):
    """Writes the manifest of a small DIY-SC: a head beside it, and the backbone elsewhere."""
    folder = tmp_path / "model"
    folder.mkdir()
    torch.save(head_state((24,), 32), folder / "best.pth")

    def write(to=folder, **changes):
        parts = {"head": "best.pth", "dinov2": str(tiny_folder)} | changes.pop("parts", {})
        to.mkdir(parents=True, exist_ok=True)
        (to / "parts.json").write_text(json.dumps({"model": "diy-sc", "parts": parts} | changes))
        return to

    return write


def test_paths_of_a_manifest_are_relative_to_it(manifest, tiny_folder, monkeypatch, tmp_path):
    folder = manifest()
    monkeypatch.chdir(tmp_path)
    place = weights.locate("model")
    assert place.family == "diysc"
    assert place.parts == {"head": "model/best.pth", "dinov2": str(tiny_folder)}
    assert Geco.from_pretrained(folder, size=84).dim == 32


def test_a_manifest_in_the_cache_makes_the_short_name_enough(manifest, cache):
    assert not weights.is_available("diy-sc")
    folder = manifest()
    manifest(cache / "diy-sc", parts={"head": str(folder / "best.pth")})
    assert weights.is_available("diy-sc")
    assert Geco.from_pretrained("diy-sc", size=84).dim == 32


def test_the_file_of_a_part_is_a_model_with_the_default_parts(manifest):
    """Which here cannot be had: the line says what is missing and what to do."""
    with pytest.raises(OSError, match=r"diy-sc needs DINOv2-B: facebook/dinov2-base is not in .*; connect once, or"):
        weights.locate(str(manifest() / "best.pth"))


def test_a_part_that_geco_does_not_fetch_is_asked_for():
    with pytest.raises(FileNotFoundError, match=r"diy-sc needs a DIY-SC head .*: give the file itself .*'head'"):
        weights.locate("diy-sc")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "diy-cs"}, r"parts\.json: model: expected .*diy-sc.*got 'diy-cs'"),
        ({"model": "dinov2-base"}, r"parts\.json: model: expected .*diy-sc"),
        ({"model": None}, r"parts\.json: model: expected a short name"),
        ({"family": "diysc"}, r"parts\.json: expected the keys model and parts, got 'family'"),
        ({"parts": {"heads": "best.pth"}}, r"diy-sc has no part 'heads'; expected dinov2, head"),
        ({"parts": {"head": 1}}, r"parts\.head: expected a path, name or hub id, got 1"),
        ({"parts": {"head": "other.pth"}}, r"part 'head': no such file or folder 'other\.pth'; expected a DIY-SC head"),
        ({"parts": {"dinov2": "dinov2-bse"}}, r"part 'dinov2': no model, file or folder 'dinov2-bse'; did you mean"),
    ],
)
def test_a_wrong_manifest_is_refused_in_one_line(manifest, changes, words):
    with pytest.raises(GecoError, match=words):
        weights.locate(str(manifest(**changes)))


def test_mixed_up_files_are_named(manifest, tmp_path):
    torch.save(head_state((64, 24), 32), tmp_path / "geo.pth")
    torch.save({"fc.weight": torch.zeros(2)}, tmp_path / "other.pth")
    for file, words in (
        ("geo.pth", r"geo\.pth is .*; expected a DIY-SC head"),
        (
            "other.pth",
            r"is a file of other tensors, whose keys begin with fc\.weight; expected a DIY-SC head",
        ),
    ):
        folder = manifest(parts={"head": str(tmp_path / file)})
        with pytest.raises(ValueError, match=words):
            Geco.from_pretrained(folder)


def test_a_head_of_another_backbone_is_refused(manifest, tmp_path):
    torch.save(head_state((48,), 32), tmp_path / "wide.pth")
    with pytest.raises(ValueError, match=r"takes features of 48 channels, .* has 24"):
        Geco.from_pretrained(manifest(parts={"head": str(tmp_path / "wide.pth")}))


def test_licence_and_origin_are_said_and_stand_in_the_card(manifest):
    from geco.models.cards import model_card

    model = Geco.from_pretrained(manifest(), size=84)
    for text in (model.note, model_card(model.name, model.config, note=model.note, parameters=0)):
        assert "github.com/odunkel/DIY-SC-torchhub" in text
        assert "licence: CC0-1.0" in text


def test_a_repository_of_the_hub_may_hold_a_manifest_and_its_files(manifest, monkeypatch, tmp_path, tiny_folder):
    import shutil

    import huggingface_hub

    from geco.models import hub

    repository = manifest(parts={"dinov2": "someone/vit"})
    monkeypatch.setattr(hub, "is_reachable", lambda: True)

    def download(name, *, allow_patterns, local_files_only=False):
        source = {"someone/head": repository, "someone/vit": tiny_folder}[name]
        place = tmp_path / "snapshots" / name
        if not local_files_only:
            place.mkdir(parents=True, exist_ok=True)
            for file in (file for pattern in allow_patterns for file in source.glob(pattern)):
                shutil.copy(file, place)
        elif not place.is_dir():
            raise FileNotFoundError(name)
        return str(place)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert Geco.from_pretrained("someone/head", size=84, device="cpu").dim == 32
    assert weights.locate("someone/head").given["dinov2"] == "someone/vit"
    manifest(parts={"head": "../../secret.pth"})
    shutil.rmtree(tmp_path / "snapshots")
    with pytest.raises(ValueError, match=r"someone/head on the hub: parts\.head is .* outside of it"):
        weights.locate("someone/head")
