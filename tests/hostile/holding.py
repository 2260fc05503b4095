"""Another process that holds a folder, as a second run would."""

import contextlib
import subprocess
import sys

HOLD = """
import sys, time
from geco.system import locks
with locks.hold(sys.argv[1], what="training"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def another_process(folder):
    """A process that holds the folder; killed at the end."""
    held = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert held.stdout.readline() == "held\n"
        yield held
    finally:
        held.kill()
        held.wait()
        held.stdout.close()
