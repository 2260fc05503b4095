"""Model cards in the form of the model hub: metadata in YAML, then what a saved model says about itself."""

import re
from pathlib import Path

from geco.errors import InputError
from geco.models import weights
from geco.models.settings import EncoderConfig

UNSTATED = "unknown"  # the hub's name for a licence that is not stated
CHOICES = "https://huggingface.co/docs/hub/repositories-licenses"
LICENCE = re.compile(r"(?m)^license: *(\S+).*$")

CARD = """---
library_name: geco-features
license: {licence}
base_model: {base}
pipeline_tag: image-feature-extraction
tags: [geco, peft, lora, dense-features, semantic-correspondence, keypoints]
datasets: []
metrics: [PCK, PGCK]
---

# {name}

Geometry-aware dense image features (GECO, Hartwig et al., ICCV 2025), written by `geco` {version}.

**Licence:** {licence_note}

| | |
|---|---|
| backbone | `{backbone}`{read} |
| input | {size} × {size} pixels, {resize} |
| adapter | {adapter} |
| trainable parameters | {parameters:,} |

{note}

```python
import geco

model = geco.load("{place}")
features = model.extract("image.jpg")
```
"""


def model_card(
    name: str,
    config: EncoderConfig,
    *,
    note: str,
    parameters: int,
    license: str | None = None,
) -> str:
    """A card filled in from the configuration; a training run appends its data and results.

    `license` is the hub's identifier of the licence of the weights, such as "cc-by-4.0"; without one, the card asks.
    """
    from geco import __version__

    lora = config.lora
    adapter = (
        f"LoRA rank {lora.rank}, alpha {lora.alpha:g}, on {' and '.join(lora.projections)}"
        if lora
        else "none: the weights are whole"
    )
    return CARD.format(
        name=name,
        version=__version__,
        licence=license or UNSTATED,
        licence_note=_licence_note(license),
        base=_base(config.untrained or name),
        backbone=config.untrained or name,
        read="".join(f", {name} {value}" for name, value in config.options.items()),
        size=config.size,
        resize=config.resize,
        adapter=adapter,
        parameters=parameters,
        note=f"Backbone: {note}." if note else "",
        place="path/to/this/folder",
    )


def _base(backbone: str) -> str:
    """What the hub calls a backbone; of a local folder its name alone."""
    source = weights.sources()[backbone][1] if backbone in weights.sources() else None
    return (source.hub if source else None) or (Path(backbone).name if Path(backbone).is_dir() else backbone)


def licence_of(card: str) -> str | None:
    """The licence that a card states, None if it states none."""
    stated = LICENCE.search(card)
    return None if stated is None or stated[1] == UNSTATED else stated[1]


def with_licence(card: str, license: str) -> str:
    """The card under another licence."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise InputError(f"license must be an identifier such as cc-by-4.0, got {license!r}; see {CHOICES}")
    if LICENCE.search(card) is None:
        raise InputError("the card has no line `license:`; add one to its metadata")
    return LICENCE.sub(f"license: {license}", card, count=1).replace(_licence_note(None), _licence_note(license))


def _licence_note(license: str | None) -> str:
    if license is not None:
        return f"{license}, for the weights of this adapter. Its backbone and training data have licences of their own."
    return (
        f"not stated yet. Choose one that the licences of your backbone and your training data allow ({CHOICES}), and "
        "enter it here and in the metadata above before you publish these weights."
    )
