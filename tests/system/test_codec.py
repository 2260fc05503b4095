"""Settings to and from plain values: nothing is lost, nothing unknown is taken, old names still work."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geco.system import codec


@dataclass(frozen=True)
class Inner:
    alpha: float = 1.0
    kind: Literal["round", "square"] = "round"


@dataclass(frozen=True)
class Outer:
    RENAMED: ClassVar[Mapping[str, str]] = {"old": "inner.alpha", "was.": "inner.", "side": "options.side"}

    inner: Inner = field(default_factory=Inner)
    count: int | None = None
    names: tuple[str, ...] = ()
    on: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@given(
    alpha=st.floats(allow_nan=False),
    count=st.none() | st.integers(-(2**63), 2**63),
    names=st.lists(st.text()),
    kind=st.sampled_from(["round", "square"]),
    options=st.dictionaries(st.text(alphabet="abc", min_size=1), st.integers(-(2**63), 2**63) | st.booleans()),
)
def test_what_is_written_is_read_back(alpha, count, names, kind, options):
    settings = Outer(Inner(alpha, kind), count, tuple(names), options=options)
    assert codec.from_json(Outer, codec.to_json(settings)) == settings


def test_infinity_is_strict_json():
    text = codec.to_json(Inner(math.inf))
    assert json.loads(text, parse_constant=pytest.fail)["alpha"] == "inf"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": 1}, "file has unknown keys colour; known: count, inner, names, on, options"),
        ({"inner": {"beta": 1}}, "file: inner has unknown keys beta"),
        ({"inner": 3}, "file: inner: expected settings of Inner, got 3"),
        ({"inner": {"alpha": "large"}}, "file: inner.alpha: expected a number, got 'large'"),
        ({"inner": {"kind": "oval"}}, "file: inner.kind: expected one of round, square, got 'oval'"),
        ({"count": True}, "file: count: expected a whole number, got True"),
        ({"on": 1}, "file: on: expected true or false, got 1"),
        ({"names": "a"}, "file: names: expected a list, got 'a'"),
        ({"options": [1]}, r"file: options: expected settings {…}, got \[1\]"),
        ([1], r"file: expected an object {…}, got \[1\]"),
    ],
)
def test_a_mistake_is_named_with_its_place(values, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        codec.from_json(Outer, json.dumps(values), name="file")


def test_text_that_is_not_json_is_named():
    with pytest.raises(ValueError, match=r"^file is not JSON"):
        codec.from_json(Outer, "{", name="file")


def test_one_value_is_changed_as_on_a_command_line():
    changed = codec.changed(Outer(), "inner.alpha", "inf")
    assert changed == Outer(Inner(math.inf))
    assert codec.changed(changed, "names", '["a", "b"]').names == ("a", "b")
    assert codec.changed(changed, "options.layer", "11").options == {"layer": 11}
    with pytest.raises(ValueError, match=r"outer\.alpha: 'outer' has no settings; groups: inner, options"):
        codec.changed(Outer(), "outer.alpha", "1")


def test_values_changed_together_may_come_in_any_order():
    from geco.training.settings import TrainConfig

    changes = [("encoder.lora", "null"), ("unfreeze", "2")]  # the first alone would leave nothing to train
    for order in (changes, changes[::-1]):
        config = codec.changed_together(TrainConfig(), order)
        assert config.encoder.lora is None
        assert config.unfreeze == 2
    with pytest.raises(ValueError, match="nothing to train"):
        codec.changed_together(TrainConfig(), changes[:1])


def test_names_of_an_earlier_release_are_read_and_set():
    old = {"old": 3.0, "was": {"kind": "square"}, "side": 4, "count": 2}
    assert codec.build(Outer, old) == Outer(Inner(3.0, "square"), 2, options={"side": 4})
    assert codec.changed(Outer(), "was.kind", "square").inner.kind == "square"
    assert codec.changed(Outer(), "old", "5").inner.alpha == 5.0


def test_a_choice_that_does_not_exist_lists_the_choices():
    assert codec.choose("colour", "red", {"red": 1}) == 1
    with pytest.raises(ValueError, match=r"there is no colour 'rad'; did you mean 'red'\? Choices: red, blue"):
        codec.choose("colour", "rad", {"red": 1, "blue": 2})
