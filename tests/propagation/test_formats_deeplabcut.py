"""DeepLabCut's labels: tables as pandas writes them for it, whole projects, and nothing that is unpickled."""

import pickle
from dataclasses import replace

import annotated
import h5py
import numpy as np
import pytest
import torch
import yaml
from annotated import NAMES, label_set, write_images

from geco.errors import InputError, MissingFileError, MissingPackageError
from geco.propagation import UNKNOWN, VISIBLE, read_annotations, write_annotations

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
pytest.importorskip("tables", reason="PyTables is not installed")

PARTS = ("snout", "leftear", "rightear")
ROWS = np.array([[1.0, 2.0, 3.25, 4.5, np.nan, np.nan], [5.0, 6.0, np.nan, np.nan, 7.125, 8.0]])


def table(rows=("a.png", "b.png"), *, index="three", values=ROWS, individuals=(), scorer="Pranav", axes=("x", "y")):
    """A data frame as DeepLabCut makes it: images named in one or in three columns, or numbers of frames."""
    who = [list(individuals)] if individuals else []
    names = ["scorer", *(["individuals"] if individuals else []), "bodyparts", "coords"]
    columns = pandas.MultiIndex.from_product([[scorer], *who, PARTS, axes], names=names)
    places = [("labeled-data", "shots", row) for row in rows]
    indices = {
        "three": lambda: pandas.MultiIndex.from_tuples(places),
        "one": lambda: ["/".join(place) for place in places],
        "windows": lambda: ["\\".join(place) for place in places],
        "frames": lambda: list(range(len(rows))),
    }
    return pandas.DataFrame(values, index=indices[index](), columns=columns)


def saved(frame, path, **options):
    if path.suffix == ".csv":
        frame.to_csv(path)
    else:
        frame.to_hdf(path, key="df_with_missing", mode="w", **options)
    return path


@pytest.fixture
def shots(tmp_path):
    return write_images(tmp_path / "labeled-data" / "shots")


def check_read(labels, shots):
    assert [image.path.name for image in labels.images] == ["a.png", "b.png"]
    assert all(image.path.samefile(shots / image.path.name) for image in labels.images)
    assert labels.skeleton.names == PARTS, "in their order"
    assert labels.skeleton.mirror == (0, 2, 1)
    assert labels.details == {"scorer": "Pranav"}
    for image, row in zip(labels.images, ROWS, strict=True):
        (animal,) = image.animals
        placed = ~np.isnan(row.reshape(3, 2)[:, 0])
        assert np.allclose(animal.xy[placed].numpy(), row.reshape(3, 2)[placed] + 0.5, atol=1e-5)
        assert animal.state.tolist() == [VISIBLE if known else UNKNOWN for known in placed]


@pytest.mark.parametrize("index", ["three", "one", "windows"])
@pytest.mark.parametrize("ending", [".csv", ".h5"])
def test_tables_that_pandas_wrote(shots, index, ending):
    check_read(read_annotations(saved(table(index=index), shots / f"CollectedData_Pranav{ending}")), shots)


def test_the_layout_of_older_releases(shots):
    path = saved(table(index="one"), shots / "CollectedData_Pranav.h5", format="table")
    check_read(read_annotations(path), shots)


@pytest.mark.parametrize("ending", [".csv", ".h5"])
@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_several_animals(shots, ending, layout):
    if (ending, layout) == (".csv", "table"):
        pytest.skip("a layout of HDF5")
    values = np.concatenate([ROWS, ROWS + 20], axis=1)
    values[1, 6:] = np.nan
    frame = table(individuals=("mus1", "mus2"), values=values, index="one")
    labels = read_annotations(saved(frame, shots / f"C{ending}", **({} if ending == ".csv" else {"format": layout})))
    assert [[animal.track for animal in image.animals] for image in labels.images] == [["mus1", "mus2"], ["mus1"]]
    assert labels.images[0].animals[1].xy[0].tolist() == [21.5, 22.5]


