"""Runs: two in one folder, killed, resumed from a file that is not theirs, on data that teaches nothing."""

import contextlib
import copy
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import painted
import pytest
import torch
from hostile.holding import HOLD, another_process
from hostile.valid import as_users_have_it  # noqa: F401 (a fixture)
from hostile.verdicts import check, refused
from training_data import pairs, plain_config, tiny_vit, view

from geco.errors import InputError, MissingFileError
from geco.evaluation import Report, keypoints, runtime
from geco.evaluation.settings import PROTOCOLS, KeypointSettings, RuntimeProtocol
from geco.system import locks, plugins, processes
from geco.training import batches, checkpoint, fit, plan
from geco.training.build import build, trainable
from geco.training.folder import RunFolder
from geco.training.sampling import Joint
from geco.types import MaskFile

QUICK = KeypointSettings(resamples=5, radii=(0.1,))


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


# --- one run at a time ------------------------------------------------------------------------------------------------


def test_a_second_run_is_refused_until_the_first_is_gone_however_it_ends(vit, tmp_path):
    folder = tmp_path / "run"
    data = {"squares": pairs(2)}
    with another_process(folder) as held:
        words = ("is in use by process", str(held.pid), "training")
        refused(lambda: fit(plain_config(vit, epochs=1), data, {}, folder), *words)
        match = [PROTOCOLS["geco"].match]
        refused(lambda: keypoints.predict(painted.Painter(), painted.pairs(3), match, folder=folder), *words)
        assert [path.name for path in folder.iterdir()] == [".lock"], "nothing was written"
        held.send_signal(signal.SIGKILL)
        held.wait()
    assert fit(plain_config(vit, epochs=1), data, {}, folder).finished
    assert not (folder / ".lock").exists()


def test_a_folder_is_locked_within_one_process_too(tmp_path):
    with locks.hold(tmp_path / "run", what="training"):
        refused(lambda: enter(tmp_path / "run"), "in use by this process")
        refused(lambda: enter(tmp_path / "." / "run"), "in use by this process")
        with locks.hold(tmp_path / "other", what="training"):
            pass
    enter(tmp_path / "run")


def enter(folder):
    with locks.hold(folder, what="training"):
        pass


def test_a_lock_leaves_nothing_behind(tmp_path):
    enter(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "c").mkdir()
    enter(tmp_path / "c")
    assert (tmp_path / "c").is_dir()
    with contextlib.suppress(ZeroDivisionError), locks.hold(tmp_path / "d", what="training"):
        (tmp_path / "d" / "file").write_text(str(1 / 0))
    assert not (tmp_path / "d" / ".lock").exists()


def test_the_lock_of_a_killed_process_is_free_though_its_children_live(tmp_path):
    script = HOLD.replace("    time.sleep(60)", "    import os\n    os.fork()\n    time.sleep(5)")
    held = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert held.stdout.readline() == "held\n"
    time.sleep(0.2)
    held.kill()
    held.wait()
    held.stdout.close()
    enter(tmp_path / "run")


