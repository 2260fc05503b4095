"""Loading a split of a dataset: the root checked, options converted, masks attached, a limit spread evenly."""

import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geco.data.contract import DatasetFormat, PairDataset, PartDataset, find
from geco.data.derived import attach_masks, spread
from geco.errors import InputError, MissingFileError

Options = Mapping[str, Any] | Sequence[str]  # values by key, or texts `key=value`


class EmptySplitError(InputError):
    """The split of a dataset has no entries."""


def load(
    name: str,
    root: str | Path,
    split: str,
    options: Options = (),
    *,
    masks: str | Path | None = None,
    limit: int | None = None,
) -> PairDataset | PartDataset:
    """A split of a dataset: its pairs or, for part maps, its views.

    `options` are those of the format's loader. `masks`: a folder that `geco masks` made, "box" for boxes as masks,
    or "own-or-box" for boxes where the dataset ships no mask. `limit`: this many entries spread evenly over the split.
    """
    dataset_format, root = find(name), Path(root)
    name = dataset_format.name
    check_root(dataset_format, root)
    dataset = dataset_format.load(root, split, **read_options(dataset_format, options))
    if not isinstance(dataset, PairDataset | PartDataset):
        kind = type(dataset).__name__
        raise InputError(
            f"load of the dataset {name!r} must return a PairDataset or PartDataset (geco.data), got {kind}"
        )
    if not len(dataset):
        raise EmptySplitError(f"{root}: split {split!r} of {name} is empty; see `geco data check {name} {root}`")
    dataset = dataset if limit is None else spread(dataset, limit)
    return dataset if masks is None else attach_masks(dataset, masks)


def check_root(dataset_format: DatasetFormat, root: Path) -> None:
    """Raise if the root is not a folder."""
    if not root.is_dir():
        raise MissingFileError(f"{root}: no such folder; expected the root of {dataset_format.name}")


def read_options(dataset_format: DatasetFormat, options: Options) -> dict[str, Any]:
    """Options of the format's loader by key, texts converted to what its signature says."""
    if not isinstance(options, Mapping):
        options = dict(_key_and_value(dataset_format, text) for text in options)
    values = {}
    for key, value in options.items():
        if key not in dataset_format.options:
            raise _unknown(dataset_format, f"{key}={value}")
        annotation = dataset_format.options[key]
        values[key] = _converted(value, annotation, f"{key}={value}") if isinstance(value, str) else value
    return values


def _key_and_value(dataset_format: DatasetFormat, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise _unknown(dataset_format, text)
    return key, value


def _unknown(dataset_format: DatasetFormat, option: str) -> InputError:
    known = ", ".join(dataset_format.options) or "(none)"
    return InputError(f"{dataset_format.name} takes key=value with a key of {known}, got {option!r}")


def _converted(text: str, annotation: Any, option: str) -> Any:
    kinds = typing.get_args(annotation) or (annotation,)
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise InputError(f"{option}: expected true or false")
        return text.lower() == "true"
    number_kinds = [kind for kind in (int, float) if kind in kinds]
    for kind in number_kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    if number_kinds:
        raise InputError(f"{option}: expected a {'whole ' if number_kinds == [int] else ''}number")
    return text
