"""CVAT for images 1.1: an XML file of images with skeletons, or with single points; coordinates count from the corner.

A point of a skeleton is `occluded` if it is hidden and `outside` if it is not there; we write both for one that is
hidden somewhere unknown. Single points are named by their labels, and belong together by their group.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from geco import checks
from geco.data import image_size, number, read_xml
from geco.errors import InputError
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelSet
from geco.propagation.formats import tables
from geco.propagation.formats.contract import (
    DIGITS,
    Entry,
    Mark,
    Marked,
    Source,
    assemble,
    box_of,
    marks_of,
    one_kind,
    refuse_frames,
    size_of,
    written_name,
)

NAME, ENDINGS, SHIFT = "cvat", (".xml",), 0.0
EXPECTED = "annotations of CVAT, exported as `CVAT for images 1.1`"
VERSION = "1.1"
LOOSE = "points"  # the kind of animal that single points make
ADDED = ("score", "uncertainty")

Kinds = dict[str, list[str]]  # names of keypoints by the label of a skeleton
Edges = tuple[tuple[int, int], ...]


def read(source: Source) -> LabelSet:
    """The labels in CVAT's XML."""
    root = read_xml(source.path, what=EXPECTED)
    if root.tag != "annotations":
        raise InputError(f"{source.path} is XML of another kind (<{root.tag[:40]}>); expected {EXPECTED}")
    version = (root.findtext("version") or "none").strip()
    if version != VERSION:
        raise InputError(f"{source.path} has version {checks.shown(version)}; expected {EXPECTED}")
    if root.find("track") is not None:
        raise InputError(f"{source.path} has tracks of a video; expected {EXPECTED}")
    declared = {label: _nodes(label, root) for label in _skeletons(root)}
    kinds: Kinds = {}
    read_images = [_image(element, declared, kinds, str(source.path)) for element in root.iter("image")]
    if not kinds:
        if not declared:
            raise InputError(f"{source.path} holds no skeletons and no points; expected {EXPECTED}")
        kinds = declared
    category, names = one_kind(kinds, source)
    entries = []
    for entry, animals in read_images:
        entry.animals = [animal for kind, animal in animals if source.category in (None, kind)]
        entries.append(entry)
    bases = (source.path.parent, source.path.parent / "images")
    category = "animal" if category == LOOSE else category
    edges = _edges(root, category, names)
    return assemble(source, names, entries, shift=SHIFT, bases=bases, category=category, edges=edges, format=NAME)


def _skeletons(root: Element) -> Iterator[str]:
    """Labels of skeletons that the file declares."""
    for label in root.iterfind("meta//label"):
        if label.findtext("type") == "skeleton" and label.findtext("name"):
            yield str(label.findtext("name"))


def _nodes(skeleton: str, root: Element) -> list[str]:
    labels = [label for label in root.iterfind("meta//label") if label.findtext("parent") == skeleton]
    return [str(label.findtext("name")) for label in labels]


def _edges(root: Element, category: str, names: tuple[str, ...]) -> Edges:
    """Lines of the drawing of a skeleton; none if it cannot be understood, as they are only for pictures."""
    for label in root.iterfind("meta//label"):
        drawing = label.findtext("svg") or ""
        if label.findtext("name") == category and "<!" not in drawing:
            try:
                parts = list(ElementTree.fromstring(f"<svg>{drawing}</svg>").iter())
                nodes = {
                    part.get("data-node-id"): part.get("data-label-name") for part in parts if part.tag == "circle"
                }
                ends = [[nodes.get(part.get(f"data-node-{end}")) for end in ("from", "to")] for part in parts]
            except ElementTree.ParseError:
                return ()
            known = [(a, b) for a, b in ends if a in names and b in names]
            return tuple((names.index(str(a)), names.index(str(b))) for a, b in known)
    return ()


