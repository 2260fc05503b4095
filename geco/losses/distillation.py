"""Distillation: a student's features, and the score maps between its images, are to be those of a teacher."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from geco import batching, geometry
from geco.losses.contract import LossValue, ReduceCounts, whole
from geco.losses.settings import TERMS, LossSettings
from geco.losses.transport import TransportLoss
from geco.types import FeatureMap, Image, Pair, Size

Teacher = Callable[[Image], Float[Tensor, "n c h2 w2"]]  # feature maps of a batch of images, without a gradient
TRANSPORTED = (*TERMS, "clamped")  # what the transport loss counts, besides skipped pairs


class DistillLoss:
    """1 − cosine of every patch's features; KL of its score maps in the other images; transport on annotated pairs.

    The score map of a patch in another image is softmax(cos/τ) over that image's patches. Every two images of a batch
    are compared, both ways, whatever they show; the teacher sees each of them once, and its maps are resampled to the
    student's grid. Annotation is read only if it has a weight, and of the pairs that have keypoints.
    """

    def __init__(self, settings: LossSettings, teacher: Teacher) -> None:
        self.settings, self.teacher = settings.distill, teacher
        self.labels = TransportLoss(settings) if self.settings.weight_labels else None

    def __call__(
        self, source: FeatureMap, target: FeatureMap, pairs: Pair, *, reduce_counts: ReduceCounts = whole
    ) -> LossValue:
        """The loss of a batch of pairs: means over its images, over every two of them, and over annotated sets."""
        counts = self.set_sizes(pairs, (source.grid, target.grid))
        sizes = reduce_counts(counts)
        student = torch.cat([source.values, target.values])
        taught = self.teacher(torch.cat([pairs.source.pixels, pairs.target.pixels]))
        teacher = geometry.resize_features(taught.to(student.dtype), source.grid)
        f, g = (functional.normalize(values, dim=1).flatten(2) for values in (student, teacher))
        terms, numbers = {}, {"skipped": 0, "clamped": 0}  # a pair with empty masks is not skipped
        if self.settings.weight_features:
            terms["features"] = (1 - (f * g).sum(1)).mean(1).sum() / sizes[0].clamp(min=1)
            numbers["features"] = len(f)
        if self.settings.weight_scores:
            divergence = score_divergence(f, g, temperature=self.settings.temperature)
            terms["scores"] = divergence / sizes[1].clamp(min=1)
            numbers["scores"] = len(f) * (len(f) - 1)
        total = torch.stack([getattr(self.settings, f"weight_{name}") * term for name, term in terms.items()]).sum()
        if self.labels is not None:
            value = self._on_labels(source, target, pairs, sizes[2:])
            total = total + self.settings.weight_labels * value.total
            terms |= value.terms
            numbers |= {name: value.counts[name] for name in TRANSPORTED}
        return LossValue(total, terms, numbers)

    def set_sizes(self, pairs: Pair, grids: tuple[Size, Size]) -> Int[Tensor, "n"]:
        """Images, ordered pairs of two different ones and, if annotation is read, the sizes of its sets."""
        images = 2 * len(pairs.category)
        sizes = torch.tensor([images, images * (images - 1)], device=pairs.source.pixels.device)
        if self.labels is None:
            return sizes
        annotated = _annotated(pairs)
        some = batching.pick(pairs, annotated) if len(annotated) else None
        sets = sizes.new_zeros(len(TERMS)) if some is None else self.labels.set_sizes(some, grids)
        return torch.cat([sizes, sets])

    def _on_labels(self, source: FeatureMap, target: FeatureMap, pairs: Pair, sizes: Tensor) -> LossValue:
        """The transport loss of the annotated pairs; zero if there are none."""
        assert self.labels is not None
        index = _annotated(pairs)
        if not len(index):
            zero = source.values.sum() * 0
            return LossValue(zero, dict.fromkeys(TERMS, zero), dict.fromkeys(TRANSPORTED, 0))
        f, g = (FeatureMap(features.values[index], features.size) for features in (source, target))
        return self.labels(f, g, batching.pick(pairs, index), reduce_counts=lambda _: sizes)


def score_divergence(
    student: Float[Tensor, "n c m"], teacher: Float[Tensor, "n c m"], *, temperature: float
) -> Float[Tensor, ""]:
    """KL(teacher ‖ student) of the score maps of unit features, a mean over patches, a sum over ordered image pairs."""
    f, g = (
        (torch.einsum("icx,jcy->ijxy", values, values) / temperature).log_softmax(-1) for values in (student, teacher)
    )
    divergence = functional.kl_div(f, g, reduction="none", log_target=True).sum(-1).mean(-1)  # (n, n)
    return divergence.sum() - divergence.diagonal().sum()


def _annotated(pairs: Pair) -> Int[Tensor, "n"]:
    """Numbers of the pairs that have keypoints."""
    rows = [number for number, skeleton in enumerate(pairs.skeletons) if len(skeleton)]
    return torch.tensor(rows, dtype=torch.long, device=pairs.source.pixels.device)
