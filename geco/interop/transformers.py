"""transformers' keypoint matching: a configuration, an image processor and a model for its Auto classes and pipeline.

    folder/config.json                model_type "geco"
    folder/preprocessor_config.json
    folder/encoder/                   the model as geco saves it: an adapter with its configuration, or a whole encoder

The weights are read by geco's own loader, so a folder can neither bring code of its own nor a pickle. Keypoints are the
centres of patches, relative to the image: x runs from 0 at its left edge to 1 at its right one. Points of your own and
whether they are visible do not fit that task; `geco.transfer` has both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from geco import api, checks, geometry, images, matching, models
from geco.errors import FileError, InputError, needing
from geco.models import Geco
from geco.types import FeatureMap

with needing("geco inside transformers"):
    from transformers import (
        AutoConfig,
        AutoImageProcessor,
        AutoModelForKeypointMatching,
        BatchFeature,
        PretrainedConfig,
        PreTrainedModel,
    )
    from transformers.image_processing_utils import BaseImageProcessor
    from transformers.utils import ModelOutput

ENCODER = "encoder"  # the folder inside a saved one
NAME = "geco"  # of the kind of model, among those of transformers


class GecoConfig(PretrainedConfig):
    """How a model of geco matches; what is None is the model's own.

    `model` is loaded where no folder brings one: whatever `geco.load` takes, None for the packaged model. `size` is the
    side that images are squashed to, `threshold` the similarity below which patches do not match.
    """

    model_type = NAME

    def __init__(
        self, model: str | None = None, size: int | None = None, threshold: float | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.model, self.size, self.threshold = model, size, threshold


@dataclass
class GecoMatchingOutput(ModelOutput):
    """What `AutoModelForKeypointMatching` models return; sets of patches are padded to the largest, see `mask`."""

    loss: Tensor | None = None
    matches: Tensor | None = None  # (b, 2, n): which patch of the other image, −1 for none
    matching_scores: Tensor | None = None  # (b, 2, n): their cosine similarity, 0 for none
    keypoints: Tensor | None = None  # (b, 2, n, 2): centres of the patches (x, y), relative to the image
    mask: Tensor | None = None  # (b, 2, n): 1 for a patch, 0 for padding
    sizes: Tensor | None = None  # (b, 2, 2): (height, width) of the images


class GecoImageProcessor(BaseImageProcessor):
    """Pairs of images as one tensor: as they are, 8-bit, padded to the largest; the model resizes them itself."""

    model_input_names = ["pixel_values", "sizes"]  # noqa: RUF012 (transformers' own habit)

    def preprocess(self, images: Any, return_tensors: Any = "pt", **_: Any) -> BatchFeature:
        """`pixel_values` (b, 2, 3, h, w), 8-bit, and `sizes` (b, 2, 2) of a pair of images or a list of pairs."""
        read = [_pixels(image) for pair in _pairs(images) for image in pair]
        sizes = torch.tensor([image.shape[-2:] for image in read])
        height, width = sizes.amax(0).tolist()
        pixels = torch.zeros(len(read), 3, height, width, dtype=torch.uint8)
        for place, image in zip(pixels, read, strict=True):
            place[:, : image.shape[1], : image.shape[2]] = image
        data = {"pixel_values": pixels.unflatten(0, (-1, 2)), "sizes": sizes.unflatten(0, (-1, 2))}
        return BatchFeature(data=data, tensor_type=return_tensors)

    def post_process_keypoint_matching(
        self, outputs: ModelOutput, target_sizes: Any = None, threshold: float = 0.0
    ) -> list[dict[str, Tensor]]:
        """`keypoints0`, `keypoints1` (k, 2) in pixels and `matching_scores` (k,) of each pair, best first.

        Pixels count from the image's corner. `target_sizes` (b, 2, 2) are (height, width); where they are not given,
        those of the images.
        """
        keypoints, matches, scores = (outputs[key] for key in ("keypoints", "matches", "matching_scores"))
        sizes = _wanted(outputs["sizes"], target_sizes)
        absolute = keypoints * sizes.flip(-1)[:, :, None].to(keypoints)
        results = []
        for points, match, score in zip(absolute, matches[:, 0], scores[:, 0], strict=True):
            kept = ((match >= 0) & (score > threshold)).nonzero()[:, 0]
            kept = kept[score[kept].argsort(descending=True, stable=True)]
            results.append(
                {"keypoints0": points[0][kept], "keypoints1": points[1][match[kept]], "matching_scores": score[kept]}
            )
        return results


def _pairs(pictures: Any) -> list[Sequence[Any]]:
    """A list of pairs, from one or from a list of them."""
    several = isinstance(pictures, Sequence) and not isinstance(pictures, str | bytes)
    if several and len(pictures) == 2 and not any(isinstance(entry, list | tuple) for entry in pictures):
        return [pictures]
    if several and pictures and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pictures):
        return list(pictures)
    raise InputError(f"expected two images, or a list of pairs of images, got {checks.shown(pictures)}")


def _pixels(image: Any) -> UInt8[Tensor, "3 h w"]:
    return images.read(image)  # its name is that of an argument above, which transformers chose


def _wanted(sizes: Int[Tensor, "b 2 2"], target_sizes: Any) -> Int[Tensor, "b 2 2"]:
    """(height, width) of the images that keypoints are given in; `sizes` are those of the images that were given."""
    own = sizes.cpu()
    if target_sizes is None:
        return own
    given = torch.as_tensor(target_sizes).cpu()
    if given.shape != own.shape:
        raise InputError(
            f"target_sizes must be (height, width) of each image, {tuple(own.shape)}, got {tuple(given.shape)}"
        )
    # The pipeline of transformers (5.22) passes Pillow's (width, height) here.
    exchanged = (given == own.flip(-1)).all() and not (given == own).all()
    return own if exchanged else given


class GecoForKeypointMatching(PreTrainedModel):
    """Mutual patches of two images by any model of geco, as transformers' `AutoModelForKeypointMatching`."""

    config_class = GecoConfig
    base_model_prefix = "encoder"
    main_input_name = "pixel_values"

    def __init__(self, config: GecoConfig, encoder: Geco | None = None) -> None:
        super().__init__(config)
        self.encoder = _loaded(config.model, size=config.size) if encoder is None else encoder
        self.requires_grad_(False)

    @classmethod
    def from_geco(cls, model: Geco | str | Path | None = None, **settings: Any) -> "GecoForKeypointMatching":
        """A model of geco, loaded or by name; of one with an adapter, `save_pretrained` writes just that."""
        if not isinstance(model, Geco):
            model = Geco.from_pretrained(models.default_model() if model is None else model, device="cpu")
        return cls(GecoConfig(**settings), model).eval()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *_: Any, **options: Any) -> "GecoForKeypointMatching":
        """The model that `save_pretrained` wrote, in a folder or on the hub.

        `config`, `dtype` and `device_map` (the name of one device, or "auto") are as in transformers.
        """
        folder = _local(pretrained_model_name_or_path)
        config = options.get("config") or GecoConfig.from_pretrained(folder)
        dtype = options.get("dtype") or "auto"
        encoder = Geco.for_inference(
            folder / ENCODER,
            device=options.get("device_map") or "cpu",
            size=config.size,
            dtype=torch.float32 if dtype == "auto" else dtype,
        )
        return cls(config, encoder).eval()

    def save_pretrained(  # type: ignore[override]
        self, save_directory: str | Path, *, push_to_hub: bool = False, **_: Any
    ) -> None:
        """Write a folder that `AutoModelForKeypointMatching` and `AutoImageProcessor` load."""
        if push_to_hub:
            raise InputError("geco uploads nothing by itself; save to a folder, then: hf upload NAME FOLDER")
        folder = Path(save_directory)
        self.encoder.save_pretrained(folder / ENCODER)
        self.config.architectures = [type(self).__name__]
        self.config.save_pretrained(folder)
        GecoImageProcessor().save_pretrained(folder)

    @torch.no_grad()
    def forward(
        self, pixel_values: Tensor, sizes: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> GecoMatchingOutput:
        """Mutual matches of the pairs (b, 2, 3, h, w) of 8-bit or [0, 1] images; `sizes` says where padding begins."""
        if labels is not None:
            raise InputError("this model is not trained here; see geco.training")
        if pixel_values.ndim != 5 or pixel_values.shape[1:3] != (2, 3):
            raise InputError(f"pixel_values must be pairs of images (b, 2, 3, h, w), got {tuple(pixel_values.shape)}")
        if sizes is None:
            sizes = torch.tensor(pixel_values.shape[-2:]).expand(len(pixel_values), 2, 2)
        pairs = [self._match(pair, size) for pair, size in zip(pixel_values, sizes.tolist(), strict=True)]
        return _padded(pairs, sizes)

    def _match(self, pair: Tensor, sizes: Sequence[Sequence[int]]) -> "list[_Patches]":
        pictures = [image[:, :height, :width] for image, (height, width) in zip(pair, sizes, strict=True)]
        source, target = self.encoder.extract_stream(pictures)
        settings = api.match_settings(self.encoder, threshold=self.config.threshold)
        matches = matching.mutual(source, target, settings)
        score = matches.score[matches.visible]
        start = geometry.cells(matches.source[matches.visible], size=source.size, grid=source.grid)
        end = geometry.cells(matches.target[matches.visible], size=target.size, grid=target.grid)
        return [_patches(source, start, end, score), _patches(target, end, start, score)]


@dataclass(frozen=True)
class _Patches:
    """The patches of one image of a pair."""

    keypoints: Float[Tensor, "n 2"]
    matches: Int[Tensor, "n"]
    scores: Float[Tensor, "n"]


def _patches(
    features: FeatureMap, own: Int[Tensor, "k"], other: Int[Tensor, "k"], score: Float[Tensor, "k"]
) -> _Patches:
    rows, columns = features.grid
    index = torch.arange(rows * columns, device=score.device)
    centres = geometry.cell_centres(index, size=(1, 1), grid=features.grid).to(score.dtype)
    match, scores = torch.full_like(index, -1), torch.zeros(len(index), dtype=score.dtype, device=score.device)
    match[own], scores[own] = other, score
    return _Patches(centres, match, scores)


def _padded(pairs: "list[list[_Patches]]", sizes: Tensor) -> GecoMatchingOutput:
    """The pairs as one output."""
    sets = [patches for pair in pairs for patches in pair]

    def joined(parts: list[Tensor], padding: float) -> Tensor:
        stacked = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=padding)
        return stacked.unflatten(0, (-1, 2))

    return GecoMatchingOutput(
        matches=joined([patches.matches for patches in sets], -1),
        matching_scores=joined([patches.scores for patches in sets], 0),
        keypoints=joined([patches.keypoints for patches in sets], 0),
        mask=joined([torch.ones_like(patches.matches) for patches in sets], 0),
        sizes=sizes,
    )


def _loaded(model: str | None, *, size: int | None) -> Geco:
    """The model as a module of torch, which this one holds."""
    return Geco.for_inference(models.default_model() if model is None else model, device="cpu", size=size)


def _local(place: Any) -> Path:
    """The folder of a model: itself, or what the hub has under this name."""
    if Path(place).is_dir():
        return Path(place)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(place), allow_patterns=["*.json", f"{ENCODER}/*"]))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FileError(f"{place} is no folder, and cannot be had from the hub: {reason}") from None


def register_with_transformers() -> None:
    """Make transformers' Auto classes and its pipeline "keypoint-matching" know geco; calling it again does nothing."""
    AutoConfig.register(NAME, GecoConfig, exist_ok=True)
    AutoModelForKeypointMatching.register(GecoConfig, GecoForKeypointMatching, exist_ok=True)
    AutoImageProcessor.register(GecoConfig, image_processor_classes={"pil": GecoImageProcessor}, exist_ok=True)
