"""Labels in our own table of points, and in CVAT's XML as its documentation describes it."""

from xml.etree import ElementTree

import pytest
from annotated import NAMES, label_set, write_images

from geco.errors import InputError
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, read_annotations, write_annotations


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / "shots")


def read_text(folder, name, text, **options):
    (folder / name).write_text(text)
    return read_annotations(folder / name, **options)


# --- tables of points -------------------------------------------------------------------------------------------------


def test_a_table_by_hand(folder):
    lines = ["Image, Name, X, Y, visible", "a.png,nose,10.5,20,1", "a.png,tail,,,0"]
    lines += ["b.png,nose,1,2,true", "b.png,tail,3,4,no", "c.png,,,,"]
    labels = read_text(folder, "l.csv", "\n".join(lines))
    assert labels.skeleton.names == ("nose", "tail")
    assert [image.path.name for image in labels.images] == ["a.png", "b.png", "c.png"]
    assert labels.images[0].animals[0].xy[0].tolist() == [10.5, 20.0], "from the corner, as everywhere in geco"
    assert [animal.state.tolist() for image in labels.images for animal in image.animals] == [[VISIBLE, HIDDEN]] * 2
    assert labels.images[2].animals == ()


def test_animals_and_tracks_of_a_table(folder):
    text = "image,animal,name,x,y\na.png,1,nose,1,2\na.png,Tom,nose,3,4\n"
    first, second = read_text(folder, "l.csv", text).images[0].animals
    assert (first.track, second.track, first.state.tolist()) == ("", "Tom", [VISIBLE])


def test_what_transfer_prints(folder):
    text = "name,source_x,source_y,target_x,target_y,score,visible\nnose,1,2,3.5,4.5,0.9,True\neye,5,6,7,8,0.1,False\n"
    with pytest.raises(InputError, match="does not say of which image its points are; add a column image, or name the"):
        read_text(folder, "l.csv", text)
    labels = read_text(folder, "l.csv", text, images=folder / "b.png")
    (image,) = labels.images
    assert (image.path, labels.skeleton.names) == (folder / "b.png", ("nose", "eye"))
    assert image.animals[0].xy.tolist() == [[3.5, 4.5], [7, 8]]
    assert image.animals[0].state.tolist() == [VISIBLE, HIDDEN]
    assert image.animals[0].score.tolist() == pytest.approx([0.9, 0.1])
    plain = read_text(folder, "l.csv", "x,y\n1,2\n3,4\n", images=folder / "b.png")
    assert plain.skeleton.names == ("point 1", "point 2")


def test_a_table_is_what_a_spreadsheet_shows(folder):
    path = write_annotations(label_set(folder), folder / "l.csv")
    lines = path.read_text().splitlines()
    assert lines[0] == "image,animal,name,x,y,visible"
    assert lines[1] == "a.png,1,snout,10.25,20.75,1"
    assert lines[3] == "a.png,1,right ear,,,"
    assert lines[8] == "a.png,2,tail base,,,0"
    assert lines[-1] == "c.png,,,,,"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,name,x,y\n", "holds no points"),
        ("image,name,x,x,y\na.png,n,1,1,2\n", "expected one column 'x'"),
        ("image,name,x,y\na.png,n,1\n", "line 2: 3 cells, but the first line names 4 columns"),
        ("image,name,x,y\n,n,1,2\n", "line 2: no image is named"),
        ("image,name,x,y\na.png,n,one,2\n", "line 2: expected a number for x, got 'one'"),
        ("image,name,x,y\na.png,n,1e300,2\n", "line 2: expected a number for x"),
        ("image,name,x,y\na.png,n,1,\n", "line 2: expected both x and y or neither"),
        (
            "image,name,x,y\na.png,n,1,2\na.png,n,1,2\n",
            "line 3: a.png has 'n' twice; number its animals in a column animal",
        ),
        ("image,name,x,y,visible\na.png,n,1,2,maybe\n", "line 2: visible should be 1 or 0, got 'maybe'"),
        ("image,name,x,y,visible\na.png,n,,,1\n", "line 2: the point is visible, but x and y are empty"),
        ("image,name,x,y,visible\na.png,n,1,2,\n", "line 2: there is a place, but visible is empty"),
        ("image,frame,name,x,y\na.png,-1,n,1,2\n", "line 2: frame should be the number of a frame"),
        ("image,box,name,x,y\na.png,1 2 3,n,1,2\n", "line 2: box should be `x0 y0 x1 y1`, got '1 2 3'"),
        ("image,name,x,y\na.png,,1,2\n", "the name of a keypoint should be text"),
        ('image,name,x,y\n"a.png,n,1,2\n', "is not a table with commas"),
    ],
)
def test_tables_that_are_wrong(folder, text, message):
    with pytest.raises(InputError, match=message):
        read_text(folder, "l.csv", text)


# --- CVAT -------------------------------------------------------------------------------------------------------------

LABELS = """<meta><task><labels>
 <label><name>gecko</name><type>skeleton</type><svg>
  &lt;circle data-node-id="1" data-label-name="nose"&gt;&lt;/circle&gt;
  &lt;circle data-node-id="2" data-label-name="left_eye"&gt;&lt;/circle&gt;
  &lt;line data-type="edge" data-node-from="2" data-node-to="1"&gt;&lt;/line&gt;</svg></label>
 <label><name>nose</name><type>points</type><parent>gecko</parent></label>
 <label><name>left_eye</name><type>points</type><parent>gecko</parent></label>
 <label><name>right_eye</name><type>points</type><parent>gecko</parent></label>
</labels></task></meta>"""
SKELETON = """<skeleton label="gecko" source="manual" z_order="0" group_id="4">
 <points label="right_eye" source="manual" outside="0" occluded="1" points="30.00,40.25"></points>
 <points label="nose" source="manual" outside="0" occluded="0" points="10.50,20.00"></points>
 <points label="left_eye" source="manual" outside="1" occluded="0" points="1.00,1.00"></points>
</skeleton>"""


