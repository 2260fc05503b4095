"""Part names of PASCAL-Part, in the order that decides which is on top, and their left/right counterparts."""

from collections.abc import Iterator
from functools import cache

from geco.data import involution
from geco.errors import InputError
from geco.types import Skeleton

# "*n" stands for name_1 … name_n. The order is that of the part indices of the release: where several parts
# cover a pixel, the last one is seen (an eye lies on a head).
_HOOFED = (
    "head leye reye lear rear muzzle {horns}torso neck lfuleg lflleg rfuleg rflleg lbuleg lblleg rbuleg rblleg tail"
)
_VEHICLE = (
    "frontside leftside rightside backside roofside leftmirror rightmirror fliplate bliplate "
    "door*10 wheel*10 headlight*10 window*20"
)
_PAWED = "head leye reye lear rear nose torso neck lfleg lfpa rfleg rfpa lbleg lbpa rbleg rbpa tail"
_ONE_PIECE = "fg"  # the silhouette is the only part
_PARTS = {
    "aeroplane": "body stern lwing rwing tail engine*10 wheel*10",
    "bicycle": "fwheel bwheel saddle handlebar chainwheel headlight*10",
    "bird": "head leye reye beak torso neck lwing rwing lleg lfoot rleg rfoot tail",
    "boat": _ONE_PIECE,
    "bottle": "cap body",
    "bus": _VEHICLE,
    "car": _VEHICLE,
    "cat": _PAWED,
    "chair": _ONE_PIECE,
    "cow": _HOOFED.format(horns="lhorn rhorn "),
    "diningtable": _ONE_PIECE,
    "dog": f"{_PAWED} muzzle",
    "horse": _HOOFED.format(horns="") + " lfho rfho lbho rbho",
    "motorbike": "fwheel bwheel handlebar saddle headlight*10",
    "person": "head leye reye lear rear lebrow rebrow nose mouth hair torso neck "
    "llarm luarm lhand rlarm ruarm rhand llleg luleg lfoot rlleg ruleg rfoot",
    "pottedplant": "pot plant",
    "sheep": _HOOFED.format(horns="lhorn rhorn "),
    "sofa": _ONE_PIECE,
    "train": "head hfrontside hleftside hrightside hbackside hroofside headlight*10 coach*10 cfrontside*10 "
    "cleftside*10 crightside*10 cbackside*10 croofside*10",
    "tvmonitor": "screen",
}
CATEGORIES = tuple(_PARTS)


@cache
def part_table(category: str) -> Skeleton:
    """Names and left/right counterparts of a category's parts; label i of a part map is names[i − 1]."""
    if category not in _PARTS:
        raise InputError(f"PASCAL-Part has no category {category!r}; it has {', '.join(CATEGORIES)}")
    names = tuple(_names(_PARTS[category]))
    row = {name: i for i, name in enumerate(names)}
    pairs = [(i, row[_right(name)]) for name, i in row.items() if _right(name) in row and _right(name) != name]
    table = involution(len(names), pairs)
    return Skeleton(names, table, table)


def _names(text: str) -> Iterator[str]:
    for word in text.split():
        stem, _, count = word.partition("*")
        yield from (f"{stem}_{k}" for k in range(1, int(count) + 1)) if count else (stem,)


def _right(name: str) -> str:
    """What the right-hand counterpart of a left part would be called: lear → rear, hleftside → hrightside."""
    if "left" in name:
        return name.replace("left", "right")
    return "r" + name[1:] if name.startswith("l") else name
