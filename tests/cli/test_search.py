"""`geco index` and `geco search` on a folder that `geco extract` wrote: answers, files, mistakes."""

import csv
import io
import json
import shutil

import pytest
from PIL import Image
from typer.testing import CliRunner

import geco
from geco.cli import build, run

pytest.importorskip("faiss", reason="needs the extra search")


@pytest.fixture(scope="module")
def app():
    return build()


@pytest.fixture(scope="module")
def collection(tmp_path_factory, tiny_folder):
    """Features and an index of some images."""
    import torch

    from geco import extraction, search
    from geco.extraction.settings import ExtractSettings

    root = tmp_path_factory.mktemp("collection")
    (root / "photos").mkdir()
    generator = torch.Generator().manual_seed(0)
    for number in range(6):
        noise = (torch.rand(6, 8, 3, generator=generator) * 255).byte().numpy()
        Image.fromarray(noise).resize((100, 80), Image.Resampling.BICUBIC).save(root / "photos" / f"{number}.png")
    encoder = geco.load(tiny_folder, size=56)
    sources = [extraction.Source(path.name, str(path)) for path in sorted((root / "photos").iterdir())]
    for what in ("maps", "global"):
        with extraction.begin(root / what, lambda: sources, encoder, ExtractSettings(what=what)) as job:
            extraction.bulk.run(job, encoder)
    search.write_index(search.build_index(extraction.open(root / "maps")), root / "maps-index", features=root / "maps")
    return root


