# %% [markdown]
# # Search a collection
#
# Which images of a collection show this part, and where? Features are extracted once, their patches are indexed, and a
# point of any image is searched for in all of them. The collection here is four images; the commands are the same for a
# million ([A million images](../scale.md)). It needs the extra `[search]`.

# %%
from pathlib import Path

from geco import demo
from geco.cli import run

demo.copy_images(Path("photos"))

# %% [markdown]
# ## Extract and index
#
# Both steps can be interrupted and started again. `--foreground` of `geco index` leaves out patches that look like the border of
# their image.

# %%
run("extract photos/ -o features".split())
run("index features -o parts-index".split())

# %% [markdown]
# ## Search for a part
#
# The left eye of the cheetah, (162, 92). Every image has at most one place, best first, with the same score that
# `geco transfer` gives; images below the model's threshold are left out.

# %%
run("search parts-index photos/cheetah.jpg -p 162,92 -o eyes.png".split())

# %% [markdown]
# ## A part that no other image shows
#
# The tip of a tail is visible in one image only, and at the model's own threshold no other is returned. A lower threshold shows
# how near the others come.

# %%
run("search parts-index photos/runner.jpg -p 90,141 --csv".split())
run("search parts-index photos/runner.jpg -p 90,141 --csv --threshold 0.1".split())
