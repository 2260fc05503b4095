"""Keypoints carried from labelled images to others, by an encoder whose features are the colours of patches."""

import pytest
import torch
from coloured import PATCH, SKELETON, Colours, centre, labelled, write_image
from sklearn.linear_model import LogisticRegression
from torch.testing import assert_close

from geco import images
from geco.errors import InputError
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet, Propagator, propagate
from geco.propagation.calibration import SPREAD, best_threshold, fit_logistic
from geco.propagation.references import mean_descriptor, square, window_of
from geco.propagation.settings import KeypointSettings
from geco.propagation.voting import Panel, score_maps
from geco.types import FeatureMap, Skeleton


@pytest.fixture
def labels(tmp_path):
    everything = {"left": (2, 3), "right": (9, 3), "tail": (5, 12)}
    moved = {"left": (4, 4), "right": (12, 5), "tail": (7, 13)}
    without_tail = {"left": (3, 8), "right": (10, 8)}
    places = (everything, moved, without_tail, {"left": (9, 9), "right": (2, 2), "tail": (13, 1)})
    return LabelSet(SKELETON, [labelled(tmp_path / f"{i}.png", some) for i, some in enumerate(places)])


def test_points_are_found_where_they_are_and_hidden_ones_are_said_to_be(labels, tmp_path):
    new = write_image(tmp_path / "new.png", {"right": (1, 10), "tail": (13, 2)})
    (image,) = propagate(Colours(), labels, [new])
    (animal,) = image.animals
    assert (image.path, image.size) == (new, (64, 64))
    assert animal.state.tolist() == [HIDDEN, VISIBLE, VISIBLE]
    expected = torch.tensor([centre(1, 10), centre(13, 2)])
    assert ((animal.xy[1:] - expected).abs() < PATCH).all()
    assert Propagator.of(Colours(), labels).calibration.held_out == 4
    few = Propagator.of(Colours(), LabelSet(SKELETON, labels.images[:3])).calibration
    assert (few.held_out, few.threshold) == (0, Colours.threshold)
    assert animal.uncertainty[1:].max() < 0.5
    assert_close(animal.score[1:], torch.ones(2), atol=0.02, rtol=0)


def test_each_box_is_an_animal(labels, tmp_path):
    new = write_image(tmp_path / "two.png", {"left": (2, 2), "right": (13, 13)})
    boxes = [(0.0, 0.0, 24.0, 24.0), (40.0, 40.0, 64.0, 64.0)]
    (image,) = propagate(Colours(), labels, [new], KeypointSettings(margin=0), boxes={new: boxes})
    first, second = image.animals
    assert (first.state[0], first.state[1]) == (VISIBLE, HIDDEN)
    assert (second.state[0], second.state[1]) == (HIDDEN, VISIBLE)
    assert (second.xy[1] - torch.tensor(centre(13, 13))).abs().max() <= PATCH / 2


def test_a_keypoint_that_no_label_shows_stays_unknown(tmp_path):
    one = LabelSet(SKELETON, [labelled(tmp_path / "one.png", {"left": (2, 3)})])
    (image,) = propagate(Colours(), one, [write_image(tmp_path / "new.png", {"left": (8, 8), "tail": (1, 1)})])
    assert image.animals[0].state.tolist() == [VISIBLE, UNKNOWN, UNKNOWN]
    assert image.animals[0].xy[1:].isnan().all()
    assert Propagator.of(Colours(), one).calibration.held_out == 0
    assert Propagator.of(Colours(), one).calibration.threshold == Colours.threshold


def test_a_second_look_encodes_what_surrounds_the_points(labels, tmp_path):
    new = write_image(tmp_path / "new.png", {"left": (5, 5), "right": (8, 5), "tail": (6, 8)})
    encoder = Colours()
    propagator = Propagator.of(encoder, labels, KeypointSettings(second_look=True))
    before = encoder.encoded
    (animal,) = propagator.label(images.read(new))
    assert encoder.encoded == before + 2
    assert 0 < animal.box[2] - animal.box[0] < 64
    assert (animal.xy - torch.tensor([centre(5, 5), centre(8, 5), centre(6, 8)])).abs().max() <= 1.5 * PATCH


def test_labels_that_show_nothing_or_lie_outside_are_refused(tmp_path):
    write_image(tmp_path / "a.png", {})
    nothing = Animal(torch.full((3, 2), torch.nan), torch.tensor([HIDDEN, UNKNOWN, UNKNOWN]))
    with pytest.raises(InputError, match="no keypoint is labelled as visible"):
        Propagator.of(Colours(), LabelSet(SKELETON, [LabelledImage(tmp_path / "a.png", (nothing,))]))
    outside = Animal(torch.tensor([[70.0, 2.0]] * 3), torch.full((3,), VISIBLE))
    with pytest.raises(InputError, match=r"a.png: a keypoint is at \(70, 2\), outside the image of 64×64 pixels"):
        Propagator.of(Colours(), LabelSet(SKELETON, [LabelledImage(tmp_path / "a.png", (outside,))]))


