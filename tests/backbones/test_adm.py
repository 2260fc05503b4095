"""ADM: its original weights in diffusers' network against a forward pass by hand; noise, cut, batches and files."""

import math

import pytest
import torch
from original_adm import LEVELS, attention, by_hand, empty, original, shapes
from safetensors.torch import save_file

from geco.backbones import adm
from geco.backbones._diffusion import cut, linear_betas, noisy
from geco.backbones.adm import conversion
from geco.models import weights
from geco.models.geco import Geco

pytest.importorskip("diffusers", reason="needs the extra diffusion")


@pytest.fixture(scope="module")
def state():
    return original()


@pytest.fixture(scope="module")
def folder(state, tmp_path_factory):
    """A small ADM as the cache has it after conversion."""
    import json

    place = tmp_path_factory.mktemp("adm")
    converted, config = conversion.from_original(state)
    save_file({key: value.contiguous() for key, value in converted.items()}, place / "model.safetensors")
    (place / "config.json").write_text(json.dumps(config))
    return str(place)


@pytest.fixture(scope="module")
def backbone(folder):
    return adm.load(folder)


def pictures(count, size=(32, 64), seed=3):
    return torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(seed)) * 2 - 1


# --- the original file ------------------------------------------------------------------------------------------------


def test_all_weights_of_the_published_file_find_their_place():
    """The published counts: 566 tensors, 552,814,086 numbers; 630 in diffusers' network, none missing or left over."""
    assert len(shapes()) == 566
    assert sum(math.prod(shape) for shape in shapes().values()) == 552_814_086
    converted, config = conversion.from_original(empty())
    wanted = {key: value.shape for key, value in conversion.network(config).state_dict().items()}
    assert len(wanted) == 630
    assert {key: value.shape for key, value in converted.items()} == wanted


def test_the_cut_network_of_the_published_size_has_a_quarter_fewer_weights():
    network = cut(conversion.network(conversion.configuration([256 * level for level in LEVELS])), block=4)
    assert round(sum(p.numel() for p in network.parameters()) / 1e6, 1) == 415.5


def test_rows_of_a_fused_projection_are_ordered_by_head():
    """Two heads: attention by hand on the original's rows against diffusers' attention on the converted ones."""
    from diffusers.models.attention_processor import Attention

    generator = torch.Generator().manual_seed(0)
    shape = {"norm": (128,), "qkv": (384, 128, 1), "proj_out": (128, 128, 1)}
    state = {f"a.{k}.weight": torch.randn(s, generator=generator) / 8 for k, s in shape.items()}
    state |= {f"a.{k}.bias": torch.randn(s[0], generator=generator) for k, s in shape.items()}
    layer = Attention(
        128, heads=2, dim_head=64, norm_num_groups=32, residual_connection=True, bias=True,
        _from_deprecated_attn_block=True,
    )  # fmt: skip
    layer.load_state_dict(conversion._converted("attention", "a", dict(state)))
    x = torch.randn(2, 128, 3, 5, generator=generator)
    with torch.no_grad():
        ours = layer(x)
        torch.testing.assert_close(ours, attention(state, "a", x), rtol=1e-4, atol=1e-5)
        thirds = dict(zip("qkv", state["a.qkv.weight"].flatten(1).chunk(3), strict=True))
        layer.load_state_dict({f"to_{name}.weight": rows for name, rows in thirds.items()}, strict=False)
        assert (layer(x) - ours).abs().max() > 0.1, "three equal parts are another network"


