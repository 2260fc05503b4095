"""How an encoder's maps are compared: two maps at a time where it compares pairs, and by cosines or dot products."""

from dataclasses import replace

from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.types import Encoder, FeatureMap


def compares_pairs(encoder: Encoder) -> bool:
    """Whether maps of this encoder have to be made comparable two at a time."""
    return getattr(encoder, "pair", None) is not None


def paired(encoder: Encoder, source: FeatureMap, target: FeatureMap) -> tuple[FeatureMap, FeatureMap]:
    """Two maps of this encoder as they are compared: by its own `pair` if it has one, or else as they are."""
    pair = getattr(encoder, "pair", None)
    return (source, target) if pair is None else pair(source, target)


def suited(settings: MatchSettings, encoder: Encoder) -> MatchSettings:
    """The settings, with plain dot products if this encoder's maps are made for them (`similarity` is "dot")."""
    is_dot = getattr(encoder, "similarity", "cosine") == "dot"
    return replace(settings, normalise="none") if is_dot else settings


def check_single(encoder: Encoder) -> None:
    """Refuse an encoder whose maps mean nothing alone, for work on one image at a time."""
    if compares_pairs(encoder):
        raise InputError(
            f"{encoder.name} compares images two at a time, its map of one image cannot be used alone; "
            "match with it, or use another model"
        )
