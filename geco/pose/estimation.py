"""The pose of one image: encode, match with a decorated mesh, solve; and whether there is one at all."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from geco import images
from geco.errors import InputError
from geco.pose import pnp
from geco.pose.cameras import Camera, pinhole
from geco.pose.patches import SurfaceMatches, closed, match_patches
from geco.pose.settings import PoseSettings
from geco.pose.vertices import Decoration
from geco.types import Encoder, FeatureMap, Size

USUAL = PoseSettings()
TYPICAL_FOCAL = 1.4  # × longer side: where no pose is found there is no other


@dataclass(frozen=True)
class Pose:
    """Where an image was taken from, in the mesh's coordinates and units (`geco.pose.cameras` has the axes)."""

    camera: Camera  # of no meaning unless found
    confidence: float  # share of the matches that agree with the pose
    found: bool
    reason: str  # why not, else ""
    matches: SurfaceMatches
    inliers: Bool[Tensor, "k"]


def estimate(
    encoder: Encoder,
    decoration: Decoration,
    image: images.Readable | FeatureMap,
    *,
    mask: Bool[Tensor, "h w"] | None = None,
    focal: float | None = None,
    settings: PoseSettings = USUAL,
) -> Pose:
    """The pose of an image; `focal` in pixels if it is known, `mask` where the animal is if that is known."""
    if decoration.encoder != encoder.fingerprint():
        raise InputError(
            f"{decoration.name} was decorated by another encoder than {encoder.name}; decorate it again with this one"
        )
    if focal is not None and not focal > 0:
        raise InputError(f"a focal length must be positive, in pixels, got {focal}")
    features = image if isinstance(image, FeatureMap) else next(iter(encoder.extract_stream([image])))
    return from_features(features, decoration, mask=mask, focal=focal, threshold=encoder.threshold, settings=settings)


def from_features(
    features: FeatureMap,
    decoration: Decoration,
    *,
    mask: Bool[Tensor, "h w"] | None = None,
    focal: float | None = None,
    threshold: float = 0.0,
    settings: PoseSettings = USUAL,
) -> Pose:
    """The same from features of the decoration's encoder; matches below the threshold's similarity are left out."""
    matches = closed(match_patches(features, decoration, mask=mask), settings.cycle)
    matches = matches.where(matches.score >= threshold)
    lens = pinhole(_size(features), focal or TYPICAL_FOCAL * max(features.size))
    if len(matches) < pnp.MINIMAL:
        reason = f"{len(matches)} consistent matches, a pose needs {pnp.MINIMAL}"
        return Pose(lens, 0.0, False, reason, matches, torch.zeros(len(matches), dtype=torch.bool))
    solution = pnp.solve(
        matches.xy.double().numpy(),
        decoration.vertices[matches.vertex].double().numpy(),
        lens,
        matches.score.double().numpy(),
        settings.pnp,
        focal_known=focal is not None,
    )
    reason = _reason(solution, settings)
    inliers = torch.from_numpy(solution.inliers)
    return Pose(solution.camera or lens, solution.share, not reason, reason, matches, inliers)


def _reason(solution: pnp.Solution, settings: PoseSettings) -> str:
    """Why a solution does not count as a pose; empty if it does."""
    agreeing = int(solution.inliers.sum())
    if solution.camera is None:
        return "no pose agrees with four matches"
    if solution.share < settings.confidence:
        return f"only {solution.share:.0%} of the matches agree, {settings.confidence:.0%} are asked for"
    if agreeing < settings.matches:
        return f"only {agreeing} matches agree, {settings.matches} are asked for"
    return ""


def _size(features: FeatureMap) -> Size:
    return features.size


def pose_json(pose: Pose) -> dict[str, Any]:
    """The pose as JSON holds it: R, t, f, whether it was found and how sure; null for what was not found."""
    camera = pose.camera
    known = {
        "R": np.round(camera.rotation, 9).tolist(),
        "t": np.round(camera.translation, 9).tolist(),
        "f": round(camera.focal[0], 4),
        "position": np.round(camera.position, 9).tolist(),
    }
    return {
        "found": pose.found,
        "reason": pose.reason,
        "confidence": round(pose.confidence, 4),
        "matches": len(pose.matches),
        "inliers": int(pose.inliers.sum()),
        **(known if pose.found else dict.fromkeys(known)),
        "centre": list(camera.centre),
        "size": list(camera.size),
        "axes": "x right, y down, z forward; pixel = f (R X + t)/z + centre, from the top-left corner",
    }
