"""Which loss trains the features, its weights and its constants."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from geco.errors import InputError
from geco.system import documents, strict
from geco.transport.settings import TransportSettings

Name = Literal["transport", "contrastive", "soft-argmax", "distill"]
TERMS = ("positive", "bin", "negative", "background")  # of the transport loss
WEIGHTS = {  # of these terms, by reduction
    "reference": (1.0, 1.0, 10.0, 10.0),  # means over the sets of a batch, −log p terms divided by l + 1
    "sum": (1.0, 1.0, 10.0, 10.0),  # the paper's formula as printed
    "conditional": (1.0, 0.5, 1.0, 20.0),  # ours: means of −log of conditional probabilities
}


@dataclass(frozen=True)
class DistillSettings:
    """Whose features and score maps a student is to have, and how much each of them counts."""

    teacher: str = ""  # a model: name, folder or hub id
    temperature: float = 0.05  # τ: a score map is softmax(cos/τ)
    weight_features: float = 1.0
    weight_scores: float = 1.0
    weight_labels: float = 0.0  # of the transport loss on annotated pairs; without it neither points nor masks are read

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "temperature", above=0)
        strict.within(self, "weight_features", "weight_scores", "weight_labels", least=0)
        if not self.weight_features and not self.weight_scores:
            raise InputError(
                "a teacher has nothing to say if weight_features and weight_scores are 0; give one a weight"
            )


@dataclass(frozen=True)
class LossSettings:
    """Weights and reduction of the transport loss, and the constants of the other losses.

    A weight of None is that of the reduction (`WEIGHTS`).
    """

    name: Name = "transport"
    transport: TransportSettings = field(default_factory=TransportSettings)
    reduction: Literal["reference", "sum", "conditional"] = "reference"
    weight_positive: float | None = None  # M⁺: visible in both images
    weight_bin: float | None = None  # M⁰: visible in one image only
    weight_negative: float | None = None  # M⁻: a keypoint and its geometric twin
    weight_background: float | None = None  # M^{fg/bg}: object against background
    eps: float = 1e-6  # −log(1 − p) is taken of at most p = 1 − eps
    floor: float = 1e-30  # −log p is taken of at least this
    contrast_temperature: float = 0.07  # contrastive: of the softmax over the keypoints of a pair
    position_temperature: float = 0.04  # soft-argmax: of the softmax over all patches of the other image
    distill: DistillSettings = field(default_factory=DistillSettings)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in get_args(Name):
            raise InputError(f"there is no loss {documents.shown(self.name)}; choices: {', '.join(get_args(Name))}")
        strict.check(self)
        strict.within(self, "eps", "floor", "contrast_temperature", "position_temperature", above=0)
        strict.within(self, "eps", "floor", below=1)
        strict.within(self, *(f"weight_{term}" for term in TERMS), least=0)

    @property
    def reads_masks(self) -> bool:
        """Whether the loss looks at foreground masks."""
        return self.name == "transport" or (self.name == "distill" and self.distill.weight_labels > 0)

    def weights(self) -> dict[str, float]:
        """Weight of each term: the one given, or that of the reduction."""
        given = {term: getattr(self, f"weight_{term}") for term in TERMS}
        defaults = dict(zip(TERMS, WEIGHTS[self.reduction], strict=True))
        return {term: defaults[term] if weight is None else weight for term, weight in given.items()}
