"""Geo: windows, captioner and fusion against the same by hand; parts that are missing, mixed up or of another size."""

import json
from dataclasses import replace

import pytest
import torch
from aggregation_heads import head_state
from small_diffusion import CAPTION, EMBEDDING, captioner_state, odise
from torch.nn import functional

from geco.backbones import _stable_diffusion as stable_diffusion
from geco.backbones import geo
from geco.backbones._diffusion import noise, noisy
from geco.backbones.geo import captioner as captioners
from geco.backbones.geo.windows import slide
from geco.errors import GecoError
from geco.models import weights
from geco.models.geco import Geco

pytest.importorskip("diffusers", reason="needs the extra diffusion")


@pytest.fixture(scope="module")
def root(diffusion_parts):
    return diffusion_parts


@pytest.fixture(scope="module")
def model(root):
    return Geco.from_pretrained(root / "geo", size=128, device="cpu")


def canvases(count, side=128):
    generator = torch.Generator().manual_seed(5)
    side14 = side * 14 // 16
    return {
        "diffusion": torch.rand(count, 3, side, side, generator=generator),
        "dinov2": torch.randn(count, 3, side14, side14, generator=generator),
    }


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "starts"), [(960, {0, 448}), (1024, {0, 512}), (512, {0}), (128, {0})])
def test_windows_that_return_their_coordinates_average_to_the_coordinates_of_the_whole(side, starts):
    place = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).float()[None] + 0.5
    corners = set()

    def encode(pixels):
        corners.add(tuple((pixels[0, :, 0, 0] - 0.5).int().tolist()))
        return [functional.avg_pool2d(pixels, stride) for stride in (16, 32, 64)]

    maps = slide(place, encode, window=512)
    assert corners == {(top, left) for top in starts for left in starts}
    for values, stride in zip(maps, (16, 32, 64), strict=True):
        torch.testing.assert_close(values, functional.avg_pool2d(place, stride), rtol=0, atol=1e-3)


def test_where_windows_overlap_they_count_alike():
    values = iter((1.0, 3.0))
    maps = slide(torch.zeros(1, 1, 24, 16), lambda pixels: [torch.full_like(pixels, next(values))], window=16)
    assert maps[0][0, 0, :, 0].tolist() == [1.0] * 8 + [2.0] * 8 + [3.0] * 8


# --- the captioner ----------------------------------------------------------------------------------------------------


def test_the_captioner_by_hand(root):
    from transformers import CLIPModel

    state = captioner_state()
    read = captioners.read_captioner(str(root / "odise.pth"), expected="it")
    ours = captioners.load_captioner(read, str(root / "clip"), width=CAPTION, time=128, name="odise.pth")
    clip = CLIPModel.from_pretrained(root / "clip").eval()
    pixels = torch.rand(2, 3, 64, 64)
    seen = functional.interpolate(pixels, (28, 28), mode="bicubic", align_corners=False)
    mean = torch.tensor([0.48145466, 0.4578275, 0.40821073])[:, None, None]
    std = torch.tensor([0.26862954, 0.26130258, 0.27577711])[:, None, None]
    with torch.no_grad():
        caption, time = ours(pixels)
        pooled = clip.vision_model(pixel_values=(seen - mean) / std).pooler_output
        embedding = pooled @ clip.visual_projection.weight.T
    expected = []
    for row in embedding:  # one token after the other
        words = state["clip_project.linear.weight"] @ row + state["clip_project.linear.bias"]
        words = words[None] + state["clip_project.positional_embedding"][0]
        expected.append(torch.tanh(state["alpha_cond"][0]) * words)
    torch.testing.assert_close(caption, torch.stack(expected), rtol=1e-4, atol=1e-5)
    line = state["time_embed_project.linear.weight"] @ embedding[0] + state["time_embed_project.linear.bias"]
    line = torch.tanh(state["alpha_cond_time_embed"]) * (line + state["time_embed_project.positional_embedding"][0, 0])
    torch.testing.assert_close(time[0], line, rtol=1e-4, atol=1e-5)


def test_the_published_captioner_has_its_published_shapes(root):
    """768 channels of CLIP and of captions, 1280 of the step's embedding: 1.8 million numbers."""
    shapes = {name: value.shape for name, value in captioner_state(embedding=768, width=768, time=1280).items()}
    with torch.device("meta"):
        network = captioners.Captioner(embedding=768, tokens=77, width=768, time=1280)
    assert {name: value.shape for name, value in network.state_dict().items()} == shapes
    with pytest.raises(ValueError, match=r"odise: alpha_cond has shape \(1, 77, 32\), expected \(1, 77, 64\)"):
        captioners.load_captioner(captioner_state(), str(root / "clip"), width=64, time=128, name="odise")