def test_the_mirror_image_votes_with_left_and_right_exchanged(labels, tmp_path):
    both = KeypointSettings(mirror=True)
    new = write_image(tmp_path / "new.png", {"left": (2, 9), "right": (11, 9), "tail": (6, 1)})
    encoder = Colours()
    propagator = Propagator.of(encoder, labels, both)
    assert encoder.encoded == 2 * len(labels.images)
    target = references_of(labels)[0]
    mirrored = FeatureMap(target.features.values.flip(-1), target.features.size)
    panel = propagator.panel
    mean = panel._descriptors.mul(panel._visible[..., None]).sum(0)
    mean = torch.nn.functional.normalize(mean, dim=-1)
    votes = panel.vote(target.features, whole=target.whole, mirrored=mirrored)
    # Colours do not change in a mirror, so there the left's descriptor finds what is said to be right.
    expected = (score_maps(mean, target.features) + score_maps(mean[[1, 0, 2]], mirrored).flip(-1)) / 2
    assert_close(votes.score, expected.flatten(1).amax(1))
    (animal,) = propagator.label(images.read(new))
    assert (animal.xy[2] - torch.tensor(centre(6, 1))).abs().max() <= PATCH
    nameless = LabelSet(Skeleton(SKELETON.names, SKELETON.twin, None), labels.images)
    with pytest.raises(InputError, match="mirror needs keypoints with left and right in their names"):
        Propagator.of(Colours(), nameless, both)


# --- the parts --------------------------------------------------------------------------------------------------------


def references_of(labels, count=None):
    return list(Propagator.of(Colours(), labels).panel.references)[:count]


def test_the_mean_of_score_maps_is_the_score_map_of_the_mean(labels):
    references = references_of(labels)
    target = references[0].features
    generator = torch.Generator().manual_seed(0)
    descriptors = torch.nn.functional.normalize(torch.randn(5, 4, generator=generator), dim=-1)
    mean = descriptors.mean(0)
    direct = score_maps(descriptors, target).mean(0)
    assert_close(score_maps(mean[None] / mean.norm(), target)[0] * mean.norm(), direct)


def test_the_peak_is_the_share_of_a_softmax_around_it(labels):
    references = references_of(labels)
    panel = Panel(references, SKELETON, most=20)
    target = references[1]
    votes = panel.vote(target.features, whole=target.whole)
    mean = torch.nn.functional.normalize((panel._descriptors * panel._visible[..., None].float()).sum(0), dim=-1)
    maps = score_maps(mean, target.features).double()
    side = maps.shape[-1]
    for k, share in enumerate(votes.peak.tolist()):
        weight = torch.softmax(maps[k].flatten() / 0.05, 0).view(side, side)
        row, column = divmod(int(maps[k].argmax()), side)
        near = sum(
            float(weight[y, x])
            for y in range(side)
            for x in range(side)
            if (y - row) ** 2 + (x - column) ** 2 < (0.15 * side) ** 2
        )
        assert share == pytest.approx(near, abs=1e-4)


def test_only_the_most_alike_vote_unless_they_do_not_show_the_point(labels):
    references = references_of(labels)
    panel = Panel(references, SKELETON, most=1)
    whole = references[2].whole  # which does not show the tail
    weights = panel._weights(whole, None)
    assert weights[:, 0].tolist() == [0, 0, 1, 0]
    assert weights[:, 2].tolist() == [1, 1, 0, 1]
    assert panel._weights(whole, 2)[2].tolist() == [0, 0, 0]
    assert_close(mean_descriptor(references[2].features), whole)


def test_a_window_is_a_square_around_the_box_or_the_points_or_everything():
    assert square((10, 20, 30, 60), 0.25) == (-10, 10, 50, 70)
    xy = torch.tensor([[10.0, 20.0], [30.0, 60.0], [20.0, 30.0]])
    animal = Animal(xy, torch.tensor([VISIBLE, HIDDEN, VISIBLE]))
    assert window_of(animal, (99, 88), 0.25) == (-10, 10, 50, 70)
    assert window_of(Animal(xy[:2], torch.tensor([VISIBLE, VISIBLE])), (99, 88), 0.25) == (0, 0, 88, 99)
    assert window_of(Animal(xy, torch.tensor([0, 0, 2]), box=(0, 0, 10, 10)), (99, 88), 0.0) == (0, 0, 10, 10)


def test_the_threshold_is_the_best_of_all_thresholds():
    generator = torch.Generator().manual_seed(0)
    visible = torch.rand(40, generator=generator) * 0.6 + 0.4
    hidden = torch.rand(15, generator=generator) * 0.6
    found = best_threshold(visible, hidden)

    def balanced(threshold):
        return float((visible >= threshold).float().mean() + (hidden < threshold).float().mean())

    assert balanced(found) == pytest.approx(max(balanced(t) for t in torch.cat([visible, hidden])))
    assert best_threshold(visible, hidden[:0]) == pytest.approx(float(visible.quantile(0.1)))


def test_uncertainty_is_fitted_as_by_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=generator)
    wrong = (x[:, 0] - 0.5 * x[:, 2] + torch.randn(200, generator=generator)) > 0
    theirs = LogisticRegression(C=SPREAD**2, fit_intercept=False, tol=1e-12).fit(x.double().numpy(), wrong.numpy())
    assert fit_logistic(x, wrong, (0.0, 0.0, 0.0)) == pytest.approx(theirs.coef_[0], abs=1e-3)
    assert fit_logistic(x[:0], wrong[:0], (1.0, 2.0, 3.0)) == pytest.approx((1, 2, 3))