@pytest.mark.parametrize("block", [0, 2, 4, 11, 17])
def test_features_are_the_original_network_s_after_every_kind_of_block(state, folder, block):
    backbone = adm.load(folder, block=block)
    x = pictures(2)
    with torch.no_grad():
        ours = backbone(pixels=x)
        expected = by_hand(state, noisy(x, backbone._noise((32, 64))[0], linear_betas(1e-4, 0.02), 101), 101, block)
    assert ours.shape == (2, backbone.dim, 32 // backbone.stride, 64 // backbone.stride)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    assert expected.abs().max() > 1, "features of ordinary size, or the tolerance would mean nothing"


def test_the_cut_network_gives_what_the_whole_one_has_at_that_place(state):
    converted, config = conversion.from_original(state)
    whole = conversion.network(config)
    whole.load_state_dict(converted, assign=True)
    seen = []
    whole.up_blocks[1].attentions[1].register_forward_hook(lambda *values: seen.append(values[-1]))
    x = pictures(1)
    with torch.no_grad():
        whole(x, 101)
        short = cut(whole, block=4)
        assert short(x, 101, return_dict=False)[0].equal(seen[0])
    assert seen[0].shape == (1, 128, 2, 4)


# --- noise ------------------------------------------------------------------------------------------------------------


def test_noise_is_added_as_diffusers_does():
    from diffusers import DDPMScheduler

    x, noise = pictures(2), torch.randn(3, 32, 64)
    scheduler = DDPMScheduler(1000, beta_start=1e-4, beta_end=0.02, beta_schedule="linear")
    expected = scheduler.add_noise(x, noise.expand_as(x), torch.tensor([101, 101]))
    torch.testing.assert_close(noisy(x, noise, linear_betas(1e-4, 0.02), 101), expected, rtol=1e-5, atol=1e-6)


def test_features_do_not_depend_on_the_batch(folder, backbone):
    x = pictures(3)
    with torch.no_grad():
        together, alone = backbone(pixels=x), torch.cat([backbone(pixels=image[None]) for image in x])
        turned = backbone(pixels=x.flip(0)).flip(0)
        again = adm.load(folder)(pixels=x)
        other = adm.ADM(backbone.encoder, **{**backbone.options, "seed": 1})(pixels=x)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(together, turned, rtol=1e-4, atol=1e-4)
    assert again.equal(together), "another load draws the same noise"
    assert (other - together).abs().max() > 0.1, "and the noise matters"


def test_an_ensemble_is_the_mean_over_draws_of_noise_of_which_the_first_is_the_single_one(backbone):
    x, betas = pictures(1), linear_betas(1e-4, 0.02)
    three = adm.ADM(backbone.encoder, **{**backbone.options, "ensemble": 3})
    draws = three._noise((32, 64))
    assert draws[0].equal(backbone._noise((32, 64))[0])
    with torch.no_grad():
        members = [backbone.encoder(noisy(x, draw, betas, 101), 101, return_dict=False)[0] for draw in draws]
        torch.testing.assert_close(three(pixels=x), (members[0] + members[1] + members[2]) / 3)


def test_what_decides_the_features_is_in_the_fingerprint(folder):
    model = Geco.from_pretrained(folder, device="cpu")
    plain = {"t": 101, "block": 4, "seed": 42, "ensemble": 1}
    assert model.config.options == plain
    assert (model.input_size, model.config.resize, model.stride, model.backbone.multiple) == (512, "bicubic", 16, 32)
    prints = set()
    for change in ({}, {"t": 41}, {"seed": 1}, {"ensemble": 2}, {"t": 101}):
        backbone = adm.ADM(model.backbone.encoder, **{**plain, **change})
        prints.add(Geco(backbone, model.config).fingerprint())
    assert len(prints) == 4
    assert model.fingerprint() in prints


def test_an_image_has_one_map_in_any_precision_and_after_saving(folder, image_file, tmp_path):
    model = Geco.from_pretrained(folder, size=64, device="cpu")
    first, second = image_file("a.jpg", seed=1), image_file("b.jpg", (80, 50), seed=2)
    maps = model.extract_batch([first, second, first])
    assert maps[0].values.equal(maps[2].values)
    assert maps[1].values.shape == (128, 4, 4)
    rounded = Geco.from_pretrained(folder, size=64, device="cpu", dtype="bfloat16").extract(first).values
    assert (rounded - maps[0].values).norm() < 0.05 * maps[0].values.norm()
    again = Geco.from_pretrained(model.save_pretrained(tmp_path / "saved"), device="cpu")
    assert again.config.options == model.config.options
    torch.testing.assert_close(again.extract(first).values, maps[0].values)
    with pytest.raises(ValueError, match=r"an ADM up to block 5 needs 'up_blocks\.1\.attentions\.2.* \(32 such keys\)"):
        adm.load(str(tmp_path / "saved"), block=5)


# --- files and options ------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_original_file_is_enough_and_then_its_short_name(state, cache, tmp_path):
    path = tmp_path / conversion.FILE
    with pytest.raises(FileNotFoundError, match=r"dift-adm is made from 256x256_diffusion_uncond\.pt \(https://open"):
        weights.locate("dift-adm")
    assert not weights.is_available("dift-adm")
    torch.save(state, path)
    place = weights.locate(str(path))
    assert (place.family, place.source.size, place.source.licence) == ("adm", 512, "MIT")
    path.unlink()
    assert weights.is_available("dift-adm")
    named = weights.locate("dift-adm")
    assert named.location == place.location
    assert Geco.from_pretrained("dift-adm", size=64, device="cpu").dim == 128


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: {**s, "label_emb.weight": torch.zeros(2, 2)},
            r"looks like a class-conditional network, such as 256",
        ),
        (lambda s: {k: v for k, v in s.items() if not k.startswith("output_blocks")}, "looks like a classifier"),
        (lambda s: {**s, "input_blocks.0.0.weight": torch.zeros(32, 6, 3, 3)}, "with 6 input channels, such as an up"),
        (
            lambda s: {k: v for k, v in s.items() if k != "output_blocks.5.2.in_layers.0.bias"},
            r"lacks output_blocks\.5",
        ),
        (lambda s: {k: v for k, v in s.items() if "0.skip_connection" not in k}, "lacks 40 weights of 256x256"),
        (
            lambda s: {**s, "input_blocks.18.0.op.weight": torch.zeros(1)},
            r"has 1 weights that .* has not, first input_",
        ),
        (
            lambda s: {**s, "out.2.weight": torch.zeros(3, 32, 3, 3)},
            r"conv_out\.weight \(in diffusers\) has shape \(3, 32, 3,",
        ),
    ],
    ids=["conditional", "classifier", "upsampler", "truncated", "no shortcuts", "more levels", "no sigma"],
)
def test_another_network_of_the_release_is_told_what_it_looks_like(change, words):
    with pytest.raises(ValueError, match=words) as error:
        conversion.from_original(change(empty(32)))
    assert len(str(error.value)) <= 120, "or its end is cut off"


