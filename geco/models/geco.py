"""Geco: a frozen backbone with a low-rank adapter, images → feature maps."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from torch import Tensor, nn

from geco import images
from geco.backbones import Backbone, PlainBackbone
from geco.errors import FileError, InputError
from geco.models import adapters, weights
from geco.models.cards import model_card
from geco.models.extractor import Extractor
from geco.models.quiet import QuietTransformers
from geco.models.settings import EncoderConfig, LoraSettings
from geco.system import cost, devices, files, tensors
from geco.types import FeatureMap, Image, Size


class Geco(Extractor, nn.Module):
    """Backbone + LoRA → `FeatureMap`. Without an adapter it is the bare backbone, step 0 of training equals it."""

    def __init__(self, backbone: Backbone, config: EncoderConfig, *, name: str = "geco", note: str = "") -> None:
        super().__init__()
        self.backbone = backbone
        self.config = replace(config, options=dict(backbone.options))
        self.name, self.note = name, note
        self.adapted = config.lora is not None  # stays true when the adapter is merged
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
        """Side of the square the images are squashed to: the configured size, rounded to what the backbone takes."""
        return images.fit((self.config.size, self.config.size), multiple=self.backbone.multiple)[0]

    # --- features -----------------------------------------------------------------------------------------------------

    def prepare(self, pixels: Image, size: Size | None = None) -> dict[str, Tensor]:
        """What `forward` takes for 8-bit or [0, 1] images, seen at `size` or at the model's own."""
        return self.backbone.prepare(pixels, size or (self.input_size,) * 2, resize=self.config.resize)

    def forward(self, **inputs: Tensor) -> Float[Tensor, "b c h w"]:
        """Features of a batch of prepared images (`prepare`); gradients reach the adapter."""
        return self.backbone(**inputs)

    def encode(self, pictures: Sequence[UInt8[Tensor, "3 _ _"]]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each image of a batch, in float32."""
        prepared = [self.prepare(picture.to(self.device)) for picture in pictures]
        dtype = next(self.parameters()).dtype
        batch = {name: torch.stack([inputs[name] for inputs in prepared]) for name in prepared[0]}
        values = self(**{name: x.to(dtype) if x.is_floating_point() else x for name, x in batch.items()}).float()
        return [
            self.backbone.finish(value, (picture.shape[-2], picture.shape[-1]))
            for value, picture in zip(values, pictures, strict=True)
        ]

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
        digest = hashlib.sha256(self.config.to_json().encode())
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
        device: str | torch.device = "auto",
        dtype: torch.dtype | str = torch.float32,
        force: bool = False,
        light: bool = False,
        **options: Any,
    ) -> "Geco":
        """A model by name, folder or hub id: an adapter with its backbone, or a bare backbone.

        `options` say how a bare backbone is read: `layer` (counted from 1) and `norm` of a vision transformer. A size
        that costs too much (`geco.system.cost`) is refused unless it is forced. In a `dtype` of 16 bits weights take
        half the memory; feature maps are float32 all the same.
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
        place = weights.locate(str(folder) if config.backbone == "." else config.backbone)
        backbone = weights.load_backbone(place, config.options, light=light)
        lora = config.lora
        if lora is not None and isinstance(backbone, PlainBackbone):
            adapters.merge_into(backbone, _adapter_weights(folder), lora, name=str(folder), base=config.backbone)
            config = replace(config, lora=None)
        model = cls(backbone, config, name=Path(name).name, note=place.about)
        model.adapted = lora is not None
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

    def save_pretrained(self, folder: str | Path, *, card: str | None = None) -> Path:
        """Write adapter (PEFT layout), configuration and model card; a merged or bare model is written whole."""
        folder = Path(folder)
        if not hasattr(self.backbone.encoder, "save_pretrained"):
            raise InputError(f"{self.name} has no format to be saved in; keep what it was loaded from instead")
        files.make_folder(folder)
        config = self.config if self.config.lora is not None else replace(self.config, backbone=".")
        # Otherwise PEFT looks the backbone up on the hub, to see whether its vocabulary has grown.
        options = {"save_embedding_layers": False} if self.config.lora is not None else {}
        card = model_card(self.name, self.config, note=self.note, parameters=self.trainable()) if card is None else card
        try:
            with QuietTransformers():
                self.backbone.encoder.save_pretrained(str(folder), **options)
            files.replace_text(folder / weights.CONFIG_FILE, config.to_json())
            files.replace_text(folder / "README.md", card)
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:80]
            raise FileError(f"the model cannot be saved to {folder}: {reason}; give another folder") from None
        return folder


def _adapter_weights(folder: Path) -> dict[str, Tensor]:
    return tensors.read_state(folder / "adapter_model.safetensors", expected="the weights of an adapter")
