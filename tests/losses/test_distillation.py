"""Distillation against loops over patches, numerical gradients, and a student that has nothing left to learn."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from geco import losses
from geco.batching import stack
from geco.losses import DistillLoss, TransportLoss
from geco.losses.distillation import score_divergence
from geco.losses.settings import DistillSettings, LossSettings
from geco.types import FeatureMap, Keypoints, Pair, Skeleton, View

SIZE, GRID = (40, 50), (2, 3)
NAMES = Skeleton(("nose", "left eye", "right eye"), (0, 2, 1), None)


def view(random, *, annotated=True):
    count = 3 if annotated else 0
    xy = torch.rand(count, 2, generator=random) * torch.tensor([SIZE[1], SIZE[0]])
    mask = torch.rand(*SIZE, generator=random) < 0.5
    points = Keypoints(xy, torch.ones(count, dtype=torch.bool))
    return View(torch.rand(3, *SIZE, generator=random), SIZE, points, mask=mask)


def batch(count=2, *, annotated=(True, True, True, True)):
    random = torch.Generator().manual_seed(3)
    return stack(
        [
            Pair(view(random, annotated=has), view(random, annotated=has), NAMES if has else Skeleton((), (), None))
            for has in annotated[:count]
        ]
    )


def maps(count, *, seed, grid=GRID, channels=4):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, channels, *grid, generator=random, dtype=torch.float64)


def halves(values):
    source, target = values.chunk(2)
    return FeatureMap(source, SIZE), FeatureMap(target, SIZE)


def configured(**values):
    return LossSettings(name="distill", reduction="conditional", distill=DistillSettings(teacher="t", **values))


def unit(vector):
    return vector / vector.norm()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.5]), st.integers(1, 2))
def test_terms_are_those_of_a_loop_over_images_and_patches(seed, temperature, pairs):
    student, teacher = maps(2 * pairs, seed=seed), maps(2 * pairs, seed=seed + 1)
    loss = DistillLoss(configured(temperature=temperature), lambda pixels: teacher)
    value = loss(*halves(student), batch(pairs))
    f, g = student.flatten(2), teacher.flatten(2)
    images, patches = range(2 * pairs), range(f.shape[2])
    away = [1 - unit(f[i, :, x]) @ unit(g[i, :, x]) for i in images for x in patches]
    assert_close(value.terms["features"], torch.stack(away).mean())
    divergences = []
    for i in images:
        for j in images:
            for x in patches:
                q, p = (
                    torch.stack([unit(m[i, :, x]) @ unit(m[j, :, y]) / temperature for y in patches]).softmax(0)
                    for m in (f, g)
                )
                if i != j:
                    divergences.append((p * (p / q).log()).sum())
    assert_close(value.terms["scores"], torch.stack(divergences).mean())
    assert_close(value.total, value.terms["features"] + value.terms["scores"])
    assert value.counts == {"features": 2 * pairs, "scores": 2 * pairs * (2 * pairs - 1), "skipped": 0, "clamped": 0}


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_a_student_that_is_its_teacher_has_no_loss_and_no_gradient(scale):
    student = maps(4, seed=0).requires_grad_()
    value = DistillLoss(configured(), lambda pixels: scale * student.detach())(*halves(student), batch())
    value.total.backward()
    assert_close(value.total, torch.zeros_like(value.total), atol=1e-12, rtol=0)
    assert_close(student.grad, torch.zeros_like(student), atol=1e-9, rtol=0)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_no_student_is_better_than_the_teacher_itself(seed):
    student, teacher = maps(4, seed=seed), maps(4, seed=seed + 1)
    value = DistillLoss(configured(), lambda pixels: teacher)(*halves(student), batch())
    assert all(term > 0 for term in value.terms.values())


def test_gradients_are_those_of_differences():
    teacher = maps(4, seed=1, grid=(3, 4))  # of a finer grid
    loss = DistillLoss(configured(temperature=0.5, weight_labels=0.3), lambda pixels: teacher)
    student = maps(4, seed=0).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: loss(*halves(values), batch()).total, (student,), fast_mode=True)


def test_a_finer_teacher_is_averaged_onto_the_students_grid():
    constant = maps(4, seed=1, grid=(1, 1))
    teacher = constant.expand(-1, -1, 6, 9)
    student = constant.expand(-1, -1, *GRID).contiguous()
    value = DistillLoss(configured(), lambda pixels: teacher)(*halves(student), batch())
    assert_close(value.total, torch.zeros_like(value.total), atol=1e-9, rtol=0)


def test_the_teacher_sees_every_image_once():
    seen = []

    def teacher(pixels):
        seen.append(pixels)
        return maps(4, seed=1)

    pairs = batch()
    DistillLoss(configured(weight_labels=0.5), teacher)(*halves(maps(4, seed=0)), pairs)
    (pixels,) = seen
    assert torch.equal(pixels, torch.cat([pairs.source.image, pairs.target.image]))


def test_annotated_pairs_add_the_transport_loss_and_others_only_what_the_teacher_says():
    student, teacher = maps(8, seed=0), maps(8, seed=1)
    chosen = configured(weight_labels=0.25)
    mixed = batch(4, annotated=(True, False, True, False))
    value = DistillLoss(chosen, lambda pixels: teacher)(*halves(student), mixed)
    source, target = halves(student)
    some = [0, 2]
    labelled = TransportLoss(chosen)(
        FeatureMap(source.values[some], SIZE), FeatureMap(target.values[some], SIZE), picked(mixed, some)
    )
    bare = DistillLoss(configured(), lambda pixels: teacher)(*halves(student), mixed)
    assert_close(value.total, bare.total + 0.25 * labelled.total)
    assert {name: value.counts[name] for name in labelled.terms} == {
        name: labelled.counts[name] for name in labelled.terms
    }
    nothing = batch(2, annotated=(False, False))
    four = DistillLoss(chosen, lambda pixels: teacher[:4])(*halves(student[:4]), nothing)
    assert four.terms["positive"] == 0
    assert_close(four.total, four.terms["features"] + four.terms["scores"])


def picked(pairs, rows):
    from geco.batching import pick

    return pick(pairs, torch.tensor(rows))


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_parts_of_a_batch_add_up_with_the_sizes_of_the_whole(weight):
    """Only images of one part meet, so the parts of a batch have fewer score maps than the whole."""
    student, teacher = maps(8, seed=0), maps(8, seed=1)
    source, target = halves(student)
    pairs, parts = batch(4), []
    for rows in ([0, 1], [2, 3]):
        images = [*rows, *(4 + row for row in rows)]
        loss = DistillLoss(configured(weight_labels=weight), lambda pixels, images=images: teacher[images])
        some = picked(pairs, rows)
        parts.append((loss, FeatureMap(source.values[rows], SIZE), FeatureMap(target.values[rows], SIZE), some))
    sizes = sum(loss.set_sizes(some, (GRID, GRID)) for loss, _, _, some in parts)
    assert sizes[:2].tolist() == [8, 2 * 4 * 3]
    together = sum(loss(f, g, some, reduce_counts=lambda _: sizes).total for loss, f, g, some in parts)
    alone = [loss(f, g, some) for loss, f, g, some in parts]
    for name in ("features", "scores"):
        mean = sum(value.terms[name] for value in alone) / 2
        given_sizes = sum(loss(f, g, some, reduce_counts=lambda _: sizes).terms[name] for loss, f, g, some in parts)
        assert_close(given_sizes, mean)
    assert math.isfinite(together)


def test_score_maps_of_one_image_alone_say_nothing():
    assert score_divergence(maps(1, seed=0).flatten(2), maps(1, seed=1).flatten(2), temperature=0.1) == 0


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(ValueError, match="nothing to say if weight_features and weight_scores are 0"):
        DistillSettings(weight_features=0.0, weight_scores=0.0, weight_labels=1.0)
    with pytest.raises(ValueError, match="temperature must be above 0, got 0"):
        DistillSettings(temperature=0.0)
    with pytest.raises(ValueError, match="distillation needs a teacher: name a model with --distill"):
        losses.choose(LossSettings(name="distill"))
    assert isinstance(losses.choose(LossSettings(name="distill"), lambda pixels: pixels), DistillLoss)
    assert not configured().reads_masks
    assert configured(weight_labels=0.1).reads_masks
    assert not replace(configured(weight_labels=0.1), name="contrastive").reads_masks
