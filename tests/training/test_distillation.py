"""Distillation through the whole loop: the student of a tiny teacher learns, resumes, and is saved whole."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from training_data import SIDE, batch, config, logged, pairs, without_masks

import geco
from geco import losses, models
from geco.losses.settings import DistillSettings, LossSettings
from geco.models import Geco, first_blocks
from geco.models.settings import EncoderConfig
from geco.training import distilling, encode, fit, plan, preset, starting_from
from geco.training.build import build, trainable, transformer_blocks
from geco.training.job import Job
from geco.training.settings import AugmentSettings
from geco.training.teacher import load_teacher
from geco.types import Keypoints, Pair, Skeleton

STUDENT_SIDE = 70


@pytest.fixture(scope="module")
def teacher(vit, tmp_path_factory):
    """An adapter on the tiny encoder of two blocks that is not the identity."""
    model = build(config(vit))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.copy_(0.02 * torch.randn(value.shape, generator=random))
    return str(model.save_pretrained(tmp_path_factory.mktemp("teacher") / "adapter"))


def student(teacher, *, layer=1, side=STUDENT_SIDE, distill=None, **changes):
    """A recipe that takes seconds, in which the first block of the teacher learns from it."""
    values = {
        "encoder": EncoderConfig(teacher, options={"layer": layer}, size=side, lora=None),
        "loss": LossSettings(
            name="distill", reduction="conditional", distill=distill or DistillSettings(teacher, weight_labels=0.1)
        ),
        "augment": AugmentSettings(size=SIDE, plain=("squares",)),
        "unfreeze": layer,
        "unfreeze_norm": True,
        "epochs": 3,
        **changes,
    }
    return config(teacher, **values)


def unlabelled(count):
    """Pairs of images of which nothing is known."""
    bare = Keypoints(torch.zeros(0, 2), torch.zeros(0, dtype=torch.bool))
    return [
        Pair(
            replace(pair.source, keypoints=bare, mask=None),
            replace(pair.target, keypoints=bare, mask=None),
            Skeleton((), (), None),
            "image",
        )
        for pair in pairs(count, first=20)
    ]


def test_the_student_begins_as_the_first_blocks_of_its_merged_teacher(teacher):
    model, whole = build(student(teacher)), Geco.from_pretrained(teacher, device="cpu").merge()
    (block,) = transformer_blocks(model)
    for name, value in transformer_blocks(whole)[0].state_dict().items():
        assert torch.equal(block.state_dict()[name], value), name
    assert model.config.options == {"layer": 1, "norm": True}
    assert set(trainable(model)) >= {"backbone.encoder.layernorm.weight", "backbone.encoder.layernorm.bias"}
    assert model.trainable() == sum(value.numel() for value in block.parameters()) + 2 * model.dim
    everything = build(student(teacher, layer=2))
    light = first_blocks(Geco.for_inference(teacher, device="cpu"), 2)
    image = pairs(1)[0].source.image
    everything.config = replace(everything.config, size=light.config.size)
    assert_close(everything.extract(image).values, light.extract(image).values, atol=1e-5, rtol=1e-4)


def test_a_student_that_is_its_teacher_at_its_size_has_no_loss(teacher):
    settings = student(teacher, layer=2, side=SIDE, distill=DistillSettings(teacher))
    model = build(settings)
    loss = losses.choose(settings.loss, load_teacher(settings, model))
    squares = batch(pairs(3))
    value = loss(*encode(model, squares, size=(SIDE, SIDE)), squares)
    assert_close(value.total, torch.zeros_like(value.total), atol=1e-5, rtol=0)
    assert value.total.requires_grad


def test_the_loss_falls_and_the_student_comes_nearer_to_its_teacher(teacher, tmp_path):
    data = {"squares": pairs(4)}
    settings = student(teacher, epochs=20, learning_rate=5e-3, calibrate=True, validate_every=20)
    outcome = fit(settings, data, data, tmp_path / "run")
    for name in ("loss", "loss features", "loss scores"):
        values = logged(outcome.folder, name)
        assert sum(values[-5:]) < 0.7 * sum(values[:5]), name
    assert logged(outcome.folder, "step", "validation") == [0, 20]
    saved = geco.load(outcome.folder / "last", device="cpu")
    assert (saved.input_size, saved.config.options["layer"], saved.config.lora) == (STUDENT_SIDE, 1, None)
    assert saved.config.untrained == Geco.from_pretrained(teacher, device="cpu").config.backbone
    card = (outcome.folder / "last" / "README.md").read_text()
    assert f"distill loss from {teacher} at {SIDE} px" in card


def test_images_without_annotation_teach_too(teacher, tmp_path):
    data = {"squares": [without_masks(pair) for pair in pairs(2)], "images": unlabelled(2)}
    settings = student(teacher, epochs=15, learning_rate=3e-3, distill=DistillSettings(teacher))
    fit(settings, data, {}, tmp_path / "run")
    values = logged(tmp_path / "run")
    assert values[-1] < 0.8 * values[0]
    with pytest.raises(ValueError, match="squares: 4 objects have no foreground mask"):
        fit(student(teacher), data, {}, tmp_path / "labels")


def test_a_stopped_distillation_resumes_with_the_same_numbers(teacher, tmp_path):
    data = {"squares": pairs(6)}
    settings = student(teacher, epochs=3, schedule="cosine", average=0.6, save_every=1, augment=AugmentSettings(SIDE))
    whole = fit(settings, data, data, tmp_path / "whole")
    stopped = Job(settings, data, data, tmp_path / "parts")
    stopped.validate()
    for parts, _ in zip(stopped.batches(), range(2), strict=False):
        stopped.log(stopped.take(parts), seconds=1.0, waited=0.0)
    stopped.save()
    again = fit(settings, data, data, tmp_path / "parts")
    assert logged(again.folder) == logged(whole.folder)
    resumed, uninterrupted = (geco.load(folder / "last", device="cpu") for folder in (again.folder, whole.folder))
    assert resumed.fingerprint() == uninterrupted.fingerprint()
    with pytest.raises(ValueError, match=r"another configuration \(loss differ\)"):
        fit(
            replace(settings, loss=replace(settings.loss, distill=replace(settings.loss.distill, temperature=0.1))),
            data,
            data,
            whole.folder,
        )


def test_every_image_is_seen_once_by_student_and_teacher_each_at_its_size(teacher, tmp_path, monkeypatch):
    seen = []
    forward = Geco.forward

    def counting(self, **inputs):
        seen.extend((torch.is_inference_mode_enabled(), *x.shape[::3]) for x in inputs.values())
        return forward(self, **inputs)

    monkeypatch.setattr(Geco, "forward", counting)
    fit(student(teacher, epochs=1), {"squares": pairs(4)}, {}, tmp_path / "run")
    assert seen == [(False, 8, STUDENT_SIDE), (True, 8, SIDE)]


def test_parts_of_a_step_have_global_sizes(teacher, tmp_path):
    """Annotated sets and features are means over the whole batch; score maps are between images of one part."""
    data = {"squares": pairs(4)}
    for parts in (1, 2):
        fit(student(teacher, epochs=1, accumulate=parts), data, {}, tmp_path / str(parts))
    for name in ("loss features", "loss positive", "loss background"):
        assert_close(logged(tmp_path / "2", name), logged(tmp_path / "1", name), rtol=1e-4, atol=1e-5)
    assert logged(tmp_path / "1", "entries scores") == [8 * 7]
    assert logged(tmp_path / "2", "entries scores") == [2 * 4 * 3]


def test_the_plan_of_a_distillation_counts_its_teacher(teacher):
    data = {"squares": pairs(4)}
    taught = plan(student(teacher), data, {})
    whole = Geco.for_inference(teacher, device="cpu")
    assert taught.memory > sum(value.nbytes for value in whole.parameters())
    assert taught.parameters < sum(value.numel() for value in whole.parameters())


# --- what the options say -------------------------------------------------------------------------------------------


def test_another_teacher_brings_its_size_and_its_first_blocks(teacher):
    settings = distilling(preset("xs-cpu"), teacher)
    assert settings.loss.distill.teacher == settings.encoder.backbone == teacher
    assert settings.augment.size == SIDE
    assert settings.encoder.size == preset("xs-cpu").encoder.size
    assert settings.encoder.options == preset("xs-cpu").encoder.options
    assert settings.at_size(168).augment.size == SIDE
    other = starting_from(settings, "geco-s")
    assert (other.start, other.loss.distill.teacher) == (None, teacher)
    assert other.encoder.backbone == models.release_name("geco-s")
    assert other.encoder.options == settings.encoder.options
    adapter = distilling(preset("paper"), teacher)
    assert (adapter.pairing, adapter.loss.name) == ("given", "distill")


def test_the_recipe_trains_an_adapter_of_a_whole_teacher_and_every_block_of_one_that_is_an_adapter(teacher):
    recipe = preset("xs-cpu")
    whole, adapter = distilling(recipe, "geco-s"), distilling(recipe, teacher)
    assert (whole.encoder.lora, whole.unfreeze, whole.unfreeze_norm) == (recipe.encoder.lora, 0, False)
    assert recipe.encoder.lora is not None
    assert (adapter.encoder.lora, adapter.unfreeze, adapter.unfreeze_norm) == (None, 11, True)


def test_the_recipe_begins_as_its_teacher_and_fits_in_a_small_file():
    model = build(distilling(preset("xs-cpu"), "geco-s"))
    taught = geco.load("geco-s", size=168, device="cpu")
    pixels = torch.rand(1, 3, 168, 168, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = (encoder(**encoder.prepare(pixels, (168, 168))) for encoder in (model, taught))
    assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert 2 * model.trainable() < 6_000_000  # bytes, in 16 bits


@pytest.fixture(scope="module")
def wider(tmp_path_factory):
    from transformers import Dinov2Config, Dinov2Model

    folder = tmp_path_factory.mktemp("wider")
    shape = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "image_size": 64, "patch_size": 16}
    Dinov2Model(Dinov2Config(**shape)).save_pretrained(folder)
    return str(folder)


def test_teachers_that_do_not_fit_are_refused_in_one_line(teacher, wider, vit):
    def refused(settings):
        with pytest.raises(ValueError, match=r".") as caught:
            load_teacher(settings, build(settings))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) <= 300
        return str(caught.value)

    taught_by = [student(teacher, distill=DistillSettings(name)) for name in (wider, "geco-zz", "")]
    assert "takes image sides that are multiples of 16, got augment.size 98" in refused(
        replace(taught_by[0], augment=AugmentSettings(size=SIDE), encoder=EncoderConfig(wider, size=64, lora=None))
    )
    assert "the same number of channels, got 24 and 12 of" in refused(taught_by[0])
    assert "no model, file or folder 'geco-zz'" in refused(taught_by[1])
    assert "distillation needs a teacher" in refused(taught_by[2])
    assert "set pairing=given" in refused(student(teacher, pairing="all"))
    assert "layer must be between 1 and 2" in refused(student(teacher, layer=3))
    before = replace(student(teacher).encoder, options={"layer": 1, "norm": False})
    assert "is read as it was trained" in refused(student(teacher, encoder=before))
