"""What the paper printed: its tables row by row, so that they can stand beside what is measured here.

R. Hartwig, D. Muhle, R. Marin, D. Cremers: GECO: Geometrically Consistent Embedding with Lightspeed Inference, ICCV
2025. PCK@0.1 and milliseconds are of its table "Quantitative evaluation of PCK" (test splits; RTX A4000, one image at a
time, 1,000 images, loading excluded), those of GECO-S of "Impact of model size on performance"; the PGCK splits of
"Geometric ambiguity"; parts of "Quantitative Evaluation of Segmentation Confusion Matrices".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

CITATION = "Hartwig et al., GECO, ICCV 2025"
MACHINE = "RTX A4000"  # on which the paper's milliseconds were measured
SPLIT, RADIUS = "test", 0.1

# Dataset → its name in the paper, and the protocol under which the authors evaluate it.
KEYPOINTS = {
    "pfpascal": ("PF-PASCAL", "geco"),
    "ap10k": ("APK", "geco-apk"),
    "spair": ("SPair", "geco"),
    "cub": ("CUB", "geco"),
}
PARTS = {"pascal_part": "PascalParts"}


@dataclass(frozen=True)
class PaperRow:
    """One method of the paper's tables; percentages as printed."""

    name: str  # as the paper calls it
    pck: Mapping[str, float]  # PCK@0.1, by dataset
    get: str  # where to get its weights
    milliseconds: Mapping[str, float] = field(default_factory=dict)  # per image, by dataset
    pgck: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)  # by dataset: 11 clear, both, to twin
    parts: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)  # mIoU, Acc, and both geo
    note: str = ""  # how it differs from what is loaded under its name here, as a sentence


def _by_dataset(*values: float) -> dict[str, float]:
    return dict(zip(KEYPOINTS, values, strict=True))


# By the name under which `geco.load` knows the same network.
ROWS = {
    "dino-vitb8": PaperRow(
        "DINO",
        pck=_by_dataset(65.3, 51.8, 48.4, 75.6),
        milliseconds=_by_dataset(26, 22, 25, 26),
        pgck={"ap10k": (17.0, 38.8, 16.0)},
        parts={"pascal_part": (31.5, 87.9, 44.1, 95.9)},
        get="hub id facebook/dino-vitb8, or dino_vitbase8_pretrain.pth of dl.fbaipublicfiles.com/dino (Apache-2.0)",
    ),
    "dift-adm": PaperRow(
        "DIFT_ad",
        pck=_by_dataset(72.5, 60.4, 59.3, 84.2),
        milliseconds=_by_dataset(221, 228, 222, 222),
        pgck={"ap10k": (25.2, 43.8, 8.4)},
        parts={"pascal_part": (31.5, 87.9, 48.0, 96.4)},
        get="256x256_diffusion_uncond.pt of openaipublic.blob.core.windows.net/diffusion/jul-2021 (2.2 GB, MIT)",
    ),
    "dinov2-small": PaperRow(
        "DINOv2-S",
        pck=_by_dataset(85.5, 71.7, 66.3, 92.4),
        milliseconds=_by_dataset(14, 14, 15, 17),
        pgck={"ap10k": (25.1, 50.9, 13.8)},
        get="hub id facebook/dinov2-small, or dinov2_vits14_pretrain.pth of dl.fbaipublicfiles.com/dinov2 (Apache-2.0)",
    ),
    "dinov2-base": PaperRow(
        "DINOv2-B",
        pck=_by_dataset(86.0, 73.0, 67.1, 92.8),
        milliseconds=_by_dataset(45, 40, 38, 43),
        pgck={"ap10k": (24.5, 51.8, 16.0)},
        parts={"pascal_part": (39.8, 90.1, 57.6, 97.3)},
        get="hub id facebook/dinov2-base, or dinov2_vitb14_pretrain.pth of dl.fbaipublicfiles.com/dinov2 (Apache-2.0)",
    ),
    "geo": PaperRow(
        "Geo",
        pck=_by_dataset(86.1, 80.5, 90.1, 88.4),
        milliseconds=_by_dataset(2141, 2127, 2159, 2274),
        pgck={"ap10k": (36.2, 53.1, 2.9)},
        parts={"pascal_part": (37.1, 88.4, 62.8, 97.6)},
        get="best_856.PTH of github.com/Junyi42/GeoAware-SC (no licence stated), with SD 1.5 and DINOv2-B",
    ),
    "sphere": PaperRow(
        "Sphere",
        pck=_by_dataset(88.5, 75.2, 74.5, 92.1),
        milliseconds=_by_dataset(2152, 2144, 2164, 2151),
        get="ckpts/sph_map/spair71k/ckpts/200.pth of github.com/odunkel/DIY-SC, with DINOv2-B (non-commercial)",
        note="The paper's Sphere fuses Stable Diffusion features pair by pair, as its milliseconds tell.",
    ),
    "geco": PaperRow(
        "GECO",
        pck=_by_dataset(92.1, 86.7, 85.2, 92.5),
        milliseconds=_by_dataset(45, 40, 38, 43),
        pgck={"ap10k": (40.0, 53.2, 2.3)},
        parts={"pascal_part": (37.9, 89.0, 63.0, 97.5)},
        get="the authors' LoRA file of github.com/reginehartwig/geco (since 2025-09-08), with DINOv2-B",
    ),
    "geco-s": PaperRow(
        "GECO-S",
        pck=_by_dataset(89.6, 83.4, 78.0, 90.4),
        get="it is packaged with geco; the authors' GECO-S is not public",
        note="The paper's GECO-S is another model than the packaged geco-s: DINOv2-S, trained on three datasets.",
    ),
}
IN_THE_TABLE = tuple(name for name in ROWS if name != "geco-s")  # the methods of the paper's main table, in its order