@pytest.fixture
def place(collection, tmp_path, monkeypatch):
    shutil.copytree(collection, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture
def invoke(app, place, tiny_folder):
    def call(*arguments):
        words = ["search", *map(str, arguments), "-m", str(tiny_folder), "--size", "56"]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return call


def test_an_image_of_the_collection_is_found_first(invoke, place):
    result = invoke("maps-index", "photos/2.png", "-p", "40.5,30.5", "--threshold", "-1")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[1].split()
    assert first[:2] == ["1", "2.png"]
    assert float(first[-1]) == pytest.approx(1, abs=1e-3)
    assert "6 of 6 images" in result.stderr
    with Image.open(place / "search.png") as sheet:
        assert sheet.size == (6 * 240, 2 * 256)  # what was asked, and six answers


def test_scripts_get_rows_and_a_folder_gets_everything(invoke, place):
    common = ("maps-index", "photos/2.png", "-p", "40.5,30.5", "--threshold", "-1", "-k", "3")
    document = json.loads(invoke(*common, "--json").stdout)
    assert not (place / "search.png").exists()
    assert document["found"]
    assert document["searched"] == 6
    assert [row["rank"] for row in document["hits"]] == [1, 2, 3]
    scores = [row["score"] for row in document["hits"]]
    assert scores == sorted(scores, reverse=True)
    rows = list(csv.DictReader(io.StringIO(invoke(*common, "--csv", "-o", "all").stdout)))
    assert [float(row["score"]) for row in rows] == scores
    assert {path.name for path in (place / "all").iterdir()} == {"search.png", "search.csv", "search.json"}
    assert json.loads((place / "all" / "search.json").read_text()) == document


def test_the_answers_are_those_of_transfer(invoke, place, tiny_folder):
    from geco import extraction

    features = extraction.open(place / "maps")
    model = geco.load(tiny_folder, size=56)
    common = ("maps-index", "photos/0.png", "-p", "20,25", "--threshold", "-1", "--json")
    for row in json.loads(invoke(*common).stdout)["hits"]:
        (match,) = geco.transfer("photos/0.png", features[row["name"]], [(20, 25)], model=model)
        assert (row["x"], row["y"]) == match.target
        assert row["score"] == pytest.approx(match.score, abs=1e-6)
    found = geco.find("maps-index", "photos/0.png", (20, 25), model=model)
    assert found.threshold == model.threshold


def test_nowhere_is_an_answer(invoke, place):
    result = invoke("maps-index", "photos/0.png", "-p", "20.2,25.7", "--threshold", "1", "-o", "none.csv")
    assert result.exit_code == 0
    assert "nowhere above the threshold: of 6 images" in result.stderr
    assert (place / "none.csv").read_text() == "rank,name,image,x,y,score\n"
    document = json.loads(invoke("maps-index", "photos/0.png", "-p", "20.2,25.7", "--threshold", "1", "--json").stdout)
    assert not document["found"]
    assert document["hits"] == []
    assert 0 < document["nearest"]["score"] < 1


def test_images_that_have_gone_are_left_out_of_the_picture(invoke, place, collection, monkeypatch):
    from geco.extraction import FeatureFolder

    monkeypatch.setattr(FeatureFolder, "path", lambda features, name: place / "photos" / name)
    (place / "photos" / "3.png").unlink()
    result = invoke("maps-index", "photos/0.png", "-p", "20,25", "--threshold", "-1")
    assert result.exit_code == 0
    assert "1 images are no longer where they were" in result.stderr


def test_index_is_a_command(place, capsys):
    assert run(["index", "maps"]) == 0
    assert "6 images, exact" in capsys.readouterr().err
    (place / "maps").rename(place / "moved")
    assert run(["index", "moved", "-o", "other", "--foreground"]) == 0
    for name in ("index.json", "vectors.safetensors"):
        assert (place / "maps-index" / name).is_file()


MISTAKES = [
    ("index nothing", 1, "nothing is not a folder of features"),
    ("index photos", 1, "photos is not a folder of features"),
    ("index global", 1, "one vector for a whole image, in which no part can be found; extract with --what maps"),
    ("index maps -o maps", 2, "--out is the folder of features"),
    ("index maps -o photos", 2, "holds other files, like 0.png; give the index a folder of its own"),
    ("index maps --kind ivfpq", 1, "an ivfpq index needs 256 vectors or more to learn from, got 96; use flat"),
    ("index maps --seed -1", 2, "--seed"),
    ("search nothing photos/0.png -p 1,1", 1, "no such file; expected part of the folder that `geco index` wrote"),
    ("search maps photos/0.png -p 1,1", 1, "no such file; expected part of the folder that `geco index` wrote"),
    ("search maps-index photos/9.png -p 1,1", 1, "9.png"),
    ("search maps-index photos/0.png -p 101,1", 1, "outside the source image of 100×80"),
    ("search maps-index photos/0.png -p 1", 2, "a point is x,y in pixels"),
    ("search maps-index photos/0.png -p '1,1 2,2'", 2, "one point is searched for at a time, got 2"),
    ("search maps-index photos/0.png", 2, "Missing option '--point'"),
    ("search maps-index photos/0.png -p 1,1 -k 0", 2, "'--count'"),
    ("search maps-index photos/0.png -p 1,1 -k -5", 2, "'--count'"),
    ("search maps-index photos/0.png -p 1,1 --threshold 3", 1, "threshold must be"),
    ("search maps-index photos/0.png -p 1,1 -o x.pdf", 2, "--out must end in .png"),
    ("search maps-index photos/0.png -p 1,1 -o photos/0.png", 1, "is an input and would be overwritten"),
    ("search maps-index photos/0.png -p 1,1 --json --csv", 2, "choose one of --json and --csv"),
    ("search maps-index photos/0.png -p 1,1 --features photos", 1, "photos is not a folder of features"),
    ("search maps-index photos/0.png -p 1,1 --size 112", 1, "another model, size or layer"),
]


@pytest.mark.parametrize(("line", "code", "message"), MISTAKES)
def test_mistakes_are_one_line(place, capsys, tiny_folder, line, code, message):
    import shlex

    words = shlex.split(line)
    words += ["-m", str(tiny_folder)] if words[0] == "search" else []
    words += ["--size", "56"] if words[0] == "search" and "--size" not in words else []
    assert run(words) == code
    shown = capsys.readouterr()
    assert message in shown.err
    errors = [text for text in shown.err.splitlines() if text.startswith("error")]
    assert len(errors) == 1
    assert "Traceback" not in shown.err


def test_half_a_copy_of_the_features_is_one_line(place, capsys, tiny_folder):
    shard = next((place / "maps").rglob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    for line in (["index", "maps"], ["search", "maps-index", "photos/0.png", "-p", "1,1", "-m", str(tiny_folder)]):
        assert run(line) == 1
        assert "half a copy" in capsys.readouterr().err


def test_features_of_another_model_under_an_old_index_are_one_line(place, capsys, tiny_folder):
    path = place / "maps" / "geco-features.json"
    path.write_text(path.read_text().replace('"fingerprint": "', '"fingerprint": "x'))
    assert run(["search", "maps-index", "photos/0.png", "-p", "1,1", "-m", str(tiny_folder)]) == 1
    assert "index again" in capsys.readouterr().err


def test_reduced_features_are_searched_with_reduced_questions(place, tiny_folder):
    from geco import extraction, search
    from geco.extraction.settings import ExtractSettings

    encoder = geco.load(tiny_folder, size=56)
    sources = [extraction.Source(path.name, str(path)) for path in sorted((place / "photos").iterdir())]
    with extraction.begin(place / "small", lambda: sources, encoder, ExtractSettings(pca=8)) as job:
        extraction.bulk.run(job, encoder)
    index = search.build_index(extraction.open(place / "small"))
    assert index.features.dim == 8
    first = search.find(index, encoder, place / "photos" / "3.png", (40.5, 30.5)).hits[0]
    assert (first.name, first.xy) == ("3.png", (40.5, 30.5))
    assert first.score == pytest.approx(1, abs=1e-3)
