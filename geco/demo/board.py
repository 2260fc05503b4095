"""The board: which images lie side by side, and the numbered points on the first of them. Nothing is computed."""

from dataclasses import dataclass, replace
from typing import Any

from geco import checks
from geco.errors import InputError

NAME_LENGTH = 40  # characters of the name of a point
TARGETS = 2


@dataclass(frozen=True)
class Spot:
    """A numbered point of the source image, in its pixels, corner origin."""

    number: int
    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Board:
    """The images by identity ("" for an empty place), the points, and the one that is selected (0 for none)."""

    source: str = ""
    targets: tuple[str, str] = ("", "")
    spots: tuple[Spot, ...] = ()
    selected: int = 0

    def spot(self, number: Any) -> Spot:
        """The point of this number."""
        for spot in self.spots:
            if spot.number == number and not isinstance(number, bool):
                return spot
        raise InputError(f"there is no point {checks.shown(number)}; it may have been deleted")

    def placed(self, slot: Any, identity: str) -> "Board":
        """The image put in a place: 0 the source, 1 and 2 the targets. Points stay with their source."""
        slot = checks.whole(slot, "the place of an image", least=0, most=TARGETS)
        if slot == 0:
            return self if identity == self.source else replace(self, source=identity, spots=(), selected=0)
        first, second = self.targets
        return replace(self, targets=(identity, second) if slot == 1 else (first, identity))

    def added(self, x: Any, y: Any, *, size: tuple[int, int], most: int, name: str = "") -> "Board":
        """With one point more, which is selected; its number has not been used by any other point."""
        if not self.source:
            raise InputError("there is no source image yet; choose one, then click in it")
        if len(self.spots) >= most:
            raise InputError(f"there are {most} points already, which is the limit; delete one first")
        number = max((spot.number for spot in self.spots), default=0) + 1
        name = self._fresh(name or f"point {number}")
        spot = Spot(number, name, *within(x, y, size))
        return replace(self, spots=(*self.spots, spot), selected=number)

    def moved(self, number: Any, x: Any, y: Any, *, size: tuple[int, int]) -> "Board":
        """With a point elsewhere, selected; one that would leave the image stops at its border."""
        spot = self.spot(number)
        x, y = within(x, y, size)
        return replace(self._changed(replace(spot, x=x, y=y)), selected=spot.number)

    def renamed(self, number: Any, name: Any) -> "Board":
        """With another name of a point, which no other point has."""
        spot = self.spot(number)
        text = one_line(name)
        if not text:
            raise InputError(f"the name of a point is text of up to {NAME_LENGTH} characters, got none")
        if text != spot.name and any(other.name == text for other in self.spots):
            raise InputError(f"another point is called {checks.shown(text)} already; give each its own name")
        return self._changed(replace(spot, name=text))

    def deleted(self, number: Any) -> "Board":
        """Without a point; the one before it is selected."""
        gone = self.spot(number)
        left = tuple(spot for spot in self.spots if spot != gone)
        before = [spot.number for spot in left if spot.number < gone.number]
        return replace(self, spots=left, selected=before[-1] if before else left[0].number if left else 0)

    def chosen(self, number: Any) -> "Board":
        """With this point selected."""
        return replace(self, selected=self.spot(number).number)

    def without(self, identity: str) -> "Board":
        """With the image gone from wherever it lies."""
        board = self.placed(0, "") if self.source == identity else self
        first, second = ("" if target == identity else target for target in board.targets)
        return replace(board, targets=(first, second))

    def _changed(self, spot: Spot) -> "Board":
        return replace(self, spots=tuple(spot if old.number == spot.number else old for old in self.spots))

    def _fresh(self, name: str) -> str:
        """The name, with a number behind it if another point has it."""
        taken = {spot.name for spot in self.spots}
        names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 3)))
        return next(candidate for candidate in names if candidate not in taken)


def within(x: Any, y: Any, size: tuple[int, int]) -> tuple[float, float]:
    """The point, or the nearest one on the border if it lies beyond."""
    height, width = size
    x, y = checks.number(x, "x"), checks.number(y, "y")
    return min(max(x, 0.0), float(width)), min(max(y, 0.0), float(height))


def one_line(text: Any) -> str:
    """The name of a point, printable and not too long."""
    if not isinstance(text, str):
        raise InputError(f"the name of a point is text, got {checks.shown(text)}")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:NAME_LENGTH].strip()