def test_a_file_that_is_something_else_is_named_and_leaves_nothing(cache, tmp_path):
    path = tmp_path / "x.pt"
    for state, words in (
        ({"a": torch.zeros(1)}, r"x\.pt is no original checkpoint of adm.*; its keys begin with a"),
        (
            dict.fromkeys(conversion.RECOGNISED_BY, torch.zeros(1, 3)),
            r"x\.pt is no whole checkpoint of adm: looks like a",
        ),
    ):
        torch.save(state, path)
        with pytest.raises(ValueError, match=words):
            weights.locate(str(path))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"x\.pt is not a checkpoint of plain tensors: it is damaged"):
        weights.locate(str(path))
    assert not cache.exists() or not list(cache.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"t": 1000}, "t must be a whole number ≥ 0 and ≤ 999, got 1000"),
        ({"block": 18}, "block must be a whole number ≥ 0 and ≤ 17"),
        ({"seed": -1}, "seed must be"),
        ({"ensemble": 0}, "ensemble must be"),
        ({"layer": 5}, "adm backbones have no option layer; options: t, block, seed, ensemble"),
    ],
)
def test_options_that_make_no_sense_are_refused(folder, options, words):
    with pytest.raises(ValueError, match=words):
        Geco.from_pretrained(folder, **options)


def test_another_unet_of_diffusers_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"_class_name": "UNet2DModel", "block_out_channels": [128, 256]}')
    with pytest.raises(ValueError, match=r"block_out_channels: expected 6 multiples of 32 .*, got \[128, 256\]"):
        Geco.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(
        '{"_class_name": "UNet2DModel", "block_out_channels": [32, 32, 64, 64, 128, 128], "layers_per_block": 3}'
    )
    with pytest.raises(ValueError, match="layers_per_block: expected 2 as in OpenAI's ADM, got 3"):
        Geco.from_pretrained(tmp_path)


def test_sides_must_be_multiples_of_the_coarsest_cell_and_there_is_no_adapter(backbone):
    from geco.models.settings import EncoderConfig

    with pytest.raises(ValueError, match="multiples of 32, got 48×64"):
        backbone(pixels=torch.zeros(1, 3, 48, 64))
    with pytest.raises(ValueError, match="adm has no projections to adapt"):
        Geco(backbone, EncoderConfig("adm"))


def test_without_diffusers_one_line_says_what_to_install(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(ImportError, match=r"dift-adm needs diffusers; .*pip install 'geco-features\[diffusion\]'"):
        adm.load(folder)
