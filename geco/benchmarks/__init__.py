"""Benchmarks: one file per table of the paper.

A plug-in defines `run(model, data, protocol, ...) -> Report`.
"""
