"""Matches for people and for scripts: a table, JSON, CSV."""

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli._options import OptionError
from geco.cli._terminal import notes, results

if TYPE_CHECKING:
    from geco.types import Matches

AsJson = Annotated[bool, typer.Option("--json", help="Print the matches as JSON; no picture unless --out is given.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the matches as CSV; no picture unless --out is given.")]
Rows = list[dict[str, Any]]


def choose(as_json: bool, as_csv: bool) -> bool:
    """Whether the matches are printed for a script."""
    if as_json and as_csv:
        raise OptionError("choose one of --json and --csv")
    return as_json or as_csv


def rows(matches: "Matches", names: list[str], *, image: str = "") -> Rows:
    """A row for each match: the target's image and the point's name, if there are any, places, score, visibility."""
    about: dict[str, Any] = {"image": image} if image else {}
    table = []
    for i, match in enumerate(matches):
        place = {"source_x": match.source[0], "source_y": match.source[1]}
        place |= {"target_x": match.target[0], "target_y": match.target[1]}
        named: dict[str, Any] = {"name": names[i]} if names else {}
        table.append({**about, **named, **place, "score": round(match.score, 6), "visible": match.visible})
    return table


def dump(table: Rows, *, as_json: bool, as_csv: bool) -> None:
    """Print the rows for a script, if it asked for them."""
    if as_json:
        json.dump(table, sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, list(table[0]) if table else ["source_x", "source_y"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def show(table: Rows, title: str) -> None:
    """Print the rows of one target for people."""
    from rich.table import Table

    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    named = any(row.get("name") for row in table)
    for column in ("point", *(("name",) if named else ())):
        shown.add_column(column)
    for column in ("x", "y", "score", ""):
        shown.add_column(column, justify="right" if column else "left")
    for number, row in enumerate(table, 1):
        name = (row["name"],) if named else ()
        verdict = "" if row["visible"] else "not visible"
        place = f"{row['target_x']:.1f}", f"{row['target_y']:.1f}"
        shown.add_row(str(number), *name, *place, f"{row['score']:.3f}", verdict)
    results().print(shown)


def summary(table: Rows, *, written: str = "") -> None:
    """Say how many matches there are, and where a picture of them is."""
    hidden = sum(not row["visible"] for row in table)
    about = f"{len(table)} matches" + (f", {hidden} not visible in the target" if hidden else "")
    notes.print(f"{about}; {written}" if written else about)
