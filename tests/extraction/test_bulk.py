"""Extraction of a collection: it resumes whatever happened, leaves nothing out, and does nothing twice."""

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from collected import Averager, archive, contents, encoded, picture, write_images
from hostile.verdicts import refused

from geco import extraction, images
from geco.extraction import FeatureStore, bulk, sources
from geco.extraction.encoding import encode
from geco.extraction.records import Failure
from geco.extraction.settings import ExtractSettings
from geco.system import files
from geco.types import View, Window

HERE = Path(__file__).parent


def extract(places, out, *, encoder=None, masks=None, find=extraction.find, **options):
    encoder = encoder or Averager()
    settings = ExtractSettings(**{"per_shard": 4, "batch_size": 2, **options})
    with extraction.begin(Path(out), lambda: find(places), encoder, settings, masks=masks) as job:
        return bulk.run(job, encoder)


def test_a_folder_of_images_becomes_maps_by_name(tmp_path):
    image_folder = write_images(tmp_path / "photos", 10)
    summary = extract([image_folder], tmp_path / "features")
    features = extraction.open(tmp_path / "features", verify=True)
    assert (summary.images, summary.failed, len(features)) == (10, 0, 10)
    for path in sorted(image_folder.iterdir()):
        name = path.as_posix()
        (expected,) = Averager().extract_stream([path])
        assert features.path(name) == path
        assert features[name].size == expected.size == images.size_of(path)
        assert torch.equal(features[name].values, expected.values.half().float())
        assert features.record(name).sha256 == files.sha256(path)


def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path):
    """At steps on the disk that come one after the other, and at more than 20 random moments."""
    image_folder = write_images(tmp_path / "photos", 18, bad=(3, 8))
    command = [sys.executable, HERE / "kills.py", image_folder, tmp_path, "0"]
    path = os.pathsep.join([str(HERE.parent), *sys.path])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    killed = json.loads(done.stdout)
    assert killed["by itself"] >= 12, killed
    assert killed["from outside"] >= 20, killed
    extract([image_folder], tmp_path / "whole", pca=2)
    whole = contents(tmp_path / "whole")
    assert len(extraction.open(tmp_path / "whole")) == 16
    assert contents(tmp_path / "steps") == whole
    assert contents(tmp_path / "random") == whole


@pytest.mark.parametrize(("shard", "batches"), [(1, [2, 2]), (2, [2])])
def test_finished_work_is_not_done_again(tmp_path, shard, batches):
    image_folder = write_images(tmp_path / "photos", 10)
    extract([image_folder], tmp_path / "features")
    before = contents(tmp_path / "features")
    (tmp_path / "features" / "shards" / f"{shard:06d}.safetensors").unlink()
    encoder = Averager()
    extract([image_folder], tmp_path / "features", encoder=encoder)
    assert encoder.batches == batches, "the images of one shard"
    assert contents(tmp_path / "features") == before
    extract([image_folder], tmp_path / "features", encoder=encoder)
    assert encoder.batches == batches


def test_unreadable_images_are_listed_and_never_stop_the_run(tmp_path):
    bad = (0, 1, 6, 7, 9)
    image_folder = write_images(tmp_path / "photos", 12, bad=bad)
    (image_folder / "012.png").symlink_to(tmp_path / "nowhere")
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(f"photos/{number:03d}.png" for number in range(13)))
    encoder = Averager()
    summary = extract([listed], tmp_path / "features", encoder=encoder)
    assert (summary.images, summary.failed) == (7, 6)
    with (tmp_path / "features" / extraction.FAILED).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [f"photos/{number:03d}.png" for number in (*bad, 12)]
    assert all(row["name"] in row["reason"] or "012.png" in row["reason"] for row in rows)
    assert sum(encoder.batches) == 8, "each once, and one to see how large maps are"
    features = extraction.open(tmp_path / "features")
    assert features.names == tuple(f"photos/{number:03d}.png" for number in range(12) if number not in bad)


def test_bad_images_do_not_change_the_batches_of_the_good(tmp_path):
    """Batches are of readable images, so features do not depend on where a damaged one stood."""
    image_folder = write_images(tmp_path / "photos", 9, bad=(1, 4))
    encoder = Averager()
    results = list(encode(encoder, list(extraction.find([image_folder])), batch_size=3))
    assert encoder.batches == [3, 3, 1]
    names = [Path(one.source.name).stem for one in results if not isinstance(one, Failure)]
    assert names == ["000", "002", "003", "005", "006", "007", "008"]
    assert sorted(Path(one.name).stem for one in results if isinstance(one, Failure)) == ["001", "004"]


def ways(tmp_path):
    """The same four images, in every way they can be given."""
    image_folder = write_images(tmp_path / "photos", 4)
    names = [f"{number:03d}.png" for number in range(4)]
    (image_folder / "list.txt").write_text("\n".join(names) + "\n\n")
    (image_folder / "table.csv").write_text("id,path\n" + "".join(f"{i},{name}\n" for i, name in enumerate(names)))
    (tmp_path / "named.csv").write_text("file\n" + "".join(f"photos/{name}\n" for name in names))
    archive(tmp_path / "samples.tar", range(4))
    yield "folder", [image_folder]
    yield "files", [image_folder / name for name in names]
    yield "pattern", [f"{image_folder}/0*.png"]
    yield "list", [image_folder / "list.txt"]
    yield "table", [image_folder / "table.csv"]
    yield "one column", [tmp_path / "named.csv"]
    yield "archive", [tmp_path / "samples.tar"]
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return
    parquet.write_table(pyarrow.table({"path": names, "id": range(4)}), image_folder / "table.parquet")
    yield "parquet", [image_folder / "table.parquet"]


