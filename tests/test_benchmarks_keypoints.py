"""The keypoint benchmark on painted animals: exact counts, images encoded once, killed, resumed, shared."""

import dataclasses
import json
import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import painted
import pytest
import torch
from torch.nn import functional

from geco.benchmarks import keypoints
from geco.benchmarks._features import FeatureStore, Processes
from geco.benchmarks._journal import Prediction
from geco.config.evaluation import PROTOCOLS, KeypointSettings, Protocol, protocols_named
from geco.types import Keypoints

QUICK = KeypointSettings(resamples=50, batch_size=3, radii=(0.05, 0.1))
ALL = tuple(PROTOCOLS.values())


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small tensors: a second thread only waits, for long if others use the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def upsampled_argmax(source, target, points):
    """The definition: upsample all channels in double precision, normalise, take the best pixel."""
    height, width = target.size
    big = functional.interpolate(target.values.double()[None], size=(height, width), mode="bilinear")[0]
    big = functional.normalize(big, dim=0)
    grid = 2 * points.double() / torch.tensor([source.size[1], source.size[0]]) - 1
    read = functional.grid_sample(
        source.values.double()[None], grid[None, None], align_corners=False, padding_mode="border"
    )
    query = functional.normalize(read[0, :, 0], dim=0)
    index = torch.einsum("ck,chw->khw", query, big).flatten(1).argmax(-1)
    return torch.stack([index % width + 0.5, index // width + 0.5], -1)


def naive_counts(model, pairs, alpha):
    counts = dict.fromkeys(["11", "10", "1x", "01", "00", "hat", "underline", "overline", "01 twin"], 0)
    for pair in pairs:
        maps = model.extract_batch([pair.source.image, pair.target.image])
        places = upsampled_argmax(*maps, pair.source.keypoints.xy)
        truth, radius = pair.target.keypoints, alpha * max(pair.target.size)
        for i, j in enumerate(pair.skeleton.twin):
            if not pair.source.keypoints.visible[i]:
                continue
            near = [bool(truth.visible[x]) and math.dist(places[i], truth.xy[x]) <= radius for x in (i, j)]
            seen = [bool(truth.visible[x]) for x in (i, j)]
            case = f"{int(seen[0])}{int(seen[1])}" if i != j else ("1x" if seen[0] else "00")
            counts[case] += 1
            counts["hat"] += near[0]
            counts["underline"] += case == "11" and near[0] and not near[1]
            counts["overline"] += case == "11" and near[1] and not near[0]
            counts["01 twin"] += case == "01" and near[1]
    return counts


@pytest.mark.parametrize("blind", [False, True])
def test_counts_equal_the_definition(blind):
    pairs = painted.pairs(24)
    model = painted.Painter(blind)
    report = keypoints.run(model, pairs, settings=QUICK)
    counted = report.counts["geco"]
    at = counted["alphas"].index(0.1)
    total = counted["all"]
    wanted = naive_counts(model, pairs, 0.1)
    assert total["n"] == {case: wanted[case] for case in ("11", "10", "1x", "01", "00")}
    assert sum(line[at] for line in total["hat"].values()) == wanted["hat"]
    assert total["underline_11"][at] == wanted["underline"]
    assert total["overline_11"][at] == wanted["overline"]
    assert total["overline_01"][at] == wanted["01 twin"]
    assert all(value > 0 for value in total["n"].values()), "the data must contain every case"
    if blind:
        assert wanted["overline"] > 0
        assert wanted["01 twin"] == wanted["01"] > 0


def test_perfect_features_are_perfect_and_notice_what_is_hidden():
    report = keypoints.run(painted.Painter(), painted.pairs(), ALL, settings=QUICK)
    for name in PROTOCOLS:
        assert report.values[f"{name} PCK@0.1"] == 1
        assert report.intervals[f"{name} PCK@0.1"] == (1, 1)
        assert report.values[f"{name} 11 to twin"] == 0
        assert report.values[f"{name} hidden auc"] == 1
    blind = keypoints.run(painted.Painter(blind=True), painted.pairs(), settings=QUICK)
    assert blind.values["geco PCK@0.1"] < 1
    assert blind.values["geco 01 to twin"] == 1
    assert blind.values["geco hidden auc"] < 1


def test_every_image_is_encoded_once_even_if_memory_holds_one(tmp_path):
    pairs = painted.pairs(40)
    used = {view.name for pair in pairs for view in (pair.source, pair.target)}
    plain = keypoints.run(painted.Painter(), pairs, settings=QUICK)
    for memory, cache in ((0, None), (0, tmp_path / "cache"), (1 << 30, None)):
        model = painted.Painter()
        settings = dataclasses.replace(QUICK, memory=memory)
        report = keypoints.run(model, pairs, ALL, settings=settings, cache=cache)
        assert model.seen == len(used)
        assert report.counts["geco"] == plain.counts["geco"]
    again = painted.Painter()
    keypoints.run(again, pairs, settings=QUICK, cache=tmp_path / "cache")
    assert again.seen == 0
    other = painted.Painter(blind=True)
    keypoints.run(other, pairs, settings=QUICK, cache=tmp_path / "cache")
    assert other.seen == len(used)  # the cache belongs to the model that filled it


def test_memory_stays_within_its_budget():
    views = painted.views(6)
    one = painted.Painter().extract_batch([views[0].image])[0].values.nbytes
    with FeatureStore(painted.Painter(), memory=2 * one, batch_size=2) as store:
        for view in [*views, *views]:
            store.get(view)
            assert store._bytes <= 2 * one
            assert store._bytes == sum(features.values.nbytes for _, features in store._held.values())
        assert store.encoded == 6
        for view in views:
            store.drop(view)
        assert store._bytes == 0
        assert not list(store._folder.iterdir())


def test_a_changed_file_is_not_taken_from_the_cache(tmp_path):
    view = painted.views(1, folder=tmp_path)[0]
    for _ in range(2):
        with FeatureStore(painted.Painter(), memory=0, folder=tmp_path / "cache") as store:
            first = store.get(view)
    assert store.encoded == 0
    os.utime(view.image, (1, 1))
    with FeatureStore(painted.Painter(), memory=0, folder=tmp_path / "cache") as store:
        assert torch.equal(store.get(view).values, first.values)
        assert store.encoded == 1


def test_protocols_do_not_influence_each_other():
    pairs, model = painted.pairs(), painted.Painter(blind=True)
    together = keypoints.run(model, pairs, ALL, settings=QUICK)
    for protocol in ALL:
        alone = keypoints.run(model, pairs, [protocol], settings=QUICK)
        assert together.counts[protocol.name] == alone.counts[protocol.name]
        assert together.samples[protocol.name] == alone.samples[protocol.name]
        for key, value in alone.values.items():
            assert together.values[key] == pytest.approx(value, rel=1e-12, nan_ok=True)  # sums in another order


def test_tables_show_definitions_categories_and_the_sweep():
    pairs = painted.pairs()
    report = keypoints.run(painted.Painter(blind=True), pairs, ALL, settings=QUICK, label="stub", data="zoo")
    tables = {table.name: table for table in report.tables}
    assert PROTOCOLS["bbox-image"].definition in tables["pck-bbox-image"].note
    assert [row[0] for row in tables["pck-geco"].rows] == ["cat", "dog", "all"]
    assert [row[0] for row in tables["radii"].rows] == ["0.05", "0.1"]
    whole = tables["pck-geco"].rows[-1]
    assert whole[1] == len(pairs)
    assert whole[-2].value == pytest.approx(100 * report.values["geco PCK@0.1"])
    assert whole[-2].low <= whole[-2].value <= whole[-2].high
    headline = {
        row[0]: dict(zip(tables["headline"].columns[1:], row[1:], strict=True)) for row in tables["headline"].rows
    }
    twins = dict(zip(tables["pgck-geco"].columns, tables["pgck-geco"].rows[-1], strict=True))
    for name in ("11 correct", "11 clear", "11 to twin", "01 to twin"):
        estimate = headline[name]["geco"]
        assert estimate.value == pytest.approx(twins[name])
        assert estimate.low <= estimate.value <= estimate.high
    confused = headline["11 confused"]["geco"].value
    assert confused == pytest.approx(100 * twins["11 to twin"] / (twins["11 correct"] + twins["11 to twin"]))
    assert headline["hidden ap"]["geco"].value == pytest.approx(tables["hidden"].rows[0][2])
    shares = tables["imbalance"].rows[-1][2:5]
    assert sum(shares) == pytest.approx(100)
    per_image = [
        n / d
        for n, d in zip(
            [row[2] for row in report.samples["geco"]["numerator"]],
            [row[2] for row in report.samples["geco"]["denominator"]],
            strict=True,
        )
        if d
    ]
    same = Protocol("by-image", "", average="image")
    assert keypoints.run(painted.Painter(blind=True), pairs, [same], settings=QUICK).values[
        "by-image PCK@0.1"
    ] == pytest.approx(sum(per_image) / len(per_image))
    drawn = keypoints.draw([report])
    assert {"pck__geco", "imbalance", "roc_of_hidden_points__geco"} <= set(drawn)


def test_an_empty_category_is_a_dash():
    pairs = painted.pairs(6)
    hidden = Keypoints(torch.zeros(5, 2), torch.zeros(5, dtype=torch.bool))
    unseen = dataclasses.replace(pairs[0].target, keypoints=hidden)
    pairs.append(dataclasses.replace(pairs[0], target=unseen, category="ant"))
    pairs.append(dataclasses.replace(pairs[0], source=unseen, category="bee"))
    report = keypoints.run(painted.Painter(), pairs, settings=QUICK)
    tables = {table.name: table for table in report.tables}
    for row in tables["pck-geco"].rows[:2]:
        assert row[0] in ("ant", "bee")
        assert row[2] == 0
        assert all(math.isnan(cell.value) for cell in row[3:])
    assert all(math.isnan(cell) for cell in tables["pgck-geco"].rows[0][1:])


def test_two_runs_are_compared_pair_by_pair():
    pairs = painted.pairs(40)
    good = keypoints.run(painted.Painter(), pairs, settings=QUICK, label="good")
    bad = keypoints.run(painted.Painter(blind=True), pairs, settings=QUICK, label="bad")
    table = keypoints.compare(bad, good)
    name, first, second, difference = table.rows[2]
    assert name == "geco PCK@0.1"
    assert difference.value == pytest.approx(second - first)
    assert 0 < difference.low <= difference.value <= difference.high
    assert all(row[3].low == row[3].high == 0 for row in keypoints.compare(good, good).rows)
    other = keypoints.run(painted.Painter(), painted.pairs(40, seed=5), settings=QUICK)
    with pytest.raises(ValueError, match="were not judged on the same pairs"):
        keypoints.compare(good, other)
    box = keypoints.run(painted.Painter(), pairs, [PROTOCOLS["bbox-image"]], settings=QUICK)
    with pytest.raises(ValueError, match="share no protocol"):
        keypoints.compare(good, box)
    older = dataclasses.replace(good, samples={"geco": {"alphas": [0.1], "numerator": [], "denominator": []}})
    with pytest.raises(ValueError, match="not counted alike under geco; evaluate both again"):
        keypoints.compare(older, good)


def test_examples_are_of_the_cases_they_stand_for():
    pairs = painted.pairs(40)
    model = painted.Painter(blind=True)
    made = keypoints.predict(model, pairs, keypoints.ways(ALL[:1]), settings=QUICK)
    found = keypoints.examples(model, pairs, made, count=3)
    assert {case: len(some) for case, some in found.items()} == {"11": 3, "10": 3, "01": 3}
    for case, some in found.items():
        for example in some:
            assert (example.match is not None, example.twin is not None) == (case[0] == "1", case[1] == "1")
            assert example.heat.shape == example.target.shape[-2:]
            peak = int(example.heat.flatten().argmax())
            width = example.heat.shape[1]
            assert example.predicted.tolist() == [peak % width + 0.5, peak // width + 0.5]


# --- runs that are stopped, continued and shared ------------------------------------------------------------

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import painted
from geco.benchmarks import keypoints
from geco.benchmarks._features import Processes
from geco.config.evaluation import KeypointSettings
from pathlib import Path

folder, die_after, shared = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "shared"
(folder / "images").mkdir(parents=True, exist_ok=True)
processes = Processes()
if shared:
    from accelerate import PartialState
    state = PartialState(cpu=True)
    processes = Processes(state.process_index, state.num_processes, state.wait_for_everyone)
    assert state.num_processes == 2
model = painted.Painter(blind=True, log=folder / f"log-{{processes.index}}", die_after=die_after or None)
pairs = painted.pairs(60, images=12, folder=None if shared else folder / "images")
settings = KeypointSettings(resamples=20, batch_size=2)
report = keypoints.run(model, pairs, settings=settings, folder=folder / "run", processes=processes)
if processes.index == 0:
    (folder / "counts.json").write_text(__import__("json").dumps(report.counts))
"""


def start(tmp_path, *words, **environment):
    script = tmp_path / "judge.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def reference_counts():
    report = keypoints.run(
        painted.Painter(blind=True), painted.pairs(60, images=12), settings=KeypointSettings(resamples=20)
    )
    return json.loads(json.dumps(report.counts))


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "a"
    killed = start(tmp_path, folder, 9, "alone")
    _, errors = killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL, errors
    finished = len((folder / "run" / "predictions-0.jsonl").read_text().splitlines())
    assert 0 < finished < 60
    with (folder / "run" / "predictions-0.jsonl").open("a") as journal:
        journal.write('{"pair": 59, "xy": [[[1.')  # as if it had died in the middle of a line
    resumed = start(tmp_path, folder, 0, "alone")
    _, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert json.loads((folder / "counts.json").read_text()) == reference_counts()
    encoded = (folder / "log-0").read_text().splitlines()
    assert len(encoded) - len(set(encoded)) <= 2  # at most the batch during which it died
    assert len(set(encoded)) == 12
    assert not (folder / "run" / "features").exists()


def test_two_processes_count_what_one_counts(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path / "b"
    both = [
        start(
            tmp_path,
            folder,
            0,
            "shared",
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        for rank in range(2)
    ]
    for process in both:
        _, errors = process.communicate(timeout=180)
        assert process.returncode == 0, errors
    assert json.loads((folder / "counts.json").read_text()) == reference_counts()
    logs = [(folder / f"log-{rank}").read_text().splitlines() for rank in range(2)]
    assert len(logs[0]) + len(logs[1]) == len({*logs[0], *logs[1]}) == 12  # nothing encoded twice
    assert min(map(len, logs)) > 0
    written = [len((folder / "run" / f"predictions-{n}.jsonl").read_text().splitlines()) for n in range(2)]
    assert sum(written) == 60
    assert min(written) > 0


def test_a_folder_belongs_to_one_model_and_one_set_of_pairs(tmp_path):
    pairs = painted.pairs(6)
    keypoints.run(painted.Painter(), pairs, settings=QUICK, folder=tmp_path)
    finished = painted.Painter()
    keypoints.run(finished, pairs, settings=QUICK, folder=tmp_path)
    assert finished.seen == 0
    with pytest.raises(ValueError, match="holds a run with another model; give another folder, or delete this one"):
        keypoints.run(painted.Painter(blind=True), pairs, settings=QUICK, folder=tmp_path)
    with pytest.raises(ValueError, match="holds a run with another pairs"):
        keypoints.run(painted.Painter(), pairs[:5], settings=QUICK, folder=tmp_path)
    with pytest.raises(ValueError, match="holds a run with another matching"):
        keypoints.run(painted.Painter(), pairs, ALL, settings=QUICK, folder=tmp_path)


def test_progress_is_told():
    told = []
    pairs = painted.pairs(10)
    keypoints.run(painted.Painter(), pairs, settings=QUICK, progress=lambda *news: told.append(news))
    assert told[-1] == ("score", 10, 10)
    encoded = [done for what, done, _ in told if what == "encode"]
    assert encoded == sorted(encoded)
    assert encoded[-1] == len({view.name for pair in pairs for view in (pair.source, pair.target)})


def test_mistakes_are_explained(tmp_path):
    pairs, model = painted.pairs(4), painted.Painter()
    with pytest.raises(ValueError, match="nothing to judge: 0 pairs under 1 protocols"):
        keypoints.run(model, [])
    boxless = dataclasses.replace(pairs[0], target=dataclasses.replace(pairs[0].target, box=None))
    with pytest.raises(ValueError, match=r"protocol bbox-image needs boxes, animal . has none"):
        keypoints.run(model, [boxless], [PROTOCOLS["bbox-image"]])
    bare = dataclasses.replace(pairs[0], source=dataclasses.replace(pairs[0].source, keypoints=None))
    with pytest.raises(ValueError, match="has no keypoints; the keypoint benchmark needs annotated pairs"):
        keypoints.run(model, [bare])
    nameless = dataclasses.replace(pairs[0], source=dataclasses.replace(pairs[0].source, name=""))
    with pytest.raises(ValueError, match="needs a name, so that its image is encoded only once"):
        keypoints.run(model, [nameless])
    with pytest.raises(ValueError, match="2 processes need a run folder that all of them see"):
        keypoints.run(model, pairs, processes=Processes(0, 2))
    with pytest.raises(ValueError, match="no protocol 'gecko'; choices: geco, geco-apk, bbox-image"):
        protocols_named(("gecko",))
    keypoints.run(model, pairs, settings=QUICK, cache=tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"of the feature cache is damaged .*; delete it"):
        keypoints.run(model, pairs, settings=QUICK, cache=tmp_path)


@pytest.mark.skipif("GECO_DATA" not in os.environ, reason="set GECO_DATA to the folder of datasets")
def test_the_shares_of_real_birds_are_those_of_the_paper():
    from geco.datasets import cub

    pairs = cub.load(Path(os.environ["GECO_DATA"]) / "CUB_200_2011", "test", n_pairs=2000)
    nowhere = {}
    for index, pair in enumerate(pairs):
        asked = int(pair.source.keypoints.visible.sum())
        nowhere[index] = Prediction(torch.zeros(1, asked, 2, dtype=torch.float64), torch.zeros(1, asked).double())
    report = keypoints.summarise(pairs, nowhere, [Protocol()], settings=QUICK, label="nowhere", data="cub")
    shares = next(table for table in report.tables if table.name == "imbalance").rows[-1]
    assert shares[2] == pytest.approx(11, abs=2)
    assert shares[4] == pytest.approx(78, abs=2)
