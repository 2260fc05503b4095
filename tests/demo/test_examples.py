"""The example images are copied, checked, and never replace anything."""

import importlib.util

import pytest

from geco.cli import run
from geco.demo import copy_images, examples, find_images
from geco.errors import InputError, MissingFileError
from geco.system import files

needs_examples = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="needs the example images (pip install --no-deps gradio)"
)


@needs_examples
def test_they_are_copied_as_they_are_and_a_second_time_kept(tmp_path, capsys):
    assert run(["examples", str(tmp_path / "new" / "photos")]) == 0
    names = ["cheetah.jpg", "cub.jpg", "lion.jpg", "runner.jpg"]
    copied = sorted((tmp_path / "new" / "photos").iterdir())
    assert [path.name for path in copied] == names
    assert capsys.readouterr().out.splitlines() == [str(path) for path in copied]
    for path in copied:
        assert files.sha256(path) == examples.EXAMPLES[path.stem].sha256
    times = [path.stat().st_mtime_ns for path in copied]
    copy_images(tmp_path / "new" / "photos")
    assert [path.stat().st_mtime_ns for path in copied] == times


@needs_examples
def test_another_image_of_that_name_is_spared_and_nothing_is_begun(tmp_path):
    (tmp_path / "runner.jpg").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"runner\.jpg exists and is another image; choose another folder"):
        copy_images(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["runner.jpg"]


@needs_examples
def test_a_file_that_is_not_the_expected_one_is_not_copied(tmp_path, monkeypatch):
    changed = {**examples.EXAMPLES, "lion": examples.Example(examples.EXAMPLES["lion"].file, "0" * 64)}
    monkeypatch.setattr(examples, "EXAMPLES", changed)
    with pytest.raises(InputError, match=r"has sha256 4c45ece00075…, expected 000000000000…; pip install"):
        copy_images(tmp_path / "photos")
    assert not (tmp_path / "photos").exists()


def test_without_gradio_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingFileError, match="pip install --no-deps gradio"):
        copy_images(tmp_path)


@needs_examples
def test_nothing_of_gradio_is_imported():
    import subprocess
    import sys

    code = "import sys; from geco.demo import find_images; find_images(); assert 'gradio' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert set(find_images()) == set(examples.EXAMPLES)
