"""Backbones whose images keep their shape: pasted on a square canvas, and the border cut off the map again."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from geco import geometry, images
from geco.backbones._contract import FrozenBackbone
from geco.types import Image, Size


def paste(
    image: Image, grid: Size, *, cell: int, centred: bool = True, mode: str = "bicubic"
) -> Float[Tensor, "*b 3 h2 w2"]:
    """The image in [0, 1] on a black canvas of `grid` cells of `cell` pixels; it fills whole cells."""
    top, left, rows, columns = geometry.letterbox((image.shape[-2], image.shape[-1]), grid, centred=centred)
    pixels = image if image.is_floating_point() else image.float() / 255
    pixels = geometry.resize_image(pixels, (rows * cell, columns * cell), mode=mode).clamp(0, 1)
    right, bottom = grid[1] - left - columns, grid[0] - top - rows
    return functional.pad(pixels, (left * cell, right * cell, top * cell, bottom * cell))


def cut(values: Float[Tensor, "c h w"], size: Size, *, grid: Size, centred: bool = True) -> Float[Tensor, "c h2 w2"]:
    """The part of a canvas' map that shows the image of `size`; a map may have several cells for each of `grid`."""
    top, left, rows, columns = geometry.letterbox(size, grid, centred=centred)
    finer = values.shape[-1] // grid[1]
    return values[..., top * finer : (top + rows) * finer, left * finer : (left + columns) * finer]


class Letterboxed(FrozenBackbone):
    """A backbone whose images are pasted in the middle of a black square, as GeoAware-SC and its successors do."""

    def prepare(self, pixels: Image, size: Size, *, resize: str = "bilinear") -> dict[str, Tensor]:
        """`pixels`: the image on its canvas of `size`, normalised as ImageNet."""
        canvas = paste(pixels, self._grid(size), cell=self.multiple, mode=resize)
        return {"pixels": images.normalise(canvas)}

    def finish(self, values: Float[Tensor, "c h w"], size: Size) -> Float[Tensor, "c h2 w2"]:
        """The part of a map that shows the image of `size`."""
        return cut(values, size, grid=(values.shape[-2], values.shape[-1]))

    def _grid(self, size: Size) -> Size:
        return size[0] // self.multiple, size[1] // self.multiple
