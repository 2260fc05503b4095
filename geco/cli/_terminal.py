"""The terminal: results on standard output, everything else on standard error; text is shown as it is."""

from rich.console import Console

# Names of files and keypoints are text, never markup: `[/b].png` is a file.
notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def results() -> Console:
    """Standard output, for tables and lines that people read."""
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
