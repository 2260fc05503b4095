"""The command line: the only place that assembles datasets, models and pictures.

A file in this folder is a command (or a group of them): it defines `add_to(app)` and the `PANEL` of the help page that
it belongs to. Nothing heavier than typer and rich is imported until a command runs, so `geco --help` answers at once.
"""

import os
import sys

import typer
from rich.console import Console
from rich.text import Text

from geco.system import plugins

PANELS = ("Photographs", "Measuring", "Data and training", "About")  # of the help page, from top to bottom
INTERRUPTED = 130  # what a shell expects after Ctrl-C


def build() -> typer.Typer:
    """The application with every command of this folder."""
    app = typer.Typer(
        name="geco",
        help="Geometry-aware dense image features: match parts across photos, tell left from right, "
        "know what is hidden.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands = [plugins.find("cli", name) for name in plugins.names("cli")]
    for command in sorted(commands, key=lambda command: PANELS.index(command.PANEL)):
        command.add_to(app)
    return app


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit code 1, never a traceback."""
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        build()()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            errors.print(Text.assemble(("stopped", "bold yellow"), ": interrupted; what was finished has been kept"))
        raise
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("GECO_DEBUG"):
            raise
        errors.print(Text.assemble(("error", "bold red"), ": ", " ".join(_said(error).split())))
        sys.exit(1)


def _said(error: Exception) -> str:
    """The message of an error; those of the operating system are put into words with the file they are about."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}; check the path, its permissions and the space left"
    return str(error)
