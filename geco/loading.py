"""Loading: keys of the sampler → pairs read, augmented and stacked; what a training loop iterates over."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.utils.data import Dataset

from geco import augment, images, types
from geco.config.augment import AugmentSettings
from geco.config.images import ImageLimits
from geco.config.sampling import SamplingSettings
from geco.sampling import Joint, Key
from geco.types import Pair, View

LIMITS, SAMPLING = ImageLimits(), SamplingSettings()
OPTIONAL = ("keypoints", "box", "mask", "parts")  # fields that not every dataset has


class TrainingPairs(Dataset[Pair]):
    """Pairs by key (epoch, index), ready to be stacked; seed and key alone decide what comes back.

    `masks=False` (for marginals that use none) leaves mask files unread; else a missing mask is an error.
    """

    def __init__(
        self,
        pairs: Joint,
        settings: AugmentSettings,
        *,
        seed: int,
        masks: bool = True,
        sampling: SamplingSettings = SAMPLING,
        limits: ImageLimits = LIMITS,
    ) -> None:
        self.pairs, self.settings, self.seed, self.masks, self.limits = pairs, settings, seed, masks, limits
        self.sampling = sampling

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Key) -> Pair:
        epoch, index = key
        dataset, _ = self.pairs.locate(index)
        pair = self.pairs[index]
        alone = augment.generator(self.seed, epoch, index, 3).random() < self.sampling.self_pairs
        if alone and dataset not in self.settings.plain:
            return augment.self_pair(
                self._read(pair.source, dataset),
                self.settings,
                points=self.sampling.self_points,
                seed=self.seed,
                epoch=epoch,
                index=index,
            )
        pair = replace(pair, source=self._read(pair.source, dataset), target=self._read(pair.target, dataset))
        if dataset in self.settings.plain:
            return augment.plain(pair, self.settings)
        return augment.augment(pair, self.settings, seed=self.seed, epoch=epoch, index=index)

    def _read(self, view: View, dataset: str) -> View:
        if not self.masks:
            view = replace(view, mask=None)
        elif view.mask is None:
            raise ValueError(
                f"{dataset}: {view.name or view.image} has no foreground mask; make masks with "
                f"`geco masks {dataset}`, or train with marginals that need none"
            )
        return images.load_view(view, limits=self.limits)


def collate(pairs: Sequence[Pair]) -> Pair:
    """One batch; a field that some views lack (a box, say, where datasets are mixed) is left out of all."""
    views = [view for pair in pairs for view in (pair.source, pair.target)]
    absent: dict[str, Any] = {name: None for name in OPTIONAL if any(getattr(view, name) is None for view in views)}
    even = [
        replace(pair, source=replace(pair.source, **absent), target=replace(pair.target, **absent)) for pair in pairs
    ]
    return types.stack(even)
