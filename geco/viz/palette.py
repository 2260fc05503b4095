"""The colours of every picture."""

from matplotlib import colormaps

# Okabe and Ito's palette, distinguishable with every common colour blindness; yellow first reads badly on fur.
PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#F0E442", "#000000")
ORANGE, SKY, GREEN, VERMILLION, PURPLE, BLUE, YELLOW, BLACK = PALETTE

MATCH, TWIN, QUERY = GREEN, VERMILLION, YELLOW  # match and twin differ in shape as well
QUOTED = "#8A8A8A"  # what others published
CASES = {"11": VERMILLION, "10": ORANGE, "1x": SKY}
LABELS = colormaps["tab20"]  # keypoints and parts, by their number

MASK_OUTLINE, MASK_BOX = "#FFDC00", "#FFFFFF"  # of a contact sheet
ON_MASK, OFF_MASK = "#00E650", "#FF2828"
DIMMED = 0.35  # brightness of what is not on a mask
