"""What a file is, told from its first bytes: for the line that says why it is not what was expected."""

import contextlib
import os
from pathlib import Path

# What the first bytes of a file show it to be, where something else was expected.
_FOREIGN = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"),
    (b"<!doctype html", "a web page, not the file itself; download it again"),
    (b"<html", "a web page, not the file itself; download it again"),
    (b"%PDF", "a PDF; export its pages as images"),
    (b"%!PS", "a PostScript file, which is a program and is not run; export it as PNG"),
    (b"<svg", "an SVG drawing; export it as PNG"),
    (b"<?xml", "an XML file"),
    (b"PK\x03\x04", "a ZIP archive; unpack it"),
    (b"\x1f\x8b", "a gzip archive; unpack it"),
)
START = 512  # bytes that tell what a file is
PICKLE = b"\x80"
SIGNATURES = {
    b"PK\x03\x04": "a zip archive or a PyTorch checkpoint",
    b"PK\x05\x06": "an empty zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF",
    b"GGUF": "a GGUF file",
    b"\x93NUMPY": "a NumPy array",
}


def foreign(start: bytes) -> str | None:
    """What a file that begins like this is instead of what was expected, and what to do; None if unknown."""
    if not start:
        return "empty; get the file again"
    head = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if start[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftyphevc"):
        return "a HEIC image; export it as JPEG"
    return next((about for magic, about in _FOREIGN if head.startswith(magic.lower())), None)


def identify(path: str | Path) -> str:
    """What a file is, in words, from its first bytes and its size."""
    with Path(path).open("rb") as file:
        start, size = file.read(START), os.fstat(file.fileno()).st_size
    if not size:
        return "empty"
    for signature, name in SIGNATURES.items():
        if start.startswith(signature):
            return name
    if about := foreign(start):
        return about
    text = start.lstrip().lower()
    if not start.strip(b"\0"):
        return "full of zeros"
    if start.startswith(PICKLE):
        return "a pickle"
    if text.startswith((b"{", b"[")):
        return "JSON"
    with contextlib.suppress(UnicodeDecodeError):
        start[: START - 4].decode()
        return "text"
    return f"damaged or of another kind, {size:,} bytes"
