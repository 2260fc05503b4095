"""Left/right counterparts of keypoints, from the file twins.json or guessed from their names."""

from pathlib import Path

from geco import checks
from geco.data import involution, named, read_json
from geco.errors import InputError
from geco.types import Skeleton

Tables = tuple[Path, dict[str, dict[str, str]]]  # the file, and its tables "twin" and "mirror"


def twin_table(root: Path, given: str | Path | None) -> Tables | None:
    """The tables "twin" and "mirror" of the left/right file, if there is one; a flat table is both."""
    path = root / (given or "twins.json")
    if given is None and not path.is_file():
        return None
    form = 'a table {"left ear": "right ear", …} or {"twin": {…}, "mirror": {…}}'
    table = read_json(path, what=form)
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected {form}, got {type(table).__name__}")
    tables = table if table and set(table) <= {"twin", "mirror"} else {"twin": table, "mirror": table}
    both = {label: tables.get(label, {}) for label in ("twin", "mirror")}
    for entries in both.values():
        if not isinstance(entries, dict) or not all(isinstance(name, str) for name in entries.values()):
            raise InputError(f"{path}: expected {form}, got {checks.shown(entries)}")
    return path, both


def skeleton(names: tuple[str, ...], given: Tables | None) -> Skeleton:
    """Keypoint names with the counterparts that the table gives or, without one, that left/right in them suggest."""
    if given is None:
        return named(names)
    path, tables = given
    twin, mirror = (involution(len(names), _named_pairs(names, tables[label], path)) for label in ("twin", "mirror"))
    return Skeleton(names, twin, mirror)


def _named_pairs(names: tuple[str, ...], table: dict[str, str], path: Path) -> list[tuple[int, int]]:
    for name in (*table, *table.values()):
        if name not in names:
            known = ", ".join(names)
            raise InputError(f"{path}: there is no keypoint {checks.shown(name)}; the keypoints are {known}")
    pairs = sorted({tuple(sorted((names.index(a), names.index(b)))) for a, b in table.items()})
    rows = [row for pair in pairs for row in pair]
    twice = next((names[row] for row in rows if rows.count(row) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: {twice!r} has two counterparts, or is its own; give each keypoint one")
    return [(i, j) for i, j in pairs]