@pytest.mark.parametrize("ending", [".csv", ".h5"])
def test_tracks_of_a_video(tmp_path, ending):
    values = np.concatenate([ROWS.reshape(2, 3, 2), np.full((2, 3, 1), 0.75)], axis=2).reshape(2, 9)
    frame = table(index="frames", values=values, axes=("x", "y", "likelihood"))
    path = saved(frame, tmp_path / f"filmDLC_resnet50_mouse{ending}")
    with pytest.raises(MissingFileError, match="numbers the frames of a video that is not there; name it with images="):
        read_annotations(path)
    for name in ("film.mp4", "other.avi"):
        (tmp_path / name).write_bytes(b"any")
    labels = read_annotations(path)
    assert [(image.path.name, image.frame) for image in labels.images] == [("film.mp4", 0), ("film.mp4", 1)]
    assert labels.images[0].animals[0].score[:2].tolist() == [0.75, 0.75]
    assert read_annotations(path, images=tmp_path / "other.avi").images[0].path.name == "other.avi"


# --- theirs reads ours ------------------------------------------------------------------------------------------------


def expected(labels, *, individuals):
    """What DeepLabCut should find: (image, individual, part) → place from the centre of the first pixel."""
    places = {}
    for image in labels.images:
        for number, animal in enumerate(image.animals, 1):
            name = animal.track or f"individual{number}" if individuals else ""
            for row in range(len(NAMES)):
                if animal.state[row] == VISIBLE:
                    places[image.path.name, name, NAMES[row]] = (animal.xy[row] - 0.5).tolist()
    return places


def found(frame):
    places = {}
    for place, row in frame.iterrows():
        for column in {column[:-1] for column in frame.columns}:
            xy = [row[(*column, "x")], row[(*column, "y")]]
            if not np.isnan(xy).any():
                places[place[-1], column[1] if len(column) == 3 else "", column[-1]] = xy
    return places


@pytest.mark.parametrize("several", [False, True])
def test_pandas_reads_ours(shots, several):
    ours = label_set(shots, tracks=True) if several else annotated.alone(shots)
    levels = 4 if several else 3
    csv = write_annotations(ours, shots / "CollectedData_Me.csv", format="deeplabcut")
    hdf = write_annotations(ours, shots / "CollectedData_Me.h5", format="deeplabcut")
    frames = [pandas.read_csv(csv, header=list(range(levels)), index_col=[0, 1, 2]), pandas.read_hdf(hdf)]
    truth = expected(ours, individuals=several)
    for frame in frames:
        assert frame.columns.names == ["scorer", *(["individuals"] if several else []), "bodyparts", "coords"]
        assert frame.index[0] == ("labeled-data", "shots", "a.png")
        places = found(frame)
        assert places.keys() == truth.keys()
        assert all(np.allclose(places[key], truth[key], atol=0.001) for key in truth)


def test_sleap_io_reads_ours(shots):
    sleap = pytest.importorskip("sleap_io")
    ours = label_set(shots, tracks=True)
    labels = sleap.load_dlc(str(write_annotations(ours, shots / "CollectedData_Me.csv", format="dlc")))
    frame = next(frame for frame in labels.labeled_frames if len(frame.instances) == 2)
    points = {instance.track.name: instance for instance in frame.instances}
    assert points["mouse 1"]["right ear"]["xy"].tolist() == [0.0, 0.0]
    assert np.allclose(points["mouse 0"]["snout"]["xy"], [9.75, 20.25])


def test_a_video_of_ours_is_a_table_of_frames(tmp_path):
    (tmp_path / "film.mp4").write_bytes(b"any")
    ours = label_set(tmp_path, tracks=True, scores=True)
    images = [replace(image, path=tmp_path / "film.mp4", frame=i) for i, image in enumerate(ours.images)]
    ours = replace(ours, images=images)
    path = write_annotations(ours, tmp_path / "film-tracks.h5")
    frame = pandas.read_hdf(path)
    assert frame.index.tolist() == [0, 1, 2]
    assert frame[("geco", "mouse 0", "snout", "likelihood")].tolist()[0] == pytest.approx(0.9)
    csv = pandas.read_csv(
        write_annotations(ours, tmp_path / "film.csv", format="dlc"), header=[0, 1, 2, 3], index_col=0
    )
    assert np.allclose(csv.to_numpy(), frame.to_numpy(), equal_nan=True)
    assert [image.frame for image in read_annotations(path).images] == [0, 1, 2]


