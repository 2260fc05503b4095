"""Settings: whatever value a field is given, in Python, in JSON or on a command line, it is refused or it is meant."""

import dataclasses
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hostile.valid import as_users_have_it, finite  # noqa: F401 (a fixture)
from hostile.verdicts import check, refused

from geco.evaluation.settings import FrameProtocol, KeypointSettings, PartsProtocol, Protocol, RuntimeProtocol
from geco.losses.settings import LossSettings
from geco.models.settings import EncoderConfig, LoraSettings
from geco.system import codec
from geco.training.presets import PRESETS
from geco.training.settings import AugmentSettings, SamplingSettings, TrainConfig
from geco.transport.settings import TransportSettings

KINDS = (
    TransportSettings,
    LossSettings,
    LoraSettings,
    EncoderConfig,
    AugmentSettings,
    SamplingSettings,
    TrainConfig,
    Protocol,
    KeypointSettings,
    PartsProtocol,
    RuntimeProtocol,
    FrameProtocol,
)
VALUES = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "minus half": -0.5,
    "nan": math.nan,
    "infinity": math.inf,
    "huge": 10**400,
    "text": "twelve",
    "digits": "12",
    "empty": "",
    "null character": "a\0b",
    "list": [],
    "nested": [[1]],
    "tuple of nan": (math.nan, math.nan),
    "reversed": (2.0, 1.0),
    "object": {},
    "object of nan": {"layer": math.nan},
    "set": {1, 2},
    "bytes": b"12",
    "complex": 1j,
    "decimal": Decimal("0.1"),
    "array": np.array([1.0, 2.0]),
    "numpy number": np.float32("nan"),
    "path": Path("x"),
    "function": len,
    "long text": "x" * 5000,
}
INHERITED = {"unit", "distance"}  # checked by the settings of `geco.propagation`
FIELDS = [(kind, entry.name) for kind in KINDS for entry in dataclasses.fields(kind) if entry.name not in INHERITED]


def sound(settings):
    """Settings that can be written and read again, with every number finite."""
    return finite(settings) and codec.from_json(type(settings), codec.to_json(settings)) == settings


@pytest.mark.parametrize(("kind", "name"), [pytest.param(*case, id=f"{case[0].__name__}.{case[1]}") for case in FIELDS])
def test_a_field_is_refused_or_meant(kind, name):
    """27 values for each of 96 fields; what is taken is exactly what was given."""
    for label, value in VALUES.items():

        def taken(settings, value=value):
            mine = getattr(settings, name)
            options = name == "options" and mine == {k: v for k, v in (value or {}).items() if v is not None}
            return sound(settings) and (options or mine == value or (isinstance(value, list) and mine == tuple(value)))

        ended = check(lambda value=value: kind(**{name: value}), right=taken)
        named = (name, "there is no loss", "nothing to train")
        assert ended.kind == "right result" or any(words in ended.text for words in named), (label, ended)


WORDS = (
    "",
    "null",
    "true",
    "-1",
    "0",
    "nan",
    "NaN",
    "-inf",
    "1e999",
    "1e400",
    "9" * 400,
    "[]",
    "{}",
    "[[[]]]",
    "'",
    "x",
)


def dotted(settings, prefix=""):
    for key in codec.as_dict(settings):
        yield f"{prefix}{key}"
        if dataclasses.is_dataclass(getattr(settings, key)):
            yield from dotted(getattr(settings, key), f"{prefix}{key}.")