# --- the whole --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_hand(root, model, inputs):
    """Without FreeU, which has a test of its own; hidden states as hooks on diffusers' own forward pass see them."""
    from diffusers import UNet2DConditionModel

    unet = UNet2DConditionModel.from_pretrained(root / "sd" / "unet").eval()
    parts = model.backbone.encoder
    pixels = inputs["diffusion"]
    caption, time = parts["captioner"](pixels)
    latents = parts["diffusion"].latents(pixels * 2 - 1)
    x = noisy(latents, noise((1, *latents.shape[1:]), seed=42)[0], stable_diffusion.BETAS, 50)
    seen = []
    for module in (unet.up_blocks[0].resnets[1], unet.up_blocks[1].attentions[1], unet.up_blocks[2].attentions[1]):
        module.register_forward_hook(lambda *v: seen.append(v[-1][0] if isinstance(v[-1], tuple) else v[-1]))
    unet.time_embedding.register_forward_hook(lambda *values: values[-1] + time)
    unet(x, 50, encoder_hidden_states=parts["diffusion"].caption + caption, return_dict=False)
    s5, s4, s3 = seen
    s4, s5 = (functional.interpolate(s, s3.shape[-2:], mode="bilinear", align_corners=False) for s in (s4, s5))
    joined = parts["head"]([s3, s4, s5, parts["dinov2"](pixels=inputs["dinov2"])])
    return joined / joined.norm(dim=1, keepdim=True)


def test_features_are_those_of_the_parts_put_together_by_hand(root, model):
    plain = Geco.from_pretrained(root / "geo", size=128, device="cpu", freeu=False)
    inputs = canvases(2)
    with torch.no_grad():
        features = plain(**inputs)
        enhanced = model(**inputs)
    assert features.shape == (2, 32, 8, 8)
    torch.testing.assert_close(features, by_hand(root, plain, inputs), rtol=1e-4, atol=1e-5)
    assert (features - enhanced).abs().max() > 0.01, "FreeU is on unless it is switched off"
    assert plain.fingerprint() != model.fingerprint()


def test_features_do_not_depend_on_the_batch_and_an_image_has_one_map(model, image_file):
    pictures = [image_file("a.jpg", (120, 90), seed=1), image_file("b.jpg", (50, 100), seed=2)]
    together = model.extract_batch([*pictures, pictures[0]], batch_size=3)
    alone = model.extract(pictures[1])
    turned = model.extract_batch(pictures[::-1])
    assert [tuple(maps.values.shape) for maps in together] == [(32, 6, 8), (32, 8, 4), (32, 6, 8)]
    assert together[0].values.equal(together[2].values)
    torch.testing.assert_close(together[1].values, alone.values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together[1].values, turned[0].values, rtol=1e-4, atol=1e-5)
    assert together[0].size == (90, 120)


