"""Start-up: `geco transfer A B -p x,y --json` against `python -c "import torch"`, each a cold process.

Both are started alternately, so that a busy machine slows both alike; the first round, which fills the disk's cache
(and merges an adapter, if `--model` is one), does not count. `ratio` is the time of the whole command over
that of importing torch alone, `speedup` its inverse. The target is a ratio of at most 2.5.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from PIL import Image


def write_image(path, seed):
    """An image file of 640 × 480 pixels with smooth random colours."""
    noise = bytes(Random(seed).randrange(256) for _ in range(8 * 6 * 3))
    Image.frombytes("RGB", (8, 6), noise).resize((640, 480), Image.Resampling.BICUBIC).save(path)


def run(command):
    """Seconds of a process from start to end, and its peak memory in MB."""
    start = time.perf_counter()
    output = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(child, 0)
    os.close(output)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--model", default=None, help="the packaged one, unless given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pictures = [str(Path(folder) / name) for name in ("a.jpg", "b.jpg")]
        for seed, path in enumerate(pictures):
            write_image(path, seed)
        model = ["-m", options.model] if options.model else []
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "geco transfer": [sys.executable, "-m", "geco", "transfer", *pictures, "-p", "107,66", "--json", *model],
        }
        seconds, memory = {name: [] for name in commands}, {name: [] for name in commands}
        for number in range(options.repeats + 1):
            for name, command in commands.items():
                taken, peak = run(command)
                if number:
                    seconds[name].append(taken)
                    memory[name].append(peak)
    for name, values in seconds.items():
        low, middle, high = (f(values) for f in (min, statistics.median, max))
        print(f"{name:14s} median {middle:6.2f} s  [{low:.2f}, {high:.2f}]  peak {max(memory[name]):6.0f} MB")
    medians = [statistics.median(values) for values in seconds.values()]
    ratio = medians[1] / medians[0]
    each = sorted(ours / torch for torch, ours in zip(*seconds.values(), strict=True))
    print(f"ratio {ratio:.2f}, of the rounds [{each[0]:.2f}, {each[-1]:.2f}]")
    peaks = [max(values) for values in memory.values()]
    result = {"speedup": round(1 / ratio, 3), "memory_ratio": round(peaks[1] / peaks[0], 3), "ratio": round(ratio, 3)}
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
