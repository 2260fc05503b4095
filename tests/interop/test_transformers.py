"""transformers' keypoint matching: saved folders load by its Auto classes and its pipeline, and match as geco does."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_model import fresh
from transformers import AutoImageProcessor, AutoModelForKeypointMatching, pipeline

import geco
from geco.errors import InputError
from geco.interop import GecoConfig, GecoForKeypointMatching, GecoImageProcessor, register_with_transformers

SIZES = ((120, 90), (70, 110), (60, 60))  # (width, height)


@pytest.fixture(autouse=True, scope="module")
def _registered():
    register_with_transformers()
    register_with_transformers()  # does nothing more


@pytest.fixture(scope="module")
def model(tiny_folder):
    bare = geco.load(tiny_folder, device="cpu", size=56)
    return GecoForKeypointMatching.from_geco(bare, threshold=-1.0)


@pytest.fixture(scope="module")
def pictures():
    random = np.random.default_rng(0)
    noise = [Image.fromarray(random.integers(0, 255, (6, 8, 3), dtype=np.uint8)) for _ in SIZES]
    return [image.resize(size, Image.Resampling.BICUBIC) for image, size in zip(noise, SIZES, strict=True)]


def brute_force(model, source, target):
    """Mutual nearest patches by two loops over cosines: (x, y, x, y) in pixels, by similarity."""
    maps = [model.encoder.extract(image) for image in (source, target)]
    rows = [features.values.flatten(1).T.double().numpy() for features in maps]
    first, second = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in rows)
    cosines = first @ second.T
    matches = []
    for i, j in enumerate(cosines.argmax(1)):
        if cosines[:, j].argmax() == i:
            ends = []
            for index, features in ((i, maps[0]), (int(j), maps[1])):
                (rows_, columns), (height, width) = features.grid, features.size
                ends += [(index % columns + 0.5) * width / columns, (index // columns + 0.5) * height / rows_]
            matches.append((cosines[i, j], *ends))
    return np.array(sorted(matches, reverse=True))


def test_matches_are_the_mutual_patches(model, pictures):
    processor = GecoImageProcessor()
    outputs = model(**processor(pictures[:2]))
    (result,) = processor.post_process_keypoint_matching(outputs, threshold=-1)
    expected = brute_force(model, *pictures[:2])
    assert len(expected) > 3
    np.testing.assert_allclose(result["matching_scores"], expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(result["keypoints0"], expected[:, 1:3], atol=1e-3)
    np.testing.assert_allclose(result["keypoints1"], expected[:, 3:], atol=1e-3)
    forth, back = outputs.matches[0]
    paired = (forth >= 0).nonzero()[:, 0]
    assert torch.equal(back[forth[paired]], paired)
    assert (outputs.keypoints >= 0).all()
    assert (outputs.keypoints <= 1).all()


def test_a_batch_is_its_pairs_whatever_their_sizes(model, pictures):
    processor = GecoImageProcessor()
    first, second, third = pictures
    together = processor([[first, second], [third, first]])
    assert together["pixel_values"].shape == (2, 2, 3, 110, 120)
    assert together["pixel_values"].dtype == torch.uint8
    results = processor.post_process_keypoint_matching(model(**together), threshold=-1)
    for result, pair in zip(results, ([first, second], [third, first]), strict=True):
        (alone,) = processor.post_process_keypoint_matching(model(**processor(pair)), threshold=-1)
        for key, values in alone.items():
            torch.testing.assert_close(result[key], values)


def test_a_saved_folder_loads_by_the_auto_classes(model, pictures, tmp_path):
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "geco"
    loaded = AutoModelForKeypointMatching.from_pretrained(tmp_path)
    processor = AutoImageProcessor.from_pretrained(tmp_path)
    assert isinstance(loaded, GecoForKeypointMatching)
    assert isinstance(processor, GecoImageProcessor)
    assert loaded.encoder.fingerprint() == geco.load(tmp_path / "encoder").fingerprint()
    inputs = processor(pictures[:2])
    torch.testing.assert_close(loaded(**inputs).matching_scores, model(**inputs).matching_scores)
    half = AutoModelForKeypointMatching.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16


def test_of_an_adapter_only_the_adapter_is_saved(tiny_folder, pictures, tmp_path):
    adapted = fresh(tiny_folder, rank=2, alpha=2.0)
    torch.manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    model = GecoForKeypointMatching.from_geco(adapted)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "encoder" / "adapter_model.safetensors").exists()
    assert not (tmp_path / "encoder" / "model.safetensors").exists()
    loaded, inputs = AutoModelForKeypointMatching.from_pretrained(tmp_path), GecoImageProcessor()(pictures[:2])
    torch.testing.assert_close(loaded(**inputs).matching_scores, model(**inputs).matching_scores, atol=1e-4, rtol=1e-4)


def test_the_pipeline_is_right_for_images_that_are_not_square(model, pictures, tmp_path):
    """It passes (width, height) where every processor documents (height, width)."""
    model.save_pretrained(tmp_path)
    matches = pipeline("keypoint-matching", model=str(tmp_path))(pictures[:2], threshold=-1.0)
    expected = brute_force(model, *pictures[:2])
    points = [[*match["keypoint_image_0"].values(), *match["keypoint_image_1"].values()] for match in matches]
    np.testing.assert_allclose(points, expected[:, 1:], atol=1e-3)


def test_target_sizes_scale_the_points_and_the_threshold_leaves_the_best(model, pictures):
    processor = GecoImageProcessor()
    inputs = processor(pictures[:2])
    outputs = model(**inputs)
    (own,) = processor.post_process_keypoint_matching(outputs, inputs["sizes"], threshold=-1)
    (twice,) = processor.post_process_keypoint_matching(outputs, 2 * inputs["sizes"], threshold=-1)
    torch.testing.assert_close(twice["keypoints1"], 2 * own["keypoints1"])
    middle = own["matching_scores"].median().item()
    (best,) = processor.post_process_keypoint_matching(outputs, threshold=middle)
    assert torch.equal(best["matching_scores"], own["matching_scores"][own["matching_scores"] > middle])
    strict = GecoForKeypointMatching(GecoConfig(threshold=1.0), model.encoder)
    assert (strict(**inputs).matches == -1).all()


def test_mistakes_are_explained(model, pictures, tmp_path):
    processor = GecoImageProcessor()
    for wrong in (pictures[0], [pictures[0]], [], "photo.jpg"):
        with pytest.raises(InputError, match="expected two images, or a list of pairs of images"):
            processor(wrong)
    with pytest.raises(InputError, match="pixel_values must be pairs of images"):
        model(torch.zeros(2, 3, 56, 56))
    with pytest.raises(InputError, match="target_sizes must be"):
        processor.post_process_keypoint_matching(model(**processor(pictures[:2])), [(90, 120)])
    with pytest.raises(InputError, match="geco uploads nothing by itself"):
        model.save_pretrained(tmp_path, push_to_hub=True)
    with pytest.raises(OSError, match="is no folder, and cannot be had from the hub"):
        GecoForKeypointMatching.from_pretrained(str(tmp_path / "none"))
