"""Quiet: the exporters' messages are not shown, and their usage reports are switched off."""

import contextlib
import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator

NOISY = ("torch.onnx", "torch.export", "torch.__trace", "onnxscript", "onnx_ir", "nncf")
TELEMETRY = (
    "openvino_telemetry"  # reports every conversion to its makers unless it is not there, which they provide for
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within it nothing is printed or warned of by torch's exporter, OpenVINO or NNCF, and nothing is reported."""
    if TELEMETRY not in sys.modules:
        sys.modules[TELEMETRY] = None  # type: ignore[assignment]
    loggers = [logging.getLogger(name) for name in NOISY]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def gist(error: Exception) -> str:
    """A library's message in a line, without the places in its source."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", " ".join(told) or " ".join(lines))
    return " ".join(text.split())[:120] or type(error).__name__
