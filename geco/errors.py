"""Errors that are a user's to mend: one line that says what was expected, what came, and what to do.

Each kind is also the built-in one that callers expect, so `except ValueError` keeps working; `except GecoError` catches
all of ours and nothing else. The command line shows these as one line, and everything else as a bug of ours.
"""

DISTRIBUTION = "geco-features"  # what pip calls this package


class GecoError(Exception):
    """What geco says about its input or its surroundings."""


class InputError(GecoError, ValueError):
    """A value, a setting or the content of a file is not what was expected."""


class FileError(GecoError, OSError):
    """A file or folder cannot be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """A file or folder does not exist."""


class MissingPackageError(GecoError, ImportError):
    """A package of an extra is not installed."""

    @classmethod
    def of_extra(cls, extra: str, package: str, *, what: str) -> "MissingPackageError":
        """The error of work that needs a package which comes with an extra of ours."""
        return cls(f"{what} needs {package}; install it with: pip install '{DISTRIBUTION}[{extra}]'")
