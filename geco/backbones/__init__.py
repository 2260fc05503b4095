"""Backbones: one file per family of frozen encoders.

A plug-in defines `load(location, *, layer=None) -> Backbone`: the encoder stored in Hugging Face format at a local
folder or hub id, reading its `layer`-th block (None: the family's default). `geco.weights` finds or makes that place.
"""