def test_what_a_table_cannot_hold(tmp_path, shots):
    ours = annotated.alone(shots)
    twice = replace(ours, images=[ours.images[0], replace(ours.images[0], path=tmp_path / "x" / "shots" / "a.png")])
    with pytest.raises(InputError, match="two images are both called"):
        write_annotations(twice, tmp_path / "t.csv", format="dlc")
    mixed = replace(ours, images=[ours.images[0], replace(ours.images[1], frame=2)])
    with pytest.raises(InputError, match="holds images, or frames of one video"):
        write_annotations(mixed, tmp_path / "t.csv", format="dlc")
    same = replace(ours.images[0], animals=tuple(replace(annotated.FIRST, track="A") for _ in range(2)))
    with pytest.raises(InputError, match="two animals are called A"):
        write_annotations(replace(ours, images=[same]), tmp_path / "t.csv", format="dlc")


# --- projects ---------------------------------------------------------------------------------------------------------


def project(root, **changes):
    config = {"Task": "openfield", "scorer": "Pranav", "bodyparts": ["rightear", "snout", "leftear", "tailbase"]}
    config |= {"skeleton": [["snout", "leftear"], ["snout", "nowhere"]], "multianimalproject": False, **changes}
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def test_a_project(tmp_path, shots):
    other = write_images(tmp_path / "labeled-data" / "others", ["c.png"])
    saved(table(), shots / "CollectedData_Pranav.csv")
    frame = table(("c.png",), values=ROWS[:1], index="one")
    frame.index = ["labeled-data/others/c.png"]
    saved(frame, other / "CollectedData_Pranav.h5")
    for path in (project(tmp_path), tmp_path / "config.yaml"):
        labels = read_annotations(path)
        assert [image.path.relative_to(tmp_path).as_posix() for image in labels.images] == [
            "labeled-data/others/c.png",
            "labeled-data/shots/a.png",
            "labeled-data/shots/b.png",
        ]
        assert labels.skeleton.names == ("rightear", "snout", "leftear", "tailbase"), "as the project has them"
        assert labels.images[0].animals[0].xy[1].tolist() == [1.5, 2.5]
        assert labels.images[0].animals[0].state.tolist() == [UNKNOWN, VISIBLE, VISIBLE, UNKNOWN]
        assert (labels.edges, labels.category) == (((1, 2),), "openfield")


def test_points_that_belong_to_no_individual_are_a_skeleton_of_their_own(tmp_path, shots):
    frame = table(individuals=("mus1", "single"), values=np.concatenate([ROWS, ROWS], axis=1))
    frame = frame.drop(columns=[("Pranav", "single", "snout", axis) for axis in "xy"])
    path = saved(frame, shots / "CollectedData_Pranav.csv")
    with pytest.raises(
        InputError, match=r"mixes skeletons: .*\(individuals: 3, single: 2\); choose one with category="
    ):
        read_annotations(path)
    assert read_annotations(path, category="single").skeleton.names == PARTS[1:]
    assert [animal.track for animal in read_annotations(path, category="individuals").images[0].animals] == ["mus1"]


def test_sleap_io_reads_a_project_of_ours(tmp_path, shots):
    sleap = pytest.importorskip("sleap_io")
    path = write_annotations(label_set(shots, tracks=True, edges=((0, 3),)), tmp_path / "mouse-project", format="dlc")
    assert sorted(file.name for file in (path / "labeled-data" / "shots").iterdir()) == [
        "CollectedData_geco.csv",
        "CollectedData_geco.h5",
        "a.png",
        "b.png",
        "c.png",
    ]
    labels = sleap.load_dlc_project(str(path))
    assert sorted(labels.skeleton.node_names) == sorted(NAMES)
    assert len(labels.skeleton.edges) == 1
    assert sum(len(frame.instances) for frame in labels.labeled_frames) == 3


