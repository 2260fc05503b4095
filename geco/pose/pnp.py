"""Pose from matches: where a camera stands, given points of the image and their points on the mesh, many of them wrong.

RANSAC finds the pose with the most inliers (OpenCV's SQPnP, or poselib's P3P); a refinement then minimises the
reprojection error of those inliers, weighted by their similarity, under a loss that forgives the last outliers.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from geco.errors import InputError, MissingPackageError
from geco.pose.cameras import Camera
from geco.pose.settings import PnpSettings

USUAL = PnpSettings()
MINIMAL = 4  # matches that a pose needs
ZOOM = 1.25  # a refined focal length stays within this factor of the one it starts from


@dataclass(frozen=True)
class Solution:
    """A pose and the matches that agree with it; `camera` None: there is none."""

    camera: Camera | None
    inliers: Bool[np.ndarray, "n"]

    @property
    def share(self) -> float:
        """Share of the matches that agree with the pose."""
        return float(self.inliers.mean()) if len(self.inliers) else 0.0


def solve(
    points2d: Float[np.ndarray, "n 2"],
    points3d: Float[np.ndarray, "m 3"],
    camera: Camera,
    scores: Float[np.ndarray, "s"] | None = None,
    settings: PnpSettings = USUAL,
    *,
    focal_known: bool = True,
) -> Solution:
    """The pose of a camera with this lens from pixels and their points; `scores` ≥ 0 weigh the matches.

    With `focal_known=False` the lens only gives the size and the principal point; one focal length, the same both
    ways, is estimated with the pose.
    """
    if len(points2d) != len(points3d) or (scores is not None and len(scores) != len(points2d)):
        raise InputError(f"one 3D point and score per 2D point, got {len(points2d)} and {len(points3d)}")
    if len(points2d) < MINIMAL:
        raise InputError(f"a pose needs at least {MINIMAL} matches, got {len(points2d)}")
    if not (np.isfinite(points2d).all() and np.isfinite(points3d).all()):
        raise InputError("matches hold NaN or infinity; expected pixels and points of the mesh")
    weights = np.ones(len(points2d)) if scores is None else np.clip(scores, 0, None)
    middle = points3d.mean(0)
    scale = float(np.abs(points3d - middle).max()) or 1.0
    scaled = (points3d - middle) / scale  # so that no engine has to cope with the mesh's units
    longest = max(camera.size)
    tried = [camera] if focal_known else [replace(camera, focal=(f * longest,) * 2) for f in settings.focals]
    tolerance = settings.tolerance * longest
    share = replace(settings, iterations=max(1, settings.iterations // len(tried)))
    found = [_ransac(points2d, scaled, lens, tolerance, share) for lens in tried]
    costs = [_cost(lens, points2d, scaled, weights, tolerance) for lens in found]
    best = found[int(np.argmin(costs))]
    if best is None:
        return Solution(None, np.zeros(len(points2d), dtype=bool))
    for _ in range(2 if settings.refine else 0):  # once more, because better poses have other inliers
        inliers = _errors(best, points2d, scaled) <= tolerance
        if inliers.sum() >= MINIMAL:
            best = _refined(best, points2d[inliers], scaled[inliers], weights[inliers], tolerance, focal_known)
    inliers = _errors(best, points2d, scaled) <= tolerance
    # R (x − m)/s + t  =  (R x + s t − R m)/s, and a projection does not see the scale.
    translation = scale * best.translation - best.rotation @ middle
    return Solution(replace(best, translation=translation), inliers)


def rotation_error(estimate: Float[np.ndarray, "3 3"], true: Float[np.ndarray, "3 3"]) -> float:
    """Angle in degrees between two rotations."""
    # By the sine of half the angle: the arc cosine of the trace loses half its digits near zero.
    return 2 * math.degrees(math.asin(min(1.0, float(np.linalg.norm(estimate - true)) / math.sqrt(8))))


def _ransac(
    points2d: np.ndarray, points3d: np.ndarray, lens: Camera, tolerance: float, settings: PnpSettings
) -> Camera | None:
    engine = _by_opencv if settings.engine == "opencv" else _by_poselib
    pose = engine(points2d, points3d, lens, tolerance, settings)
    if pose is None:
        return None
    rotation, translation = pose
    if not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
        return None
    moved = replace(lens, rotation=rotation, translation=translation)
    return moved if (_errors(moved, points2d, points3d) <= tolerance).sum() >= MINIMAL else None


def _by_opencv(
    points2d: np.ndarray, points3d: np.ndarray, lens: Camera, tolerance: float, settings: PnpSettings
) -> tuple[np.ndarray, np.ndarray] | None:
    try:
        import cv2
    except ImportError:
        raise MissingPackageError.of_extra("pose", "opencv-python-headless", what="solving a pose") from None
    try:
        good, turn, translation, _ = cv2.solvePnPRansac(
            np.ascontiguousarray(points3d, np.float64),
            np.ascontiguousarray(points2d, np.float64),
            lens.matrix,
            None,
            iterationsCount=settings.iterations,
            reprojectionError=tolerance,
            confidence=settings.confidence,
            flags=cv2.SOLVEPNP_SQPNP,
        )
    except cv2.error:  # of degenerate points
        return None
    return (cv2.Rodrigues(turn)[0], np.asarray(translation).reshape(3)) if good else None


def _by_poselib(
    points2d: np.ndarray, points3d: np.ndarray, lens: Camera, tolerance: float, settings: PnpSettings
) -> tuple[np.ndarray, np.ndarray] | None:
    try:
        import poselib
    except ImportError:
        raise MissingPackageError.of_extra("pose", "poselib", what="solving a pose with engine poselib") from None
    height, width = lens.size
    described = {"model": "PINHOLE", "width": width, "height": height, "params": [*lens.focal, *lens.centre]}
    options = {
        "max_reproj_error": tolerance,
        "max_iterations": settings.iterations,
        "min_iterations": min(100, settings.iterations),
        "success_prob": settings.confidence,
        "seed": settings.seed,
    }
    pose, about = poselib.estimate_absolute_pose(points2d, points3d, described, options, {})
    return (np.asarray(pose.R), np.asarray(pose.t)) if about["num_inliers"] >= MINIMAL else None


def _errors(camera: Camera, points2d: np.ndarray, points3d: np.ndarray) -> Float[np.ndarray, "n"]:
    """Reprojection errors in pixels; infinite behind the camera."""
    xy, _ = camera.project(points3d)
    return np.nan_to_num(np.linalg.norm(xy - points2d, axis=1), nan=np.inf)


def _cost(
    camera: Camera | None, points2d: np.ndarray, points3d: np.ndarray, weights: np.ndarray, tolerance: float
) -> float:
    """Weighted squared errors, none above the tolerance's (MSAC); infinite without a pose."""
    if camera is None:
        return math.inf
    return float((weights * np.minimum(_errors(camera, points2d, points3d), tolerance) ** 2).sum())


