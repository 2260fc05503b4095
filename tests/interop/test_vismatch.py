"""The matcher of vismatch: with the real package where it is installed, which needs an environment of its own."""

import importlib.util

import numpy as np
import pytest
import torch
from PIL import Image

import geco
from geco.errors import MissingPackageError
from geco.interop import GecoMatcher
from geco.interop import vismatch as ours

installed = pytest.mark.skipif(
    importlib.util.find_spec("vismatch") is None,
    reason="vismatch is not installed: it wants kornia below 0.8.3, so it needs an environment of its own",
)
SIZES = ((120, 90), (70, 110))  # (width, height)


@pytest.fixture
def image_files(tmp_path):
    random = np.random.default_rng(0)
    paths = []
    for number, size in enumerate(SIZES):
        noise = Image.fromarray(random.integers(0, 255, (6, 8, 3), dtype=np.uint8))
        paths.append(tmp_path / f"{number}.png")
        noise.resize(size, Image.Resampling.BICUBIC).save(paths[-1])
    return paths


def test_without_vismatch_one_line_says_what_to_install(monkeypatch, tiny_folder):
    monkeypatch.setattr(ours, "BaseMatcher", object)
    monkeypatch.setattr(ours, "REASON", "No module named 'vismatch'")
    with pytest.raises(MissingPackageError, match=r"GecoMatcher needs vismatch .*; pip install vismatch"):
        GecoMatcher(model=tiny_folder)


@installed
def test_it_is_a_matcher_of_vismatch_that_matches_as_geco_does(tiny_folder, image_files):
    from vismatch import BaseMatcher

    matcher = GecoMatcher("cpu", model=tiny_folder, size=56, threshold=-1.0)
    assert isinstance(matcher, BaseMatcher)
    result = matcher(*image_files)
    matches = geco.match(*image_files, model=matcher.encoder, settings=matcher.settings)
    assert len(matches.source) > 3
    # OpenCV counts from the centre of the first pixel, geco from its corner.
    np.testing.assert_allclose(result["matched_kpts0"], matches.source - 0.5, atol=1e-4)
    np.testing.assert_allclose(result["matched_kpts1"], matches.target - 0.5, atol=1e-4)
    np.testing.assert_allclose(result["matched_confidences"], matches.score, atol=1e-5)
    assert (result["H"], result["num_inliers"]) == (None, 0), "a homography between two animals means nothing"


@installed
def test_every_patch_has_a_point_and_a_unit_descriptor(tiny_folder, image_files):
    matcher = GecoMatcher("cpu", model=tiny_folder, size=56)
    extracted = matcher.extract(image_files[0])
    features = matcher.encoder.extract(image_files[0])
    assert extracted["all_desc0"].shape == (16, features.values.shape[0])
    np.testing.assert_allclose(np.linalg.norm(extracted["all_desc0"], axis=1), 1, atol=1e-5)
    row = 1 * 4 + 2  # second row, third column of 4 × 4 patches of 30 × 22.5 pixels
    np.testing.assert_allclose(extracted["all_kpts0"][row], (2.5 * 30 - 0.5, 1.5 * 22.5 - 0.5))
    expected = features.values[:, 1, 2] / features.values[:, 1, 2].norm()
    np.testing.assert_allclose(extracted["all_desc0"][row], expected, atol=1e-5)


@installed
def test_images_of_all_kinds_and_a_limit_of_matches(tiny_folder, image_files):
    matcher = GecoMatcher("cpu", model=geco.load(tiny_folder, size=56), max_num_keypoints=3, threshold=-1.0)
    opened = [Image.open(path) for path in image_files]
    tensors = [torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255 for image in opened]
    by_path, by_image, by_tensor = (matcher(*pair) for pair in (image_files, opened, tensors))
    assert len(by_path["matched_kpts0"]) == 3
    for result in (by_image, by_tensor):
        np.testing.assert_allclose(result["matched_kpts1"], by_path["matched_kpts1"])
    none = GecoMatcher("cpu", model=tiny_folder, size=56, threshold=1.0)(*image_files)
    assert none["matched_kpts0"].shape == (0, 2)
    for image in opened:
        image.close()
