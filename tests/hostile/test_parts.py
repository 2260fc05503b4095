"""Models of several parts, and backbones of any kind: manifests, checkpoints and configurations that are not whole."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from aggregation_heads import head_state
from hostile.mutations import HTML, LFS, byte_mutants, json_mutants, sampled
from hostile.valid import as_users_have_it, cases  # noqa: F401 (a fixture)
from hostile.verdicts import check, refused
from small_rows import AUTO, lora_state, marco_state, write_auto
from sphere_mappers import mapper_state

from geco.models.geco import Geco

PICTURE = (torch.rand(3, 30, 40, generator=torch.Generator().manual_seed(0)) * 255).byte()
PARTS = {  # model → the part with a file of its own, and what that holds
    "diy-sc": ("head", lambda: head_state((24,), 32)),
    "sphere": ("mapper", lambda: mapper_state(24)),
    "geco": ("lora", lora_state),
}
MANIFEST = {"model": "diy-sc", "parts": {"head": "file.pth", "dinov2": "vit"}}


@pytest.fixture
def folder(tmp_path, tiny_folder, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vit").symlink_to(tiny_folder)
    return folder


def write(folder, model="diy-sc", state=None):
    part, make = PARTS[model]
    torch.save(make() if state is None else state, folder / "file.pth")
    (folder / "parts.json").write_text(json.dumps({"model": model, "parts": {part: "file.pth", "dinov2": "vit"}}))
    return folder


def is_sound(model):
    return bool(torch.isfinite(model.extract(PICTURE).values).all())


def load(folder, **options):
    return Geco.from_pretrained(folder, size=56, device="cpu", **options)


@cases(sampled(json_mutants(MANIFEST), 16))
def test_a_manifest(folder, content):
    write(folder)
    (folder / "parts.json").write_bytes(content)
    check(lambda: load(folder), right=is_sound)


def content_of(model):
    import io

    buffer = io.BytesIO()
    torch.save(PARTS[model][1](), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("model", PARTS)
def test_the_file_of_a_part_with_other_bytes(folder, model):
    write(folder, model)
    for _, content in sampled(byte_mutants(content_of(model), flips=4), 4):
        (folder / "file.pth").write_bytes(content)
        check(lambda: load(folder), right=is_sound)
    for content in (LFS, HTML, b""):
        (folder / "file.pth").write_bytes(content)
        refused(lambda: load(folder), "file.pth")


OTHERS = {**{model: make for model, (_, make) in PARTS.items()}, "marco": marco_state, "nothing": dict}


@pytest.mark.parametrize("model", PARTS)
@pytest.mark.parametrize("other", OTHERS)
def test_the_file_of_another_part_is_named(folder, model, other):
    if other == model:
        return
    message = refused(lambda: load(write(folder, model, OTHERS[other]())), "file.pth is", "expected")
    if other == "nothing":
        assert "a file without any tensor" in message


@pytest.mark.parametrize("model", PARTS)
@pytest.mark.parametrize(
    "change",
    [
        lambda key, value: {},
        lambda key, value: {key: value[:1]},
        lambda key, value: {key: value.flatten()},
        lambda key, value: {key: torch.full_like(value, float("nan"))},
        lambda key, value: {key: value.long()},
        lambda key, value: {key: value.to(torch.complex64)},
        lambda key, value: {key: torch.zeros(0)},
    ],
)
def test_the_file_of_a_part_with_other_tensors(folder, model, change):
    state = PARTS[model][1]()
    key = max(key for key in state if state[key].ndim in (2, 4))
    others = {name: value for name, value in state.items() if name != key}
    refused(lambda: load(write(folder, model, others | change(key, state[key]))), "file.pth")


@pytest.fixture(scope="module")
def swin(tmp_path_factory):
    torch.manual_seed(0)
    return write_auto("swin", tmp_path_factory.mktemp("swin"))


@cases(sampled(json_mutants({"model_type": "swin", **AUTO["swin"], "hidden_act": "gelu", "qkv_bias": True}), 8))
def test_the_configuration_of_any_backbone(swin, tmp_path, content):
    folder = Path(shutil.copytree(swin, tmp_path / "swin"))
    (folder / "config.json").write_bytes(content)
    check(lambda: Geco.from_pretrained(folder, size=64, device="cpu"), right=is_sound)


@cases(sampled(json_mutants({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}), 6))
def test_how_images_are_prepared(swin, tmp_path, content):
    folder = Path(shutil.copytree(swin, tmp_path / "swin"))
    (folder / "preprocessor_config.json").write_bytes(content)
    check(lambda: Geco.from_pretrained(folder, size=64, device="cpu"), right=is_sound)
