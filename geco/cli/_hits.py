"""What a search found, for people and for scripts: a table, CSV, JSON, a contact sheet."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geco.cli import _outputs
from geco.cli._terminal import notes, results
from geco.errors import GecoError

if TYPE_CHECKING:
    from geco.search import Found, Hit
    from geco.viz import Crop

SHEETS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}  # kinds of contact sheets
NAMES = ("search.png", "search.csv", "search.json")
COLUMNS = ("rank", "name", "image", "x", "y", "score")

Row = dict[str, Any]


def planned(output: Path | None, *, inputs: Sequence[Path], default: bool) -> list[Path]:
    """The files to write, checked before the search: one by its ending, all of them into a folder."""
    if output is None:
        output = Path(NAMES[0]) if default else None
    if output is None:
        return []
    if output.is_dir() or not output.suffix:
        _outputs.folder(output)
        paths = [output / name for name in NAMES]
        for path in paths:
            _outputs.spare(path, inputs)
        return paths
    return [_outputs.file(output, endings=(*SHEETS, ".csv", ".json"), inputs=inputs)]


def rows(found: "Found") -> list[Row]:
    """A row for each image, best first."""
    return [_row(hit, rank) for rank, hit in enumerate(found.hits, 1)]


def _row(hit: "Hit", rank: int) -> Row:
    x, y = hit.xy
    image = "" if hit.path is None else str(hit.path)
    return {"rank": rank, "name": hit.name, "image": image, "x": x, "y": y, "score": round(hit.score, 6)}


def document(found: "Found", table: Sequence[Row]) -> Mapping[str, Any]:
    """The result for JSON: the hits, and the nearest place even if it is below the threshold."""
    nearest = {key: value for key, value in _row(found.nearest, 1).items() if key != "rank"}
    return {
        "found": bool(table),
        "threshold": round(found.threshold, 6),
        "searched": found.searched,
        "nearest": nearest,
        "hits": list(table),
    }


def csv_text(table: Sequence[Row]) -> str:
    """The rows as CSV, with a header even if there are none."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return buffer.getvalue()


def show(table: Sequence[Row]) -> None:
    """Print the rows for people."""
    from rich.table import Table

    if not table:
        return
    shown = Table(box=None, pad_edge=False)
    for column, justify in (("", "right"), ("image", "left"), ("x", "right"), ("y", "right"), ("score", "right")):
        shown.add_column(column, justify=justify)  # type: ignore[arg-type]
    for row in table:
        place = f"{row['x']:.1f}", f"{row['y']:.1f}"
        shown.add_row(str(row["rank"]), row["name"], *place, f"{row['score']:.3f}")
    results().print(shown)


def write(
    paths: Sequence[Path], found: "Found", table: Sequence[Row], *, asked: tuple[Path, tuple[float, float]]
) -> None:
    """Write what was planned; a contact sheet only if there is something to show."""
    from geco.system import files

    for path in paths:
        ending = path.suffix.lower()
        if ending == ".csv":
            files.replace_text(path, csv_text(table))
        elif ending == ".json":
            files.replace_text(path, json.dumps(document(found, table), indent=1) + "\n")
        elif not table:
            continue
        else:
            _sheet(path, found, asked)
        notes.print(f"written: {path}")


def _sheet(path: Path, found: "Found", asked: tuple[Path, tuple[float, float]]) -> None:
    from geco import images, viz
    from geco.system import files

    crops = [viz.Crop(images.read(asked[0]), asked[1], f"asked: {asked[0].name}", asked=True)]
    missing = 0
    for hit in found.hits:
        try:
            crops.append(_crop(hit))
        except GecoError:
            missing += 1
    page = viz.hit_sheet(crops)
    files.replace(path, lambda draft: page.save(draft, format=SHEETS[path.suffix.lower()]))
    if missing:
        notes.print(f"{missing} images are no longer where they were, or in an archive, and not in the picture")


def _crop(hit: "Hit") -> "Crop":
    from geco import images, viz

    return viz.Crop(images.read(hit.path or ""), hit.xy, f"{hit.score:.3f} {Path(hit.name).name}")
