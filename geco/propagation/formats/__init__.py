"""Annotation formats that people have: labels of keypoints read from them and written to them.

One module for each format, behind `read_annotations` and `write_annotations`; docs/labels.md says what each can hold.
"""