def _image(element: Element, declared: Kinds, kinds: Kinds, where: str) -> tuple[Entry, list[tuple[str, Marked]]]:
    """An image, and its animals with their kinds; names of keypoints that turn up are added to `kinds`."""
    name = _text(element, "name", where)
    where = f"{where}: {name}"
    sides = [_number(element, side, where) for side in ("height", "width")] if element.get("width") else None
    entry = Entry(name, size=image_size(sides[0], sides[1], where) if sides else None)
    animals: list[tuple[str, Marked, str]] = []
    for skeleton in element.iterfind("skeleton"):
        kind = _text(skeleton, "label", where)
        names = kinds.setdefault(kind, list(declared.get(kind, ())))
        marked = Marked(track=_attribute(skeleton, "track"))
        for point in skeleton.iterfind("points"):
            label = _text(point, "label", where)
            if label in marked.marks:
                raise InputError(f"{where}: a skeleton has {checks.shown(label)} twice")
            ((x, y),) = _coordinates(point, where, most=1)
            marked.marks[label] = _mark(point, x, y, where)
            if label not in names:
                names.append(label)
        animals.append((kind, marked, skeleton.get("group_id", "0")))
    animals += _loose(element, kinds, where)
    boxes = {box.get("group_id", "0"): box for box in element.iterfind("box")}
    for _, marked, group in animals:
        if group != "0" and group in boxes:
            corners = [_number(boxes[group], edge, where) for edge in ("xtl", "ytl", "xbr", "ybr")]
            marked.box = box_of(corners)
    return entry, [(kind, marked) for kind, marked, _ in animals]


def _loose(element: Element, kinds: Kinds, where: str) -> list[tuple[str, Marked, str]]:
    """Animals of points outside skeletons: named by their labels, or numbered where one shape holds several."""
    groups: dict[str, Marked] = {}
    several = []
    for shape in element.iterfind("points"):
        label, places = _text(shape, "label", where), _coordinates(shape, where)
        if len(places) > 1:
            marks = {f"point {i}": _mark(shape, x, y, where) for i, (x, y) in enumerate(places, 1)}
            if kinds.setdefault(label, list(marks)) != list(marks):
                counts = f"{len(kinds[label])} and {len(marks)}"
                raise InputError(f"{where}: shapes of {checks.shown(label)} with {counts} points; they mix skeletons")
            several.append((label, Marked(marks), shape.get("group_id", "0")))
            continue
        animal = groups.setdefault(shape.get("group_id", "0"), Marked())
        if label in animal.marks:
            about = "group the points of each animal in CVAT, or use a skeleton"
            raise InputError(f"{where}: there are two points {checks.shown(label)}; {about}")
        animal.marks[label] = _mark(shape, *places[0], where)
        names = kinds.setdefault(LOOSE, [])
        if label not in names:
            names.append(label)
    return [*several, *((LOOSE, animal, group) for group, animal in groups.items())]


def _mark(point: Element, x: float, y: float, where: str) -> Mark:
    occluded, outside = (_flag(point, key, where) for key in ("occluded", "outside"))
    scores = [tables.cell(_attribute(point, key), where, what=key) for key in ADDED]
    if outside:
        return Mark(state=HIDDEN if occluded else UNKNOWN, score=scores[0], uncertainty=scores[1])
    return Mark(x, y, HIDDEN if occluded else VISIBLE, *scores)


def _coordinates(shape: Element, where: str, *, most: int | None = None) -> list[tuple[float, float]]:
    text = _text(shape, "points", where)
    places = []
    for pair in text.split(";"):
        x, separator, y = pair.partition(",")
        if not separator:
            raise InputError(f"{where}: points should be `x,y;x,y;…`, got {checks.shown(text)}")
        places.append((number(x, where, what="x"), number(y, where, what="y")))
    if most is not None and len(places) != most:
        raise InputError(f"{where}: a keypoint of a skeleton should have one place, got {len(places)}")
    return places


def _text(element: Element, key: str, where: str) -> str:
    value = element.get(key)
    if not value:
        raise InputError(f"{where}: <{element.tag}> has no attribute {key!r}; expected {EXPECTED}")
    return value


def _number(element: Element, key: str, where: str) -> float:
    return number(_text(element, key, where), where, what=key)


