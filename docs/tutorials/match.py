# %% [markdown]
# # Match two images
#
# Transfer points from one image to another, see how certain the model is, and find out which points are not visible. The
# four example images come with gradio's wheel (`pip install --no-deps gradio`).

# %%
from pathlib import Path

import geco
from geco import demo, images, viz

demo.copy_images(Path("photos"))
model = geco.load()
print(model.name, model.input_size, "px")

# %% [markdown]
# ## Points
#
# Points are (x, y) in pixels of the source image, from its top-left corner. Left and right are the animal's own.

# %%
face = {"right eye": (89, 92), "left eye": (162, 92), "nose": (125, 147), "left ear": (208, 47)}
matches = geco.transfer("photos/cheetah.jpg", "photos/lion.jpg", list(face.values()), model=model)
for name, (x, y), score in zip(face, matches.target, matches.score, strict=True):
    print(f"{name:10} ({x:5.1f}, {y:5.1f})  similarity {score:.2f}")

# %%
pair = images.read("photos/cheetah.jpg"), images.read("photos/lion.jpg")
viz.save(viz.draw_transfer(*pair, matches, names=list(face), labels=("cheetah", "lion")), "transfer.png")

# %% [markdown]
# ## What is not visible
#
# The best similarity of a hidden point is low. Below the model's calibrated threshold it is reported as not visible.

# %%
body = {"nose": (372, 147), "tail tip": (90, 141), "hind foot": (230, 222)}
matches = geco.transfer("photos/runner.jpg", "photos/cheetah.jpg", list(body.values()), model=model)
for name, visible, score in zip(body, matches.visible, matches.score, strict=True):
    print(f"{name:10} {'visible' if visible else 'not visible'}  ({score:.2f}, threshold {model.threshold:.2f})")

# %% [markdown]
# ## Similarity of every pixel
#
# How similar is each pixel of the cub to the left eye of the cheetah? Its left eye should be more similar than its right eye.

# %%
heat = geco.heatmap("photos/cheetah.jpg", "photos/cub.jpg", face["left eye"], model=model)
pair = images.read("photos/cheetah.jpg"), images.read("photos/cub.jpg")
viz.save(viz.draw_heatmap(*pair, face["left eye"], heat, threshold=model.threshold), "heatmap.png")

# %% [markdown]
# ## Many images
#
# A list of targets is encoded in batches; the source is encoded once. Features can also be stored and matched later.

# %%
targets = ["photos/cub.jpg", "photos/lion.jpg", "photos/runner.jpg"]
for path, matches in zip(targets, geco.transfer("photos/cheetah.jpg", targets, [(125, 147)], model=model), strict=True):
    print(path, [round(value) for value in matches.target[0].tolist()])
features = model.extract("photos/cheetah.jpg")
print(tuple(features.values.shape), "channels, rows, columns")
