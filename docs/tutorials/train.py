# %% [markdown]
# # Train on your own animal
#
# Keypoints on a few dozen images are enough for a short training that starts from the packaged model. The images here
# are renderings with exact keypoints, and training is limited to a few steps, so that the tutorial takes a minute; the
# commands are the same for real images. Run it in `docs/tutorials` of a clone, with the extras `[train]` and `[pose]`.

# %%
import sys
from pathlib import Path

import geco
from geco.cli import run

sys.path.append("../figures")
import rendered

rendered.write(Path("cats"), 16)

# %% [markdown]
# ## Your images
#
# A folder with `annotations.json` (COCO keypoints, as most annotation tools export them) and `images/`; masks are optional
# and can be made with `geco masks`. Names with *left* and *right* are recognised as counterparts. Check the data before training:

# %%
run("data check coco cats --split train --show 2 --out check".split())

# %% [markdown]
# ## Training
#
# `--model geco-s` starts from the packaged adapter. `--dry-run` says what would be done. If the training is stopped or killed, the same
# command resumes from the last checkpoint. Leave out `--steps`, `--size` and the `--set` options for a real training.

# %%
quick = "--size 112 --steps 2 --batch-size 2 --workers 0 --set validation_pairs=4 --set validate_every=2 --set warmup=0"
code = run(f"train --preset animals-cpu --model geco-s --data coco=cats {quick} --out runs/cats".split())
print("exit code", code)

# %% [markdown]
# ## The result is a model
#
# The run folder loads like any other model, in Python and with `-m` of every command. Its `README.md` is a model card that
# asks for your licence; `model.push_to_hub("you/cats", license="cc-by-4.0")` publishes it.

# %%
print(*sorted(path.name for path in Path("runs/cats").iterdir()), sep="\n")
model = geco.load("runs/cats")
print(model.name, tuple(model.extract("cats/images/cat-01.png").values.shape))
