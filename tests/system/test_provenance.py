"""Provenance names what a number was computed with."""

import json
import subprocess
from importlib.metadata import version

from geco.system import provenance


def test_versions_seed_and_commit_are_recorded():
    record = provenance.collect(7)
    assert record["seed"] == 7
    assert record["versions"]["torch"] == version("torch")
    assert record["commit"] is None or len(record["commit"].rstrip("+")) == 40
    json.dumps(record)


def test_the_commit_is_that_of_the_source_tree(tmp_path):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    assert provenance._commit(tmp_path) is None
    git("init")
    (tmp_path / "provenance.py").write_text("1")
    assert provenance._commit(tmp_path) is None  # a tree that merely lies around the package is not its history
    git("add", "provenance.py")
    git("commit", "-m", "one")
    commit = provenance._commit(tmp_path)
    assert len(commit) == 40
    (tmp_path / "provenance.py").write_text("2")
    assert provenance._commit(tmp_path) == commit + "+"