def test_the_canvases_show_the_same_image_in_the_same_cells(model):
    """White on black: in both canvases it fills the same cells, and all of them."""
    inputs = model.prepare(torch.full((3, 50, 100), 255, dtype=torch.uint8))
    assert inputs["diffusion"].shape == (3, 128, 128)
    assert inputs["dinov2"].shape == (3, 112, 112)
    dark = (0 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    shown = functional.avg_pool2d(inputs["diffusion"], 16)[0]
    patches = functional.avg_pool2d((inputs["dinov2"] > dark[:, None, None] + 0.1).float(), 14)[0]
    assert patches.equal(shown.round())
    assert shown[2:6].min() > 0.999
    assert shown[:2].max() == shown[6:].max() == 0


def test_in_half_precision_features_are_near(root, model, image_file):
    exact = Geco(model.backbone, replace(model.config, size=64)).extract(image_file()).values
    rounded = Geco.from_pretrained(root / "geo", size=64, device="cpu", dtype="bfloat16").extract(image_file()).values
    assert (exact - rounded).norm() < 0.1 * exact.norm()
    assert not exact.equal(rounded)


def test_with_the_empty_caption_it_is_another_row(root, model):
    empty = Geco.from_pretrained(root / "geo-empty", size=128, device="cpu")
    assert "not the paper's row" in empty.note
    assert "captioner" not in empty.backbone.encoder
    with torch.no_grad():
        assert (empty(**canvases(1)) - model(**canvases(1))).abs().max() > 1e-3
    assert sum(p.numel() for p in model.parameters()) > sum(p.numel() for p in empty.parameters())


def test_sizes_that_two_windows_do_not_cover_are_refused(model):
    with pytest.raises(ValueError, match="multiples of 64 up to 1024, got 1088×1088; Geo was trained at 960"):
        model(**canvases(1, side=1088))
    assert Geco(model.backbone, model.config).input_size == 128
    assert weights.sources()["geo"][1].size == 960


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def test_what_is_missing_is_said_with_where_to_get_it(root):
    for name in ("geo", "geo-empty"):
        with pytest.raises(FileNotFoundError, match=rf"{name} needs Geo's head .*best_856\.PTH of github\.com/Junyi42"):
            weights.locate(name)
    with pytest.raises(FileNotFoundError, match=r"geo needs ODISE's captioner \(odise_label.*geo-empty does without"):
        weights.locate(str(root / "best_856.PTH"))
    with pytest.raises(FileNotFoundError, match=r"geo needs Geo's head"):
        weights.locate(str(root / "odise.pth"))
    sources = {name: source for name, (_, source) in weights.sources().items()}
    assert "non-commercial" in sources["geo"].licence
    assert "non-commercial" not in sources["geo-empty"].licence
    assert "none stated" in sources["geo-empty"].licence


def test_a_model_that_is_not_in_the_hub_s_cache_says_so(root, tmp_path, tiny_folder):
    parts = {"head": str(root / "best_856.PTH"), "dinov2": str(tiny_folder)}
    (tmp_path / "parts.json").write_text(json.dumps({"model": "geo-empty", "parts": parts}))
    with pytest.raises(OSError, match=r"geo-empty needs Stable Diffusion 1\.5: stable-diffusion-v1-5/.*'diffusion'"):
        weights.locate(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"head": "diy.pth"}, r"diy\.pth is a DIY-SC head .*; expected Geo's head \(four aggregation branches\)"),
        ({"head": "odise.pth"}, r"odise\.pth is ODISE's captioner; expected Geo's head"),
        ({"captioner": "best_856.PTH"}, r"best_856\.PTH is Geo's head .*; expected ODISE's captioner"),
        (
            {"captioner": "half.pth"},
            r"half\.pth: ODISE's captioner needs 'clip_project\.linear\.bias' \(2 such keys\)",
        ),
        ({"captioner": "cut.pth"}, r"cut\.pth is not ODISE's captioner: it is damaged"),
        ({"head": "narrow.pth"}, r"takes maps of \(64, 96, 96, 48\) channels, .* give \(64, 96, 96, 24\); expected a"),
        ({"diffusion": "clip"}, r"clip has no unet/config\.json; expected Stable Diffusion in diffusers' layout"),
        ({"clip": "sd/text_encoder"}, r"text_encoder/config\.json: expected the key image_size, which is missing"),
        ({"heads": "best_856.PTH"}, "geo has no part 'heads'; expected head, captioner, clip, diffusion, dinov2"),
    ],
)
def test_parts_that_are_mixed_up_or_damaged_are_named(root, tmp_path, changes, words):
    torch.save(head_state((24,), 32), root / "diy.pth")
    torch.save(head_state((64, 96, 96, 48), 32), root / "narrow.pth")
    half = {name: value for name, value in captioner_state().items() if "clip_project.linear" not in name}
    torch.save(odise(half), root / "half.pth")
    (root / "cut.pth").write_bytes((root / "odise.pth").read_bytes()[:2000])
    manifest = json.loads((root / "geo" / "parts.json").read_text())
    places = {name: f"{root}/{place}" for name, place in changes.items()}
    parts = {name: place.replace("..", str(root)) for name, place in manifest["parts"].items()}
    (tmp_path / "parts.json").write_text(json.dumps({"model": "geo", "parts": {**parts, **places}}))
    with pytest.raises(GecoError, match=words):
        Geco.from_pretrained(tmp_path)


def test_a_checkpoint_without_a_captioner_is_none():
    assert captioners.is_captioner(odise(captioner_state())["model"])
    assert not captioners.is_captioner({"alpha_cond": torch.zeros(1)})
    assert EMBEDDING == 24


@pytest.mark.parametrize(
    ("options", "words"),
    [({"t": 1000}, "t must be"), ({"seed": -1}, "seed must be"), ({"freeu": 1}, "freeu must be True or False")],
)
def test_options_that_make_no_sense_are_refused(model, options, words):
    parts = model.backbone.encoder
    with pytest.raises(ValueError, match=words):
        geo.Geo(
            parts["diffusion"], parts["dinov2"], parts["head"], None, **{"t": 50, "seed": 42, "freeu": True, **options}
        )


def test_without_diffusers_one_line_says_what_to_install(root, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(ImportError, match=r"geo-empty needs diffusers; .*pip install 'geco-features\[diffusion\]'"):
        Geco.from_pretrained(root / "geo-empty")
