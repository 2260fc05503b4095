"""The machine: plug-ins, lazy imports, processes, files, settings to and from JSON, devices. Nothing of images."""

from typing import TYPE_CHECKING

from geco.system.lazy import door

if TYPE_CHECKING:
    from geco.system import (
        ahead,
        codec,
        cost,
        devices,
        documents,
        files,
        lazy,
        listing,
        locks,
        plugins,
        processes,
        provenance,
        signatures,
        strict,
        tensors,
    )
    from geco.system.processes import Processes, Progress, silent

__all__, __getattr__, __dir__ = door(__name__)
