"""Model cards: what a saved model says about itself to whoever finds it."""

from geco.models.settings import EncoderConfig

CARD = """---
library_name: {library}
license: apache-2.0
base_model: {backbone}
tags: [geco, dense-features, semantic-correspondence, keypoints]
---

# {name}

Geometry-aware dense image features (GECO, Hartwig et al., ICCV 2025), written by `geco` {version}.

| | |
|---|---|
| backbone | `{backbone}`{read} |
| input | {size} × {size} pixels, {resize} |
| adapter | {adapter} |
| trainable parameters | {parameters:,} |

{note}

```python
import geco
model = geco.load("path/to/this/folder")
features = model.extract("photo.jpg")
```
"""


def model_card(name: str, config: EncoderConfig, *, note: str, parameters: int) -> str:
    """A card filled in from the configuration; a training run appends its data and results."""
    from geco import __version__

    lora = config.lora
    adapter = (
        f"LoRA rank {lora.rank}, alpha {lora.alpha:g}, on {' and '.join(lora.projections)}"
        if lora
        else "none: the weights are whole"
    )
    return CARD.format(
        name=name,
        library="peft" if lora else "transformers",
        version=__version__,
        backbone=config.untrained or name,
        read="".join(f", {name} {value}" for name, value in config.options.items()),
        size=config.size,
        resize=config.resize,
        adapter=adapter,
        parameters=parameters,
        note=f"Backbone: {note}." if note else "",
    )