@pytest.mark.parametrize("place", ["/proc/run", "/dev/null/run", "/dev/null", "a\0b", "x" * 300])
def test_a_folder_that_cannot_be_written(vit, place):
    refused(lambda: fit(plain_config(vit, epochs=1), {"squares": pairs(2)}, {}, place))
    match = [PROTOCOLS["geco"].match]
    refused(lambda: keypoints.predict(painted.Painter(), painted.pairs(3), match, folder=Path(place)))


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(vit, tmp_path_factory):
    """The settings of a run of two steps, its model, and what its checkpoint holds."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    settings = plain_config(vit, epochs=2)
    fit(settings, {"squares": pairs(2)}, {}, folder)
    return settings, build(settings), RunFolder(folder).read_checkpoint(), folder


def places(value, path=()):
    """Every place in a checkpoint, but only the first of a list and the first and last weight."""
    yield path
    if isinstance(value, dict):
        keys = list(value) if len(value) < 8 else [next(iter(value)), list(value)[-1]]
        for key in keys:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list | tuple) and value:
        yield from places(value[0], (*path, 0))


def put(value, path, new):
    """A copy with another value at a place; DROP removes it."""
    if not path:
        return new
    if isinstance(value, tuple):
        return (put(value[0], path[1:], new), *value[1:])
    result = copy.copy(value)
    if new is DROP and len(path) == 1:
        del result[path[0]]
    else:
        result[path[0]] = put(value[path[0]], path[1:], new)
    return result


DROP = object()
NAN = float("nan")
OTHERS = {
    "dropped": DROP,
    "none": None,
    "text": "x",
    "minus one": -1,
    "huge": 10**30,
    "nan": NAN,
    "list": [],
    "object": {},
    "tensor": torch.full((2, 2), NAN),
    "bytes": torch.zeros(3, dtype=torch.uint8),
}


@pytest.mark.parametrize("label", OTHERS)
def test_a_checkpoint_with_something_else_at_any_place(stopped, label):
    """Refused by name, or of no consequence: afterwards a step can be taken and every number is finite."""
    settings, model, saved, _ = stopped
    before = {name: value.detach().clone() for name, value in trainable(model).items()}
    for path in places(saved):
        new = OTHERS[label]
        if new is DROP and (not path or (isinstance(path[-1], int) and path[0] == "random")):
            continue
        mutant = put(saved, path, new)
        optimizer = torch.optim.Adam(trainable(model).values(), lr=settings.learning_rate)

        def call(mutant=mutant, optimizer=optimizer):
            state = checkpoint.restore(mutant, model, optimizer, name="checkpoint.pt")
            for value in trainable(model).values():
                value.grad = torch.ones_like(value)
            optimizer.step()
            return state

        def right(state):
            finite = all(bool(torch.isfinite(value).all()) for value in trainable(model).values())
            return finite and isinstance(state.step, int) and 0 <= state.step < 2**63

        check(call, right=right, names=("checkpoint.pt",))
    with torch.no_grad():
        for name, value in trainable(model).items():
            value.copy_(before[name])


def test_a_checkpoint_of_another_run(stopped):
    settings, model, saved, folder = stopped
    sgd = torch.optim.SGD(trainable(model).values(), lr=0.1, momentum=0.9)
    for value in trainable(model).values():
        value.grad = torch.ones_like(value)
    sgd.step()
    adam = torch.optim.Adam(trainable(model).values(), lr=0.1)
    refused(lambda: checkpoint.restore({**saved, "optimizer": sgd.state_dict()}, model, adam), "optimiser")
    wider = build(replace(settings, encoder=replace(settings.encoder, lora=replace(settings.encoder.lora, rank=2))))
    refused(lambda: checkpoint.restore(saved, wider, adam), "does not fit this run")
    for content in (b"", b"\0" * 100, b"text", b"<html>"):
        (folder / "checkpoint.pt").write_bytes(content)
        refused(lambda: fit(settings, {"squares": pairs(2)}, {}, folder), "checkpoint.pt", "is damaged", seconds=60)


# --- data that teaches nothing, and errors of loading processes -------------------------------------------------------


def with_masks(some, mask):
    return [
        replace(pair, source=replace(pair.source, mask=mask), target=replace(pair.target, mask=mask)) for pair in some
    ]


def test_masks_that_are_all_empty_are_found_before_the_first_step(vit, tmp_path):
    empty = with_masks(pairs(3), torch.zeros(98, 98, dtype=torch.bool))
    settings = plain_config(vit, epochs=2)
    for call in (
        lambda: fit(settings, {"squares": empty}, {}, tmp_path / "run"),
        lambda: plan(settings, {"squares": empty}, {}),
        lambda: fit(settings, {"good": pairs(2), "squares": empty}, {}, tmp_path / "run"),
    ):
        refused(call, "squares", "masks are empty")
    assert not (tmp_path / "run").exists()
    some = [*empty, *pairs(1)]
    assert fit(settings, {"squares": some}, {}, tmp_path / "some").finished


def test_masks_too_small_for_a_patch_end_the_run_after_a_few_steps(vit, tmp_path):
    dot = torch.zeros(98, 98, dtype=torch.bool)
    dot[0, 0] = True  # no patch's centre
    settings = plain_config(vit, epochs=50, batch_size=1)
    refused(
        lambda: fit(settings, {"squares": with_masks(pairs(3), dot)}, {}, tmp_path / "run"),
        "no pair of the first 3 steps could be compared",
        seconds=60,
    )


class Loading:
    """Pairs of which one cannot be had."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 4

    def __getitem__(self, key):
        raise self.error


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_loading_process_arrives_as_it_was(workers):
    from torch.utils.data import DataLoader

    error = MissingFileError("cat.jpg: no such file; expected an image")
    loader = DataLoader(
        batches._Reporting(Loading(error)),
        batch_size=2,
        collate_fn=lambda group: batches._in_parts(group, size=2),
        num_workers=workers,
    )
    message = refused(lambda: list(batches.parts_of(loader)), "cat.jpg", seconds=60)
    assert message == str(error)


