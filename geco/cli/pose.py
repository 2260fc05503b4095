"""`geco decorate` and `geco pose`: features on a mesh, and from where an image was taken."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._progress import progress_bars
from geco.errors import InputError
from geco.pose.settings import DecorateSettings, PnpSettings, PoseSettings

if TYPE_CHECKING:
    from geco.models import Extractor
    from geco.pose import Decoration, Mesh, Pose

PANEL = "Images"

VIEWS, SOLVING = DecorateSettings(), PoseSettings()
MeshFile = Annotated[Path, typer.Argument(help="Mesh (glb, gltf, obj, ply, off).", show_default=False)]
Views = Annotated[int, typer.Option(min=1, help="Rendered views the features come from.")]
Vertices = Annotated[int, typer.Option(min=4, help="A coarser mesh is subdivided to this many vertices.")]
Up = Annotated[Literal["x", "y", "z", "-x", "-y", "-z"], typer.Option(help="Axis of the mesh that points to the sky.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=PANEL)(decorate)
    app.command(rich_help_panel=PANEL)(pose)


def decorate(
    mesh: MeshFile,
    output: Annotated[Path, _outputs.option("File to write (safetensors).")] = Path("mesh.safetensors"),
    posed: Annotated[
        Path | None,
        typer.Option(
            "--posed",
            "--photographs",
            help="Images with known cameras instead of rendered views: a COLMAP text model or a transforms.json.",
        ),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the image files of --posed.")] = None,
    views: Views = VIEWS.views,
    vertices: Vertices = VIEWS.vertices,
    up: Up = VIEWS.up,
    model: options.Model = None,
    size: options.InputSize = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
) -> None:
    """Put a feature on each vertex of a mesh: the median over the views that see it.

    Example: [b]geco decorate horse.glb -o horse.safetensors[/b]
    """
    from geco import pose as room

    output = _outputs.file(output, endings=_outputs.FEATURES, inputs=[mesh])
    settings = DecorateSettings(views=views, vertices=vertices, up=up)
    loaded = room.load_mesh(mesh)
    posed_images = room.read_posed(posed, image_folder=images) if posed else None
    _report_problems(loaded)
    encoder = options.load_model(model, size=size, device=device, dtype=dtype)
    with progress_bars() as progress:
        if posed_images is not None:
            made = room.decorate_images(encoder, loaded, posed_images, settings, progress=progress)
        else:
            made = room.decorate(encoder, loaded, settings, progress=progress)
    room.write_decoration(output, made)
    unseen = int((made.seen == 0).sum())
    options.notes.print(f"{len(made.seen)} vertices, {unseen} of them unseen; written: {output}")


def pose(
    mesh: Annotated[
        Path, typer.Argument(help="Mesh, or what [b]geco decorate[/b] wrote (safetensors).", show_default=False)
    ],
    image: Annotated[Path, typer.Argument(help="Image of such an animal.", show_default=False)],
    output: _outputs.Picture = None,
    mask: Annotated[Path | None, typer.Option(help="Image that is white where the animal is.")] = None,
    focal: Annotated[float | None, typer.Option(help="Focal length in pixels.", show_default="estimated")] = None,
    engine: Annotated[
        Literal["opencv", "poselib"], typer.Option(help="Library whose RANSAC solves the pose.")
    ] = SOLVING.pnp.engine,
    confidence: Annotated[
        float, typer.Option(help="Share of inliers below which there is no pose.")
    ] = SOLVING.confidence,
    views: Views = VIEWS.views,
    vertices: Vertices = VIEWS.vertices,
    up: Up = VIEWS.up,
    model: options.Model = None,
    size: options.InputSize = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
) -> None:
    """Estimate the camera pose of an image from a mesh of such an animal: R, t, f as JSON, and a picture.

    The mesh is decorated once and kept in the cache. Exit code 1: no pose found.

    Example: [b]geco pose horse.glb horse.jpg -o pose.png[/b]
    """
    from geco import images
    from geco import pose as room
    from geco.types import MaskFile

    output = _outputs.picture(
        output or Path("pose.png"), name="pose.png", inputs=[mesh, image, *([mask] if mask else [])]
    )
    picture = images.read(image)
    shown = images.read_mask(MaskFile(mask)) if mask else None
    if shown is not None and shown.shape != picture.shape[-2:]:
        raise InputError(f"{mask} is {tuple(shown.shape)}, its image {tuple(picture.shape[-2:])} (height, width)")
    settings = PoseSettings(pnp=PnpSettings(engine=engine), confidence=confidence)
    decorated = room.read_decoration(mesh) if mesh.suffix.lower() == ".safetensors" else None
    loaded = room.load_mesh(mesh) if decorated is None else None
    if loaded is not None:
        _report_problems(loaded)
    encoder = options.load_model(model, size=size, device=device, dtype=dtype)
    if decorated is None:
        assert loaded is not None
        decorated = _decorated(encoder, loaded, DecorateSettings(views=views, vertices=vertices, up=up))
    with options.timed("matching and solving"):
        answer = room.estimate(encoder, decorated, picture, mask=shown, focal=focal, settings=settings)
    _deliver(answer, decorated, picture, output, title=f"{mesh.name} in {image.name}")


def _report_problems(mesh: "Mesh") -> None:
    """Say what may surprise about a mesh, a line each."""
    from geco import pose as room

    for problem in room.problems(mesh):
        options.notes.print(f"{mesh.name}: {problem}", style="dim")


def _decorated(encoder: "Extractor", mesh: object, settings: DecorateSettings) -> "Decoration":
    """The decoration from the cache, or made now."""
    from geco import models
    from geco import pose as room

    assert isinstance(mesh, room.Mesh)
    with progress_bars() as progress:
        return room.decorated_once(encoder, mesh, models.cache_folder() / "decorated", settings, progress=progress)


def _deliver(answer: "Pose", decorated: "Decoration", picture: object, output: Path, *, title: str) -> None:
    from geco import pose as room
    from geco import viz

    json.dump(room.pose_json(answer), sys.stdout, indent=1)
    sys.stdout.write("\n")
    if not answer.found:
        options.notes.print(f"no pose found: {answer.reason}", style="yellow")
        raise typer.Exit(1)
    overlay = room.place_colours(room.Scene(decorated.mesh), answer.camera)
    agreeing = f"{int(answer.inliers.sum())} of {len(answer.matches)} matches agree ({answer.confidence:.0%})"
    viz.save(viz.draw_pose(picture, overlay, title=title, note=agreeing), output)  # type: ignore[arg-type]
    options.notes.print(f"{agreeing}; picture: {output}")