def _refined(
    camera: Camera,
    points2d: np.ndarray,
    points3d: np.ndarray,
    weights: np.ndarray,
    tolerance: float,
    focal_known: bool,
) -> Camera:
    """The pose nearby with the least weighted error; the start, if there is no better one."""
    from scipy.optimize import least_squares
    from scipy.spatial.transform import Rotation

    root = np.sqrt(weights / max(float(weights.max()), 1e-12))[:, None]

    def moved(change: np.ndarray) -> Camera:
        rotation = Rotation.from_rotvec(change[:3]).as_matrix() @ camera.rotation
        # Far away, focal length and distance are nearly equivalent: without bounds both diverge.
        zoom = 1.0 if focal_known else float(np.clip(math.exp(np.clip(change[6], -2, 2)), 1 / ZOOM, ZOOM))
        focal = (camera.focal[0] * zoom, camera.focal[1] * zoom)
        return replace(camera, rotation=rotation, translation=camera.translation + change[3:6], focal=focal)

    def residuals(change: np.ndarray) -> np.ndarray:
        xy, _ = moved(change).project(points3d)
        return (root * np.nan_to_num(xy - points2d, nan=1e3 * tolerance)).reshape(-1)

    start = np.zeros(6 if focal_known else 7)
    answer = least_squares(residuals, start, loss="soft_l1", f_scale=tolerance / 3, max_nfev=100)
    return moved(answer.x) if np.isfinite(answer.x).all() else camera
