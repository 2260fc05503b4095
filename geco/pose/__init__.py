"""2D–3D: features on a mesh, and the camera pose of one image from them (GECO, supplement)."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.pose.cameras import Camera, look_at, orbit, pinhole
    from geco.pose.estimation import Pose, estimate, from_features, pose_json
    from geco.pose.geodesics import Geodesics
    from geco.pose.landmarks import animal_landmarks, transfer_vertices
    from geco.pose.looks import DECORATING, TESTING, Look, draw_look
    from geco.pose.meshes import Mesh, load_mesh, problems, subdivide
    from geco.pose.patches import SurfaceMatches, match_patches, match_points
    from geco.pose.pnp import Solution, rotation_error, solve
    from geco.pose.posed_images import PosedImage, read_posed
    from geco.pose.rendering import Hits, Scene, paint, place_colours
    from geco.pose.rig import Rig, pose_mesh
    from geco.pose.settings import DecorateSettings, PnpSettings, PoseSettings
    from geco.pose.vertices import (
        Decoration,
        decorate,
        decorate_images,
        decorated_once,
        medians,
        read_decoration,
        write_decoration,
    )

__all__, __getattr__, __dir__ = lazy.door(__name__)
