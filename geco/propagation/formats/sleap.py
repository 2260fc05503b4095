"""SLEAP: labels of a project (.slp) read and written by sleap-io; its tables of tracks (.h5, .csv) are written only.

SLEAP counts from the centre of the first pixel (since its format 1.1; sleap-io converts older files). A point with a
place and `visible` off is hidden; one without a place is not labelled. We write a point that is hidden somewhere
unknown as one without a place that is `complete`, and read it so in files that say they are ours.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geco import checks
from geco.data import PIXEL_CENTRE, involution, named
from geco.errors import GecoError, InputError, MissingPackageError
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.propagation.formats import hdf5
from geco.propagation.formats.contract import Entry, Mark, Marked, Source, assemble, check_names, marks_of, size_of
from geco.system import documents
from geco.types import Size, Skeleton

if TYPE_CHECKING:
    import sleap_io

NAME, ENDINGS = "sleap", (".slp", ".h5", ".csv")
EXPECTED = "labels of SLEAP (.slp)"
ROWS = ("frames", "instances", "pred_points")  # of a project with predictions
WRITER = "labels_written_by"  # key of a project's provenance that marks our files


def recognises(keys: set[str]) -> bool:
    """Whether an HDF5 file with these entries is a project of SLEAP."""
    return {"metadata", "videos_json", "frames", "instances", "points"} <= keys


@contextmanager
def guarded(path: Path) -> Iterator[Any]:
    """sleap-io; whatever it raises is one line about this file."""
    try:
        import sleap_io
    except ImportError:
        raise MissingPackageError.of_extra("labels", "sleap-io", what="reading or writing labels of SLEAP") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield sleap_io
    except GecoError:
        raise
    except MemoryError:
        raise InputError(f"{path} needs more memory than there is; is it damaged?") from None
    except Exception as error:  # a damaged file makes its reader stumble over anything
        reason = " ".join(str(error).split())[:140] or type(error).__name__
        raise InputError(f"{documents.place(path)} is damaged, or not {EXPECTED}: {reason}") from None


def read(source: Source) -> LabelSet:
    """The labels of a project of SLEAP: what people marked or, if they marked nothing, the predictions."""
    with hdf5.opened(source.path, expected=EXPECTED) as file:
        hdf5.check_texts(file, source.path)
    with guarded(source.path) as sleap:
        project = sleap.load_slp(str(source.path), open_videos=False)
        frames = list(project.labeled_frames)
        by_hand = any(frame.user_instances for frame in frames)
        used = [frame.user_instances if by_hand else frame.predicted_instances for frame in frames]
        skeleton = _one_skeleton(project, used, source)
        ours = project.provenance.get(WRITER) == "geco"
        pairs = zip(frames, used, strict=True)
        entries = [_entry(frame, instances, skeleton, ours, source) for frame, instances in pairs]
        names = check_names(list(skeleton.node_names), str(source.path))
        edges = tuple((int(start), int(end)) for start, end in skeleton.edge_inds)
        pairs_of = [tuple(sorted(map(int, pair))) for pair in skeleton.symmetry_inds]
        category = str(skeleton.name or "animal")
    table = involution(len(names), pairs_of)
    return assemble(
        source,
        names,
        entries,
        shift=PIXEL_CENTRE,
        bases=(source.path.parent,),
        skeleton=Skeleton(names, table, table) if pairs_of else named(names),
        edges=edges,
        category=category,
        format=NAME,
    )


def _one_skeleton(project: Any, used: list[Any], source: Source) -> Any:
    """The skeleton of the instances; the one whose name the user chose, of several."""
    kinds = {id(instance.skeleton): instance.skeleton for instances in used for instance in instances}
    skeletons = list(kinds.values()) or list(project.skeletons)
    if source.category is not None:
        skeletons = [skeleton for skeleton in skeletons if skeleton.name == source.category]
    if not skeletons:
        about = f" named {checks.shown(source.category)}" if source.category is not None else ""
        raise InputError(f"{source.path} has no skeleton{about}; expected {EXPECTED}")
    if len({tuple(skeleton.node_names) for skeleton in skeletons}) > 1:
        about = documents.listed(f"{skeleton.name}: {len(skeleton.nodes)}" for skeleton in skeletons)
        raise InputError(f"{source.path} mixes skeletons ({about}); choose one by its name with category=")
    return skeletons[0]


def _entry(frame: Any, instances: list[Any], skeleton: Any, ours: bool, source: Source) -> Entry:
    video, number = frame.video, int(frame.frame_idx)
    crop = (video.backend_metadata or {}).get("crop")
    if _is_inside(video, source.path):
        if video.source_video is None:
            raise InputError(f"{source.path} holds its images inside; expected one that names its videos or images")
        video = video.source_video
    shape = None if crop else (video.backend_metadata or {}).get("shape")
    size = (int(shape[1]), int(shape[2])) if shape is not None and len(shape) == 4 and all(shape[1:3]) else None
    if isinstance(video.filename, list):
        if not 0 <= number < len(video.filename):
            raise InputError(f"{source.path}: frame {number} of {len(video.filename)} images; the file is damaged")
        entry = Entry(str(video.filename[number]), size=size)
    else:
        entry = Entry(str(video.filename), frame=checks.whole(number, f"{source.path}: frame", least=0), size=size)
    corner = (float(crop[0]), float(crop[1])) if crop else (0.0, 0.0)
    same = [instance for instance in instances if instance.skeleton.node_names == skeleton.node_names]
    entry.animals = [_animal(instance, ours, corner, str(source.path)) for instance in same]
    return entry


def _is_inside(video: Any, path: Path) -> bool:
    """Whether the images of a video are in the file of labels itself."""
    return isinstance(video.filename, str) and Path(video.filename).name == path.name


def _animal(instance: Any, ours: bool, corner: tuple[float, float], where: str) -> Marked:
    marks = {}
    for name, point in zip(instance.skeleton.node_names, instance.points, strict=True):
        x, y = (float(value) + start for value, start in zip(point["xy"], corner, strict=True))
        score = float(point["score"]) if "score" in (instance.points.dtype.names or ()) else math.nan
        placed = math.isfinite(x) and math.isfinite(y)
        if placed and max(abs(x), abs(y)) > 1e9:
            raise InputError(f"{where}: {checks.shown(str(name))} lies at ({x:g}, {y:g}); the file is damaged")
        state = (VISIBLE if point["visible"] else HIDDEN) if placed else UNKNOWN
        if not placed and ours and point["complete"]:
            state = HIDDEN
        marks[str(name)] = Mark(x, y, state, score) if placed else Mark(state=state, score=score)
    return Marked(marks, track=str(instance.track.name) if instance.track is not None else "")


# --- writing ----------------------------------------------------------------------------------------------------------


def write(labels: LabelSet, path: Path, *, output: Path) -> None:
    """Write a project (.slp), or tracks of one video as SLEAP's analysis table (.h5, .csv)."""
    with guarded(output) as sleap:
        project = _project(labels, sleap)
        if output.suffix.lower() == ".slp":
            sleap.save_slp(project, str(path), embed=False, verbose=False)
        elif output.suffix.lower() == ".h5":
            _check_one_video(labels, output)
            sleap.save_analysis_h5(project, str(path), all_frames=False)
        else:
            _check_one_video(labels, output)
            sleap.save_csv(project, str(path), format="sleap")


