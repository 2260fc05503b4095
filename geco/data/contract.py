"""The contract of a dataset: what a plug-in module of `geco.datasets` defines, and what its `load` returns."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from geco import checks
from geco.errors import InputError
from geco.system import plugins
from geco.types import PairSequence, Skeleton, View

Totals = Mapping[str, Mapping[str, int]]  # split → what → how many


@runtime_checkable
class PairDataset(PairSequence, Protocol):
    """The pairs of a split, in a fixed order, each put together when it is asked for."""

    @property
    def views(self) -> Sequence[View]:
        """The views of the split, each once."""

    @property
    def categories(self) -> Sequence[str]:
        """The category of every pair."""


@runtime_checkable
class PartDataset(Protocol):
    """The views of a split with part maps: 0 is no part, i the part `skeletons[category].names[i - 1]`."""

    @property
    def categories(self) -> Sequence[str]:
        """The category of every view."""

    @property
    def skeletons(self) -> Mapping[str, Skeleton]:
        """Names and left/right counterparts of the parts, by category."""

    @property
    def listed(self) -> int:
        """Images of the split before the loader chose among them."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[View]: ...
    def __getitem__(self, index: int, /) -> View: ...


def views_of(dataset: PairDataset | PartDataset) -> Iterable[View]:
    """Every view of a dataset, each once."""
    return dataset if isinstance(dataset, PartDataset) else dataset.views


@dataclass(frozen=True)
class DatasetFormat:
    """The contents of a plug-in module, read once; other code uses this and not the module."""

    name: str
    about: str  # first line of its docstring
    splits: tuple[str, ...]
    load: Callable[..., PairDataset | PartDataset]
    options: Mapping[str, Any]  # keyword-only parameters of `load` except `faults`, and how they are annotated
    published: Totals  # split (or "all") → "photographs", "instances", "pairs" or "listed" → how many
    published_pairs: Totals  # split → category → how many pairs
    prepare: Callable[..., dict[str, int]] | None  # writes lists that the release lacks; their sizes by name
    variants: Callable[[str], Sequence[Mapping[str, Any]]]  # options under which a split is counted


def names() -> list[str]:
    """Names of all datasets that can be read, those of other packages among them."""
    return plugins.names("datasets")


def find(name: str) -> DatasetFormat:
    """The format of this name; hyphens and upper case are forgiven, a typo lists the choices."""
    if not isinstance(name, str):
        raise InputError(f"a dataset is found by its name, got {checks.shown(name)}; names: {', '.join(names())}")
    name = plugins.spelled("datasets", name)
    module = plugins.find("datasets", name)
    _check(module, name)
    return DatasetFormat(
        name=name,
        about=((module.__doc__ or "").strip().splitlines() or [""])[0],
        splits=tuple(module.SPLITS),
        load=module.load,
        options=_options(module.load, name),
        published=getattr(module, "PUBLISHED", {}),
        published_pairs=getattr(module, "PUBLISHED_PAIRS", {}),
        prepare=getattr(module, "prepare", None),
        variants=getattr(module, "variants", _as_it_is),
    )


def _check(module: ModuleType, name: str) -> None:
    missing = [needed for needed in ("SPLITS", "load") if not hasattr(module, needed)]
    if missing:
        raise InputError(f"the dataset {name!r} ({module.__name__}) must define {' and '.join(missing)}")
    try:
        inspect.signature(module.load).bind("root", "split", faults=None)
    except TypeError as error:
        raise InputError(
            f"the dataset {name!r} ({module.__name__}) must define load(root, split, *, faults=None, …): {error}"
        ) from None


def _options(load: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        parameters = inspect.signature(load, eval_str=True).parameters
    except NameError as error:
        raise InputError(
            f"the dataset {name!r} annotates an option of load with what is not imported: {error}"
        ) from None
    keyword_only = {key: entry for key, entry in parameters.items() if entry.kind is entry.KEYWORD_ONLY}
    return {key: entry.annotation for key, entry in keyword_only.items() if key != "faults"}


def _as_it_is(split: str) -> list[dict[str, Any]]:
    """The variants of a dataset that has none."""
    return [{}]
