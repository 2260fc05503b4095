"""Geco: a frozen backbone with a low-rank adapter, images → feature maps."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from geco import checks, images
from geco.backbones import Backbone, FrozenBackbone, PlainBackbone
from geco.errors import InputError
from geco.models import adapters, merged, publishing, saving, weights
from geco.models.cards import model_card
from geco.models.extractor import Extractor, Staged
from geco.models.settings import ASPECTS, WHOLE, EncoderConfig, LoraSettings
from geco.system import codec, cost, devices, files, tensors
from geco.types import FeatureMap, Image, Size

ADAPTER = weights.ADAPTER_FILES[2]


class Geco(Extractor, nn.Module):
    """Backbone + LoRA → `FeatureMap`. Without an adapter it is the bare backbone, which step 0 of training equals."""

    def __init__(self, backbone: Backbone, config: EncoderConfig, *, name: str = "geco", note: str = "") -> None:
        super().__init__()
        self.backbone = backbone
        self.config = replace(config, options=dict(backbone.options))
        self.name, self.note = name, note
        self.adapted = config.lora is not None or bool(config.base)  # stays true when the adapter is merged
        if getattr(backbone, "adapter", None) is not None:
            raise InputError(f"{config.backbone} comes with an adapter of its own; adapt the backbone it was made for")
        if config.lora is not None:
            self.backbone.encoder = adapters.add_lora(backbone, config.lora, base=config.backbone)

    @property
    def dim(self) -> int:
        """Channels of a feature map."""
        return self.backbone.dim

    @property
    def stride(self) -> int:
        """Side of a patch in pixels of the encoder's input."""
        return self.backbone.stride

    @property
    def threshold(self) -> float:
        """Similarity below which its matches are "not visible"."""
        return self.config.threshold

    @property
    def similarity(self) -> str:
        """How its maps are compared: "cosine" or "dot"."""
        return getattr(self.backbone, "similarity", "cosine")

    @property
    def pair(self) -> Callable[[FeatureMap, FeatureMap], tuple[FeatureMap, FeatureMap]] | None:
        """What makes the maps of two images comparable, if the backbone compares pairs."""
        return getattr(self.backbone, "pair", None)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> str:
        """Precision of the weights, as `from_pretrained` takes it."""
        return str(next(self.parameters()).dtype).removeprefix("torch.")

    @property
    def input_size(self) -> int:
        """Side of the square the images are squashed to: the configured size, rounded to what the backbone takes.

        Images that keep their ratio have about as many patches as this square.
        """
        return images.fit((self.config.size, self.config.size), multiple=self.backbone.multiple)[0]

    # --- features -----------------------------------------------------------------------------------------------------

    def prepare(self, pixels: Image, size: Size | None = None) -> dict[str, Tensor]:
        """What `forward` takes for 8-bit or [0, 1] images, seen at `size` or at the model's own."""
        size = size or self.seen_at((pixels.shape[-2], pixels.shape[-1]))
        return self.backbone.prepare(pixels, size, resize=self.config.resize)

    def seen_at(self, size: Size) -> Size:
        """The size an image of this size is resized to: a square, or its own ratio with about as many patches."""
        if self.config.aspect == "squash":
            return self.input_size, self.input_size
        return images.keep_aspect(size, side=self.input_size, multiple=self.backbone.multiple)

    def forward(self, **inputs: Tensor) -> Float[Tensor, "b c h w"]:
        """Features of a batch of prepared images (`prepare`); gradients reach the adapter."""
        return self.backbone(**inputs)

    def encode(self, pictures: Sequence[UInt8[Tensor, "3 _ _"]]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each image of a batch, in float32."""
        return self._encode_staged(
            [self._stage(picture, (picture.shape[-2], picture.shape[-1])) for picture in pictures]
        )

    def _stage(self, pixels: UInt8[Tensor, "3 h w"], size: Size) -> Staged:
        """The image prepared for the encoder, on a CPU; for other devices its pixels, which are resized there."""
        return Staged(self.prepare(pixels, self.seen_at(size)) if self.device.type == "cpu" else pixels, size)

    def _encode_staged(self, pictures: Sequence[Staged]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each staged image of a batch, in float32."""
        groups: dict[Size, list[int]] = {}  # a batch has one size; "fit" may give several
        for number, picture in enumerate(pictures):
            groups.setdefault(self.seen_at(picture.size), []).append(number)
        maps: dict[int, Tensor] = {}
        for numbers in groups.values():
            maps |= zip(numbers, self._encode_alike([pictures[number] for number in numbers]), strict=True)
        return [maps[number] for number in range(len(pictures))]

    def _least_side(self) -> int | None:
        """Twice the encoder's input; None where the backbone pads, by a ratio that rounding might change."""
        pads = getattr(type(self.backbone), "finish", None) is not FrozenBackbone.finish
        return None if pads else 2 * self.input_size

    def _encode_alike(self, pictures: Sequence[Staged]) -> list[Float[Tensor, "c _ _"]]:
        """Maps of images that come to the encoder at the same size."""
        prepared = [
            self.prepare(content.to(self.device), self.seen_at(size)) if isinstance(content, Tensor) else content
            for content, size in pictures
        ]
        dtype = next(self.parameters()).dtype
        batch = {name: torch.stack([inputs[name] for inputs in prepared]) for name in prepared[0]}
        values = self(**{name: x.to(dtype) if x.is_floating_point() else x for name, x in batch.items()}).float()
        return [self.backbone.finish(value, picture.size) for value, picture in zip(values, pictures, strict=True)]

    # --- the adapter --------------------------------------------------------------------------------------------------

    def trainable(self) -> int:
        """Number of trainable parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def merge(self) -> "Geco":
        """Fold the adapter into the weights, in place: from here on inference costs what the bare backbone costs."""
        if self.config.lora is not None:
            self.backbone.encoder = self.backbone.encoder.merge_and_unload().requires_grad_(False)
            self.config = replace(self.config, lora=None)
        return self

    def fingerprint(self) -> str:
        """Short hash of configuration and weights: equal for models that give equal features."""
        config = codec.as_dict(self.config)
        if self.config.aspect == "squash":  # what it was before there was a choice
            del config["aspect"]
        del config["base"]  # what it was before training does not change its features
        digest = hashlib.sha256(json.dumps(config, indent=2).encode())
        for key, value in sorted(self.state_dict().items()):
            digest.update(key.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    # --- to and from disk ---------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        size: int | None = None,
        resize: str | None = None,
        device: str | torch.device = "auto",
        dtype: torch.dtype | str = torch.float32,
        force: bool = False,
        light: bool = False,
        **options: Any,
    ) -> "Geco":
        """A model by name, folder or hub id: an adapter with its backbone, or a bare backbone.

        `resize` is how images come to the encoder: "squash" to a square of `size`, or "fit", in their own ratio with
        about as many patches. `options` say how a bare backbone is read: `layer` (counted from 1) and `norm` of a
        vision transformer. A size that costs too much (`geco.system.cost`) is refused unless it is forced. In a
        `dtype` of 16 bits weights take half the memory; feature maps are float32 all the same.
        """
        place, precision = devices.choose(device), devices.dtype_named(dtype)
        devices.check_precision(place, precision)
        options = {key: value for key, value in options.items() if value is not None}
        folder = weights.find_adapter(name)
        if folder is None:
            model = cls._bare(str(name), size=size, options=options, light=light)
        elif options:
            raise InputError(
                f"{name} is an adapter trained for its own {' and '.join(options)}; such options are for bare backbones"
            )
        else:
            model = cls._adapted(folder, name=str(name), size=size, light=light)
        if resize is not None:
            checks.choice(resize, "resize", ASPECTS)
            model.config = replace(model.config, aspect=resize)
        cost.check(model.input_size, stride=model.stride, force=force)
        return model.to(device=place, dtype=precision).eval()

    @classmethod
    def for_inference(cls, name: str | Path, **options: Any) -> "Geco":
        """The same with its adapter merged; it starts faster, but its adapter cannot be trained any further."""
        return cls.from_pretrained(name, light=True, **options).merge()

    @classmethod
    def _bare(cls, name: str, *, size: int | None, options: dict[str, Any], light: bool) -> "Geco":
        place = weights.locate(name)
        size = place.source.size if size is None else size
        source = place.source
        config = EncoderConfig(name, size=size, resize=source.resize, threshold=source.threshold, lora=None)
        backbone = weights.load_backbone(place, options, light=light)
        state = vars(backbone).pop("adapter", None)
        if state is None:
            return cls(backbone, config, name=Path(name).name, note=place.about)
        config = replace(config, backbone=place.given["dinov2"])
        model = cls._with_matrices(backbone, state, config, file=place.parts["lora"])
        model.name, model.note = Path(name).name, place.about
        return model

    @classmethod
    def _adapted(cls, folder: Path, *, name: str, size: int | None, light: bool) -> "Geco":
        config = weights.adapter_config(folder)
        config = config if size is None else replace(config, size=size)
        whole = config.backbone == WHOLE
        kept = (folder if whole else merged.folder_of(folder, ADAPTER, config)) if light else None
        if (found := merged.load(kept, config)) is not None:
            model = cls(found[0], replace(config, lora=None), name=Path(name).name, note=found[1])
            model.adapted = config.lora is not None or model.adapted
            return model
        place = weights.locate(str(folder) if whole else config.backbone)
        backbone = weights.load_backbone(place, config.options, light=light)
        lora = config.lora
        if lora is not None and isinstance(backbone, PlainBackbone):
            adapters.merge_into(backbone, _adapter_weights(folder), lora, name=str(folder), base=config.backbone)
            merged.keep(kept, backbone, place.about, origin=files.sha256(folder / ADAPTER))
            config = replace(config, lora=None)
        model = cls(backbone, config, name=Path(name).name, note=place.about)
        model.adapted = lora is not None or model.adapted
        if config.lora is not None:
            model.load_adapter(folder)
        return model

    @classmethod
    def from_reference(cls, checkpoint: str | Path, *, backbone: str = "dinov2-base") -> "Geco":
        """The model of a LoRA checkpoint written by the paper's reference implementation (w_a_000…, w_b_000…)."""
        state = weights.read_checkpoint(Path(checkpoint))
        adapters.reference_lora(state, name=str(checkpoint))  # refused before a backbone is fetched for it
        place = weights.locate(backbone)
        config = EncoderConfig(backbone, size=place.source.size)
        model = cls._with_matrices(weights.load_backbone(place), state, config, file=str(checkpoint))
        model.name, model.note = Path(checkpoint).stem, place.about
        return model

    @classmethod
    def _with_matrices(
        cls, backbone: Backbone, state: Mapping[str, Tensor], config: EncoderConfig, *, file: str
    ) -> "Geco":
        """A model whose adapter holds the matrices of a reference checkpoint."""
        matrices = adapters.reference_lora(dict(state), name=file)
        rank = next(iter(matrices.values()))[0].shape[0]
        model = cls(backbone, replace(config, lora=LoraSettings(rank=rank, alpha=float(rank))))
        blocks = int(model.config.options.get("layer", 0))
        if 2 * blocks != len(matrices):
            raise InputError(f"{file} adapts {len(matrices) // 2} blocks, {config.backbone} has {blocks}")
        adapter = adapters.as_peft(matrices, model.backbone)
        adapters.fill(model.backbone.encoder, adapter, name=file, base=config.backbone)
        return model.eval()

    def load_adapter(self, folder: Path) -> None:
        """Take the weights of an adapter made for the same backbone, options and projections."""
        adapters.fill(self.backbone.encoder, _adapter_weights(folder), name=str(folder), base=self.config.backbone)

    def save_pretrained(
        self, folder: str | Path, *, card: str | None = None, dtype: torch.dtype | str | None = None
    ) -> Path:
        """Write adapter (PEFT layout), configuration and model card; a merged or bare model is written whole.

        With a `dtype` of 16 bits the matrices of a whole model take half the space; it is loaded in float32 again.
        """
        if not hasattr(self.backbone.encoder, "save_pretrained"):
            raise InputError(f"{self.name} has no format to be saved in; keep what it was loaded from instead")
        precision = None if dtype is None else devices.dtype_named(dtype)
        config = self.config
        if config.lora is None:
            base = config.base or (saving.trained_from(config.backbone) if self.adapted else "")
            config = replace(config, backbone=WHOLE, base=base)
        elif precision is not None:
            raise InputError("only a whole model is saved in another precision; merge() the adapter first")
        card = model_card(self.name, self.config, note=self.note, parameters=self.trainable()) if card is None else card
        return saving.write(self.backbone.encoder, Path(folder), config, note=self.note, card=card, precision=precision)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Publish this model on the model hub: `models.push_to_hub`, which takes license=, private= and token=."""
        return publishing.push_to_hub(self, repository, **options)


def _adapter_weights(folder: Path) -> dict[str, Tensor]:
    return tensors.read_state(folder / ADAPTER, expected="the weights of an adapter")
