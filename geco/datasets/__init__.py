"""Datasets: one module or folder per annotation format, found by its name; `data.find` and `data.load` read them.

A plug-in defines

    SPLITS                                       the names of its splits
    load(root, split, *, faults=None, …)         a `data.PairDataset`, such as `data.Pairs`, or a `data.PartDataset`

and may define

    PUBLISHED         {split or "all": {"photographs" | "instances" | "pairs" | "listed": how many}}
    PUBLISHED_PAIRS   {split: {category: how many pairs}}
    prepare(root, *, exclude=None, seed=42, step=None)    writes lists that the release lacks; {list: how many pairs}
    variants(split)   the options under which `geco data check` counts a split, a list of dictionaries

What `load` returns is lazy, picklable and in a fixed order. Its keyword-only parameters are options that a user can
set; texts are converted to the numbers that their annotations name. What is wrong is raised with the file, the line or
key and what was expected, or appended to the list `faults` and left out. A plug-in parses annotations and nothing else:
it knows no model, no device, no cache and no augmentation; images and masks stay files.

Another package adds its own by an entry point of the group `geco.datasets` (docs/extending.md):

    [project.entry-points."geco.datasets"]
    zebras = "my_package.zebras"
"""
