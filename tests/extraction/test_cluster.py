"""Extraction with Ray: the bytes of one process, also if a worker is killed while it works."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from collected import contents, write_images

HERE = Path(__file__).parent
# In a process of its own: Ray starts threads and servers, and warns of this and that.
SCRIPT = """
import json, logging, os, signal, sys
from functools import partial
from pathlib import Path
import torch
from collected import Averager
from geco import extraction
from geco.extraction import bulk, cluster
from geco.extraction.settings import ExtractSettings

class Dying(Averager):
    '''Kills its process in the middle of the work, once.'''

    def __init__(self, mark):
        super().__init__(self.die_once)
        self.mark = Path(mark)

    def die_once(self):
        if len(self.batches) == 3:
            try:
                self.mark.touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

image_folder, out = sys.argv[1:]
settings = ExtractSettings(per_shard=4, batch_size=2)
find = lambda: extraction.find([image_folder])
with extraction.begin(Path(out, "one"), find, Averager(), settings) as job:
    bulk.run(job, Averager())
with extraction.begin(Path(out, "ray"), find, Averager(), settings) as job:
    load = partial(Dying, str(Path(out, "mark")))
    summary = cluster.run(job, load, workers=2)
print(json.dumps({"images": summary.images, "failed": summary.failed, "tasks": len(job.tasks)}))
"""


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'geco-features[ray]'")
def test_two_workers_one_of_them_killed_write_the_bytes_of_one_process(tmp_path):
    image_folder = write_images(tmp_path / "photos", 22, bad=(5,))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(HERE.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, script, image_folder, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "RAY_worker_niceness": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"images": 21, "failed": 1, "tasks": 6}
    assert (tmp_path / "mark").exists(), "no worker was killed"
    assert contents(tmp_path / "ray") == contents(tmp_path / "one")


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    from hostile.verdicts import refused

    from geco.extraction import cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    refused(lambda: cluster._connected(None, cpus=1).__enter__(), "--ray needs Ray", "[ray]")
