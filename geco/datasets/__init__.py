"""Datasets: one file per annotation format.

A plug-in defines `load(root, split, **options) -> Sequence[Pair]` (or `Sequence[View]` for part masks). It
parses annotations and nothing else: it knows no model, no device, no cache and no augmentation; images and
masks stay files.
"""
