"""A small dataset for examples: renderings of the cat of quadruped.py with exact keypoints, as COCO keypoints.

python docs/figures/rendered.py cats 24    # cats/annotations.json, cats/images, cats/masks
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from quadruped import landmarks, quadruped

from geco import pose

SIDE = 192  # pixels of an image


def write(folder: Path, count: int, *, seed: int = 0) -> Path:
    """`count` images of the cat from all around, each with keypoints, their visibility, a box and a mask."""
    mesh = quadruped()
    scene, vertices = pose.Scene(mesh), landmarks(mesh)
    for place in ("images", "masks"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    cameras = pose.orbit(mesh.vertices, count, size=(SIDE, SIDE), elevation=(0, 30), seed=seed)
    for number, camera in enumerate(cameras, 1):
        hits, name = scene.look(camera), f"cat-{number:02d}.png"
        look = pose.draw_look(seed + number, *pose.DECORATING)
        _save(pose.paint(scene, camera, hits, look), folder / "images" / name)
        Image.fromarray(hits.mask.astype(np.uint8) * 255).save(folder / "masks" / name)
        rows, columns = np.nonzero(hits.mask)
        x0, y0, x1, y1 = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
        xy, _ = camera.project(mesh.vertices[list(vertices.values())])
        visible = scene.visible(camera)[list(vertices.values())]
        points = [value for (x, y), seen in zip(xy, visible, strict=True) for value in _marked(x, y, seen)]
        images.append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
        box = [float(x0), float(y0), float(x1 - x0), float(y1 - y0)]
        entry = {"id": number, "image_id": number, "category_id": 1, "bbox": box, "keypoints": points, "mask": name}
        annotations.append(entry)
    category = {"id": 1, "name": "cat", "keypoints": list(vertices)}
    content = {"images": images, "annotations": annotations, "categories": [category]}
    (folder / "annotations.json").write_text(json.dumps(content))
    return folder


def _marked(x: float, y: float, seen: bool) -> tuple[float, float, int]:
    return (round(float(x), 2) + 0.001, round(float(y), 2) + 0.001, 2) if seen else (0.0, 0.0, 0)


def _save(pixels: torch.Tensor, path: Path) -> None:
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(path)


if __name__ == "__main__":
    made = write(Path(sys.argv[1]), int(sys.argv[2]))
    print(f"{made}: {len(list((made / 'images').iterdir()))} images")
