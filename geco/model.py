"""Geco: a frozen backbone with a low-rank adapter, images → feature maps."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco import convert, images, plugins, weights
from geco.cards import model_card
from geco.config.encoder import EncoderConfig, LoraSettings
from geco.types import FeatureMap
from geco.weights import CONFIG_FILE


class Geco(nn.Module):
    """Backbone + LoRA → `FeatureMap`. Without an adapter it is the bare backbone, step 0 of training equals it."""

    def __init__(self, backbone: Any, config: EncoderConfig, *, name: str = "geco", note: str = "") -> None:
        super().__init__()
        self.backbone = backbone
        self.config = replace(config, layer=backbone.layer, norm=backbone.norm)
        self.name, self.note = name, note
        self.adapted = config.lora is not None  # stays true when the adapter is merged
        if config.lora is not None:
            self.backbone.encoder = _with_lora(backbone, config.lora, base=config.backbone)

    @property
    def patch(self) -> int:
        """Side of a patch in pixels of the encoder's input."""
        return self.backbone.patch

    @property
    def dim(self) -> int:
        """Channels of a feature map."""
        return self.backbone.dim

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> FeatureMap:
        """Feature maps of normalised images whose sides are multiples of the patch (`images.prepare`)."""
        return FeatureMap(self.backbone(images), (images.shape[-2], images.shape[-1]))

    # --- from photographs ---------------------------------------------------------------------------------------------

    def extract(self, image: images.Readable) -> FeatureMap:
        """Features (c, h, w) of one image of any size and kind, in float32, with the image's own size."""
        return self.extract_batch([image])[0]

    def extract_batch(self, pictures: Iterable[images.Readable], *, batch_size: int = 8) -> list[FeatureMap]:
        """Features of many images, encoded `batch_size` at a time."""
        return list(self.extract_stream(pictures, batch_size=batch_size))

    def extract_stream(self, pictures: Iterable[images.Readable], *, batch_size: int = 8) -> Iterator[FeatureMap]:
        """The same, one at a time in order, never holding more than a batch of images."""
        side = self.input_size
        remaining = iter(pictures)
        while group := list(islice(remaining, batch_size)):
            pixels = [images.read(picture) for picture in group]
            with torch.inference_mode():
                ready = [images.prepare(p.to(self.device), (side, side), mode=self.config.resize) for p in pixels]
                dtype = next(self.parameters()).dtype
                values = self.backbone(torch.stack(ready).to(dtype)).float()
            for value, picture in zip(values, pixels, strict=True):
                yield FeatureMap(value.clone(), (picture.shape[-2], picture.shape[-1]))

    @property
    def input_size(self) -> int:
        """Side of the square the images are squashed to: the configured size, rounded to whole patches."""
        return images.fit((self.config.size, self.config.size), patch=self.patch)[0]

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
        layer: int | None = None,
        norm: bool | None = None,
        size: int | None = None,
        device: str = "auto",
        dtype: torch.dtype = torch.float32,
    ) -> "Geco":
        """A model by name, folder or hub id: an adapter with its backbone, or a bare backbone."""
        folder = weights.find_adapter(str(name))
        if folder is None:
            model = cls._bare(str(name), layer=layer, norm=norm, size=size)
        else:
            if layer is not None or norm is not None:
                raise ValueError(
                    f"{name} is an adapter trained for its own layer; layer= and norm= are for bare backbones"
                )
            model = cls._adapted(folder, name=str(name), size=size)
        return model.to(device=choose_device(device), dtype=dtype).eval()

    @classmethod
    def _bare(cls, name: str, *, layer: int | None, norm: bool | None, size: int | None) -> "Geco":
        place = weights.locate(name)
        backbone = load_backbone(place, layer=layer, norm=norm)
        config = EncoderConfig(backbone=name, size=size or place.size, bin=place.bin, lora=None)
        return cls(backbone, config, name=Path(name).name, note=place.note)

    @classmethod
    def _adapted(cls, folder: Path, *, name: str, size: int | None) -> "Geco":
        config = weights.adapter_config(folder)
        config = replace(config, size=size or config.size)
        place = weights.locate(str(folder) if config.backbone == "." else config.backbone)
        model = cls(
            load_backbone(place, layer=config.layer, norm=config.norm),
            config,
            name=Path(name).name,
            note=place.note,
        )
        if config.lora is not None:
            model.load_adapter(folder)
        return model

    @classmethod
    def from_reference(cls, checkpoint: str | Path, *, backbone: str = "dinov2-base") -> "Geco":
        """The model of a LoRA checkpoint written by the paper's reference implementation (w_a_000…, w_b_000…)."""
        adapters = convert.reference_lora(weights.read_checkpoint(Path(checkpoint)))
        rank = next(iter(adapters.values()))[0].shape[0]
        place = weights.locate(backbone)
        config = EncoderConfig(backbone=backbone, size=place.size, lora=LoraSettings(rank=rank, alpha=float(rank)))
        model = cls(load_backbone(place), config, name=Path(checkpoint).stem, note=place.note)
        if 2 * model.backbone.layer != len(adapters):
            raise ValueError(f"{checkpoint} adapts {len(adapters) // 2} blocks, {backbone} has {model.backbone.layer}")
        names = _adapter_names(model)
        state: dict[str, Tensor] = {}
        for block, projection in adapters:
            down, up = adapters[block, projection]
            prefix = names[block, model.backbone.projections[projection]]
            state |= {f"{prefix}.lora_A.weight": down, f"{prefix}.lora_B.weight": up}
        model._load_adapter(state, str(checkpoint))
        return model.eval()

    def save_pretrained(self, folder: str | Path, *, card: str | None = None) -> Path:
        """Write adapter (PEFT layout), configuration and model card; a merged or bare model is written whole."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = self.config if self.config.lora is not None else replace(self.config, backbone=".")
        # Otherwise PEFT looks the backbone up on the hub, to see whether its vocabulary has grown.
        options = {"save_embedding_layers": False} if self.config.lora is not None else {}
        with _QuietTransformers():
            self.backbone.encoder.save_pretrained(str(folder), **options)
        (folder / CONFIG_FILE).write_text(config.to_json())
        (folder / "README.md").write_text(
            card or model_card(self.name, self.config, note=self.note, parameters=self.trainable())
        )
        return folder

    def load_adapter(self, folder: Path) -> None:
        """Take the weights of an adapter made for the same backbone, layer and projections."""
        self._load_adapter(weights.read_checkpoint(folder / "adapter_model.safetensors"), str(folder))

    def _load_adapter(self, state: dict[str, Tensor], name: str) -> None:
        from peft import get_peft_model_state_dict, set_peft_model_state_dict

        expected = get_peft_model_state_dict(self.backbone.encoder, save_embedding_layers=False)
        wrong = sorted(set(expected) ^ set(state)) or sorted(
            key for key in expected if expected[key].shape != state[key].shape
        )
        if wrong:
            raise ValueError(
                f"{name} does not fit its backbone {self.config.backbone}: {len(wrong)} weights, first {wrong[0]}"
            )
        set_peft_model_state_dict(self.backbone.encoder, state)


def load_backbone(place: weights.Place, *, layer: int | None = None, norm: bool | None = None) -> Any:
    """The backbone at a place, read after `layer` and `norm`, else as the place says, else as its family does."""
    with _QuietTransformers():
        return plugins.find("backbones", place.family).load(
            place.location, layer=layer or place.layer, norm=place.norm if norm is None else norm
        )


def choose_device(name: str) -> torch.device:
    """The device asked for; "auto" is CUDA, else Apple's GPU, else the CPU."""
    if name != "auto":
        try:
            device = torch.device(name)
            torch.empty(0, device=device)  # a device that torch knows may still not be on this machine
        except (RuntimeError, AssertionError, NotImplementedError):
            choices = "auto, cpu, cuda, cuda:N or mps"
            raise ValueError(f"device must be {choices} and be on this machine, got {name!r}") from None
        return device
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _with_lora(backbone: Any, lora: LoraSettings, *, base: str) -> Any:
    from peft import LoraConfig, get_peft_model

    unknown = sorted(set(lora.projections) - set(backbone.projections))
    if unknown:
        raise ValueError(f"projections must be among {', '.join(backbone.projections)}, got {', '.join(unknown)}")
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        target_modules=[backbone.projections[name] for name in lora.projections],
    )
    adapted = get_peft_model(backbone.encoder, settings)
    adapted.peft_config["default"].base_model_name_or_path = base
    return adapted


def _adapter_names(model: Geco) -> dict[tuple[int, str], str]:
    """(block, projection module) → prefix of its adapter weights in a PEFT state dict."""
    from peft import get_peft_model_state_dict

    names = {}
    for key in get_peft_model_state_dict(model.backbone.encoder, save_embedding_layers=False):
        prefix, matrix, _ = key.rsplit(".", 2)
        if matrix == "lora_A":
            block = next(int(part) for part in prefix.split(".") if part.isdigit())
            names[block, prefix.rsplit(".", 1)[1]] = prefix
    return names


class _QuietTransformers:
    """Within it transformers neither shows a progress bar nor reports: a library does not print."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self.verbosity, self.bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self.verbosity)
        if self.bar:
            logging.enable_progress_bar()
