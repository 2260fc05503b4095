"""Segmenters put the object where it is: SAM's prompts, saliency in the box, the box itself."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from segmented import bright_disc, brightness_network, disc, tiny_sam, tiny_sam2
from transformers.models.sam.image_processing_pil_sam import SamImageProcessorPil

from geco import masks
from geco.masks.settings import MaskSettings


def overlap(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first & second).sum() / (first | second).sum())


# --- SAM ------------------------------------------------------------------------------------------


class Spy:
    """Stands in for SAM's network: remembers what it was given, answers with a disc in the square's frame."""

    def __init__(self, centre: tuple[float, float]) -> None:
        self.logits = disc(16, 16, centre, 3.5).float() * 2 - 1

    def __call__(self, **given: object) -> object:
        self.given = given
        return type("Found", (), {"pred_masks": self.logits[None, None, None]})()


@pytest.mark.parametrize("make", [tiny_sam, tiny_sam2])
def test_a_saved_sam_answers_prompts_with_a_mask_of_the_image_s_size(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    sam = masks.Sam(make(tmp_path))
    view = bright_disc()
    mask = sam(view)
    assert mask.shape == (50, 80)
    assert torch.equal(mask, sam(view))
    assert sam(replace(view, box=None)).shape == (50, 80)
    assert sam(replace(view, keypoints=None)).shape == (50, 80)
    with pytest.raises(ValueError, match="disc has neither box nor visible keypoint to prompt SAM with"):
        sam(replace(view, keypoints=None, box=None))


def test_sam_s_input_is_what_its_own_processor_makes(tmp_path: Path) -> None:
    sam = masks.Sam(tiny_sam(tmp_path))
    sam.model = spy = Spy((8, 8))
    rng = np.random.default_rng(0)
    image = np.array(Pillow.fromarray(rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)).resize((123, 77)))
    view = replace(bright_disc(77, 123), image=torch.from_numpy(image).permute(2, 0, 1))
    sam(view)
    processor = SamImageProcessorPil(size={"longest_edge": 64}, pad_size={"height": 64, "width": 64})
    expected = processor(image, return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(spy.given["pixel_values"], expected, atol=1.6 / 255 / 0.22, rtol=0)


def test_prompts_and_answer_share_the_image_s_frame_in_sam_and_sam2(tmp_path: Path) -> None:
    view = bright_disc()  # 50 × 80: SAM scales by 64/80 and pads below, SAM 2 squashes both sides to 64
    point = torch.tensor([50.0, 25.0])
    for make, scale in ((tiny_sam, (0.8, 0.8)), (tiny_sam2, (0.8, 1.28))):
        sam = masks.Sam(make(tmp_path / make.__name__))
        where = point * torch.tensor(scale)  # in the 64-pixel square; SAM adds half a pixel to what it is given
        sam.model = spy = Spy(tuple((where / 4).tolist()))  # its answer has a quarter of that resolution
        mask = sam(view)
        points, box = spy.given["input_points"], spy.given["input_boxes"]
        assert points.shape == (1, 1, 2, 2)  # the hidden keypoint is not shown to SAM
        torch.testing.assert_close(points[0, 0, 0] + 0.5, where)
        torch.testing.assert_close(box[0, 0, :2] + 0.5, torch.tensor([36.0, 11.0]) * torch.tensor(scale))
        y, x = mask.nonzero().float().mean(0) + 0.5
        torch.testing.assert_close(torch.stack([x, y]), point, atol=0.6, rtol=0)


def test_unusable_sam_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no SAM weights at '.*nowhere'.* expected a folder with config.json"):
        masks.Sam(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="holds a 'bert' model; expected one of sam, sam2, sam2_video"):
        masks.Sam(tmp_path)


# --- saliency -------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [64, "side"])
def test_a_saliency_network_finds_the_bright_object(side: int | str, tmp_path: Path) -> None:
    segment = masks.Saliency(brightness_network(tmp_path / "net.onnx", side), MaskSettings())
    assert segment.side == (64 if side == 64 else 320)
    view = bright_disc()
    assert overlap(segment(view), disc(50, 80, (50, 25), 14)) > 0.93
    assert overlap(segment(replace(view, box=None)), disc(50, 80, (50, 25), 14)) > 0.93


def test_a_brighter_object_outside_the_box_is_left_alone(tmp_path: Path) -> None:
    segment = masks.Saliency(brightness_network(tmp_path / "net.onnx"), MaskSettings())
    view = bright_disc()
    view.image[:, :40, :20] = 255
    mask = segment(view)
    assert not mask[:, :30].any()
    assert overlap(mask, disc(50, 80, (50, 25), 14)) > 0.9


def test_unusable_networks_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file; expected a U²-Net-type network"):
        masks.Saliency(tmp_path / "no.onnx", MaskSettings())
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    with pytest.raises(ValueError, match=r"bad.onnx is not an ONNX network"):
        masks.Saliency(tmp_path / "bad.onnx", MaskSettings())


def test_without_onnxruntime_the_message_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    path = brightness_network(tmp_path / "net.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    message = r"u2net needs onnxruntime; install it with: pip install 'geco-features\[masks\]'"
    with pytest.raises(ImportError, match=message):
        masks.Saliency(path, MaskSettings())


# --- the box ------------------------------------------------------------------------------------------


def test_a_box_covers_the_pixels_whose_centres_it_holds() -> None:
    view = replace(bright_disc(), box=torch.tensor([-3.0, 11.5, 20.4, 60.0]))
    expected = torch.zeros(50, 80, dtype=torch.bool)
    expected[11:, :20] = True
    assert torch.equal(masks.box(view), expected)
    with pytest.raises(ValueError, match="disc has no box to take as its mask; make masks with `geco masks`"):
        masks.box(replace(view, box=None))
