"""Sphere: the published mapper's keys and size, its network by hand, and the one map that is the weighted sum."""

import json

import pytest
import torch
from sphere_mappers import mapper_state
from torch.nn import functional

from geco import matching
from geco.backbones.sphere.mapper import mapper_of
from geco.models.geco import Geco


def by_hand(state, tokens, heads):
    """Linear, GELU, one transformer block with its norms first, linear: (b, n, c) → points of length one."""
    p = {key.removeprefix("sphere_mapper."): value for key, value in state.items()}
    x = functional.gelu(tokens @ p["0.weight"].T + p["0.bias"])
    width = x.shape[-1]
    h = functional.layer_norm(x, (width,), p["2.norm1.weight"], p["2.norm1.bias"], 1e-5)
    q, k, v = (h @ p["2.attn.qkv.weight"].T).chunk(3, -1)
    outputs = []
    for i in range(heads):
        head = slice(i * width // heads, (i + 1) * width // heads)
        share = (q[..., head] @ k[..., head].mT / (width // heads) ** 0.5).softmax(-1)
        outputs.append(share @ v[..., head])
    x = x + torch.cat(outputs, -1) @ p["2.attn.proj.weight"].T + p["2.attn.proj.bias"]
    h = functional.layer_norm(x, (width,), p["2.norm2.weight"], p["2.norm2.bias"], 1e-5)
    h = functional.gelu(h @ p["2.mlp.fc1.weight"].T + p["2.mlp.fc1.bias"])
    x = x + h @ p["2.mlp.fc2.weight"].T + p["2.mlp.fc2.bias"]
    x = x @ p["3.weight"].T + p["3.bias"]
    return x / x.norm(dim=-1, keepdim=True)


def test_the_published_mapper_has_this_size_and_these_features():
    state = mapper_state(768)
    mapper = mapper_of(state, name="200.pth")
    assert sum(value.numel() for value in mapper.parameters()) == 2_069_763
    tokens = torch.randn(2, 7, 768, generator=torch.Generator().manual_seed(0))
    ours = functional.normalize(mapper(tokens), dim=-1)
    torch.testing.assert_close(ours, by_hand(state, tokens, heads=6), rtol=1e-4, atol=1e-5)


@pytest.fixture
def folder(tmp_path, tiny_folder):
    torch.save(mapper_state(24), tmp_path / "200.pth")
    manifest = {"model": "sphere", "parts": {"mapper": "200.pth", "dinov2": str(tiny_folder)}}
    (tmp_path / "parts.json").write_text(json.dumps(manifest))
    return tmp_path


def pictures(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [(torch.rand(3, *size, generator=generator) * 255).byte() for size in sizes]


def test_one_map_is_the_weighted_sum_of_cosines(folder, tiny_folder):
    model = Geco.from_pretrained(folder, size=140)
    assert (model.dim, model.config.options) == (27, {"share": 0.2})
    maps = model.extract_batch(pictures((60, 90), (90, 80)))
    assert [tuple(features.values.shape) for features in maps] == [(27, 7, 10), (27, 10, 9)]
    apart = []
    for picture in pictures((60, 90), (90, 80)):
        canvas = model.prepare(picture)["pixels"][None]
        tokens = model.backbone.encoder["dinov2"](pixels=canvas)
        points = by_hand(mapper_state(24), tokens.flatten(2).mT, heads=1).mT.unflatten(-1, (10, 10))
        size = (picture.shape[-2], picture.shape[-1])
        apart.append([model.backbone.finish(values[0], size) for values in (tokens, points)])
    features, sphere = (
        functional.normalize(apart[0][i].flatten(1), dim=0).T @ functional.normalize(apart[1][i].flatten(1), dim=0)
        for i in (0, 1)
    )
    torch.testing.assert_close(matching.similarity(*maps), 0.8 * features + 0.2 * sphere, rtol=0, atol=2e-6)


def test_the_share_of_the_sphere_is_an_option(folder):
    plain = Geco.from_pretrained(folder, size=140, share=0)
    assert plain.extract(pictures((60, 90))[0]).values[24:].abs().max() == 0
    assert plain.fingerprint() != Geco.from_pretrained(folder, size=140).fingerprint()
    with pytest.raises(ValueError, match="share must be"):
        Geco.from_pretrained(folder, share=1.5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: {k: v for k, v in s.items() if "mlp" not in k},
            r"needs 'sphere_mapper\.2\.mlp\.fc1\.bias'",
        ),
        (lambda s: s | {"sphere_mapper.4.weight": torch.zeros(3)}, r"has no 'sphere_mapper\.4\.weight'"),
        (lambda s: s | {"sphere_mapper.3.bias": torch.zeros(4)}, r"3\.bias has shape \(4,\), expected \(3,\)"),
        (lambda s: mapper_state(48), "takes features of 48 channels"),
        (lambda s: {"w_a_000": torch.zeros(2, 2)}, r"200\.pth is .*; expected a mapper of SphericalMaps"),
    ],
)
def test_a_file_that_is_no_whole_mapper_is_refused(folder, change, words):
    torch.save(change(mapper_state(24)), folder / "200.pth")
    with pytest.raises(ValueError, match=words):
        Geco.from_pretrained(folder)