def test_images_are_the_same_however_they_are_given(tmp_path):
    expected = [encoded(number) for number in range(4)]
    kinds = []
    for kind, places in ways(tmp_path):
        given = list(extraction.find([*places, *places]))
        assert [sources.read(source) for source in given] == expected, kind
        assert len({source.name for source in given}) == 4
        kinds.append(kind)
    assert len(kinds) >= 7


def test_an_archive_is_extracted_without_unpacking(tmp_path):
    write_images(tmp_path / "photos", 6)
    archive(tmp_path / "samples.tar", range(6))
    extract([tmp_path / "samples.tar"], tmp_path / "from archive")
    extract([tmp_path / "photos"], tmp_path / "from files")
    packed, loose = (extraction.open(tmp_path / name) for name in ("from archive", "from files"))
    assert packed.path(packed.names[0]) is None
    for inside, outside in zip(packed.names, loose.names, strict=True):
        assert torch.equal(packed[inside].values, loose[outside].values)
        assert packed.record(inside).sha256 == loose.record(outside).sha256


def test_masks_decide_the_foreground(tmp_path):
    from PIL import Image

    image_folder = write_images(tmp_path / "photos", 4)
    masks = tmp_path / "masks"
    masks.mkdir()
    for number in range(3):
        mask = torch.zeros(24 + 8 * (number % 2), 24, dtype=torch.uint8)
        mask[:5, -5:] = 255  # the uppermost cell on the right
        Image.fromarray(mask.numpy()).save(masks / f"{number:03d}.png")
    summary = extract([image_folder], tmp_path / "features", what="foreground", masks=masks)
    assert (summary.images, summary.failed) == (3, 1), "the fourth has no mask"
    features = extraction.open(tmp_path / "features")
    assert features.manifest.foreground == "masks"
    for name in features.names:
        assert features.patches(name).cells.tolist() == [3]


def test_what_the_benchmarks_encode_is_found_in_a_folder_of_features(tmp_path):
    image_folder = write_images(tmp_path / "photos", 4)
    extract([image_folder], tmp_path / "features")
    views = [View(path, images.size_of(path), name=path.name) for path in sorted(image_folder.iterdir())]
    encoder = Averager()
    with FeatureStore(encoder, memory=0, folder=tmp_path / "features") as store:
        features = [store.get(view) for view in views]
    assert store.encoded == 0
    for view, one in zip(views, features, strict=True):
        (exact,) = Averager().extract_stream([view.image])
        torch.testing.assert_close(one.values, exact.values, atol=5e-4, rtol=0)
    cut = replace(views[0], window=Window((0, 0, 20, 20), views[0].size), size=(20, 20))
    assert not store.has(cut), "what shows a part of an image is encoded"
    other = Averager()
    other.fingerprint = lambda: "other"
    refused(lambda: FeatureStore(other, memory=0, folder=tmp_path / "features"), "averager", "other", "another cache")
    extract([image_folder], tmp_path / "less", pca=2)
    refused(lambda: FeatureStore(encoder, memory=0, folder=tmp_path / "less"), "--pca 2", "whole maps")


def test_a_disk_without_room_is_found_before_the_first_image(tmp_path, monkeypatch):
    image_folder = write_images(tmp_path / "photos", 4)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    refused(lambda: extract([image_folder], tmp_path / "features"), "4 images need", "are free", "--pca 64")
    monkeypatch.undo()
    assert extract([image_folder], tmp_path / "features").images == 4


@pytest.mark.parametrize("room", [0, 300])
def test_a_disk_that_fills_up_keeps_what_was_finished(tmp_path, monkeypatch, room):
    import errno

    from geco.extraction import shards

    image_folder = write_images(tmp_path / "photos", 8)
    save, written = shards.save_file, []

    def failing(tensors, path, metadata):
        if written:
            Path(path).write_bytes(bytes(room))
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        save(tensors, path, metadata)

    monkeypatch.setattr(shards, "save_file", failing)
    refused(lambda: extract([image_folder], tmp_path / "features"), "000001", "could not be written", "No space left")
    monkeypatch.undo()
    assert len(extraction.open(tmp_path / "features", partial=True)) == 4
    encoder = Averager()
    assert extract([image_folder], tmp_path / "features", encoder=encoder).images == 8
    assert encoder.batches == [2, 2]


def test_large_jpegs_may_be_decoded_at_a_fraction(tmp_path, tiny_folder):
    """The maps of `--draft` are those that the encoder makes of the file itself with `draft`."""
    import tiny_model

    model = tiny_model.fresh(tiny_folder)
    path = tmp_path / "large.jpg"
    picture(1, side=480).save(path)
    extract([path], tmp_path / "features", encoder=model, draft=True)
    features = extraction.open(tmp_path / "features")
    (expected,) = model.extract_stream([path], draft=True)
    (whole,) = model.extract_stream([path])
    assert features.manifest.draft
    assert torch.equal(features[path.as_posix()].values, expected.values.half().float())
    assert features[path.as_posix()].size == whole.size
    assert not torch.equal(expected.values, whole.values)
