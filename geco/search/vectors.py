"""Vectors that are searched by inner product: exactly, or by short codes (IVF-PQ). faiss computes; the files are ours.

An index is kept as plain tensors and put together again through faiss's interface, so that faiss never parses a file.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from geco.errors import InputError, MissingPackageError
from geco.search.settings import IndexSettings

BITS = 8  # of a part's code
WORDS = 1 << BITS  # that a part is rounded to
NARROWEST = 4  # channels of a part: narrower ones spend bytes on next to nothing
PER_LIST = 39  # vectors of the sample for each group, as k-means needs them

Rows = Int64[np.ndarray, "q k"]
Values = Float32[np.ndarray, "q k"]


@dataclass(frozen=True)
class Vectors:
    """A faiss index; row i is the i-th vector that was added."""

    index: Any
    kind: str

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def nearest(self, queries: Float32[np.ndarray, "q c"], count: int, *, probes: float) -> tuple[Rows, Values]:
        """The rows with the largest inner products, best first, and these; −1 where there are no more."""
        faiss = _faiss()
        options = {}
        if self.kind == "ivfpq":
            most = max(1, math.ceil(probes * self.index.nlist))
            options = {"params": faiss.SearchParametersIVF(nprobe=most)}
        values, rows = self.index.search(np.ascontiguousarray(queries), min(count, len(self)), **options)
        return rows, values

    def state(self) -> dict[str, Tensor]:
        """The index as tensors, from which `restored` makes it again."""
        if self.kind == "flat":
            return {
                "vectors": torch.from_numpy(_faiss().rev_swig_ptr(self.index.get_xb(), self._size))
                .reshape(len(self), self.index.d)
                .clone()
            }
        return _ivfpq_state(self.index)

    @property
    def _size(self) -> int:
        return len(self) * int(self.index.d)


def flat(batches: Iterable[Float32[np.ndarray, "_ c"]], dim: int) -> Vectors:
    """The exact index of all vectors."""
    index = _faiss().IndexFlatIP(dim)
    for batch in batches:
        index.add(np.ascontiguousarray(batch))
    return Vectors(index, "flat")


def ivfpq(
    sample: Float32[np.ndarray, "s c"],
    batches: Iterable[Float32[np.ndarray, "_ c"]],
    settings: IndexSettings,
    *,
    expected: int,
) -> Vectors:
    """The index of all vectors by codes that a sample teaches; `expected` vectors decide the number of groups."""
    if len(sample) < WORDS:
        raise InputError(f"an ivfpq index needs {WORDS} vectors or more to learn from, got {len(sample)}; use flat")
    lists = settings.lists or min(max(1, len(sample) // PER_LIST), 1 << max(0, round(math.log2(expected) / 2)))
    if lists > len(sample):
        raise InputError(f"lists must be ≤ the vectors learned from, {len(sample)}, got {lists}")
    index = _empty(sample.shape[1], lists, parts_of(sample.shape[1], settings.parts))
    for clustering in (index.cp, index.pq.cp):
        clustering.seed, clustering.niter = settings.seed, settings.rounds
        clustering.min_points_per_centroid = 1  # faiss would print a warning
        clustering.max_points_per_centroid = len(sample)
    index.train(np.ascontiguousarray(sample))
    for batch in batches:
        index.add(np.ascontiguousarray(batch))
    return Vectors(index, "ivfpq")


def parts_of(dim: int, most: int) -> int:
    """Into how many equal parts the channels are divided: at most this many, none too narrow to be useful."""
    wide = [parts for parts in range(1, min(most, dim) + 1) if dim % parts == 0 and dim // parts >= NARROWEST]
    return max(wide, default=1)


def restored(kind: str, state: Mapping[str, Tensor], dim: int) -> Vectors:
    """The index that was kept as these tensors; they are checked before faiss sees them."""
    if kind == "flat":
        vectors = _checked(state, "vectors", torch.float32, (None, dim))
        return flat([vectors.numpy()], dim)
    centroids = _checked(state, "centroids", torch.float32, (None, dim))
    codebook = _checked(state, "codebook", torch.float32, (None, WORDS, None))
    codes = _checked(state, "codes", torch.uint8, (None, len(codebook)))
    rows = _checked(state, "rows", torch.int64, (len(codes),))
    lengths = _checked(state, "lengths", torch.int64, (len(centroids),))
    if codebook.shape[0] * codebook.shape[2] != dim or int(lengths.sum()) != len(codes) or bool((lengths < 0).any()):
        raise InputError("the tensors of the index do not fit together")
    if len(rows) and not bool((rows.sort().values == torch.arange(len(rows))).all()):
        raise InputError("the rows of the index are not numbered from 0")
    return Vectors(_filled(centroids, codebook, codes, rows, lengths), "ivfpq")


def _checked(state: Mapping[str, Tensor], name: str, dtype: torch.dtype, shape: tuple[int | None, ...]) -> Tensor:
    tensor = state.get(name)
    if tensor is None or tensor.dtype != dtype or tensor.ndim != len(shape):
        raise InputError(f"the index has no tensor {name!r} of {dtype}")
    if any(wanted not in (None, side) for wanted, side in zip(shape, tensor.shape, strict=True)):
        raise InputError(f"the tensor {name!r} of the index has the shape {tuple(tensor.shape)}, expected {shape}")
    return tensor.contiguous()


# --- faiss ------------------------------------------------------------------------------------------------------------


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingPackageError.of_extra("search", "faiss", what="an index of patches") from None
    return faiss


def _empty(dim: int, lists: int, parts: int) -> Any:
    faiss = _faiss()
    return faiss.IndexIVFPQ(faiss.IndexFlatIP(dim), dim, lists, parts, BITS, faiss.METRIC_INNER_PRODUCT)


def _ivfpq_state(index: Any) -> dict[str, Tensor]:
    faiss = _faiss()
    centroids = index.quantizer.reconstruct_n(0, index.nlist)
    codebook = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, WORDS, index.pq.dsub)
    lengths = [index.invlists.list_size(number) for number in range(index.nlist)]
    codes = np.empty((index.ntotal, index.code_size), dtype=np.uint8)
    rows = np.empty(index.ntotal, dtype=np.int64)
    start = 0
    for number, length in enumerate(lengths):
        if length:
            part = faiss.rev_swig_ptr(index.invlists.get_codes(number), length * index.code_size)
            codes[start : start + length] = part.reshape(length, index.code_size)
            rows[start : start + length] = faiss.rev_swig_ptr(index.invlists.get_ids(number), length)
        start += length
    arrays = {"centroids": centroids, "codebook": codebook, "codes": codes, "rows": rows, "lengths": np.array(lengths)}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _filled(centroids: Tensor, codebook: Tensor, codes: Tensor, rows: Tensor, lengths: Tensor) -> Any:
    faiss = _faiss()
    index = _empty(centroids.shape[1], len(centroids), len(codebook))
    index.quantizer.add(centroids.numpy())
    faiss.copy_array_to_vector(codebook.numpy().ravel(), index.pq.centroids)
    index.is_trained = True
    start = 0
    for number, length in enumerate(lengths.tolist()):
        if length:
            ids, some = rows[start : start + length].numpy(), codes[start : start + length].numpy()
            index.invlists.add_entries(number, length, faiss.swig_ptr(ids), faiss.swig_ptr(some))
        start += length
    index.ntotal = len(codes)
    return index
