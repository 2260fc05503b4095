"""DeepLabCut: tables of labels (CollectedData_….csv and .h5) of one animal or several, and whole projects.

Coordinates count from the centre of the first pixel: people label in napari (before: in matplotlib), where that pixel
is at 0. A point is labelled or not: "hidden" cannot be said.
"""

from geco.propagation.formats.deeplabcut.reading import EXPECTED, recognises, recognises_folder, recognises_keys
from geco.propagation.formats.deeplabcut.reading import read as read
from geco.propagation.formats.deeplabcut.writing import append as append
from geco.propagation.formats.deeplabcut.writing import write as write

NAME, ENDINGS = "deeplabcut", (".csv", ".h5", "")  # without an ending: the folder of a project

READING = ["EXPECTED", "read", "recognises", "recognises_folder", "recognises_keys"]
__all__ = ["ENDINGS", "NAME", "append", "write", *READING]