def append(labels: LabelSet, path: Path, *, output: Path, begin: bool) -> None:
    """Write predicted frames of a video to the end of a project (.slp), or to a new one.

    sleap-io writes a project whole. Frames to add are written to one of their own beside it, whose rows are then
    copied, with the numbers that they refer to each other by moved on: memory does not grow with the video.
    """
    if begin:
        write(labels, path, output=output)
        return
    part = path.with_name(f".{path.name}.more")
    try:
        write(labels, part, output=output)
        with guarded(output):
            _join(part, path)
    finally:
        part.unlink(missing_ok=True)


def _join(part: Path, path: Path) -> None:
    """Add the rows of one project to another of the same video and skeleton."""
    import h5py

    with h5py.File(part, "r") as source, h5py.File(path, "r+") as target:
        frames, instances, points = (len(target[name]) for name in ROWS)
        moved = {"frame_id": frames, "instance_id": instances, "instance_id_start": instances}
        moved |= {"instance_id_end": instances, "point_id_start": points, "point_id_end": points}
        for name in ROWS:
            rows, old = source[name][:], target[name]
            for column in set(rows.dtype.names) & set(moved):
                rows[column] += np.asarray(moved[column], dtype=rows.dtype[column])
            if old.maxshape[0] is not None:  # as sleap-io makes them: of fixed length
                first, attributes = old[:], dict(old.attrs)
                del target[name]
                old = target.create_dataset(name, data=first, maxshape=(None,), chunks=(4096,))
                old.attrs.update(attributes)
            old.resize(len(old) + len(rows), axis=0)
            old[-len(rows) :] = rows


