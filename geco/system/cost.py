"""What a forward pass costs before it is made: tokens of an image, arithmetic and memory of attention over them."""

import math
from dataclasses import dataclass

from geco.errors import InputError

MOST_TOKENS = 20_000  # of an image: 1974 px with patches of 14, some minutes on two cores
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Cost:
    """What one square image costs a vision transformer."""

    size: int  # side in pixels
    stride: int  # of a patch
    tokens: int
    memory: int  # bytes of one attention map of one head, where it is written out

    def __str__(self) -> str:
        memory = f"{self.memory / 2**30:,.1f} GB" if self.memory >= 2**30 else f"{self.memory / 2**20:,.0f} MB"
        return f"{self.tokens:,} tokens an image and {memory} for each map of attention"


def of(size: int, *, stride: int) -> Cost:
    """The cost of an image of size × size pixels, seen in patches of `stride` pixels."""
    tokens = max(1, size // stride) ** 2
    return Cost(size, stride, tokens, FLOAT * tokens**2)


def check(size: int, *, stride: int, force: bool = False, or_else: str = "force it (force=True, --force)") -> Cost:
    """The cost of images of this size; too high a one is refused unless it is forced.

    `or_else` is what people are told to do if they mean it; empty if nothing can be done.
    """
    cost = of(size, stride=stride)
    if cost.tokens > MOST_TOKENS and not force:
        largest = math.isqrt(MOST_TOKENS) * stride
        raise InputError(
            f"size {size} means {cost}; expected at most {MOST_TOKENS:,} tokens, size {largest} "
            f"for this backbone; give a smaller size{f', or {or_else}' if or_else else ''}"
        )
    return cost
