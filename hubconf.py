"""torch.hub entry point: torch.hub.load("path/to/this/repository", "geco", source="local")."""

dependencies = ["torch", "transformers", "peft", "safetensors"]

from geco.api import load as geco  # noqa: E402, F401
