"""Backbones whose images keep their shape: pasted on a square canvas, and the border cut off the map again."""

from jaxtyping import Float
from torch import Tensor

from geco import geometry, images
from geco.backbones._contract import FrozenBackbone
from geco.types import Image, Size

BLACK = (0.0, 0.0, 0.0)


def paste(
    image: Image, grid: Size, *, cell: int, centred: bool = True, border: images.Colour = BLACK, mode: str = "lanczos"
) -> Float[Tensor, "*b 3 h2 w2"]:
    """The image in [0, 1] on a canvas of `grid` cells of `cell` pixels, of which it fills whole ones."""
    top, left, rows, columns = geometry.letterbox((image.shape[-2], image.shape[-1]), grid, centred=centred)
    pixels = image if image.is_floating_point() else image.float() / 255
    pixels = geometry.resize_image(pixels, (rows * cell, columns * cell), mode=mode).clamp(0, 1)
    canvas = pixels.new_tensor(border)[:, None, None].repeat(*image.shape[:-3], 1, grid[0] * cell, grid[1] * cell)
    canvas[..., top * cell : (top + rows) * cell, left * cell : (left + columns) * cell] = pixels
    return canvas


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
