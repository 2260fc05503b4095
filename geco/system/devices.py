"""Devices: which one computes, in which precision, and how much memory is in use."""

import ctypes
import os
from pathlib import Path

import torch

from geco.errors import InputError
from geco.system import documents


def choose(name: str | torch.device) -> torch.device:
    """The device asked for; "auto" is CUDA, else Apple's GPU, else the CPU."""
    if name != "auto":
        try:
            device = torch.device(name)
            if device.type == "meta":  # computes nothing
                device = torch.device("none")
            torch.empty(0, device=device)  # a device that torch knows may still not be on this machine
        except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError, ImportError):
            choices = "auto, cpu, cuda, cuda:N or mps"
            raise InputError(f"device must be {choices} and be on this machine, got {documents.shown(name)}") from None
        return device
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def dtype_named(name: str | torch.dtype) -> torch.dtype:
    """float32, float16 or bfloat16."""
    dtype = getattr(torch, name, None) if isinstance(name, str) else name
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise InputError(f"dtype must be float32, float16 or bfloat16, got {documents.shown(name)}")
    return dtype


def check_precision(device: torch.device, dtype: torch.dtype) -> None:
    """Refuse a precision that a device does not compute in: some know it only to store numbers."""
    try:
        x = torch.zeros(1, 2, 2, 2, device=device, dtype=dtype)
        x = torch.nn.functional.conv2d(torch.nn.functional.group_norm(x, 1), x)
        torch.nn.functional.scaled_dot_product_attention(x, x, x)
        synchronise(device)
    except (RuntimeError, NotImplementedError, TypeError):
        name = str(dtype).removeprefix("torch.")
        raise InputError(f"the device {device} does not compute in {name}; use dtype float32") from None


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out, on whatever device."""
    words = ("not enough memory", "out of memory", "can't allocate memory", "defaultcpuallocator")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(word in str(error).lower() for word in words)


def synchronise(device: torch.device) -> None:
    """Wait for work that was only queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def release() -> None:
    """Give freed memory back to the system (glibc), so that the next call's need is seen and not served from it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def resident() -> int:
    """Bytes of memory this process has now; its maximum so far where the system does not say (macOS)."""
    import resource  # not on Windows
    import sys

    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_memory(device: torch.device) -> int:
    """Most bytes held so far: of the GPU's memory, or else of the process's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # pragma: no cover (Windows)
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if os.uname().sysname == "Darwin" else most * 1024
