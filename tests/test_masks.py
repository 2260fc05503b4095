"""Masks: segmenters put the object where it is; files are written once, whole, and found again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image as Pillow
from transformers import Sam2Config, Sam2HieraDetConfig, Sam2Model, Sam2VisionConfig, SamConfig, SamModel
from transformers.models.sam.image_processing_pil_sam import SamImageProcessorPil

from geco import contact, images, masks, segmenters
from geco.config.masks import MaskSettings
from geco.types import Keypoints, MaskFile, Pair, Skeleton, View

POLE = Skeleton(("tip", "foot"), twin=(0, 1), mirror=None)
DECODER = {
    "hidden_size": 16,
    "mlp_dim": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "iou_head_hidden_dim": 16,
}
PROMPTS = {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}


def disc(height: int, width: int, centre: tuple[float, float], radius: float) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2


def bright_disc(height: int = 50, width: int = 80, *, name: str = "disc") -> View:
    """A bright disc around (50, 25) on a dark ground, two keypoints on it and one hidden far off it."""
    image = torch.full((3, height, width), 20, dtype=torch.uint8)
    image[:, disc(height, width, (50, 25), 14)] = 240
    xy = torch.tensor([[50.0, 25.0], [58.0, 25.0], [3.0, 3.0]])
    return View(
        image,
        (height, width),
        Keypoints(xy, torch.tensor([True, True, False])),
        torch.tensor([36.0, 11.0, 64.0, 39.0]),
        name=name,
    )


def overlap(one: torch.Tensor, two: torch.Tensor) -> float:
    return float((one & two).sum() / (one | two).sum())


# --- SAM -----------------------------------------------------------------------------------------------------


def tiny_sam(folder: Path) -> Path:
    torch.manual_seed(0)
    vision = {
        "hidden_size": 16,
        "output_channels": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 16,
        "window_size": 2,
        "global_attn_indexes": [0],
        "mlp_dim": 16,
        "num_pos_feats": 8,
    }
    config = SamConfig(vision_config=vision, prompt_encoder_config=PROMPTS, mask_decoder_config=DECODER)
    SamModel(config).save_pretrained(folder)
    return folder


def tiny_sam2(folder: Path) -> Path:
    torch.manual_seed(0)
    backbone = Sam2HieraDetConfig(
        hidden_size=8,
        num_attention_heads=1,
        image_size=[64, 64],
        blocks_per_stage=[1, 1, 1, 1],
        embed_dim_per_stage=[8, 16, 32, 64],
        num_attention_heads_per_stage=[1, 1, 1, 1],
        window_size_per_stage=[4, 2, 2, 2],
        window_positional_embedding_background_size=[4, 4],
        global_attention_blocks=[],
    )
    vision = Sam2VisionConfig(
        backbone_config=backbone,
        backbone_channel_list=[64, 32, 16, 8],
        backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]],
        fpn_hidden_size=16,
    )
    config = Sam2Config(vision_config=vision, prompt_encoder_config=PROMPTS, mask_decoder_config=DECODER)
    Sam2Model(config).save_pretrained(folder)
    return folder


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
    sam = segmenters.Sam(make(tmp_path))
    view = bright_disc()
    mask = sam(view)
    assert mask.shape == (50, 80)
    assert torch.equal(mask, sam(view))
    assert sam(replace(view, box=None)).shape == (50, 80)
    assert sam(replace(view, keypoints=None)).shape == (50, 80)
    with pytest.raises(ValueError, match="disc has neither box nor visible keypoint to prompt SAM with"):
        sam(replace(view, keypoints=None, box=None))


def test_sam_s_input_is_what_its_own_processor_makes(tmp_path: Path) -> None:
    sam = segmenters.Sam(tiny_sam(tmp_path))
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
        sam = segmenters.Sam(make(tmp_path / make.__name__))
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
        segmenters.Sam(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="holds a 'bert' model; expected one of sam, sam2, sam2_video"):
        segmenters.Sam(tmp_path)


# --- saliency ------------------------------------------------------------------------------------------------


def brightness_network(path: Path, side: int | str = 32) -> Path:
    """An ONNX graph in U²-Net's form whose saliency is the mean of the colours."""
    node = helper.make_node("ReduceMean", ["image"], ["salient"], axes=[1], keepdims=1)
    shape = [1, 3, side, side]
    graph = helper.make_graph(
        [node],
        "brightness",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("salient", TensorProto.FLOAT, [1, 1, side, side])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("side", [64, "side"])
def test_a_saliency_network_finds_the_bright_object(side: int | str, tmp_path: Path) -> None:
    segment = segmenters.Saliency(brightness_network(tmp_path / "net.onnx", side), MaskSettings())
    assert segment.side == (64 if side == 64 else 320)
    view = bright_disc()
    assert overlap(segment(view), disc(50, 80, (50, 25), 14)) > 0.93
    assert overlap(segment(replace(view, box=None)), disc(50, 80, (50, 25), 14)) > 0.93


def test_a_brighter_object_outside_the_box_is_left_alone(tmp_path: Path) -> None:
    segment = segmenters.Saliency(brightness_network(tmp_path / "net.onnx"), MaskSettings())
    view = bright_disc()
    view.image[:, :40, :20] = 255
    mask = segment(view)
    assert not mask[:, :30].any()
    assert overlap(mask, disc(50, 80, (50, 25), 14)) > 0.9


def test_unusable_networks_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file; expected a U²-Net-type network"):
        segmenters.Saliency(tmp_path / "no.onnx", MaskSettings())
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    with pytest.raises(ValueError, match=r"bad.onnx is not an ONNX network"):
        segmenters.Saliency(tmp_path / "bad.onnx", MaskSettings())


def test_without_onnxruntime_the_message_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    path = brightness_network(tmp_path / "net.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="u2net masks need onnxruntime; install it with: pip install onnxruntime"):
        segmenters.Saliency(path, MaskSettings())


# --- files ---------------------------------------------------------------------------------------------------


class Counting:
    """Segments by brightness and counts how often it was asked."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.asked, self.stop_at = 0, stop_at

    def __call__(self, view: View) -> torch.Tensor:
        if self.asked == self.stop_at:
            raise KeyboardInterrupt
        self.asked += 1
        return view.image[0] > 128


def views(folder: Path, count: int = 4) -> list[View]:
    found = []
    for number in range(count):
        view = bright_disc(name=f"dir/animal {number}")
        path = folder / f"{number}.png"
        Pillow.fromarray(view.image.permute(1, 2, 0).numpy()).save(path)
        found.append(replace(view, image=path))
    return found


RECORD = {"maker": "test"}


def test_masks_are_written_once_and_judged(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    heard = []
    segment = Counting()
    summary = masks.make(data, segment, out, record=RECORD, done=lambda name, quality: heard.append((name, quality)))
    assert (summary.instances, summary.made, summary.empty, summary.failures) == (4, 4, 0, ())
    assert summary.keypoints_inside == 1.0
    assert summary.box_covered == pytest.approx(np.pi / 4, abs=0.02)  # a disc in its square
    assert [name for name, _ in heard] == [f"dir%2Fanimal {i}@36-11-64-39.png" for i in range(4)]
    assert torch.equal(images.read_mask(MaskFile(out / heard[0][0])), disc(50, 80, (50, 25), 14))

    again = masks.make(data, segment, out, record=RECORD)
    assert segment.asked == 4
    assert again == replace(summary, made=0)


def test_damaged_and_wrong_files_are_made_again(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    masks.make(data, Counting(), out, record=RECORD)
    whole = (out / masks.file_name(data[0])).read_bytes()
    (out / masks.file_name(data[0])).write_bytes(whole[: len(whole) // 2])
    Pillow.new("L", (5, 5)).save(out / masks.file_name(data[1]))
    (out / masks.file_name(data[2])).unlink()
    assert masks.make(data, Counting(), out, record=RECORD).made == 3
    assert (out / masks.file_name(data[0])).read_bytes() == whole


def test_an_interrupted_run_is_taken_up_again(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        masks.make(data, Counting(stop_at=3), out, record=RECORD)
    rest = Counting()
    assert masks.make(data, rest, out, record=RECORD).made == 1
    assert rest.asked == 1
    assert not list(out.glob("*.part"))


def test_a_bad_image_does_not_stop_the_others(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    data[1].image.write_bytes(b"no picture")
    summary = masks.make(data, Counting(), out, record=RECORD)
    assert (summary.instances, summary.made) == (4, 3)
    assert len(summary.failures) == 1
    assert "1.png is not an image that can be read" in summary.failures[0]


def test_a_folder_made_otherwise_is_refused(tmp_path: Path) -> None:
    data, out = views(tmp_path, 1), tmp_path / "out"
    masks.make(data, Counting(), out, record={"maker": "sam", "weights": "base"})
    with pytest.raises(ValueError, match="holds masks made with maker=sam, weights=base, now asked for maker=own;"):
        masks.make(data, Counting(), out, record={"maker": "own"})
    (out / masks.RECORD).write_text("{")
    with pytest.raises(ValueError, match=r"masks.json is damaged"):
        masks.make(data, Counting(), out, record={"maker": "own"})


def test_two_animals_in_one_photograph_have_two_masks_and_one_in_two_pairs_has_one(tmp_path: Path) -> None:
    one, other = views(tmp_path, 2)
    second = replace(one, box=torch.tensor([0.0, 0.0, 20.0, 20.0]))
    pairs = [Pair(one, other, POLE), Pair(other, one, POLE), Pair(second, other, POLE)]
    assert list(masks.instances(pairs).values()) == [one, other, second]


def test_quality_against_numbers_counted_by_hand() -> None:
    view = bright_disc()
    left_half = torch.zeros(50, 80, dtype=torch.bool)
    left_half[:, :50] = True  # the keypoint at x = 50.0 lies on pixel 50, just off it; the box is 28 wide, 14 in
    judged = masks.quality(view, left_half)
    assert (judged.inside, judged.visible, judged.empty) == (0, 2, False)
    assert judged.box == pytest.approx(0.5)
    left_half[:, 50] = True
    assert masks.quality(view, left_half).inside == 1
    nothing = masks.quality(replace(view, box=None, keypoints=None), torch.zeros(50, 80, dtype=torch.bool))
    assert nothing == masks.Quality(0, 0, None, empty=True)


def test_attached_masks_are_found_and_missing_ones_are_named(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    pairs = [Pair(data[0], data[1], POLE), Pair(data[2], data[3], POLE)]
    masks.make(pairs, Counting(), out, record=RECORD)
    attached = masks.attach(pairs, out)
    assert len(attached) == 2
    loaded = images.load_view(attached[1].target)
    assert torch.equal(loaded.mask, disc(50, 80, (50, 25), 14))
    (out / masks.file_name(data[3])).unlink()
    with pytest.raises(FileNotFoundError, match=r"no mask for 1 of 4 instances, dir%2Fanimal 3@36-11-64-39.png"):
        masks.attach(pairs, out)
    with pytest.raises(FileNotFoundError, match="no such folder; make the masks with `geco masks`"):
        masks.attach(pairs, tmp_path / "elsewhere")


def test_a_dataset_s_own_masks_can_be_kept(tmp_path: Path) -> None:
    data, out = views(tmp_path, 2), tmp_path / "out"
    masks.make(data, Counting(), out, record=RECORD)
    shipped = replace(data[0], mask=MaskFile(Path("shipped.png"), 3))
    pair = Pair(shipped, data[1], POLE)
    made = [MaskFile(out / masks.file_name(view), whole=False) for view in data]
    assert masks.attach([pair], out, keep_own=True)[0].source.mask == shipped.mask
    assert masks.attach([pair], out, keep_own=True)[0].target.mask == made[1]
    assert masks.attach([pair], out)[0].source.mask == made[0]


def test_names_that_cannot_be_filed_are_refused() -> None:
    with pytest.raises(ValueError, match=r"has no name to file its mask under"):
        masks.file_name(replace(bright_disc(), image=Path("x.jpg"), name=""))
    with pytest.raises(ValueError, match=r"too long for a mask's file \(300 > 200\)"):
        masks.file_name(bright_disc(name="a" * 300))
    with pytest.raises(ValueError, match="disc comes without a mask; make one with sam or u2net"):
        segmenters.own(bright_disc())


def test_the_record_says_how_the_masks_were_made(tmp_path: Path) -> None:
    masks.make(views(tmp_path, 1), Counting(), tmp_path / "out", record={"maker": "u2net", "margin": 0.1})
    assert json.loads((tmp_path / "out" / masks.RECORD).read_text()) == {"maker": "u2net", "margin": 0.1}


# --- contact sheet -------------------------------------------------------------------------------------------


def test_the_sheet_shows_object_outline_box_and_points() -> None:
    view = bright_disc()
    page = np.array(contact.sheet([contact.Tile(view, disc(50, 80, (58, 25), 6), "a name")] * 7))
    assert page.shape == (2 * (contact.TILE + contact.CAPTION), contact.COLUMNS * contact.TILE, 3)
    scale = (contact.TILE - 4) / 80
    at = lambda x, y: tuple(page[int(y * scale), int(x * scale)])  # noqa: E731
    assert at(58, 25) == contact.INSIDE
    assert at(50, 25) == contact.OUTSIDE
    assert at(3, 3) not in (contact.INSIDE, contact.OUTSIDE)  # hidden: not drawn
    assert at(40, 11) == contact.BOX
    assert (page == contact.OUTLINE).all(-1).sum() > 100
    assert at(60.5, 27.5)[0] > 200  # the object is bright …
    assert at(42, 25)[0] < 100  # … and what the mask leaves out of it is darkened
    with pytest.raises(ValueError, match="needs at least one mask"):
        contact.sheet([])
