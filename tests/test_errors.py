"""Errors: ours are also the built-in kinds, and one line of bounded length whatever is put into them."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geco.errors import (
    LONGEST,
    FileError,
    GecoError,
    InputError,
    MissingFileError,
    MissingPackageError,
    brief,
)

KINDS = [
    (InputError, ValueError),
    (FileError, OSError),
    (MissingFileError, FileNotFoundError),
    (MissingPackageError, ImportError),
]


@pytest.mark.parametrize(("ours", "builtin"), KINDS)
def test_ours_is_also_the_kind_that_people_expect(ours, builtin):
    error = ours("a.jpg: no such file;\n  expected an image")
    assert isinstance(error, GecoError)
    assert isinstance(error, builtin)
    assert str(error) == "a.jpg: no such file; expected an image"
    again = pickle.loads(pickle.dumps(error))  # workers send their errors this way
    assert type(again) is ours
    assert str(again) == str(error)


@given(st.text(max_size=3000))
def test_a_message_is_one_line_of_bounded_length(text):
    assert len(brief(text)) <= LONGEST
    assert len(brief(text).splitlines()) <= 1
    assert brief(brief(text)) == brief(text)


def test_the_ends_of_a_long_word_stay():
    path = "/data/" + "x" * 5000 + "/photo.jpg"
    assert brief(f"{path}: no such file").startswith("/data/xxx")
    assert brief(f"{path}: no such file").endswith("/photo.jpg: no such file")


def test_a_missing_extra_names_our_package():
    error = MissingPackageError.of_extra("train", "kornia", what="augmentation")
    assert str(error) == "augmentation needs kornia; install it with: pip install 'geco-features[train]'"
