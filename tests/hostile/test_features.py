"""Folders of features that are not what they should be, and command lines that would spoil something."""

import json
import os
import shutil
from pathlib import Path

import pytest
from collected import Averager, archive, contents, write_images
from hostile.holding import another_process
from hostile.verdicts import refused

from geco import extraction
from geco.cli import run
from geco.extraction import bulk
from geco.extraction.settings import ExtractSettings


def extract(image_folder, out, *, encoder=None, **options):
    encoder = encoder or Averager()
    settings = ExtractSettings(**{"per_shard": 4, "batch_size": 2, **options})
    with extraction.begin(Path(out), lambda: extraction.find([image_folder]), encoder, settings) as job:
        return bulk.run(job, encoder)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    place = tmp_path_factory.mktemp("features")
    extract(write_images(place / "photos", 10), place / "features")
    return place


@pytest.fixture
def copy(good, tmp_path):
    shutil.copytree(good / "features", tmp_path / "features")
    return tmp_path / "features"


def manifest_with(folder, **values):
    path = folder / "geco-features.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_folder_of_a_newer_version(copy, good):
    manifest_with(copy, version=2)
    refused(lambda: extraction.open(copy), "newer geco", "layout 2", "update")
    refused(lambda: extract(good / "photos", copy), "newer geco")


@pytest.mark.parametrize(
    "values",
    [{"version": "1"}, {"version": None}, {"dim": 0}, {"what": "x"}, {"images": -1}, {"more": 1}, {"dim": "3"}],
)
def test_a_manifest_with_something_else(copy, values):
    manifest_with(copy, **values)
    refused(lambda: extraction.open(copy), "geco-features.json")


def test_what_is_no_folder_of_features(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "file", tmp_path / "nowhere", "a\0b", ""):
        refused(lambda place=place: extraction.open(place))


def test_half_a_copy(copy):
    shard = copy / "shards" / "000001.safetensors"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    refused(lambda: extraction.open(copy), "000001.safetensors", "half a copy")
    shard.unlink()
    refused(lambda: extraction.open(copy), "000001.safetensors is missing")
    refused(lambda: extraction.open(copy, partial=True), "000001.safetensors is missing")
    shard.write_bytes(content)
    lines = (copy / "index.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "index.jsonl").write_bytes(lines[0] + lines[1][:50])
    refused(lambda: extraction.open(copy), "1 of 3 shards", "half a copy")
    assert len(extraction.open(copy, partial=True)) == 4
    (copy / "index.jsonl").unlink()
    refused(lambda: extraction.open(copy), "0 of 3 shards")


def test_a_changed_shard_is_found_when_it_is_read(copy):
    path = copy / "shards" / "000002.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    features = extraction.open(copy)
    assert features[features.names[0]].values.isfinite().all()
    refused(lambda: features[features.names[-1]], "000002", "damaged")
    refused(lambda: extraction.open(copy, verify=True), "000002", "checksum")


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"{}", b"text" * 30])
def test_a_shard_that_is_something_else(copy, content):
    """Its size is noted too, as if on purpose."""
    (copy / "shards" / "000000.safetensors").write_bytes(content)
    index = copy / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    lines[0]["bytes"] = len(content)
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    features = extraction.open(copy)
    refused(lambda: features[features.names[0]], "000000.safetensors")


LINES = {
    "no JSON": "x",
    "a list": "[]",
    "nothing": "{}",
    "no records": '{"shard": 0, "bytes": 1, "sha256": "", "failed": []}',
    "records of numbers": '{"shard": 0, "bytes": 1, "sha256": "", "failed": [], "records": [1]}',
    "a name that is none": '{"shard": 0, "bytes": 1, "sha256": "", "failed": [], "records": [{"name": 1}]}',
    "a shard that is not": '{"shard": 99, "bytes": 1, "sha256": "", "failed": [], "records": []}',
    "failures of three": '{"shard": 0, "bytes": 1, "sha256": "", "failed": [[1, 2, 3]], "records": []}',
}


@pytest.mark.parametrize("line", LINES)
def test_an_index_with_something_else(copy, line):
    index = copy / "index.jsonl"
    index.write_text(LINES[line] + "\n" + index.read_text())
    refused(lambda: extraction.open(copy), "index.jsonl")


def test_records_with_something_else(copy):
    index = copy / "index.jsonl"
    whole = index.read_text()
    for key in ("size", "grid", "crc32", "sha256", "path"):
        for value in (None, "x", [], [1], -1, {}):
            lines = [json.loads(line) for line in whole.splitlines()]
            lines[0]["records"][0][key] = value
            index.write_text("".join(json.dumps(line) + "\n" for line in lines))

            def call():
                features = extraction.open(copy)
                return features[features.names[0]]

            if key not in ("path", "sha256") or not isinstance(value, str):
                refused(call, "index.jsonl" if key != "crc32" or value != 0 else "damaged")


