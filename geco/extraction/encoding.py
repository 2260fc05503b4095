"""Encoding a list of images, some of which cannot be read: read ahead, in batches, none of which a bad one spoils."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from geco import images
from geco.errors import GecoError
from geco.extraction import sources
from geco.extraction.records import Failure, Source
from geco.system import ahead
from geco.types import Encoder, FeatureMap


@dataclass(frozen=True)
class _Read:
    source: Source
    content: bytes
    sha256: str


@dataclass(frozen=True)
class Encoded:
    """An image with its map."""

    source: Source
    sha256: str  # of its file
    features: FeatureMap


def encode(
    encoder: Encoder, given: Sequence[Source], *, batch_size: int, draft: bool = False
) -> Iterator[Encoded | Failure]:
    """Each image with its map, or why it cannot be read; in order but for failures, which come when they are found.

    Batches are of readable images only, so they depend on the list and the files alone. `draft` is for encoders that
    know it (`Extractor.extract_stream`).
    """
    options = {"batch_size": batch_size, **({"draft": True} if draft else {})}
    with ahead.groups(iter(given), _read, count=batch_size) as groups:
        remaining: Iterator[_Read | Failure] = (one for group in groups for one in group)
        while True:
            failures: deque[Failure] = deque()
            waiting: deque[_Read] = deque()
            stream = encoder.extract_stream(_contents(remaining, waiting, failures.append), **options)
            try:
                for features in stream:
                    one = waiting.popleft()
                    yield from _drained(failures)
                    yield Encoded(one.source, one.sha256, features)
            except GecoError:
                # Everything that was handed over and did not come back is suspect; what is good begins the next batch.
                verdicts = [(one, _fault(one)) for one in waiting]
                bad = [Failure(one.source.name, str(fault)) for one, fault in verdicts if fault is not None]
                if not bad:
                    raise
                yield from (*_drained(failures), *bad)
                remaining = chain([one for one, fault in verdicts if fault is None], remaining)
                continue
            yield from _drained(failures)
            return


def _drained(failures: "deque[Failure]") -> Iterator[Failure]:
    while failures:
        yield failures.popleft()


def _contents(
    remaining: Iterator[_Read | Failure], waiting: "deque[_Read]", failed: Callable[[Failure], None]
) -> Iterator[bytes]:
    """The files' contents; what has been handed over is waited for."""
    for one in remaining:
        if isinstance(one, Failure):
            failed(one)
        else:
            waiting.append(one)
            yield one.content


def _read(source: Source) -> _Read | Failure:
    """Runs in a thread of its own, while images are encoded."""
    try:
        content = sources.read(source)
    except GecoError as error:
        return Failure(source.name, str(error))
    return _Read(source, content, hashlib.sha256(content).hexdigest())


def _fault(one: _Read) -> GecoError | None:
    try:
        images.read(one.content, name=one.source.name)
    except GecoError as error:
        return error
    return None
