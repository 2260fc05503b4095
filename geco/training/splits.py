"""The splits a run is trained and validated on, and where the masks of the training pairs come from."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from geco import data, masks
from geco.data import PairDataset
from geco.errors import InputError
from geco.training.setup import without_masks


@dataclass(frozen=True)
class Source:
    """A dataset on disk."""

    name: str
    root: Path
    options: tuple[str, ...] = ()  # of its loader, `key=value`
    masks: str | Path | None = (
        None  # a folder, "box" or "own-or-box"; None: its own or, where none, what `geco masks` made
    )


def load_splits(
    sources: Iterable[Source], *, needs_masks: bool, tell: Callable[[str], None] = lambda line: None
) -> tuple[dict[str, PairDataset], dict[str, PairDataset]]:
    """Training and validation pairs by dataset; one without a validation split is only trained on.

    `tell` hears which folder of masks is used, if none was given.
    """
    train: dict[str, PairDataset] = {}
    valid: dict[str, PairDataset] = {}
    for source in sources:
        dataset_format = data.find(source.name)
        if "train" not in dataset_format.splits:
            raise InputError(f"{dataset_format.name} has no training split, only {', '.join(dataset_format.splits)}")
        pairs = _load(source, "train", masks=source.masks)
        if needs_masks and source.masks is None:
            pairs = _with_made_masks(pairs, dataset_format.name, tell)
        train[dataset_format.name] = pairs
        if "val" in dataset_format.splits:
            try:
                valid[dataset_format.name] = _load(source, "val")  # validation looks at no mask
            except data.EmptySplitError:
                continue
    return train, valid


def load_validation(sources: Iterable[Source]) -> dict[str, PairDataset]:
    """The split `val` of datasets that are only validated on, by name."""
    return {data.find(source.name).name: _load(source, "val") for source in sources}


def _load(source: Source, split: str, *, masks: str | Path | None = None) -> PairDataset:
    dataset = data.load(source.name, source.root, split, source.options, masks=masks)
    if not isinstance(dataset, PairDataset):
        raise InputError(f"{source.name} has part maps but no pairs of keypoints to train on")
    return dataset


def _with_made_masks(pairs: PairDataset, name: str, tell: Callable[[str], None]) -> PairDataset:
    """The pairs with the masks that `geco masks` made, if some have none of their own."""
    folders = masks.made_folders(name)
    if not folders or not without_masks(pairs):
        return pairs
    if len(folders) > 1:
        raise InputError(
            f"{name}: there are masks in {', '.join(map(str, folders))}; "
            f"choose one of them, like --masks {name}={folders[0]}"
        )
    tell(f"{name}: masks of {folders[0]}")
    dataset = data.attach_masks(pairs, folders[0], keep_own=True)
    assert isinstance(dataset, PairDataset)
    return dataset
