"""Files that are whole or absent, whatever happens while they are written."""

import hashlib
import os

import pytest

from geco.system import files


def test_a_file_appears_whole_in_a_folder_that_is_made(tmp_path):
    path = files.replace_text(tmp_path / "a" / "b.txt", "Grüße")
    assert path.read_text(encoding="utf-8") == "Grüße"
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "model.bin"
    path.write_text("old")

    def write(draft):
        draft.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.replace(path, write)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.bin"]


def test_a_draft_folder_is_gone_unless_it_was_renamed(tmp_path):
    with pytest.raises(ZeroDivisionError), files.draft_folder(tmp_path / "model") as draft:
        (draft / f"{1 / 0}").write_text("x")
    assert list(tmp_path.iterdir()) == []
    with files.draft_folder(tmp_path / "model") as draft:
        (draft / "weights").write_text("x")
        draft.rename(tmp_path / "model")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_what_a_kill_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / f".a.txt.{os.getpid()}.draft").write_text("half")
    (tmp_path / ".model-x.draft").mkdir()
    (tmp_path / ".hidden").write_text("the user's")
    (tmp_path / "notes.draft").write_text("the user's")
    files.remove_drafts(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".hidden", "notes.draft"]


def test_room_is_tried_and_given_back(tmp_path):
    files.try_room(tmp_path, 3 * files.BLOCK + 5)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="No such file"):
        files.try_room(tmp_path / "missing", 1)


def test_the_digest_is_sha256_of_the_content(tmp_path):
    path = tmp_path / "file"
    content = bytes(range(256)) * (files.BLOCK // 256 + 3)
    path.write_bytes(content)
    assert files.sha256(path) == hashlib.sha256(content).hexdigest()