def test_projects_that_are_none(tmp_path):
    def refused(text, message, kind=InputError):
        (tmp_path / "config.yaml").write_text(text)
        with pytest.raises(kind, match=message):
            read_annotations(tmp_path)

    refused("a: [", "is not YAML that can be read")
    refused("[" * 5000, "is not YAML that can be read")
    refused("!!python/object/apply:os.system ['touch gone']", "is not YAML that can be read: could not determine")
    refused("- a", "has no scorer and no bodyparts")
    refused("scorer: Me\nbodyparts: [a]", "holds no CollectedData_", MissingFileError)
    assert not (tmp_path / "gone").exists()


# --- nothing is unpickled ---------------------------------------------------------------------------------------------


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_in_the_names_is_not_executed(tmp_path, shots, protocol):
    path = saved(table(index="one"), shots / "CollectedData_Pranav.h5", format="table")
    fuse = tmp_path / "fuse"
    with h5py.File(path, "r+") as file:
        file["df_with_missing/table"].attrs["values_block_0_kind"] = np.void(pickle.dumps([Bomb(fuse)], protocol))
    with pytest.raises(InputError, match="names are Python objects that are not read; use the CSV"):
        read_annotations(path)
    assert not fuse.exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_names_are_read_from_pickles_of_every_protocol(shots, protocol):
    path = saved(table(index="one"), shots / "CollectedData_Pranav.h5", format="table")
    names = table().columns.tolist()
    with h5py.File(path, "r+") as file:
        file["df_with_missing/table"].attrs["values_block_0_kind"] = np.void(pickle.dumps(names, protocol))
        file["df_with_missing"].attrs["non_index_axes"] = np.void(pickle.dumps([(1, names)], protocol))
    check_read(read_annotations(path), shots)


def test_an_index_of_objects_is_refused(shots):
    frame = table(index="one")
    frame.index = pandas.Index([b"a.png", 3.5], dtype=object)
    with pytest.warns(Warning, match="pickle"):
        path = saved(frame, shots / "CollectedData_Pranav.h5")
    with pytest.raises(InputError, match="stored as Python objects, which are not read"):
        read_annotations(path)


# --- what is wrong ----------------------------------------------------------------------------------------------------

GOOD = "scorer,Me,Me\nbodyparts,snout,snout\ncoords,x,y\na.png,1,2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace("coords", "axes"),
            "the first lines should be scorer, bodyparts and coords, got scorer, bodyparts, axes",
        ),
        (GOOD.replace("x,y", "x,z"), "coords should be x, y or likelihood, got 'z'"),
        (GOOD.replace("x,y", "x,x"), "two columns have the same scorer"),
        (GOOD.replace("1,2", "1"), "line 4: 2 cells, but the first line has 3"),
        (GOOD.replace("1,2", "one,2"), "line 4: expected a number for a coordinate, got 'one'"),
        (GOOD.replace("1,2", "1e300,2"), "line 4: expected a number"),
        (GOOD.replace("1,2", "inf,2"), "line 4: expected a number"),
        (GOOD.replace("a.png,1,2\n", ""), "holds no labels"),
        (GOOD.replace("scorer,Me,Me", "scorer,Me,You"), "has labels of several people"),
        (GOOD.replace("snout,snout", ","), "the name of a keypoint should be text, got ''"),
    ],
)
def test_tables_that_are_wrong(shots, text, message):
    (shots / "l.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_annotations(shots / "l.csv")


def test_without_packages_it_is_said_what_to_install(shots, monkeypatch):
    modules = __import__("sys").modules
    path = saved(table(), shots / "CollectedData_Pranav.h5")
    with monkeypatch.context() as patch:
        patch.setitem(modules, "h5py", None)
        with pytest.raises(MissingPackageError, match=r"needs h5py; install it with: pip install '.*\[labels\]'"):
            read_annotations(path)
    monkeypatch.setitem(modules, "tables", None)
    with pytest.raises(MissingPackageError, match="needs PyTables"):
        write_annotations(annotated.alone(shots), shots / "x.h5")
    assert not (shots / "x.h5").exists()


def test_one_animal_with_a_hidden_point_keeps_only_what_is_seen(shots):
    labels = read_annotations(write_annotations(annotated.alone(shots), shots / "l.csv", format="dlc"))
    assert labels.images[0].animals[0].state.tolist() == [VISIBLE, VISIBLE, UNKNOWN, UNKNOWN]
    assert torch.isnan(labels.images[0].animals[0].xy[3]).all()
