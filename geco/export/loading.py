"""Loading: a model by name in torch, or in another engine; an exported file in its own.

Loading in torch imports nothing of the other engines: what they need is imported when one of them is asked for.
"""

from pathlib import Path
from typing import Any

from geco import checks
from geco.models import Extractor, Geco, cache_folder

ENDINGS = {".onnx": "onnx", ".xml": "openvino"}  # of exported files, and what runs them unless told otherwise


def is_exported(name: Any) -> bool:
    """Whether this is, or would be, a file that `geco export` wrote, by its ending."""
    return isinstance(name, str | Path) and Path(name).suffix.lower() in ENDINGS and not Path(name).is_dir()


def load_model(name: str | Path, *, device: str, engine: str | None, **options: Any) -> Extractor:
    """The model of this name for inference: in torch unless it is an exported file, or another engine is given.

    For another engine it is exported once, into the cache folder.
    """
    if is_exported(name):
        from geco.export.engine import load

        return load(name, device=device, engine=engine, **options)
    if checks.choice("torch" if engine is None else engine, "engine", ("torch", "onnx", "openvino")) == "torch":
        return Geco.for_inference(name, device=device, **options)
    from geco.export.engine import converted

    model = Geco.for_inference(name, device="cpu" if device == "auto" else device, **options)
    return converted(model, str(engine), folder=cache_folder() / "exported")
