"""Segmenters: a loaded View → its object's pixels, by prompting SAM or SAM 2, by saliency (U²-Net), or its box.

A segmenter is any function of a loaded view; how it uses the box and the keypoints is up to it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from geco import geometry
from geco.errors import InputError, MissingFileError, MissingPackageError, needing
from geco.images import IMAGENET_MEAN, IMAGENET_STD
from geco.masks.fitting import fit
from geco.masks.settings import MaskSettings
from geco.types import Size, View

# Makes the mask of a view.
Segmenter = Callable[[View], Bool[Tensor, "h w"]]


def own(view: View) -> Bool[Tensor, "h w"]:
    """The mask that the dataset ships."""
    if not isinstance(view.mask, Tensor):
        raise InputError(f"{view.label} comes without a mask; make one with sam or u2net")
    return view.mask


def box(view: View) -> Bool[Tensor, "h w"]:
    """The pixels whose centres lie in the view's box; needs no pixels of the image."""
    if view.box is None:
        raise InputError(f"{view.label} has no box to take as its mask; make masks with `geco masks`")
    height, width = view.size
    x0, y0, x1, y1 = view.box.tolist()
    x = geometry.pixel_centres(torch.arange(width), width=width)[:, 0]
    y = geometry.pixel_centres(torch.arange(height), width=1)[:, 1]
    return ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))


class Sam:
    """SAM or SAM 2 (a folder or a hub name), prompted with the box and the visible keypoints as in GECO."""

    def __init__(self, weights: str | Path, *, device: str = "cpu") -> None:
        self.model, self.squash = _load_sam(str(weights))
        self.model.to(device).eval()
        self.device = device
        size = self.model.config.prompt_encoder_config.image_size
        self.side: int = size if isinstance(size, int) else size[0]

    @torch.inference_mode()
    def __call__(self, view: View) -> Bool[Tensor, "h w"]:
        """Pixels where SAM's one mask for these prompts is more likely than not."""
        inner = self._inner(view.size)
        pixels = geometry.resize_image(view.pixels, inner)
        pixels = pixels if view.pixels.is_floating_point() else pixels / 255
        mean, std = pixels.new_tensor(IMAGENET_MEAN), pixels.new_tensor(IMAGENET_STD)
        pixels = (pixels - mean[:, None, None]) / std[:, None, None]
        pixels = functional.pad(pixels, (0, self.side - inner[1], 0, self.side - inner[0]))
        answer = self.model(
            pixel_values=pixels[None].to(self.device),
            multimask_output=False,  # three masks are for ambiguous prompts; a box with points is not one
            **self._prompts(view, inner),
        )
        return self._outwards(answer.pred_masks[:, 0].float().cpu(), inner, view.size)

    def _inner(self, size: Size) -> Size:
        """The part of the square input that the image fills: SAM keeps the shape, SAM 2 squashes."""
        if self.squash:
            return self.side, self.side
        scale = self.side / max(size)
        return int(size[0] * scale + 0.5), int(size[1] * scale + 0.5)

    def _prompts(self, view: View, inner: Size) -> dict[str, Tensor]:
        # SAM counts from pixel centres: it adds the half pixel that our corner origin already has.
        prompts: dict[str, Tensor] = {}
        if view.box is not None:
            corners = geometry.resize_points(view.box.float().reshape(2, 2), size=view.size, to=inner) - 0.5
            prompts["input_boxes"] = corners.reshape(1, 1, 4).to(self.device)
        if view.keypoints is not None and view.keypoints.visible.any():
            xy = view.keypoints.xy[view.keypoints.visible].float()
            points = geometry.resize_points(xy, size=view.size, to=inner) - 0.5
            prompts["input_points"] = points[None, None].to(self.device)
            prompts["input_labels"] = torch.ones(1, 1, len(points), dtype=torch.int, device=self.device)
        if not prompts:
            raise InputError(f"{view.label} has neither box nor visible keypoint to prompt SAM with")
        return prompts

    def _outwards(self, logits: Float[Tensor, "1 1 m n"], inner: Size, size: Size) -> Bool[Tensor, "h w"]:
        whole = functional.interpolate(logits, (self.side, self.side), mode="bilinear", align_corners=False)
        filled = whole[..., : inner[0], : inner[1]]
        return functional.interpolate(filled, size, mode="bilinear", align_corners=False)[0, 0] > 0


