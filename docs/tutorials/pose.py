# %% [markdown]
# # Pose from a mesh
#
# Where was the camera when an image of an animal was taken, given a mesh of *some* animal of that kind? Features are
# computed for the vertices of the mesh once. Then every patch of an image is matched with a vertex, and PnP solves for
# the camera. Run it in `docs/tutorials` of a clone, with the extra `[pose]`.

# %%
import sys
from pathlib import Path

import numpy as np

import geco
from geco import demo, images, pose, viz
from geco.pose.settings import DecorateSettings

sys.path.append("../figures")
import quadruped

demo.copy_images(Path("photos"))
quadruped.write(quadruped.quadruped(), Path("cat.ply"))
model = geco.load()

# %% [markdown]
# ## Features on the mesh
#
# Each vertex gets the median of its features over rendered views. Twelve views are quick; the default is sixty. On the
# command line: `geco decorate cat.ply -o cat.safetensors`.

# %%
decoration = geco.decorate("cat.ply", model=model, settings=DecorateSettings(views=12), cache=False)
print(len(decoration.seen), "vertices,", int((decoration.seen == 0).sum()), "unseen")

# %% [markdown]
# ## The camera of an image
#
# On the command line: `geco pose cat.safetensors photos/runner.jpg`. The mesh is a standing cat built from formulas
# and the animal is a running cheetah, so only part of the matches can agree.

# %%
image = images.read("photos/runner.jpg")
estimate = geco.estimate_pose(decoration, image, model=model)
print("found" if estimate.found else estimate.reason)
if estimate.found:
    print(int(estimate.inliers.sum()), "of", len(estimate.matches), "matches agree")

# %%
if estimate.found:
    overlay = pose.place_colours(pose.Scene(decoration.mesh), estimate.camera) * np.array([1, 1, 1, 0.6])
    panel = viz.SurfacePicture(image, overlay=overlay)
    viz.save(viz.draw_surface_matches([[panel]], columns=("the mesh in its pose",)), "pose.png")