def test_another_model_or_other_settings(good, copy):
    other = Averager()
    other.fingerprint, other.name = (lambda: "f00d"), "another"
    before = contents(copy)
    refused(lambda: extract(good / "photos", copy, encoder=other), "model 'averager'", "'another'", "another --out")
    other.name = "averager"
    refused(lambda: extract(good / "photos", copy, encoder=other), "fingerprint", "f00d")
    refused(lambda: extract(good / "photos", copy, what="global"), "what 'maps'", "'global'")
    refused(lambda: extract(good / "photos", copy, pca=2), "dim 3")
    refused(lambda: extract(good / "photos", copy, per_shard=5), "per_shard 4")
    refused(lambda: extract(good / "photos" / "000.png", copy), "another list of images")
    refused(lambda: extract(good / "photos", copy, pca=99), "at most the model's 3 channels")
    assert contents(copy) == before


def test_two_processes_do_not_write_one_folder(good, copy):
    with another_process(copy) as held:
        refused(lambda: extract(good / "photos", copy), "is in use by process", str(held.pid))
    assert extract(good / "photos", copy).images == 10


def test_a_folder_with_other_files_is_not_written_to(good, tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    refused(lambda: extract(good / "photos", tmp_path), "is not empty", "thesis.txt", "another --out")


@pytest.mark.parametrize("name", ["list.txt", "table.csv", "table.parquet", "samples.tar"])
@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe" * 300, b"PK\x03\x04zip", b'a,b\n"x', "ü\n".encode("latin-1")])
def test_lists_tables_and_archives_that_are_none(tmp_path, name, content):
    if name == "table.parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow (extra [ray])")
    if name == "list.txt" and content.startswith(b"a,b"):
        return  # two names that a file may have
    path = tmp_path / name
    path.write_bytes(content)
    refused(lambda: list(extraction.find([path])))


def test_an_archive_cut_short(tmp_path):
    path = archive(tmp_path / "samples.tar", range(4))
    content = path.read_bytes()
    sources = list(extraction.find([path]))
    path.write_bytes(content[: sources[2].offset + 5])
    summary = None
    with extraction.begin(tmp_path / "features", lambda: sources, Averager(), ExtractSettings(batch_size=2)) as job:
        summary = bulk.run(job, Averager())
    assert (summary.images, summary.failed) == (2, 2)
    reasons = [failure.reason for failure in extraction.open(tmp_path / "features").failures]
    assert all("cut short" in reason for reason in reasons)


def said(arguments, capfd):
    code = run(arguments)
    err = capfd.readouterr().err.strip().splitlines()
    return code, err[-1] if err else ""


def test_command_lines(good, tmp_path, capfd):
    """Those that are refused before a model is loaded."""
    image_folder = str(good / "photos")
    lines = {
        "is inside": ["extract", image_folder, "-o", f"{image_folder}/features"],
        "give an --out elsewhere": ["extract", image_folder, "-o", image_folder],
        "where features are written": ["extract", image_folder, "-o", str(good)],
        "--masks is for": ["extract", image_folder, "-o", f"{tmp_path}/x", "--masks", image_folder],
        "a folder of masks": ["extract", image_folder, "-o", f"{tmp_path}/x", "--what", "foreground", "--masks", "no"],
        "--what": ["extract", image_folder, "-o", f"{tmp_path}/x", "--what", "half"],
        "is auto, HOST:PORT": ["extract", image_folder, "-o", f"{tmp_path}/x", "--ray-address", "the moon"],
        "no Ray cluster answers": ["extract", image_folder, "-o", f"{tmp_path}/x", "--ray-address", "127.0.0.1:1"],
        "--pca": ["extract", image_folder, "-o", f"{tmp_path}/x", "--pca", "0"],
        "a file, not a folder": ["extract", image_folder, "-o", f"{good}/features/index.jsonl"],
    }
    before = contents(good / "photos")
    for words, line in lines.items():
        code, message = said(line, capfd)
        assert code in (1, 2), line
        assert words in message, (line, message)
    assert contents(good / "photos") == before
    assert not (tmp_path / "x").exists()


def test_the_command_writes_resumes_and_says_so_in_json(good, tmp_path, tiny_folder, capfd):
    here = Path.cwd()
    os.chdir(good)
    try:
        line = ["extract", "photos", "-o", str(tmp_path / "f"), "-m", str(tiny_folder), "--size", "28", "--json"]
        assert run(line) == 0
        shown = capfd.readouterr()
        facts = json.loads(shown.out)
        assert (facts["images"], facts["failed"], facts["encoded"]) == (10, 0, 10)
        assert "10 images: " in shown.err
        assert "are free" in shown.err
        assert run(line) == 0
        assert json.loads(capfd.readouterr().out)["encoded"] == 0
    finally:
        os.chdir(here)
    assert extraction.open(tmp_path / "f").names[0] == "photos/000.png"
    code, message = said(
        ["extract", str(good / "photos" / "nowhere"), "-o", str(tmp_path / "g"), "-m", str(tiny_folder)], capfd
    )
    assert code == 1
    assert "does not exist" in message