class Saliency:
    """A U²-Net-type ONNX file, (1, 3, s, s) → (1, 1, s, s) saliency, run on the box and a margin."""

    def __init__(self, weights: str | Path, settings: MaskSettings) -> None:
        self.settings = settings
        self.session = _load_onnx(Path(weights))
        self.input = self.session.get_inputs()[0]
        side = self.input.shape[-1] if len(self.input.shape) == 4 else None
        self.side: int = side if isinstance(side, int) else 320  # U²-Net's own, where the file leaves it open

    def __call__(self, view: View) -> Bool[Tensor, "h w"]:
        """Pixels in and around the box that stand out from the rest."""
        x0, y0, x1, y1 = self._window(view)
        pixels = geometry.resize_image(view.pixels[..., y0:y1, x0:x1], (self.side, self.side))
        pixels = pixels / pixels.amax().clamp(min=1e-6)  # by the brightest pixel, as the network was trained
        mean, std = pixels.new_tensor(IMAGENET_MEAN), pixels.new_tensor(IMAGENET_STD)
        pixels = (pixels - mean[:, None, None]) / std[:, None, None]
        salient = torch.from_numpy(self.session.run(None, {self.input.name: pixels[None].numpy()})[0])
        low, high = salient.amin(), salient.amax()
        salient = (salient - low) / (high - low).clamp(min=1e-6)
        salient = functional.interpolate(salient[:, :1], (y1 - y0, x1 - x0), mode="bilinear", align_corners=False)
        whole = torch.zeros(view.size)
        whole[y0:y1, x0:x1] = salient[0, 0]
        return fit(whole, view, self.settings) if self.settings.hold_keypoints else whole > self.settings.threshold

    def _window(self, view: View) -> tuple[int, int, int, int]:
        height, width = view.size
        if view.box is None:
            return 0, 0, width, height
        x0, y0, x1, y1 = view.box.tolist()
        across, down = (x1 - x0) * self.settings.margin, (y1 - y0) * self.settings.margin
        left, top = max(0, int(x0 - across)), max(0, int(y0 - down))
        return (
            left,
            top,
            max(left + 1, min(width, int(x1 + across))),
            max(top + 1, min(height, int(y1 + down))),
        )


# --- weights ------------------------------------------------------------------------------------------


def _load_sam(weights: str) -> tuple[Any, bool]:
    """The model, and whether its input is squashed to a square (SAM 2) or padded to one (SAM)."""
    with needing("SAM"):
        from transformers import AutoConfig, Sam2Model, SamModel

    try:
        kind = AutoConfig.from_pretrained(weights).model_type
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"no SAM weights at {weights!r} ({reason}); expected a folder with config.json and weights "
            "or a hub name, such as facebook/sam-vit-base"
        ) from None
    classes: dict[str, Any] = {"sam": SamModel, "sam2": Sam2Model, "sam2_video": Sam2Model}
    if kind not in classes:
        raise InputError(f"{weights} holds a {kind!r} model; expected one of {', '.join(classes)}")
    model, report = classes[kind].from_pretrained(weights, output_loading_info=True)
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise InputError(f"{weights} lacks {len(missing)} weights of a {kind} model, {missing[0]} for one")
    return model, kind != "sam"


def _load_onnx(path: Path) -> Any:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file; expected a U²-Net-type network as .onnx")
    try:
        import onnxruntime
    except ImportError:
        raise MissingPackageError.of_extra("masks", "onnxruntime", what="u2net") from None
    try:
        return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class
        raise InputError(f"{path} is not an ONNX network: {str(error).splitlines()[0]}") from None
