"""What the hostile cases mutate: small valid models, runs and reports; and types left unchecked, as users have them."""

import json
import math

import pytest
from jaxtyping import config as shape_checks

from geco.system import codec


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Calls without the type checker of the tests, which would refuse wrong types before the code under test does."""
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", False)


def cases(mutants):
    """Mutants as parameters of a test, each under its label."""
    return pytest.mark.parametrize("content", [pytest.param(content, id=label) for label, content in mutants])


def says(settings, content):
    """Whether settings are exactly what a JSON text says, whose missing keys are defaults."""
    raw = json.loads(content.decode("utf-8-sig"))
    return _agree(codec.as_dict(settings), raw, codec.as_dict(type(settings)())) and finite(settings)


def _agree(value, raw, default):
    if isinstance(value, dict) and isinstance(raw, dict):
        default = default if isinstance(default, dict) else {}
        keys = value.keys() | raw.keys()
        return all(_agree(value.get(key), raw.get(key, default.get(key)), default.get(key)) for key in keys)
    if isinstance(value, bool) != isinstance(raw, bool):
        return False
    return value == raw


def finite(settings, infinite=("alpha", "beta")):
    """Whether no number of the settings is NaN, or infinite where that means nothing."""
    return all(
        not isinstance(value, float) or math.isfinite(value) or (key in infinite and value == math.inf)
        for key, value in _leaves(codec.as_dict(settings) if not isinstance(settings, dict) else settings)
    )


def _leaves(values, name=""):
    if isinstance(values, dict):
        for key, item in values.items():
            yield from _leaves(item, key)
    elif isinstance(values, list | tuple):
        for item in values:
            yield from _leaves(item, name)
    else:
        yield name, values