def _flag(element: Element, key: str, where: str) -> bool:
    value = element.get(key, "0")
    if value not in ("0", "1"):
        raise InputError(f"{where}: {key} should be 0 or 1, got {checks.shown(value)}")
    return value == "1"


def _attribute(element: Element, name: str) -> str:
    return next((entry.text or "" for entry in element.iterfind("attribute") if entry.get("name") == name), "")


# --- writing ----------------------------------------------------------------------------------------------------------


def write(labels: LabelSet, path: Path, *, output: Path) -> None:
    """Write CVAT's XML, an animal as a skeleton."""
    refuse_frames(labels, "CVAT's format for images")
    _check_printable(labels)
    root = Element("annotations")
    SubElement(root, "version").text = VERSION
    _declare(SubElement(SubElement(SubElement(root, "meta"), "task"), "labels"), labels)
    group = 0
    for number_of, image in enumerate(labels.images):
        size = size_of(image)
        sides = {"width": str(size[1]), "height": str(size[0])} if size else {}
        about = {"id": str(number_of), "name": written_name(image.path, output), **sides}
        element = SubElement(root, "image", about)
        for animal in image.animals:
            group += 1
            _add(element, animal, labels, str(group))
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _check_printable(labels: LabelSet) -> None:
    tracks = {animal.track for image in labels.images for animal in image.animals}
    for text in (*labels.skeleton.names, labels.category, *tracks):
        if not text.isprintable():
            raise InputError(f"CVAT's format cannot hold the name {checks.shown(text)}; give it one of plain letters")


def _declare(parent: Element, labels: LabelSet) -> None:
    """The labels of the task: the skeleton with its drawing, keypoints in a row, and then each keypoint."""
    skeleton = SubElement(parent, "label")
    SubElement(skeleton, "name").text = labels.category
    SubElement(skeleton, "type").text = "skeleton"
    drawing = Element("svg")
    for row, name in enumerate(labels.skeleton.names, 1):
        place = {"cx": str(5 + 90 * row // (len(labels.skeleton) + 1)), "cy": "50", "r": "1.5"}
        node = {"data-type": "element node", "data-element-id": str(row), "data-node-id": str(row)}
        SubElement(drawing, "circle", {**place, **node, "data-label-name": name})
    for start, end in labels.edges:
        ends = {"data-node-from": str(start + 1), "data-node-to": str(end + 1)}
        SubElement(drawing, "line", {"data-type": "edge", **ends})
    parts = [ElementTree.tostring(part, encoding="unicode") for part in drawing]
    SubElement(skeleton, "svg").text = "".join(parts)
    for name in labels.skeleton.names:
        label = SubElement(parent, "label")
        for key, text in (("name", name), ("type", "points"), ("parent", labels.category)):
            SubElement(label, key).text = text


def _add(image: Element, animal: Animal, labels: LabelSet, group: str) -> None:
    common = {"source": "manual" if animal.score is None else "auto", "z_order": "0", "group_id": group}
    skeleton = SubElement(image, "skeleton", {"label": labels.category, **common})
    for name, mark in zip(labels.skeleton.names, marks_of(animal, shift=SHIFT), strict=True):
        place = f"{tables.shown(mark.x, DIGITS)},{tables.shown(mark.y, DIGITS)}" if mark.placed else "0,0"
        flags = {"occluded": str(int(mark.state == HIDDEN)), "outside": str(int(not mark.placed))}
        point = SubElement(skeleton, "points", {"label": name, "source": common["source"], **flags, "points": place})
        for key in ADDED:
            if (value := getattr(mark, key)) == value:
                SubElement(point, "attribute", name=key).text = tables.shown(value, 6)
    if animal.track:
        SubElement(skeleton, "attribute", name="track").text = animal.track
    if animal.box is not None:
        edges = zip(("xtl", "ytl", "xbr", "ybr"), animal.box, strict=True)
        corners = {edge: tables.shown(value, DIGITS) for edge, value in edges}
        SubElement(image, "box", {"label": labels.category, "occluded": "0", **common, **corners})
