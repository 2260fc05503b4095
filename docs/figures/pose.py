"""Draws the picture of docs/pose.md: `python docs/figures/pose.py` (needs the extras [backbone] and [pose], and the
example images that come with gradio: `pip install --no-deps gradio`).

The mesh of quadruped.py, decorated from rendered views as `geco pose` does, and an image that was not used in training:
`geco pose cat.ply cheetah.jpg`, with the mesh and the matches beside the picture that this command draws.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from quadruped import quadruped, write

import geco
from geco import images, pose, viz
from geco.demo import gallery

HERE = Path(__file__).parent


def main(folder: Path = HERE) -> None:
    """Write the picture."""
    model = geco.load(device="cpu")
    with tempfile.TemporaryDirectory() as place:
        decoration = geco.decorate(write(quadruped(), Path(place) / "cat.ply"), model=model)
    image = images.read(gallery.find_images()["runner"])
    found = geco.estimate_pose(decoration, image, model=model)
    print(found.reason or f"{int(found.inliers.sum())} of {len(found.matches)} matches agree")
    scene = pose.Scene(decoration.mesh)
    shown = scene.mesh.vertices[found.matches.vertex.numpy()]
    box = {"low": scene.mesh.vertices.min(0), "high": scene.mesh.vertices.max(0)}
    size = (image.shape[-2], image.shape[-1])
    (beside,) = pose.orbit(scene.mesh.vertices, 1, size=size, elevation=(20, 20), seed=9)
    panels = [
        viz.SurfacePicture(torch.full((3, *size), 255, dtype=torch.uint8), overlay=pose.place_colours(scene, beside)),
        viz.SurfacePicture(
            image,
            xy=found.matches.xy.double().numpy(),
            colours=viz.surface_colours(shown, **box),
            wrong=~found.inliers.numpy(),
        ),
        viz.SurfacePicture(image, overlay=pose.place_colours(scene, found.camera) * np.array([1, 1, 1, 0.6])),
    ]
    columns = ("a mesh, coloured by place", "matches (outlined: disagree with the pose)", "the mesh in its pose")
    figure = viz.draw_surface_matches([panels], columns=columns)
    figure.set_size_inches(10.5, 2.45)
    for axes in figure.axes[1:]:  # nearer to the animal; the pose was estimated on the whole image
        axes.set(xlim=(65, 425), ylim=(285, 65))
    viz.save(figure, folder / "pose.jpg")


if __name__ == "__main__":
    main()
