"""Datasets: one file per annotation format.

A plug-in defines `SPLITS`, the names of its splits, and `load(root, split, *, faults=None, …) -> Sequence[Pair]`
(or `Sequence[View]` for part masks), lazy, picklable and in a fixed order. It parses annotations and nothing else:
it knows no model, no device, no cache and no augmentation; images and masks stay files. What is wrong is raised
with the file, the line or key and what was expected, or appended to the list `faults` and left out.

It may define `PUBLISHED` (totals per split), `prepare` and `variants`, which `geco data` reads.
"""
