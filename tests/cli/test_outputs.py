"""Outputs never land on an input, and where they land is known before the work begins."""

import os
from pathlib import Path

import pytest

from geco.cli import _outputs, run
from geco.cli._options import OptionError
from geco.errors import FileError, InputError


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(b"pixels")
    return path


@pytest.mark.parametrize("alias", ["same", "relative", "symbolic link", "hard link"])
def test_an_input_is_spared_by_whatever_name_it_goes(image, tmp_path, alias):
    other = tmp_path / "other.png"
    if alias == "symbolic link":
        other.symlink_to(image)
    elif alias == "hard link":
        os.link(image, other)
    path = {"same": image, "relative": tmp_path / "x" / ".." / "photo.png"}.get(alias, other)
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match="is an input and would be overwritten"):
        _outputs.picture(path, name="match.png", inputs=[image])
    assert image.read_bytes() == b"pixels"


def test_a_folder_gets_the_usual_name(image, tmp_path):
    assert _outputs.picture(tmp_path, name="match.png", inputs=[image]) == tmp_path / "match.png"
    with pytest.raises(InputError, match="is an input"):
        _outputs.picture(tmp_path, name="photo.png", inputs=[image])


def test_what_cannot_be_written_is_refused_at_once(image, tmp_path):
    with pytest.raises(OptionError, match=r"--out must end in .png, .*, got '.*noext'"):
        _outputs.picture(tmp_path / "noext", name="match.png", inputs=[])
    with pytest.raises(FileError, match=r"photo\.png is a file, not a folder; give another --out"):
        _outputs.picture(image / "a.png", name="match.png", inputs=[])
    with pytest.raises(FileError, match=r"photo\.png is a file, not a folder; give another --out"):
        _outputs.folder(image)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        _outputs.file(tmp_path / "folder.png", endings=_outputs.PICTURES, inputs=[])
    assert list((tmp_path / "folder.png").iterdir()) == []  # the attempt to write left nothing


def test_a_folder_is_not_made_before_there_is_something_to_put_into_it(tmp_path):
    assert _outputs.folder(tmp_path / "new" / "deep") == tmp_path / "new" / "deep"
    assert _outputs.picture(tmp_path / "other" / "a.png", name="match.png", inputs=[]).suffix == ".png"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match="file name too long"):
        _outputs.folder(tmp_path / ("x" * 5000))


def test_names_of_results_are_different():
    paths = [Path(name) for name in ("a/cat.jpg", "b/cat.jpg", "b/CAT.png", "dog.jpg", "x/dog-jpg.png")]
    names = _outputs.names(paths)
    assert names == ["cat-jpg", "cat-jpg-2", "CAT-png", "dog", "dog-jpg"]
    assert len({name.lower() for name in names}) == len(paths)


def test_parts_of_two_images_with_one_stem_are_two_results(image_file, tiny_folder, tmp_path, capsys):
    from PIL import Image

    (tmp_path / "b").mkdir()
    first, second = image_file("cat.jpg", seed=1), image_file("b/cat.jpg", seed=2)
    labels = Image.new("L", (120, 90), 0)
    labels.paste(1, (20, 20, 80, 70))
    labels.save(tmp_path / "labels.png")
    words = ["parts", first, first, second, "--labels", tmp_path / "labels.png", "-m", tiny_folder, "--size", 112]
    assert run([*map(str, words), "-o", str(tmp_path / "out")]) == 0
    results = capsys.readouterr().out.split()
    assert [Path(path).name for path in results] == ["cat-jpg-parts.png", "cat-jpg-2-parts.png"]
    assert all(Path(path).is_file() for path in results)


def test_parts_do_not_overwrite_the_label_image_they_read(image_file, tiny_folder, tmp_path, capsys):
    from PIL import Image

    first = image_file("cat.jpg", seed=1)
    labels = tmp_path / "cat-parts.png"
    Image.new("L", (120, 90), 1).save(labels)
    before = labels.read_bytes()
    words = ["parts", first, first, "--labels", labels, "-m", tiny_folder, "-o", tmp_path]
    assert run([str(word) for word in words]) == 1
    assert "cat-parts.png is an input and would be overwritten" in capsys.readouterr().err
    assert labels.read_bytes() == before