def _check_one_video(labels: LabelSet, output: Path) -> None:
    videos = {image.path for image in labels.images}
    if len(videos) != 1 or any(image.frame is None for image in labels.images):
        raise InputError(
            f"{output}: SLEAP's analysis tables hold tracks of one video, got {len(videos)} files; write .slp"
        )


def _project(labels: LabelSet, sleap: Any) -> "sleap_io.Labels":
    names = labels.skeleton.names
    twins = labels.skeleton.mirror or labels.skeleton.twin
    skeleton = sleap.Skeleton(
        nodes=list(names),
        edges=[(names[start], names[end]) for start, end in labels.edges],
        symmetries=[(names[i], names[j]) for i, j in enumerate(twins) if i < j],
        name=labels.category,
    )
    tracks: dict[str, Any] = {}
    frames = []
    places = {id(image): (video, number) for video, images in _videos(labels, sleap) for number, image in images}
    for image in labels.images:
        video, number = places[id(image)]
        instances = [_instance(animal, skeleton, tracks, sleap) for animal in image.animals]
        frames.append(sleap.LabeledFrame(video=video, frame_idx=number, instances=instances))
    project = sleap.Labels(frames, skeletons=[skeleton], tracks=list(tracks.values()))
    project.provenance[WRITER] = "geco"
    return project


def _videos(labels: LabelSet, sleap: Any) -> Iterator[tuple[Any, list[tuple[int, LabelledImage]]]]:
    """Videos as SLEAP has them, each with its labelled frames: files of videos, and lists of images of one size."""
    films: dict[Path, list[LabelledImage]] = {}
    lists: dict[Size | None, list[LabelledImage]] = {}
    for image in labels.images:
        if image.frame is not None:
            films.setdefault(image.path, []).append(image)
        else:
            lists.setdefault(size_of(image), []).append(image)
    for path, images in films.items():
        name, size = path.absolute().as_posix(), images[0].size
        about = {"type": "MediaVideo", "filename": name, "grayscale": False, "bgr": True}
        about |= {"shape": (max(int(image.frame or 0) for image in images) + 1, *size, 3)} if size else {}
        video = sleap.Video(filename=name, backend_metadata=about, open_backend=False)
        yield video, [(int(image.frame or 0), image) for image in images]
    for size, images in lists.items():
        files = [image.path.absolute().as_posix() for image in images]
        about = {"type": "ImageVideo", "filename": files[0], "filenames": files, "grayscale": False}
        about |= (
            {"shape": (len(files), *size, 3), "height_": size[0], "width_": size[1], "channels_": 3} if size else {}
        )
        yield sleap.Video(filename=files, backend_metadata=about, open_backend=False), list(enumerate(images))


def _instance(animal: Animal, skeleton: Any, tracks: dict[str, Any], sleap: Any) -> Any:
    from sleap_io.model.instance import PointsArray, PredictedPointsArray

    marks = marks_of(animal, shift=PIXEL_CENTRE)
    points = (PointsArray if animal.score is None else PredictedPointsArray).empty(len(marks))
    points["xy"] = np.array([(mark.x, mark.y) for mark in marks])
    points["visible"] = [mark.state == VISIBLE for mark in marks]
    points["complete"] = [mark.state == HIDDEN and not mark.placed for mark in marks]
    points["name"] = skeleton.node_names
    if animal.track and animal.track not in tracks:
        tracks[animal.track] = sleap.Track(animal.track)
    about = {"skeleton": skeleton, "track": tracks.get(animal.track)}
    if animal.score is None:
        return sleap.Instance(points=points, **about)
    points["score"] = [mark.score for mark in marks]
    known = [mark.score for mark in marks if mark.score == mark.score]
    return sleap.PredictedInstance(points=points, score=sum(known) / len(known) if known else 0.0, **about)