def xml(*shapes, meta=LABELS):
    image = f'<image id="0" name="a.png" width="120" height="90">{"".join(shapes)}</image>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>{meta}{image}</annotations>'


def test_skeletons_of_cvat(folder):
    box = '<box label="gecko" occluded="0" xtl="1.00" ytl="2.00" xbr="60.00" ybr="70.50" z_order="0" group_id="4"/>'
    labels = read_text(folder, "l.xml", xml(SKELETON, box))
    assert labels.skeleton.names == ("nose", "left_eye", "right_eye"), "in the order of the task"
    assert labels.skeleton.mirror == (0, 2, 1)
    (image,) = labels.images
    (animal,) = image.animals
    assert (image.size, labels.category, labels.edges) == ((90, 120), "gecko", ((1, 0),))
    assert animal.state.tolist() == [VISIBLE, UNKNOWN, HIDDEN]
    assert (animal.xy[0].tolist(), animal.xy[2].tolist()) == ([10.5, 20], [30, 40.25]), "from the corner"
    assert animal.box == (1, 2, 60, 70.5)


def test_single_points_of_cvat(folder):
    def point(label, place, group=0, occluded=0):
        about = f'group_id="{group}"' if group else ""
        return f'<points label="{label}" source="manual" occluded="{occluded}" points="{place}" z_order="0" {about}/>'

    shapes = [point("nose", "1,2"), point("tail", "3,4", occluded=1), point("nose", "5,6", 1), point("tail", "7,8", 1)]
    labels = read_text(folder, "l.xml", xml(*shapes, meta=""))
    first, second = labels.images[0].animals
    assert labels.skeleton.names == ("nose", "tail")
    assert (first.state.tolist(), second.xy.tolist()) == ([VISIBLE, HIDDEN], [[5, 6], [7, 8]])
    labels = read_text(folder, "l.xml", xml(point("gecko", "1,2;3,4"), point("gecko", "5,6;7,8"), meta=""))
    assert (labels.skeleton.names, labels.category) == (("point 1", "point 2"), "gecko")
    assert len(labels.images[0].animals) == 2


def test_cvat_of_ours_is_as_documented(folder):
    root = ElementTree.parse(write_annotations(label_set(folder, boxes=True, tracks=True), folder / "l.xml")).getroot()
    assert root.findtext("version") == "1.1"
    labels = [
        (label.findtext("name"), label.findtext("type"), label.findtext("parent")) for label in root.iter("label")
    ]
    assert labels == [("mouse", "skeleton", None), *((name, "points", "mouse") for name in NAMES)]
    image = root.find("image")
    assert {key: image.get(key) for key in ("id", "name", "width", "height")} == {
        "id": "0",
        "name": "a.png",
        "width": "120",
        "height": "90",
    }
    points = image.find("skeleton").findall("points")
    assert [point.get("label") for point in points] == list(NAMES)
    assert [(point.get("outside"), point.get("occluded")) for point in points] == [
        ("0", "0"),
        ("0", "0"),
        ("1", "0"),
        ("0", "1"),
    ]
    assert points[0].get("points") == "10.25,20.75"
    assert image.find("box").get("group_id") == image.find("skeleton").get("group_id")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (xml(SKELETON.replace('label="gecko"', "")), "<skeleton> has no attribute 'label'"),
        (xml(SKELETON.replace("10.50,20.00", "10.50")), "points should be `x,y;x,y;…`, got '10.50'"),
        (xml(SKELETON.replace("10.50,20.00", "1,2;3,4")), "a keypoint of a skeleton should have one place, got 2"),
        (xml(SKELETON.replace("10.50", "nan")), "expected a number for x, got 'nan'"),
        (xml(SKELETON.replace("10.50", "1e99")), "expected a number for x, got '1e99'"),
        (xml(SKELETON.replace('occluded="1"', 'occluded="maybe"')), "occluded should be 0 or 1, got 'maybe'"),
        (xml(SKELETON.replace("right_eye", "nose")), "a skeleton has 'nose' twice"),
        (xml(SKELETON, SKELETON.replace("gecko", "newt")), "mixes skeletons: .*choose one with category="),
        (
            xml('<points label="a" points="1,2"/><points label="a" points="1,2"/>', meta=""),
            "there are two points 'a'; group",
        ),
        (xml('<points label="a" points="1,2;3,4"/><points label="a" points="1,2;3,4;5,6"/>', meta=""), "mix skeletons"),
        (xml(SKELETON).replace('width="120"', 'width="0"'), "height and width should be numbers of pixels"),
        (xml(SKELETON)[:-20], "not XML"),
    ],
)
def test_cvat_that_is_wrong(folder, text, message):
    with pytest.raises(InputError, match=message):
        read_text(folder, "l.xml", text)


def test_a_kind_of_cvat_can_be_chosen(folder):
    newt = SKELETON.replace("gecko", "newt").replace("right_eye", "tail")
    labels = read_text(folder, "l.xml", xml(SKELETON, newt), category="newt")
    assert (labels.skeleton.names, len(labels.images[0].animals)) == (("tail", "nose", "left_eye"), 1)
