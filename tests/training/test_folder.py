"""Run folders: whole at any moment, and refused before the first step if they cannot be written."""

import resource
import signal
import sys
import types

import pytest
import torch
from training_data import config

import geco
from geco.models import weights
from geco.models.geco import Geco
from geco.training.folder import RunFolder
from geco.training.settings import TrainConfig
from geco.viz import charts


@pytest.fixture
def run(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.prepare(TrainConfig(), {"squares/cat": 3}, room=1000)
    return made


def step(number, **values):
    return {"kind": "step", "step": number, "loss": 1.0 / number, **values}


def test_a_folder_that_cannot_be_made_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"file/run cannot take the run, which needs 5 MB: Not a directory; give another"):
        RunFolder(tmp_path / "file" / "run").prepare(TrainConfig(), {}, room=5_000_000)


def test_a_full_disk_is_found_before_the_first_step(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, limits[1]))
    try:
        with pytest.raises(OSError, match="cannot take the run, which needs 3 MB: File too large"):
            RunFolder(tmp_path / "run").prepare(TrainConfig(), {}, room=3_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list((tmp_path / "run").iterdir()) == []  # the attempt is cleared away


def test_what_a_kill_left_behind_is_cleared_away(run):
    (run.path / ".last-abc.draft").mkdir()
    (run.path / ".last-abc.draft" / "geco.json").write_text("{}")
    (run.path / ".checkpoint.pt.draft").write_bytes(b"half")
    (run.path / "validation" / "spair").mkdir(parents=True)
    run.prepare(TrainConfig(), {"squares/cat": 3}, room=1000)
    assert sorted(path.name for path in run.path.iterdir()) == [
        "config.json",
        "data.json",
        "environment.json",
    ]


def test_a_log_line_cut_short_is_left_out_and_later_ones_are_forgotten(run):
    for number in (1, 2, 3):
        run.log(step(number))
    with (run.path / "log.jsonl").open("a") as log:
        log.write('{"kind": "step", "st')
    assert [record["step"] for record in run.records()] == [1, 2, 3]
    run.rewind(2)
    run.log(step(3, again=True))
    assert [record["step"] for record in run.records()] == [1, 2, 3]
    assert run.records()[-1]["again"]


def test_a_checkpoint_is_the_old_one_until_it_is_the_new_one(run, monkeypatch):
    run.save_checkpoint({"state": {"step": 1}})

    def dies(values, path):
        path.write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        run.save_checkpoint({"state": {"step": 2}})
    assert run.read_checkpoint() == {"state": {"step": 1}}


def test_a_damaged_checkpoint_is_named(run):
    run.checkpoint_file.write_bytes(b"nothing torch knows")
    with pytest.raises(ValueError, match=r"checkpoint.pt is damaged: .*; delete it to start anew"):
        run.read_checkpoint()


def test_a_checkpoint_runs_no_code(run):
    class Evil:
        def __reduce__(self):
            return (print, ("gotcha",))

    torch.save({"state": Evil()}, run.checkpoint_file)
    with pytest.raises(ValueError, match=r"checkpoint.pt is damaged"):
        run.read_checkpoint()


def test_a_run_is_loaded_as_its_best_else_its_last_model(run, tiny_folder):
    encoder = config(tiny_folder).encoder
    model = Geco.from_pretrained(str(tiny_folder))
    last = Geco(model.backbone, encoder)
    assert weights.find_adapter(str(run.path)) is None
    run.save_model("last", last, "# last")
    assert weights.find_adapter(str(run.path)) == run.path / "last"
    assert (run.path / "last" / "README.md").read_text() == "# last"
    with torch.no_grad():
        next(value for name, value in last.named_parameters() if "lora_B" in name).fill_(0.5)
    run.save_model("best", last, "# best")
    assert weights.find_adapter(str(run.path)) == run.path / "best"
    assert geco.load(run.path, device="cpu").name == "run"
    assert not list(run.path.glob(".*"))  # no drafts
    run.save_model("best", last, "# better")
    assert (run.path / "best" / "README.md").read_text() == "# better"


def test_other_processes_write_nothing(tmp_path):
    silent = RunFolder(tmp_path / "run", writes=False)
    silent.prepare(TrainConfig(), {}, room=1000)
    silent.log(step(1))
    silent.rewind(0)
    silent.save_checkpoint({})
    silent.save_model("best", None, "")
    silent.draw_curves()
    silent.save_picture("a", charts.loss_curves([]))
    assert not (tmp_path / "run").exists()


def test_curves_show_the_loss_its_terms_and_the_validation():
    records = [step(1, **{"loss positive": 2.0}), step(2, **{"loss positive": 1.0})]
    records.append({"kind": "validation", "step": 2, "PCK": 40.0, "PCK cub": 40.0})
    left, right = charts.loss_curves(records).axes
    assert [line.get_label() for line in left.lines] == ["loss", "loss positive"]
    assert left.lines[1].get_ydata().tolist() == [2.0, 1.0]
    assert [line.get_label() for line in right.lines] == ["PCK", "PCK cub"]


def test_tensorboard_gets_every_number(tmp_path, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            written.append(folder)

        def add_scalar(self, name, value, step):
            written.append((name, value, step))

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    run = RunFolder(tmp_path, tensorboard=True)
    run.log({"kind": "step", "step": 3, "loss": 0.5})
    assert written == [str(tmp_path / "tensorboard"), ("step/loss", 0.5, 3)]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match="needs: pip install tensorboard; or leave it off"):
        RunFolder(tmp_path, tensorboard=True)
