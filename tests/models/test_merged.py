"""Merged weights in the cache: the same features, without looking for the backbone; damaged ones are made again."""

import pytest
import torch
from torch.testing import assert_close
from training_data import tiny_vit

from geco.models import Geco, cache, merged, weights
from geco.models.places import Place
from geco.models.saving import seal
from geco.models.settings import EncoderConfig, LoraSettings
from geco.models.weights import load_backbone, locate


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """An adapter of the backbone `tiny`, which is in the cache as those converted from a package are."""
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    vit = tiny_vit(tmp_path / "vit")
    place = locate(str(vit))
    model = Geco(load_backbone(place), EncoderConfig("tiny", size=98, lora=LoraSettings(rank=2)))
    for name, value in model.named_parameters():
        if "lora_" in name:
            value.data = torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name))) * 0.1
    light = load_backbone(place, light=True).encoder
    cached = cache.store(tmp_path / "cache" / "tiny", lambda: (light.as_files(), light.config), origin="vit")
    asked = []

    def found(name):
        asked.append(name)
        return Place(place.family, str(cached), place.source, "of a test")

    monkeypatch.setattr(weights, "locate", found)
    return model, model.save_pretrained(tmp_path / "adapter"), asked


def test_the_second_start_reads_merged_weights(adapter, tmp_path):
    model, folder, asked = adapter
    image = torch.randint(0, 256, (3, 60, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    expected = model.eval().extract(image).values
    first = Geco.for_inference(folder, device="cpu")
    assert asked == ["tiny"]
    (kept,) = (tmp_path / "cache").glob("tiny-merged-*")
    second = Geco.for_inference(folder, device="cpu", size=98)
    assert asked == ["tiny"], "the backbone was looked for"
    for loaded in (first, second):
        assert_close(loaded.extract(image).values, expected, atol=1e-5, rtol=1e-5)
    assert second.extract(image).values.equal(first.extract(image).values)
    assert (second.config, second.note, second.adapted) == (first.config, "of a test", True)
    assert second.fingerprint() == first.fingerprint()
    seal(second.save_pretrained(tmp_path / "whole"))
    again = Geco.for_inference(tmp_path / "whole", device="cpu")
    assert (again.note, again.adapted, again.config.base) == ("of a test", True, "tiny")
    assert again.extract(image).values.equal(first.extract(image).values)
    damaged = kept / cache.WEIGHTS
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"\0\0\xc0\x7f")
    third = Geco.for_inference(folder, device="cpu")
    assert asked == ["tiny", "tiny"]
    assert third.extract(image).values.equal(first.extract(image).values)
    assert cache.is_whole(kept)


def test_other_adapters_and_other_backbones_have_other_places(adapter, tmp_path):
    _, folder, _ = adapter
    config, name = weights.adapter_config(folder), weights.ADAPTER_FILES[2]
    place = merged.folder_of(folder, name, config)
    assert place is not None
    state = (folder / name).read_bytes()
    (folder / name).write_bytes(state[:-1] + bytes([state[-1] ^ 1]))
    assert merged.folder_of(folder, name, config) != place
    (folder / name).write_bytes(state)
    assert merged.folder_of(folder, name, config) == place
    checksums = tmp_path / "cache" / "tiny" / cache.CHECKSUMS
    checksums.write_text(checksums.read_text().replace("a", "b"))
    assert merged.folder_of(folder, name, config) not in (place, None)
    checksums.unlink()
    assert merged.folder_of(folder, name, config) is None


def test_a_cache_that_cannot_be_written_costs_the_next_start_only(adapter, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left")

    _, folder, asked = adapter
    monkeypatch.setattr(cache, "store", full)
    Geco.for_inference(folder, device="cpu")
    Geco.for_inference(folder, device="cpu")
    assert asked == ["tiny", "tiny"]
