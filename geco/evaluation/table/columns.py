"""The columns of a table: datasets, each with what it is evaluated under and what identifies it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from geco import data
from geco.data import Options, PartDataset
from geco.errors import InputError
from geco.evaluation import parts, published
from geco.evaluation.keypoints.journal import digest
from geco.evaluation.settings import PROTOCOLS, PartsProtocol, Protocol, TableSettings, protocols_named
from geco.types import Encoder, PairSequence, View

COUNTED = ("main_alpha", "radii", "resamples", "confidence", "seed", "false_alarms")  # settings that change numbers


@dataclass(frozen=True)
class KeypointColumn:
    """Pairs with keypoints, evaluated under one protocol."""

    name: str  # of the dataset, by which the paper's numbers are found
    pairs: PairSequence
    split: str = published.SPLIT
    protocol: Protocol = PROTOCOLS["geco"]

    @property
    def heading(self) -> str:
        """The dataset as the paper calls it, or else by its own name."""
        return published.KEYPOINTS.get(self.name, (self.name,))[0]

    @property
    def data(self) -> str:
        """The dataset in a report."""
        return f"{self.name} {self.split}"

    @property
    def is_published(self) -> bool:
        """Whether the paper evaluates this dataset, split and protocol."""
        return self.split == published.SPLIT and published.KEYPOINTS.get(self.name, ("", ""))[1] == self.protocol.name

    @cached_property
    def digest(self) -> str:
        """Hash of its pairs and annotations."""
        return digest(self.pairs)

    @cached_property
    def views(self) -> Mapping[str, View]:
        """The images of its pairs, each once."""
        return {view.identity: view for pair in self.pairs for view in (pair.source, pair.target)}

    @cached_property
    def has_twins(self) -> bool:
        """Whether any keypoint that both images of a pair show has a counterpart that the target shows as well."""
        for pair in self.pairs:
            twin = torch.tensor(pair.table.twin)
            source, target = pair.source.points.visible, pair.target.points.visible
            if (source & target & target[twin] & (twin != torch.arange(len(twin)))).any():
                return True
        return False

    def folder(self, encoder: Encoder, settings: TableSettings) -> str:
        """Its folder among the results of an encoder: named after everything else that decides the numbers."""
        counted = {key: getattr(settings.keypoints, key) for key in COUNTED}
        identity = _hash(self.digest, asdict(self.protocol.visible_above(encoder.threshold)), counted)
        return f"{self.name}-{self.split}-{self.protocol.name}-{identity}"


@dataclass(frozen=True)
class PartsColumn:
    """Images with part maps: some for the centroids, the others to be labelled."""

    name: str
    train: PartDataset
    test: PartDataset
    split: str = published.SPLIT

    @property
    def heading(self) -> str:
        """The dataset as the paper calls it, or else by its own name."""
        return published.PARTS.get(self.name, self.name)

    @property
    def data(self) -> str:
        """The dataset in a report."""
        return f"{self.name} {self.split}"

    @cached_property
    def digest(self) -> str:
        """Hash of its views."""
        return parts.digest(self.train, self.test)

    def is_published(self, protocol: PartsProtocol) -> bool:
        """Whether the paper evaluates this dataset, split and protocol."""
        return self.name in published.PARTS and self.split == published.SPLIT and protocol == PartsProtocol()

    def folder(self, encoder: Encoder, settings: TableSettings) -> str:
        """Its folder among the results of an encoder: named after everything else that decides the numbers."""
        protocol = {key: value for key, value in asdict(settings.parts).items() if key != "batch_size"}
        return f"{self.name}-{self.split}-parts-{_hash(self.digest, protocol)}"


Column = KeypointColumn | PartsColumn


def load_column(
    name: str,
    root: str | Path,
    *,
    split: str = published.SPLIT,
    protocol: str | None = None,
    options: Options = (),
    limit: int | None = None,
) -> Column:
    """The column of a dataset on disk; its protocol is that of the paper (`geco` where it has none) unless given.

    `options` are those of the dataset's loader; `limit`: this many pairs, or views with parts, spread over the split.
    """
    name = data.find(name).name
    usual = published.KEYPOINTS.get(name, ("", "geco"))[1]
    (chosen,) = protocols_named((protocol or usual,))
    dataset = data.load(name, root, split, options, limit=limit)
    if not isinstance(dataset, data.PartDataset):
        return KeypointColumn(name, dataset, split, chosen)
    train = data.load(name, root, "train", options, limit=limit)
    if not isinstance(train, data.PartDataset):
        raise InputError(f"{name} has part maps in its split {split!r}, but none in 'train'; expected them in both")
    return PartsColumn(name, train, dataset, split)


def _hash(*identity: Any) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
