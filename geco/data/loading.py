"""Loading a split of a dataset: the root checked, options converted, masks attached, a limit spread evenly."""

import inspect
import math
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geco import checks
from geco.data.contract import DatasetFormat, PairDataset, PartDataset, find
from geco.data.derived import attach_masks, spread
from geco.errors import FileError, InputError, MissingFileError

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
    dataset_format, root = find(name), checks.path(root, "the root of a dataset")
    limit = None if limit is None else checks.whole(limit, "limit")
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
    try:
        is_folder = root.is_dir()
    except OSError as error:
        raise FileError(f"{root} cannot be looked at: {error.strerror}") from None
    if not is_folder:
        kind = "a file" if checks.is_file(root) else "no such folder"
        raise MissingFileError(f"{root}: {kind}; expected the root of {dataset_format.name}")


def read_options(dataset_format: DatasetFormat, options: Options) -> dict[str, Any]:
    """Options of the format's loader by key, texts converted to what its signature says."""
    if not isinstance(options, Mapping):
        texts = [options] if isinstance(options, str) else options
        if not isinstance(texts, Sequence):
            raise InputError(f"options must be a dictionary or texts `key=value`, got {checks.shown(options)}")
        options = dict(_key_and_value(dataset_format, text) for text in texts)
    values = {}
    for key, value in options.items():
        option = f"{key}={value[:60] if isinstance(value, str) else checks.shown(value)}"
        if key not in dataset_format.options:
            raise _unknown(dataset_format, option)
        annotation = dataset_format.options[key]
        values[key] = _converted(value, annotation, option) if isinstance(value, str) else value
        _check_kind(values[key], annotation, option)
    return values


def _check_kind(value: Any, annotation: Any, option: str) -> None:
    """Raise if a value is not of a kind that the loader's signature names; what is no plain type is left to it."""
    kinds = [typing.get_origin(kind) or kind for kind in typing.get_args(annotation) or (annotation,)]
    if not all(isinstance(kind, type) for kind in kinds) or inspect.Parameter.empty in kinds or object in kinds:
        return
    kinds += [int] if float in kinds else []
    fits = isinstance(value, tuple(kinds)) and (bool in kinds or not isinstance(value, bool))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        names = " or ".join(sorted({"nothing" if kind is types.NoneType else kind.__name__ for kind in kinds}))
        raise InputError(f"{option}: expected {names}")


def _key_and_value(dataset_format: DatasetFormat, text: Any) -> tuple[str, str]:
    if not isinstance(text, str):
        raise InputError(f"an option is a text `key=value`, got {checks.shown(text)}")
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
