# %% [markdown]
# # Label a set
#
# Label a few images by hand, let the model label the rest, and review the uncertain points. On the command line this is
# `geco propagate labels.csv photos/ -o all.json --review`.

# %%
from pathlib import Path

import geco
from geco import demo, propagation

demo.copy_images(Path("photos"))
model = geco.load()

# %% [markdown]
# ## Labels
#
# Labels can be in COCO, DeepLabCut, SLEAP, Label Studio or CVAT format, or in a table like this one. Two images are
# labelled here; the tail tip is visible in the image of the runner, but not in the portrait.

# %%
LABELS = """image,animal,name,x,y,visible
photos/cheetah.jpg,1,left_eye,162,92,1
photos/cheetah.jpg,1,right_eye,89,92,1
photos/cheetah.jpg,1,nose,125,147,1
photos/runner.jpg,1,right_eye,365,135,1
photos/runner.jpg,1,nose,372,147,1
photos/runner.jpg,1,tail_tip,90,141,1
"""
Path("labels.csv").write_text(LABELS)
labels = propagation.read_annotations("labels.csv")
print(labels.skeleton.names)

# %% [markdown]
# ## The other images
#
# Every point comes with its place, whether it is visible, and an uncertainty: the share of such points that are expected
# to be wrong.

# %%
STATES = {propagation.VISIBLE: "visible", propagation.HIDDEN: "hidden", propagation.UNKNOWN: "unknown"}
labelled = list(geco.propagate(labels, ["photos/cub.jpg", "photos/lion.jpg"], model=model))
for image in labelled:
    for animal in image.animals:
        for name, (x, y), state, doubt in zip(
            labels.skeleton.names, animal.xy.tolist(), animal.state.tolist(), animal.uncertainty.tolist(), strict=True
        ):
            print(f"{image.path.name:9} {name:10} ({x:5.1f}, {y:5.1f})  {STATES[state]:8} uncertainty {doubt:.2f}")

# %% [markdown]
# ## Back into your tool
#
# The results can be written in any of the formats. `geco propagate --review` also writes a page on which wrong points can be
# dragged to their correct place; `--round 2 --corrected FILE` uses the corrections.

# %%
propagation.write_annotations(propagation.LabelSet(labels.skeleton, tuple(labelled)), "all.json", format="coco")
print(Path("all.json").stat().st_size, "bytes of COCO keypoints")
