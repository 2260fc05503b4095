"""Mask files are written once, whole, and found again; a mask of another size is neither used nor overwritten."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from segmented import bright_disc, disc

from geco import images, masks
from geco.types import MaskFile, View


class Counting:
    """Segments by brightness and counts how often it was called."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls, self.stop_at = 0, stop_at

    def __call__(self, view: View) -> torch.Tensor:
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        self.calls += 1
        return view.image[0] > 128


def views(folder: Path, count: int = 4) -> list[View]:
    written = []
    for number in range(count):
        view = bright_disc(name=f"dir/animal {number}")
        path = folder / f"{number}.png"
        Pillow.fromarray(view.image.permute(1, 2, 0).numpy()).save(path)
        written.append(replace(view, image=path))
    return written


RECORD = {"maker": "test"}
RECORD_FILE = "masks.json"


def test_masks_are_written_once_and_evaluated(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    heard = []
    segment = Counting()
    summary = masks.make(data, segment, out, record=RECORD, done=lambda name, quality: heard.append((name, quality)))
    assert (summary.instances, summary.made, summary.empty, summary.failures) == (4, 4, 0, ())
    assert summary.keypoints_inside == 1.0
    assert summary.box_covered == pytest.approx(np.pi / 4, abs=0.02)  # a disc in its square
    assert [name for name, _ in heard] == [f"dir%2Fanimal {i}@36-11-64-39.png" for i in range(4)]
    assert torch.equal(images.read_mask(MaskFile(out / heard[0][0])), disc(50, 80, (50, 25), 14))

    again = masks.make(data, segment, out, record=RECORD)
    assert segment.calls == 4
    assert again == replace(summary, made=0)


def test_damaged_and_missing_files_are_made_again(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    masks.make(data, Counting(), out, record=RECORD)
    whole = (out / masks.file_name(data[0])).read_bytes()
    (out / masks.file_name(data[0])).write_bytes(whole[: len(whole) // 2])
    (out / masks.file_name(data[1])).write_bytes(b"no PNG")
    (out / masks.file_name(data[2])).unlink()
    summary = masks.make(data, Counting(), out, record=RECORD)
    assert (summary.made, summary.failures) == (3, ())
    assert (out / masks.file_name(data[0])).read_bytes() == whole


@pytest.mark.parametrize("size", [(5, 5), (40, 90)])  # width, height; the first is below the limit for images
def test_a_mask_of_another_size_is_a_failure_and_stays_as_it_is(tmp_path: Path, size: tuple[int, int]) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    masks.make(data, Counting(), out, record=RECORD)
    other = out / masks.file_name(data[1])
    Pillow.new("L", size).save(other)
    content = other.read_bytes()
    told = {}
    summary = masks.make(data, Counting(), out, record=RECORD, done=told.__setitem__)
    assert (summary.instances, summary.made, len(summary.failures)) == (4, 0, 1)
    assert f"{other}: the mask is {size[1]}×{size[0]} (height×width), but its view is 50×80" in summary.failures[0]
    assert "remove it to have it made again" in summary.failures[0]
    assert "damaged" not in summary.failures[0]
    assert [name for name, quality in told.items() if quality is None] == [other.name]
    assert other.read_bytes() == content
    with pytest.raises(
        ValueError, match=r"the mask is \d+×\d+ \(height×width\), but its annotation says 50×80|at least 8"
    ):
        images.load_view(masks.attach(data[1], out))


def test_an_interrupted_run_is_taken_up_again(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        masks.make(data, Counting(stop_at=3), out, record=RECORD)
    rest = Counting()
    assert masks.make(data, rest, out, record=RECORD).made == 1
    assert rest.calls == 1
    assert sorted(path.name for path in out.iterdir()) == sorted([RECORD_FILE, *map(masks.file_name, data)])


def test_a_bad_image_does_not_stop_the_others(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    data[1].image.write_bytes(b"no picture")
    summary = masks.make(data, Counting(), out, record=RECORD)
    assert (summary.instances, summary.made) == (4, 3)
    assert len(summary.failures) == 1
    assert "1.png is not an image that can be read" in summary.failures[0]


def test_a_folder_made_otherwise_is_refused(tmp_path: Path) -> None:
    data, out = views(tmp_path, 1), tmp_path / "out"
    masks.make(data, Counting(), out, record={"maker": "sam", "weights": "base"})
    with pytest.raises(ValueError, match="holds masks made with maker=sam, weights=base, now asked for maker=own;"):
        masks.make(data, Counting(), out, record={"maker": "own"})
    (out / RECORD_FILE).write_text("{")
    with pytest.raises(ValueError, match=r"masks.json is damaged"):
        masks.make(data, Counting(), out, record={"maker": "own"})


def test_two_animals_in_one_image_have_two_masks_and_one_seen_twice_has_one(tmp_path: Path) -> None:
    first, other = views(tmp_path, 2)
    second = replace(first, box=torch.tensor([0.0, 0.0, 20.0, 20.0]))
    assert list(masks.instances([first, other, other, first, second, other]).values()) == [first, other, second]


def test_quality_against_numbers_counted_by_hand() -> None:
    view = bright_disc()
    left_half = torch.zeros(50, 80, dtype=torch.bool)
    left_half[:, :50] = True  # the keypoint at x = 50.0 lies on pixel 50, just off it; the box is 28 wide, 14 in
    half = masks.quality(view, left_half)
    assert (half.inside, half.visible, half.empty) == (0, 2, False)
    assert half.box == pytest.approx(0.5)
    left_half[:, 50] = True
    assert masks.quality(view, left_half).inside == 1
    nothing = masks.quality(replace(view, box=None, keypoints=None), torch.zeros(50, 80, dtype=torch.bool))
    assert nothing == masks.Quality(0, 0, None, empty=True)


def test_attached_masks_are_read_and_missing_ones_are_named(tmp_path: Path) -> None:
    data, out = views(tmp_path), tmp_path / "out"
    masks.make(data, Counting(), out, record=RECORD)
    masks.check_folder(data, out)
    assert torch.equal(images.load_view(masks.attach(data[3], out)).mask, disc(50, 80, (50, 25), 14))
    (out / masks.file_name(data[3])).unlink()
    with pytest.raises(FileNotFoundError, match=r"no mask for 1 of 4 instances, dir%2Fanimal 3@36-11-64-39.png"):
        masks.check_folder(data, out)
    with pytest.raises(FileNotFoundError, match="no such folder; make the masks with `geco masks`"):
        masks.check_folder(data, tmp_path / "elsewhere")


def test_a_dataset_s_own_masks_can_be_kept(tmp_path: Path) -> None:
    data, out = views(tmp_path, 2), tmp_path / "out"
    masks.make(data[1:], Counting(), out, record=RECORD)
    shipped = replace(data[0], mask=MaskFile(Path("shipped.png"), 3))
    masks.check_folder([shipped, data[1]], out, keep_own=True)
    with pytest.raises(FileNotFoundError, match="no mask for 1 of 2 instances"):
        masks.check_folder([shipped, data[1]], out)
    files = [MaskFile(out / masks.file_name(view), whole=False) for view in data]
    assert masks.attach(shipped, out, keep_own=True).mask == shipped.mask
    assert masks.attach(data[1], out, keep_own=True).mask == files[1]
    assert masks.attach(shipped, out).mask == files[0]


def test_names_that_cannot_be_filed_are_refused() -> None:
    with pytest.raises(ValueError, match=r"has no name to file its mask under"):
        masks.file_name(replace(bright_disc(), image=Path("x.jpg"), name=""))
    with pytest.raises(ValueError, match=r"too long for a mask's file \(300 > 200\)"):
        masks.file_name(bright_disc(name="a" * 300))
    with pytest.raises(ValueError, match="disc comes without a mask; make one with sam or u2net"):
        masks.own(bright_disc())


def test_the_record_says_how_the_masks_were_made(tmp_path: Path) -> None:
    masks.make(views(tmp_path, 1), Counting(), tmp_path / "out", record={"maker": "u2net", "margin": 0.1})
    assert json.loads((tmp_path / "out" / RECORD_FILE).read_text()) == {"maker": "u2net", "margin": 0.1}


def test_made_folders_are_those_of_the_dataset_that_have_a_record(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert masks.made_folders("cub") == []
    for dataset, maker in (("cub", "own"), ("cub", "sam"), ("cub-crops", "own"), ("ap10k", "sam")):
        folder = masks.default_folder(dataset, maker)
        masks.make([], Counting(), folder, record={"maker": maker})
    (tmp_path / "masks/cub-u2net").mkdir()
    assert masks.made_folders("cub") == [Path("masks/cub-own"), Path("masks/cub-sam")]


def test_masks_to_look_at_are_spread_and_the_worst_none_twice() -> None:
    qualities = {f"{i}": masks.Quality(i % 5, 4, None, empty=False) for i in range(10)}
    assert masks.to_look_at(qualities, 4) == ["0", "5", "1", "6"]
    few = {name: qualities[name] for name in ("0", "1", "2")}
    assert sorted(masks.to_look_at(few, 24)) == ["0", "1", "2"]
    assert masks.to_look_at(few, 1) == ["0"]
