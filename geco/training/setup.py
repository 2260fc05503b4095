"""What a run is about to do, checked before anything is written: its pairs, its steps, its model, its folder.

The plan of a run and the run itself are both made from it, so the one refuses what the other would.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from geco import data, images
from geco.data import PairDataset
from geco.errors import InputError
from geco.models import Geco
from geco.training.batches import StepKeys, ways_to_masks
from geco.training.build import build
from geco.training.folder import RunFolder
from geco.training.sampling import Datasets, Joint, as_dataset
from geco.training.schedule import total_steps
from geco.training.settings import TrainConfig
from geco.training.teacher import FrozenTeacher, load_teacher
from geco.types import MaskFile, View

MASKS_READ = 64  # of a dataset at most, spread evenly, to see whether any shows an object


@dataclass(frozen=True)
class Setup:
    """A run before its first step."""

    pairs: Joint
    counts: dict[str, int]  # dataset/category: pairs
    valid: dict[str, PairDataset]  # validation pairs of each dataset, without empty ones
    keys: StepKeys  # of this process
    total: int  # steps of the run
    model: Geco
    teacher: FrozenTeacher | None  # of a model that is distilled


def set_up(
    config: TrainConfig,
    train: Datasets,
    valid: Datasets,
    folder: str | Path | None = None,
    *,
    rank: int = 0,
    world: int = 1,
) -> Setup:
    """The run with these settings on these datasets, for process `rank` of `world`; mistakes are named here."""
    pairs = Joint(train)
    if unknown := sorted(config.sampling.factors.keys() - train.keys()):
        raise InputError(f"sampling.factors names {unknown[0]}, but the training sets are {', '.join(train)}")
    if config.needs_masks:
        check_masks(pairs.datasets)
        check_foreground(pairs.datasets)
    chosen = {name: _spread(as_dataset(split), config.validation_pairs) for name, split in valid.items() if len(split)}
    if config.calibrate and not chosen:
        raise InputError(
            "calibrate finds the threshold on validation pairs, and there are none; add a dataset with a split val, "
            "or set calibrate=false"
        )
    keys = StepKeys(pairs, config, rank=rank, world=world)
    counts = {f"{name}/{category}": len(rows) for (name, category), rows in pairs.groups().items()}
    if folder is not None:
        RunFolder(folder).check(config, counts)
    model = build(config)
    return Setup(pairs, counts, chosen, keys, total_steps(config, len(keys)), model, load_teacher(config, model))


def _spread(pairs: PairDataset, count: int) -> PairDataset:
    return cast(PairDataset, data.spread(pairs, count))


def check_masks(datasets: Mapping[str, PairDataset]) -> None:
    """Refuse datasets some of whose objects have no foreground mask; no file is read."""
    for name, pairs in datasets.items():
        if missing := without_masks(pairs):
            raise InputError(
                f"{name}: {len(missing)} objects have no foreground mask, {missing[0].label} for one; "
                f"{ways_to_masks(name)}"
            )


def check_foreground(datasets: Mapping[str, PairDataset]) -> None:
    """Refuse datasets whose masks are all empty; most often the first one read shows that they are not."""
    for name, pairs in datasets.items():
        masked = [view for view in pairs.views if view.mask is not None]
        some = masked[:: max(1, len(masked) // MASKS_READ)][:MASKS_READ]
        if some and not any(_shows_something(view) for view in some):
            raise InputError(
                f"{name}: the foreground masks are empty, those of {len(some)} of {len(masked)} objects were read, "
                f"{some[0].label} for one; {ways_to_masks(name)}"[:300]
            )


def _shows_something(view: View) -> bool:
    mask = images.read_mask(view.mask) if isinstance(view.mask, MaskFile) else view.mask
    return mask is not None and bool(mask.any())


def without_masks(pairs: PairDataset) -> list[View]:
    """The annotated objects of these pairs that have no foreground mask, each once."""
    bare = [view for view in pairs.views if view.mask is None]
    if len(bare) in (0, len(pairs.views)):
        return bare
    # A dataset may list views that no pair uses.
    used = (view for pair in pairs for view in (pair.source, pair.target) if view.mask is None)
    return list({_object(view): view for view in used}.values())


def _object(view: View) -> tuple[str, tuple[float, ...]]:
    """An image and a box in it: two animals of an image are two objects."""
    return view.label, () if view.box is None else tuple(view.box.tolist())
