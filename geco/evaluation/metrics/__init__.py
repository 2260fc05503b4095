"""Metrics: running sums that are updated with counts, merged across processes and divided once.

A hit is a distance ≤ radius: a prediction exactly on the circle counts. A share of nothing is NaN.
"""
