"""The checker behind the shape annotations while testing.

jaxtyping's own decorator binds the arguments of every call of every function and checks them twice: half of what a
training step costs in a test. This one checks each value once, and opens a scope of axis names only where an
annotation has a shape.
"""

import dataclasses
import functools
import inspect
import typing

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, config

scope = jaxtyping.jaxtyped
# An int may stand where a float is asked for, as in Python.
check = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError))


def install(modules: list[str]) -> None:
    """Check the functions and dataclasses of these modules from now on; they may not have been imported yet."""
    jaxtyping.jaxtyped = lambda typechecker: checked  # what the hook writes above every function
    jaxtyping.install_import_hook(modules, "shapecheck.check")


def checked(subject):
    """A function whose values are checked when it is called, or a dataclass whose fields are when it is made."""
    if inspect.isclass(subject):
        if dataclasses.is_dataclass(subject) and "__init__" in vars(subject):
            subject.__init__ = checked(subject.__init__)
        return subject
    if inspect.isgeneratorfunction(subject):
        return scope(subject, typechecker=check)  # beartype alone would check arguments only when it is iterated
    subject.__annotations__ = {name: _resolved(hint, subject) for name, hint in subject.__annotations__.items()}
    strict = check(subject)
    if strict is subject:
        return subject
    has_shapes = any(map(_has_shape, subject.__annotations__.values()))

    @functools.wraps(subject)
    def call(*args, **options):
        __tracebackhide__ = True
        if config.jaxtyping_disable:
            return subject(*args, **options)
        if not has_shapes:
            return strict(*args, **options)
        with scope("context"):
            return strict(*args, **options)

    return call


def _resolved(hint, subject):
    """What an annotation names; Any if only the type checker imports it."""
    try:
        return typing.get_type_hints(_annotated(hint), subject.__globals__, include_extras=True)["value"]
    except NameError:
        return typing.Any


def _annotated(hint):
    def holder(value):
        pass

    holder.__annotations__ = {"value": hint}
    return holder


def _has_shape(hint):
    """Whether an annotation holds an array with a shape, at any depth."""
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(map(_has_shape, typing.get_args(hint)))
