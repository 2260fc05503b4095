"""Errors that a user can fix: one line that says what was expected, what came, and what to do.

Each kind is also the built-in one that callers expect, so `except ValueError` keeps working; `except GecoError` catches
all of ours and nothing else. The command line shows these as one line, and everything else as a bug of ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "geco-features"  # what pip calls this package
LONGEST = 300  # characters of a message: a line that is read, not searched
LONGEST_WORD = 120  # a path may be longer, but its ends tell which one it is


def brief(text: str) -> str:
    """The text as one printable line of bounded length; of what is too long, the middle is left out."""
    words = (_elided(_printable(word), LONGEST_WORD) for word in text.split())
    line = _elided(" ".join(words), LONGEST)
    return " ".join(_elided(word, LONGEST_WORD) for word in line.split())  # what was left out may have joined two words


def _printable(word: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)


def _elided(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[head + 1 - longest :]}"


class GecoError(Exception):
    """What geco says about its input or its surroundings, in one `brief` line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(brief(message))


class InputError(GecoError, ValueError):
    """A value, a setting or the content of a file is not what was expected."""


class FileError(GecoError, OSError):
    """A file or folder cannot be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """A file or folder does not exist."""


NOT_CORE = {"transformers": "train", "peft": "train", "accelerate": "train"}  # package → the extra that brings it


class MissingPackageError(GecoError, ImportError):
    """A package of an extra is not installed."""

    @classmethod
    def of_extra(cls, extra: str, package: str, *, what: str) -> "MissingPackageError":
        """The error of work that needs a package which comes with an extra of ours."""
        return cls(f"{what} needs {package}; install it with: pip install '{DISTRIBUTION}[{extra}]'")


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Within it, a missing package that is for training and rarer backbones is said to be one, and how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in NOT_CORE:
            raise
        raise MissingPackageError.of_extra(NOT_CORE[package], package, what=what) from None