@pytest.mark.parametrize(
    "key", [*dotted(PRESETS["animals-cpu"]), "x", "", ".", "loss..", "loss.x.y", "encoder.options.layer"]
)
def test_a_value_typed_on_a_command_line_is_refused_or_meant(key):
    for word in WORDS:
        check(lambda word=word: codec.changed(PRESETS["animals-cpu"], key, word), right=sound)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EncoderConfig(size=0), ("size must be 1 or more, got 0",)),
        (lambda: EncoderConfig(size=-5), ("size",)),
        (lambda: EncoderConfig(size=10**9), ("size must be at most 65536",)),
        (lambda: EncoderConfig(size=224.0), ("size: expected a whole number",)),
        (lambda: EncoderConfig(size=True), ("size",)),
        (lambda: EncoderConfig(threshold=math.nan), ("threshold must be finite",)),
        (lambda: EncoderConfig(threshold=7), ("threshold must be at most 1",)),
        (lambda: EncoderConfig(backbone=""), ("backbone",)),
        (lambda: EncoderConfig(lora={"rank": 3}), ("lora: expected settings of LoraSettings",)),
        (lambda: LoraSettings(rank=0), ("rank must be above 0",)),
        (lambda: LoraSettings(alpha=math.nan), ("alpha must be finite",)),
        (lambda: LoraSettings(projections=()), ("projections",)),
        (lambda: LoraSettings(projections=("query", "query")), ("projections",)),
        (lambda: LoraSettings(projections="query"), ("projections: expected a list",)),
        (lambda: TransportSettings(lam=0), ("lam must be above 0",)),
        (lambda: TransportSettings(lam=math.inf), ("lam must be finite",)),
        (lambda: TransportSettings(beta=math.nan), ("beta must be above 0",)),
        (lambda: TransportSettings(iterations=0), ("iterations must be above 0",)),
        (lambda: TransportSettings(iterations=10.5), ("iterations: expected a whole number",)),
        (lambda: TransportSettings(s=1), ("s is the mass",)),
        (lambda: TransportSettings(z=math.nan), ("z must be finite",)),
        (lambda: LossSettings(weight_bin=math.inf), ("weight_bin must be finite",)),
        (lambda: LossSettings(floor=2), ("floor must be below 1",)),
        (lambda: LossSettings(reduction=[]), ("reduction must be one of",)),
        (lambda: LossSettings(name=[]), ("there is no loss []",)),
        (lambda: TrainConfig(learning_rate=math.nan), ("learning_rate must be finite",)),
        (lambda: TrainConfig(learning_rate=-1.0), ("learning_rate must be above 0",)),
        (lambda: TrainConfig(epochs=0), ("epochs must be above 0",)),
        (lambda: TrainConfig(batch_size=0), ("batch_size must be above 0",)),
        (lambda: TrainConfig(warmup=-1), ("warmup must be 0 or more",)),
        (lambda: TrainConfig(workers=-1), ("workers must be 0 or more",)),
        (lambda: TrainConfig(workers=10**6), ("workers must be at most 256",)),
        (lambda: TrainConfig(clip=0.0), ("clip must be above 0, or None",)),
        (lambda: TrainConfig(seed=-1), ("seed must be 0 or more",)),
        (lambda: TrainConfig(encoder=None), ("encoder: expected settings of EncoderConfig",)),
        (lambda: AugmentSettings(sigma=(2.0, 1.0)), ("sigma is",)),
        (lambda: AugmentSettings(sigma=(1.0,)), ("sigma: expected a list of 2",)),
        (lambda: AugmentSettings(scale=(0.5, "x")), ("scale[1]: expected a number",)),
        (lambda: AugmentSettings(kernel=-1), ("kernel must be 1 or more",)),
        (lambda: AugmentSettings(hue=3.0), ("hue must be at most 0.5",)),
        (lambda: AugmentSettings(size=0), ("size must be 1 or more",)),
        (lambda: SamplingSettings(self_pairs=math.nan), ("self_pairs must be finite",)),
        (lambda: KeypointSettings(batch_size=0), ("batch_size must be 1 or more",)),
        (lambda: KeypointSettings(radii=()), ("radii must be one radius or more",)),
        (lambda: KeypointSettings(confidence=1.0), ("confidence must be below 1",)),
        (lambda: KeypointSettings(resamples=10**12), ("resamples must be at most",)),
        (lambda: Protocol(alphas=(math.nan,)), ("alphas must be finite",)),
        (lambda: Protocol(alphas=(-0.1,)), ("alphas must be above 0",)),
        (lambda: Protocol(threshold="pixels"), ("threshold must be one of image, box",)),
        (lambda: PartsProtocol(train_images=0), ("train_images must be 1 or more",)),
        (lambda: PartsProtocol(components=0), ("components",)),
        (lambda: RuntimeProtocol(batches=(0,)), ("batches must be 1 or more, got 0",)),
        (lambda: RuntimeProtocol(batches=()), ("batches must be one or more, got none",)),
        (lambda: RuntimeProtocol(repeats=0), ("repeats must be 1 or more",)),
        (lambda: RuntimeProtocol(sizes=(1.5,)), ("sizes[0]: expected a whole number",)),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, words):
    refused(make, *words)


def test_what_is_legal_stays_legal():
    assert TransportSettings(alpha=math.inf, beta=math.inf).alpha == math.inf
    assert codec.from_json(TransportSettings, '{"alpha": "inf"}').alpha == math.inf
    assert RuntimeProtocol(batches=[1, 8]).batches == (1, 8)
    assert json.loads(codec.to_json(KeypointSettings(batch_size=np.int64(4))))["batch_size"] == 4
    assert TrainConfig(learning_rate=1).learning_rate == 1
