"""Keypoint names of the PASCAL keypoints, and their counterparts, which follow from the names."""

from functools import cache

from geco.data import guess_twins, involution
from geco.errors import InputError
from geco.types import Skeleton

_ANIMAL = (
    "L_Eye R_Eye L_EarBase R_EarBase Nose Throat Withers TailBase "
    "L_F_Elbow R_F_Elbow L_B_Elbow R_B_Elbow L_F_Paw R_F_Paw L_B_Paw R_B_Paw"
)
_NAMES = {
    "aeroplane": "NoseTip Nose_Top Nose_Bottom L_WingTip R_WingTip Left_Wing_Base Right_Wing_Base "
    "Left_Engine_Front Right_Engine_Front Left_Engine_Back Right_Engine_Back L_Stabilizer R_Stabilizer "
    "Top_Rudder Bot_Rudder Bot_Rudder_Front",
    "bicycle": "F_WheelCenter B_WheelCenter F_WheelEnd B_WheelEnd F_WheelIntersection B_WheelIntersection "
    "CranksetCenter HandleCenter L_HandleTip R_HandleTip SeatBase",
    "bird": "Left_Eye Right_Eye Beak_Base Beak_Tip Upper_Neck_Base Lower_Neck_Base Left_Wing_Base Right_Wing_Base "
    "Left_Wing_Tip Right_Wing_Tip Leg_Center Tail_Tip",
    "boat": "Hull_Front_Top Hull_Front_Bot Hull_Back_Top Hull_Back_Bot Hull_Mid_Left_Top Hull_Mid_Right_Top "
    "Hull_Mid_Left_Bot Hull_Mid_Right_Bot Mast_Top Sail_Left Sail_Right",
    "bottle": "L_Top R_Top L_Neck R_Neck L_Shoulder R_Shoulder L_Base R_Base",
    "bus": "L_F_RoofTop R_F_RoofTop L_B_RoofTop R_B_RoofTop L_F_Base R_F_Base L_B_Base R_B_Base",
    "car": "L_F_RoofTop R_F_RoofTop L_B_RoofTop R_B_RoofTop L_F_WheelCenter R_F_WheelCenter L_B_WheelCenter "
    "R_B_WheelCenter L_HeadLight R_HeadLight L_TailLight R_TailLight L_SideviewMirror R_SideviewMirror",
    "cat": _ANIMAL,
    "chair": "BackRest_Top_Left BackRest_Top_Right Seat_Left_Front Seat_Right_Front Seat_Left_Back Seat_Right_Back "
    "Leg_Left_Front Leg_Right_Front Leg_Left_Back Leg_Right_Back",
    "cow": _ANIMAL,
    "diningtable": "Top_Left_Front Top_Right_Front Top_Left_Back Top_Right_Back "
    "Bot_Left_Front Bot_Right_Front Bot_Left_Back Bot_Right_Back",
    "dog": _ANIMAL,
    "horse": _ANIMAL,
    "motorbike": "F_WheelCenter B_WheelCenter F_WheelEnd B_WheelEnd HandleCenter L_HandleTip R_HandleTip SeatBase "
    "TailLight ExhaustPipeEnd",
    "person": "Nose L_Eye R_Eye L_Ear R_Ear B_Head HeadBack L_Shoulder R_Shoulder L_Elbow R_Elbow L_Wrist R_Wrist "
    "L_Hip R_Hip L_Knee R_Knee L_Ankle R_Ankle L_Foot R_Foot L_Toes R_Toes",
    "pottedplant": "Top_Left Top_Right Top_Front_Middle Top_Back_Middle Bottom_Left Bottom_Right",
    "sheep": _ANIMAL,
    "sofa": "Back_Top_Left Back_Top_Right Back_Base_Left Back_Base_Right Front_Base_Left Front_Base_Right "
    "Handle_Front_Left Handle_Front_Right Handle_Left_Junction Handle_Right_Junction Left_Junction Right_Junction",
    "train": "Base_Front_Left Base_Front_Right Base_Back_Left Base_Back_Right Roof_Front_Middle "
    "Roof_Back_Left Roof_Back_Right",
    "tvmonitor": "F_Top_Left F_Top_Right F_Bottom_Left F_Bottom_Right "
    "B_Top_Left B_Top_Right B_Bottom_Left B_Bottom_Right",
}
CATEGORIES = tuple(_NAMES)
_WHEELED = ("bicycle", "motorbike")


@cache
def skeleton(category: str) -> Skeleton:
    """Names and counterparts of a category's keypoints.

    In bottle, diningtable and pottedplant left is left *in the picture*, not a side of the object. A flip exchanges
    left and right there as well, so `mirror` holds. They stay twins too, as those of bottles and plants in SPair-71k
    are, so that measures and negatives mean the same on both; that such twins say nothing about an object's geometry
    is a reason to leave these categories out (`categories=`), not to have a second convention.
    """
    if category not in _NAMES:
        raise InputError(f"the PASCAL keypoints have no category {category!r}; they have {', '.join(CATEGORIES)}")
    names = tuple(_NAMES[category].split())
    sides = guess_twins(names)
    front_back = _front_back(names) if category in _WHEELED else []
    return Skeleton(names, involution(len(names), sides + front_back), involution(len(names), sides))


def _front_back(names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Rows of F_… and B_…: counterparts although no flip exchanges them."""
    row = {name: i for i, name in enumerate(names)}
    return [(i, row["B_" + name[2:]]) for name, i in row.items() if name.startswith("F_") and "B_" + name[2:] in row]
