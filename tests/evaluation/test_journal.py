"""Runs that are killed, resumed and shared between processes; a folder belongs to one of them."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import painted
import pytest

from geco.evaluation import keypoints
from geco.evaluation.settings import PROTOCOLS, KeypointSettings

QUICK = KeypointSettings(resamples=50, batch_size=3, radii=(0.05, 0.1))

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import painted
from geco.evaluation import keypoints
from geco.evaluation.settings import KeypointSettings
from geco.system import Processes
from pathlib import Path

folder, die_after, shared = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "shared"
(folder / "images").mkdir(parents=True, exist_ok=True)
processes = Processes.launched()
assert processes.count == (2 if shared else 1)
model = painted.Painter(blind=True, log=folder / f"log-{{processes.index}}", die_after=die_after or None)
pairs = painted.pairs(60, images=12, folder=None if shared else folder / "images")
settings = KeypointSettings(resamples=20, batch_size=2)
report = keypoints.run(model, pairs, settings=settings, folder=folder / "run", processes=processes)
if processes.index == 0:
    (folder / "counts.json").write_text(__import__("json").dumps(report.counts))
"""


def start(tmp_path, *words, **environment):
    script = tmp_path / "evaluate.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[1])))
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def reference_counts():
    report = keypoints.run(
        painted.Painter(blind=True), painted.pairs(60, images=12), settings=KeypointSettings(resamples=20)
    )
    return json.loads(json.dumps(report.counts))


def test_a_killed_run_resumes_where_it_was(tmp_path):
    folder = tmp_path / "a"
    killed = start(tmp_path, folder, 9, "alone")
    _, errors = killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL, errors
    finished = len((folder / "run" / "predictions-0.jsonl").read_text().splitlines())
    assert 0 < finished < 60
    with (folder / "run" / "predictions-0.jsonl").open("a") as journal:
        journal.write('{"pair": 59, "xy": [[[1.')  # as if it had died in the middle of a line
    resumed = start(tmp_path, folder, 0, "alone")
    _, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert json.loads((folder / "counts.json").read_text()) == reference_counts()
    encoded = (folder / "log-0").read_text().splitlines()
    assert len(encoded) - len(set(encoded)) <= 2  # at most the batch during which it died
    assert len(set(encoded)) == 12
    assert not (folder / "run" / "features").exists()


def test_two_processes_count_what_one_counts(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path / "b"
    both = [
        start(
            tmp_path,
            folder,
            0,
            "shared",
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        for rank in range(2)
    ]
    try:
        errors = [process.communicate(timeout=180)[1] for process in both]
    finally:
        for process in both:
            process.kill()  # if one has failed, the other waits for it
            process.wait()
    assert [process.returncode for process in both] == [0, 0], errors
    assert json.loads((folder / "counts.json").read_text()) == reference_counts()
    logs = [(folder / f"log-{rank}").read_text().splitlines() for rank in range(2)]
    assert len(logs[0]) + len(logs[1]) == len({*logs[0], *logs[1]}) == 12  # nothing encoded twice
    assert min(map(len, logs)) > 0
    written = [len((folder / "run" / f"predictions-{n}.jsonl").read_text().splitlines()) for n in range(2)]
    assert sum(written) == 60
    assert min(written) > 0


def test_a_folder_belongs_to_one_model_and_one_set_of_pairs(tmp_path):
    pairs = painted.pairs(6)
    keypoints.run(painted.Painter(), pairs, settings=QUICK, folder=tmp_path)
    finished = painted.Painter()
    keypoints.run(finished, pairs, settings=QUICK, folder=tmp_path)
    assert finished.seen == 0
    with pytest.raises(ValueError, match="holds a run with another model; give another folder, or delete this one"):
        keypoints.run(painted.Painter(blind=True), pairs, settings=QUICK, folder=tmp_path)
    with pytest.raises(ValueError, match="holds a run with another pairs"):
        keypoints.run(painted.Painter(), pairs[:5], settings=QUICK, folder=tmp_path)
    with pytest.raises(ValueError, match="holds a run with another matching"):
        keypoints.run(painted.Painter(), pairs, tuple(PROTOCOLS.values()), settings=QUICK, folder=tmp_path)


def test_predictions_of_a_finished_run_are_read_again(tmp_path):
    pairs, match = painted.pairs(6), [PROTOCOLS["geco"].match]
    predictions = keypoints.predict(painted.Painter(), pairs, match, settings=QUICK, folder=tmp_path)
    again = keypoints.read_predictions(tmp_path, pairs)
    assert again.keys() == predictions.keys()
    for index, prediction in predictions.items():
        assert again[index].xy.equal(prediction.xy)
        assert again[index].score.equal(prediction.score)
    with pytest.raises(ValueError, match="holds a run with another pairs"):
        keypoints.read_predictions(tmp_path, pairs[:5])
    with pytest.raises(FileNotFoundError, match=r"has no run\.json; expected the folder of a run"):
        keypoints.read_predictions(tmp_path / "none", pairs)
