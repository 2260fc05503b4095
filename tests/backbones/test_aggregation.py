"""The aggregation head: the published files' keys, shapes and sizes, against the same network written out by hand."""

import pytest
import torch
from aggregation_heads import head_state
from torch.nn import functional

from geco.backbones._aggregation import Aggregation, input_widths

GEO = (640, 1280, 1280, 768)


def by_hand(state, maps):
    """The network in functional form: Σ softmax(w)ᵢ · relu(bottleneck(mapᵢ) + shortcut(mapᵢ))."""
    total = 0
    for i, x in enumerate(maps):
        p = {key.removeprefix(f"bottleneck_layers.{i}.0."): value for key, value in state.items()}

        def conv(name, x, padding=0, p=p):
            x = functional.conv2d(x, p[f"{name}.weight"], padding=padding)
            return functional.group_norm(x, 32, p[f"{name}.norm.weight"], p[f"{name}.norm.bias"], 1e-5)

        inner = conv("conv2", conv("conv1", x).clamp_min(0), padding=1).clamp_min(0)
        kept = conv("shortcut", x) if f"bottleneck_layers.{i}.0.shortcut.weight" in state else x
        share = state["mixing_weights"].exp()[i] / state["mixing_weights"].exp().sum()
        total = total + share * (conv("conv3", inner) + kept).clamp_min(0)
    return total


@pytest.mark.parametrize(
    ("widths", "dim", "keys", "numbers"),
    [(GEO, 768, 48, 5_150_214), ((768,), 768, 12, 628_995), ((768,), 384, 15, 490_371), ((768,), 128, 15, 136_835)],
    ids=["geo", "diy-sc", "diy-sc-384", "diy-sc-128"],
)
def test_the_published_files_have_these_keys_and_sizes(widths, dim, keys, numbers):
    state = head_state(widths, dim)
    assert len(state) == keys
    assert sum(value.numel() for value in state.values()) == numbers
    assert input_widths(state) == widths
    head = Aggregation.from_state(state, name="best.pth")
    assert (head.widths, head.dim) == (widths, dim)
    torch.manual_seed(0)
    maps = [torch.randn(2, width, 3, 4) for width in widths]
    torch.testing.assert_close(head(maps), by_hand(state, maps), rtol=1e-4, atol=1e-5)


def test_files_that_are_no_whole_head_are_refused():
    state = head_state((64, 32), 32)
    wrong = {
        "is not an aggregation head": {"fc.weight": torch.zeros(1)},
        r"has no 'bottleneck_layers\.0\.1\.conv1\.weight'": {**state, "bottleneck_layers.0.1.conv1.weight": 0},
        r"needs 'bottleneck_layers\.1\.0\.conv2\.norm\.bias' \(1 such": {
            key: value for key, value in state.items() if key != "bottleneck_layers.1.0.conv2.norm.bias"
        },
        r"mixing_weights has shape \(3,\), expected \(2,\)": {**state, "mixing_weights": torch.zeros(3)},
    }
    for message, given in wrong.items():
        tensors = {key: value if isinstance(value, torch.Tensor) else torch.zeros(1) for key, value in given.items()}
        with pytest.raises(ValueError, match=f"best.pth.*{message}"):
            Aggregation.from_state(tensors, name="best.pth")
