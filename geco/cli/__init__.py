"""The command line: the only place that assembles datasets, models and pictures.

A file in this folder is a command (or a group of them): it defines `add_to(app)` and the `PANEL` of the help page that
it belongs to. Nothing heavier than typer and rich is imported until a command runs, so `geco --help` answers at once.

Exit codes: 0 done, 1 an error, 2 a mistake in the options, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from geco.cli._options import OptionError
from geco.cli._terminal import notes
from geco.errors import GecoError, brief
from geco.system import plugins

PANELS = ("Images", "Measuring", "Data and training", "About")  # of the help page, from top to bottom
FAILED, MISUSED, INTERRUPTED = 1, 2, 130  # exit codes; the last is what a shell expects after Ctrl-C
ANYWHERE = ("--quiet", "--debug")  # options that may stand before or after the command

# typer brings a click of its own or uses the installed one: the base of its errors is found through one of them.
UsageMistake = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def build(only: str | None = None) -> typer.Typer:
    """The application with every command of this folder, or with those of one file of it."""
    app = typer.Typer(
        name="geco",
        help="Geometry-aware dense image features: match parts across images, tell left from right, "
        "know what is hidden.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_everywhere)
    commands = [plugins.find("cli", name) for name in ([only] if only else plugins.names("cli"))]
    for command in sorted(commands, key=lambda command: PANELS.index(command.PANEL)):
        command.add_to(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from geco import __version__

        print(f"geco {__version__}")
        raise typer.Exit


def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show results and errors only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    notes.quiet = quiet


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error, never a traceback."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code of a command line."""
    arguments = _in_front(arguments)
    try:
        command = typer.main.get_command(build(_named_in(arguments)))
        code = command.main(list(arguments), prog_name="geco", standalone_mode=False) or 0
    except UsageMistake as mistake:
        return _misused(mistake)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except SystemExit as end:  # typer's exit when the reader of our output has closed the pipe
        return int(end.code or 0)
    except Exception as error:
        if "--debug" in arguments or os.environ.get("GECO_DEBUG"):
            raise
        _say("error", _described(error))
        return MISUSED if isinstance(error, OptionError) else FAILED
    if code == INTERRUPTED:
        _say("stopped", "interrupted; what was finished has been kept", style="bold yellow")
    return code


def _named_in(arguments: Sequence[str]) -> str | None:
    """The file that is called like the command the line begins with, if there is one: no other is imported then."""
    word = next((word for word in arguments if word not in ANYWHERE), "")
    return word if word in plugins.names("cli") else None


def _in_front(arguments: Sequence[str]) -> list[str]:
    """The options that may stand anywhere, moved before the command."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    moved = [word for word in arguments[:end] if word in ANYWHERE]
    return [*moved, *(word for word in arguments[:end] if word not in ANYWHERE), *arguments[end:]]


def _misused(mistake: Exception) -> int:
    if type(mistake).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is the answer
        mistake.show()  # type: ignore[attr-defined]
        return MISUSED
    context = getattr(mistake, "ctx", None)
    where = context.command_path if context is not None else "geco"
    _say("error", f"{mistake.format_message().rstrip('.')}; see {where} --help")  # type: ignore[attr-defined]
    return MISUSED


def _described(error: Exception) -> str:
    """What an error says: ours as it is, the system's put into words, everything else as the bug that it is."""
    if isinstance(error, GecoError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror.lower()}; check the path, its permissions and the space left"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "out of memory; use a smaller --size, or fewer images at once"
    text = f"{type(error).__name__}: {error}"[:150]
    return f"unexpected {text}; this is a bug of geco: please report it with what --debug shows"


def _say(what: str, text: str, *, style: str = "bold red") -> None:
    quiet, notes.quiet = notes.quiet, False
    notes.print(Text.assemble((what, style), ": ", brief(text)))
    notes.quiet = quiet