def test_a_loading_process_that_is_killed_is_said():
    from torch.utils.data import DataLoader

    class Dying(Loading):
        def __getitem__(self, key):
            os.kill(os.getpid(), signal.SIGKILL)

    loader = DataLoader(Dying(None), batch_size=2, num_workers=1)
    refused(lambda: list(batches.parts_of(loader)), "was killed", "workers", seconds=60)
    with pytest.raises(RuntimeError, match="our own bug"):
        list(batches.parts_of(raising(RuntimeError("our own bug"))))


def raising(error):
    yield []
    raise error


def test_a_missing_image_is_one_line_in_training(vit, tmp_path):
    some = pairs(2)
    gone = replace(some[0].source, image=tmp_path / "gone.jpg")
    data = {"squares": [replace(some[0], source=gone), some[1]]}
    refused(lambda: fit(plain_config(vit, epochs=1, workers=1), data, {}, tmp_path / "run"), "gone.jpg", seconds=60)


def test_a_missing_mask_is_one_line_in_training(vit, tmp_path):
    some = with_masks(pairs(2), MaskFile(tmp_path / "gone.png"))
    refused(lambda: fit(plain_config(vit, epochs=1), {"squares": some}, {}, tmp_path / "run"), "gone.png", seconds=60)


def test_sizes_that_are_too_large_to_train_are_refused(vit):
    huge = plain_config(vit).at_size(14 * 400)
    refused(lambda: build(huge), "160,000 tokens")


# --- the rest of the doors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5", "９", "9" * 400, "0x1", "1;rm"])
def test_numbers_of_a_launcher(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    call = processes.launched_count if name == "WORLD_SIZE" else processes.is_first
    check(call, right=lambda _: value == "9" * 400, names=(name,))


@pytest.mark.parametrize("name", ["", "x", "../os", "os", "__init__", "_vit", None, 7, ["dino"], "di\0no", "x" * 5000])
def test_plugins_that_do_not_exist(name):
    refused(lambda: plugins.find("backbones", name))


def test_a_plugin_of_another_package_that_is_broken_is_named(monkeypatch):
    class Point:
        name = "broken"

        def load(self):
            raise SyntaxError("invalid syntax\non two lines")

    monkeypatch.setattr(plugins, "entry_points", lambda group: [Point()])
    refused(lambda: plugins.find("backbones", "broken"), "broken", "SyntaxError", "cannot be imported")


class Timed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def prepare(self, pixels, size):
        return {"pixels": pixels}

    def forward(self, pixels):
        return pixels * self.weight


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sizes": (140_000,)}, "tokens"),
        ({"sizes": (15,)}, "multiples of 14"),
        ({"dtypes": ("int8",)}, "dtype"),
        ({"devices": ("gpu",)}, "device"),
    ],
)
def test_what_cannot_be_timed(values, words):
    refused(lambda: runtime.run({"m": Timed()}, RuntimeProtocol(**{"sizes": (14,), **values}), multiple=14), words)


@pytest.mark.parametrize("settings", [{"protocol": 7}, {"protocol": {"batches": [0]}}, {"protocol": {"colour": 1}}])
def test_a_timing_of_another_layout(settings):
    report = Report("runtime", "stub", "images", settings=settings)
    refused(lambda: runtime.speed_points([report]), "the report of stub")


def test_an_error_of_a_view_is_ours():
    with pytest.raises(InputError):
        Joint({})
    assert view(0).mask.any()
