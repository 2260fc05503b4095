"""Skeletons: keypoint names and counterparts of the published datasets (keypoint_tables.json), and of others."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from geco.errors import InputError
from geco.types import Skeleton


@cache
def published_skeletons(dataset: str) -> dict[str, Skeleton]:
    """The skeleton of each category of a published dataset: spair, ap10k, animalpose or cub."""
    return {category: _skeleton(table) for category, table in _tables()[dataset].items()}


def involution(count: int, pairs: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The table that exchanges the two of each pair and leaves every other row where it is."""
    table = list(range(count))
    for i, j in pairs:
        table[i], table[j] = j, i
    return tuple(table)


def unnamed(count: int) -> Skeleton:
    """A skeleton of points without names or known counterparts; such a category is never flipped."""
    return Skeleton(tuple(f"point {i + 1}" for i in range(count)), tuple(range(count)), None)


def named(names: Sequence[str]) -> Skeleton:
    """The skeleton of these names, with the counterparts that left/right in them suggest."""
    pairs = guess_twins(names)
    table = involution(len(names), pairs)
    # Without any left/right in the names it is not known what a flip exchanges, so there is none.
    return Skeleton(tuple(names), table, table if pairs else None)


def rows_named(skeleton: Skeleton, *, only: str = "", without: str = "") -> list[int]:
    """Rows of the keypoints listed in `only` (all, if empty) that are not listed in `without`; commas in between."""
    listed = {
        option: [name.strip() for name in text.split(",") if name.strip()]
        for option, text in (("only", only), ("without", without))
    }
    for option, names in listed.items():
        unknown = sorted(set(names) - set(skeleton.names))
        if unknown:
            raise InputError(
                f"{option} names keypoints, separated by commas; there is no {', '.join(unknown)}. "
                f"Choices: {', '.join(skeleton.names)}"
            )
    chosen = set(listed["only"] or skeleton.names) - set(listed["without"])
    if not chosen:
        raise InputError(f"only={only!r} and without={without!r} leave no keypoint")
    return [row for row, name in enumerate(skeleton.names) if name in chosen]


def subset(skeleton: Skeleton, rows: Sequence[int]) -> Skeleton:
    """The skeleton of these rows; one whose counterpart is not among them has none.

    If a flip would move a row to one that is left out, there is no mirror: a flipped left eye is no left eye.
    """
    new = {row: i for i, row in enumerate(rows)}

    def table(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new.get(old[row], new[row]) for row in rows)

    mirror = skeleton.mirror
    if mirror is not None:
        mirror = table(mirror) if all(mirror[row] in new for row in rows) else None
    return Skeleton(tuple(skeleton.names[row] for row in rows), table(skeleton.twin), mirror)


@cache
def _tables() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(files("geco.data").joinpath("keypoint_tables.json").read_text())
    return table


def _skeleton(table: dict[str, Any]) -> Skeleton:
    # A horizontal flip exchanges left and right; front and back are counterparts all the same (METHOD §12).
    names, left_right, front_back = table["names"], table["left_right"], table.get("front_back", [])
    return Skeleton(tuple(names), involution(len(names), left_right + front_back), involution(len(names), left_right))


_SIDES = {"left": "right", "right": "left", "l": "r", "r": "l"}


def guess_twins(names: Sequence[str]) -> list[tuple[int, int]]:
    """Rows whose names differ only in left/right or l/r as a word: left_eye, LeftEye, eye-left, L_Eye; also leftear."""
    words = [tuple(w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)) for name in names]
    row = {name.lower(): i for i, name in enumerate(names)} | {word: i for i, word in enumerate(words)}
    other = []
    for i, (name, word) in enumerate(zip(names, words, strict=True)):
        exchanged = tuple(_SIDES.get(w, w) for w in word)
        other.append(row.get(exchanged if exchanged != word else re.sub("left|right", _other_side, name.lower()), i))
    return [(i, j) for i, j in enumerate(other) if i < j and other[j] == i]


def _other_side(side: re.Match[str]) -> str:
    return _SIDES[side.group()]
