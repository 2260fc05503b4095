"""Devices and memory."""

import gc

import pytest
import torch

from geco.system import devices


def test_precisions_have_names():
    assert devices.dtype_named("bfloat16") is torch.bfloat16
    for name in ("int8", "nonsense"):
        with pytest.raises(ValueError, match=f"dtype must be float32, float16 or bfloat16, got '{name}'"):
            devices.dtype_named(name)


def test_a_precision_that_the_device_does_not_compute_in_is_refused(monkeypatch):
    for dtype in (torch.float32, torch.bfloat16):
        devices.check_precision(torch.device("cpu"), dtype)

    def unknown(*_):
        raise RuntimeError("\"slow_conv2d_cpu\" not implemented for 'Half'")

    monkeypatch.setattr(torch.nn.functional, "conv2d", unknown)
    with pytest.raises(ValueError, match="the device cpu does not compute in float16; use dtype float32"):
        devices.check_precision(torch.device("cpu"), torch.float16)


def test_memory_in_use_grows_with_what_is_held():
    gc.collect()
    devices.release()  # else the system may take back what earlier tests held in between
    before = devices.resident()
    held = torch.ones(64 << 20, dtype=torch.uint8)
    assert devices.resident() - before > 48 << 20
    assert devices.peak_memory(torch.device("cpu")) >= devices.resident() - (8 << 20)
    del held
