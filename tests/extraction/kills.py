"""Extracts a folder again and again in processes that are killed, until one comes through: kills.py IMAGES OUT SEED.

Processes are forked, so that each is at work at once. Those of the first kind die by their own hand at the n-th step
that touches the disk (n = 1, 2, …: every such moment is met); those of the second kind are killed from outside after
a random time. Prints how many were killed.
"""

import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import torch
from collected import Averager

from geco import extraction
from geco.extraction import bulk
from geco.extraction.settings import ExtractSettings

SETTINGS = ExtractSettings(per_shard=4, batch_size=2, pca=2)
STEPS = ("fsync", "rename", "replace", "unlink", "mkdir", "truncate", "open")


def extract(image_folder, out, wait=lambda: None):
    encoder = Averager(wait)
    with extraction.begin(Path(out), lambda: extraction.find([image_folder]), encoder, SETTINGS) as job:
        return bulk.run(job, encoder)


def dying(after):
    """From now on, this process is killed before its n-th step on the disk."""
    count = 0

    def counted(work):
        def step(*arguments, **options):
            nonlocal count
            count += 1
            if count == after:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*arguments, **options)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))


def extract_dying(image_folder, out, after):
    dying(after)
    extract(image_folder, out)


def child(work):
    """A process that does this."""
    pid = os.fork()
    if not pid:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    return pid


def ended(pid):
    """Whether the process was killed, once it is gone."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "a process failed"
    return False


def main(image_folder, out, seed):
    torch.set_num_threads(1)
    by_itself = from_outside = 0
    after = 1
    while ended(child(partial(extract_dying, image_folder, f"{out}/steps", after))):
        by_itself += 1
        after += 1  # each resumes what the one before left, and so comes a step further
    randomly = random.Random(seed)
    while True:
        pid = child(lambda: extract(image_folder, f"{out}/random", wait=lambda: time.sleep(0.01)))
        if from_outside < 24:
            time.sleep(randomly.uniform(0, 0.1))
            os.kill(pid, signal.SIGKILL)
        if not ended(pid):
            break
        from_outside += 1
    print(json.dumps({"by itself": by_itself, "from outside": from_outside}))


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]))
