"""Every JSON that is read: dropped, retyped, nested, huge, NaN, truncated; the file and the key are named."""

import json
import shutil

import painted
import pytest
import torch
from hostile import mutations
from hostile.mutations import json_mutants, sampled
from hostile.valid import as_users_have_it, cases, finite, says  # noqa: F401 (a fixture)
from hostile.verdicts import check, refused
from hypothesis import HealthCheck, given, settings
from tiny_model import fresh

from geco.evaluation import Curve, Estimate, Measure, Report, Table, keypoints, load_report, report_json, save_report
from geco.evaluation.keypoints import comparison
from geco.evaluation.rendering import csv_text
from geco.evaluation.report import side_by_side
from geco.evaluation.settings import PROTOCOLS, KeypointSettings
from geco.models import weights
from geco.models.settings import EncoderConfig
from geco.system import codec, documents
from geco.training.folder import RunFolder
from geco.training.settings import FREE, LENGTH, TrainConfig

QUICK = KeypointSettings(resamples=5, radii=(0.1,))
ENCODER = EncoderConfig("somewhere", {"layer": 1, "norm": True}, size=56)
HUGGING_FACE = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "mlp_ratio": 4,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "layer_norm_eps": 1e-6,
    "image_size": 56,
    "patch_size": 14,
    "num_channels": 3,
    "qkv_bias": True,
    "layerscale_value": 1.0,
    "use_swiglu_ffn": False,
    "dtype": "float32",
    "transformers_version": "5.0",
}
PEFT = {"peft_type": "LORA", "r": 10, "lora_alpha": 10.0, "target_modules": ["q_proj", "v_proj"], "use_dora": False}
RUN = {"model": "0123", "pairs": "4567", "matching": [{"mode": "nearest", "threshold": 0.3}]}
REPORT = Report(
    "keypoints",
    "stub",
    "zoo",
    measures=(Measure("PCK", 0.7, "geco", 0.1, low=0.6, high=0.8), Measure("encode", 4.5, unit="ms")),
    tables=(Table("t", "T", ("a", "b"), (("row", Estimate(1.0, 0.5, 2.0)), ("other", None))),),
    curves=(Curve("PCK", (0.0, 1.0), (0.0, 50.0)),),
    counts={"geco": {"alphas": [0.1], "cat": {"n": {"11": 3, "10": 1, "1x": 2, "01": 0, "00": 0}}}},
    settings={"digest": "89ab"},
    samples={
        "geco": {
            "measures": ["PCK@0.1"],
            "radius": 0.1,
            "numerator": [[1.0], [2.0], [0.0]],
            "denominator": [[2.0], [2.0], [1.0]],
        }
    },
)


# --- settings in files ------------------------------------------------------------------------------------------------


@cases(json_mutants(json.loads(ENCODER.to_json()), count=90))
def test_geco_json(tmp_path, content):
    (tmp_path / "geco.json").write_bytes(content)
    check(lambda: weights.adapter_config(tmp_path), right=lambda config: says(config, content), names=("geco.json",))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=mutations.mutated_json(json.loads(TrainConfig().to_json())))
def test_the_configuration_of_a_run_with_several_changes(content):
    text = content.decode(errors="surrogatepass")
    check(lambda: TrainConfig.from_json(text, name="config.json"), right=lambda config: says(config, content))


@cases(json_mutants(PEFT, count=30))
def test_adapter_config_json(tmp_path, content):
    (tmp_path / "geco.json").write_text(ENCODER.to_json())
    (tmp_path / "adapter_config.json").write_bytes(content)

    def right(config):
        raw = json.loads(content.decode("utf-8-sig"))
        return config == ENCODER and (raw["r"], raw["lora_alpha"], raw["peft_type"]) == (10, 10.0, "LORA")

    check(lambda: weights.adapter_config(tmp_path), right=right, names=("adapter_config.json",))


@pytest.fixture(scope="module")
def reference(tiny_folder, tmp_path_factory):
    """A folder with the valid configuration, an image and its features."""
    folder = tmp_path_factory.mktemp("valid")
    shutil.copy(tiny_folder / "model.safetensors", folder)
    (folder / "config.json").write_text(json.dumps(HUGGING_FACE))
    pixels = torch.rand(1, 3, 28, 42, generator=torch.Generator().manual_seed(0))
    return folder, pixels, features_of(folder, pixels)


@torch.no_grad()
def features_of(folder, pixels):
    return weights.load_backbone(weights.locate(str(folder)))(pixels=pixels)


@cases(json_mutants(HUGGING_FACE, count=25))
def test_config_json_of_a_model_folder(reference, tmp_path, content):
    """It is refused, or changes nothing: how wide and deep a network is, its weights say as well."""
    folder, pixels, expected = reference
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    (tmp_path / "config.json").write_bytes(content)
    check(lambda: features_of(tmp_path, pixels), right=expected.equal, names=(tmp_path.name,))


@pytest.mark.parametrize(
    "more",
    [
        {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}},
        {"auto_map": "evil"},
        {"model_type": "custom-vit", "auto_map": {"AutoModel": "evil.Model"}},
        {"model_type": "custom-vit"},
        {"model_type": ["dinov2"]},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": 1},
        {"hidden_size": 2**14, "num_attention_heads": 2**9},
        {"image_size": 2**14, "patch_size": 1},
        {"qkv_bias": False},
        {"num_attention_heads": 5},
        {"hidden_act": "__import__('os').system('true')"},
    ],
)
def test_a_configuration_that_wants_something_else(reference, tmp_path, more):
    folder, pixels, _ = reference
    shutil.copy(folder / "model.safetensors", tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    (tmp_path / "config.json").write_text(json.dumps({**HUGGING_FACE, **more}))
    refused(lambda: features_of(tmp_path, pixels), tmp_path.name)


@pytest.mark.parametrize(
    "more",
    [
        {"transformers_weights": "../../etc/passwd"},
        {"_attn_implementation": "kernels-community/flash-attn"},
        {"attn_implementation": "someone/kernel"},
        {"_name_or_path": "someone/else"},
        {"torch_dtype": "float8"},
        {"dtype": {"": None}},
        {"output_hidden_states": "yes"},
        {"is_encoder_decoder": True},
        {"id2label": 7},
    ],
)
def test_what_a_configuration_says_to_transformers_alone_is_not_heard(reference, tmp_path, more):
    folder, pixels, expected = reference
    shutil.copy(folder / "model.safetensors", tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else", "peft_type": "EVIL"}')
    (tmp_path / "config.json").write_text(json.dumps({**HUGGING_FACE, **more}))
    assert features_of(tmp_path, pixels).equal(expected)


INDEX = {"metadata": {"total_size": 1}, "weight_map": {"a": "model-1.safetensors"}}


@cases(json_mutants(INDEX, count=15))
def test_the_index_of_several_files(tmp_path, content):
    (tmp_path / "config.json").write_text(json.dumps(HUGGING_FACE))
    (tmp_path / "model.safetensors.index.json").write_bytes(content)
    refused(lambda: weights.load_backbone(weights.locate(str(tmp_path))), tmp_path.name)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "a\\b", "a\0b"])
def test_an_index_names_only_files_beside_it(tmp_path, name):
    (tmp_path / "config.json").write_text(json.dumps(HUGGING_FACE))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    refused(lambda: weights.load_backbone(weights.locate(str(tmp_path))), tmp_path.name)


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The folder of a small keypoint run, and its pairs."""
    folder, pairs = tmp_path_factory.mktemp("evaluated") / "run", painted.pairs(3)
    keypoints.predict(painted.Painter(), pairs, [PROTOCOLS["geco"].match], settings=QUICK, folder=folder)
    return folder, pairs


@cases(json_mutants(RUN, count=20))
def test_run_json(evaluated, tmp_path, content):
    folder, pairs = evaluated
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_bytes(content)
    refused(lambda: keypoints.read_predictions(tmp_path / "run", pairs), "run")


@cases(sampled(json_mutants({"pair": 1, "xy": [[[1.0, 2.0]]], "score": [[0.5]]}), 60))
def test_a_line_of_predictions(evaluated, tmp_path, content):
    """The first of two lines: the last may be cut short."""
    folder, pairs = evaluated
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / "predictions-0.jsonl"
    lines = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b" ") + b"\n" + lines)
    before = keypoints.read_predictions(folder, pairs)

    def right(after):
        return all(after[i].xy.equal(before[i].xy) and after[i].score.equal(before[i].score) for i in range(len(pairs)))

    check(lambda: keypoints.read_predictions(tmp_path / "run", pairs), right=right, names=("predictions",))


def test_a_last_line_cut_anywhere_is_left_out(evaluated, tmp_path):
    folder, _ = evaluated
    line = (folder / "predictions-0.jsonl").read_bytes().splitlines()[0]
    for length in range(0, len(line), 3):
        (tmp_path / "a.jsonl").write_bytes(line + b"\n" + line[:length])
        assert len(list(documents.read_lines(tmp_path / "a.jsonl", expected="lines", finite=True))) == 1


VALID = json.loads(TrainConfig().to_json())


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    run = RunFolder(tmp_path_factory.mktemp("run"))
    run.prepare(TrainConfig(), {"squares/cat": 3}, room=10)
    run.checkpoint_file.write_bytes(b"there")
    return run


@cases(json_mutants(VALID, count=40))
def test_config_json_of_a_run(run_folder, content):
    (run_folder.path / "config.json").write_bytes(content)
    (run_folder.path / "data.json").write_text('{"squares/cat": 3}')

    def right(_):
        raw = json.loads(content)
        free = {*FREE, *LENGTH}
        return all(says_the_same(raw.get(key, value), value) for key, value in VALID.items() if key not in free)

    check(lambda: run_folder.check(TrainConfig(), {"squares/cat": 3}), right=right, names=(str(run_folder.path),))


def says_the_same(raw, value):
    if isinstance(value, dict) and isinstance(raw, dict):
        return all(says_the_same(raw.get(key, item), item) for key, item in value.items())
    return raw == value


@cases(json_mutants({"squares/cat": 3}))
def test_data_json_of_a_run(run_folder, content):
    (run_folder.path / "config.json").write_text(TrainConfig().to_json())
    (run_folder.path / "data.json").write_bytes(content)
    refused(lambda: run_folder.check(TrainConfig(), {"squares/cat": 3}), str(run_folder.path))


@cases(sampled(json_mutants({"kind": "step", "step": 1, "loss": 0.5, "loss positive": 0.25, "memory": 7}), 70))
def test_a_line_of_the_log(tmp_path, content):
    run = RunFolder(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(content.replace(b"\n", b" ") + b'\n{"kind": "step", "step": 2, "loss": 1.0}\n')

    def call():
        run.draw_curves()
        return run.records()

    def right(records):
        first = [json.loads(content)] if content.strip() else []
        return [*first, {"kind": "step", "step": 2, "loss": 1.0}] == records or b"NaN" in content

    if b"Infinity" in content or b"1e400" in content:
        return  # what a loss may be
    check(call, right=right, names=("log.jsonl",))


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    save_report(REPORT, folder)
    return folder


@cases(json_mutants(json.loads(report_json(REPORT)), count=45))
def test_report_json(tmp_path, content):
    (tmp_path / "report.json").write_bytes(content)

    def call():
        report = load_report(tmp_path)
        side_by_side([report, REPORT])
        [csv_text(table) for table in report.tables]
        return report

    def right(report):
        raw, written = json.loads(content.decode("utf-8-sig")), json.loads(report_json(report))
        same = ("benchmark", "label", "data", "measures", "tables", "curves", "counts", "settings")
        return all(filled(raw.get(key), written[key]) for key in same)

    check(call, right=right, names=("report",))


def filled(raw, written):
    """Whether what was written again is what was read, apart from keys that had defaults."""
    if isinstance(raw, dict) and isinstance(written, dict):
        return all(filled(value, written.get(key)) for key, value in raw.items())
    if isinstance(raw, list) and isinstance(written, list):
        return len(raw) == len(written) and all(map(filled, raw, written))
    return raw is None or raw == written


@cases(json_mutants(REPORT.samples, count=25))
def test_samples_json(reported, tmp_path, content):
    shutil.copy(reported / "report.json", tmp_path)
    (tmp_path / "samples.json").write_bytes(content)

    def right(table):
        return all(isinstance(row[3], Estimate) for row in table.rows) and len(table.rows) == 1

    check(lambda: comparison.compare(load_report(tmp_path), REPORT, resamples=5), right=right)


@cases(json_mutants(REPORT.counts, count=20))
def test_counts_of_a_report_that_are_drawn(reported, tmp_path, content):
    raw = json.loads((reported / "report.json").read_text())
    text = json.dumps({**raw, "counts": "HERE", "curves": []}).encode().replace(b'"HERE"', content)
    (tmp_path / "report.json").write_bytes(text)
    check(lambda: keypoints.draw([load_report(tmp_path)]), right=lambda figures: set(figures) <= {"imbalance"})


# --- the reader itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"a": NaN}', "has the number NaN"),
        ('{"a": -Infinity}', "has the number -Infinity"),
        ('{"a": 1e999}', "has the number 1e999"),
        ('{"a": %s}' % ("9" * 400), "a number of 400 digits"),
        ("[1]", "expected an object"),
        ('"text"', "expected an object"),
        ("", "is not JSON"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ('{"a": ' * 500 + "1" + "}" * 500, "nested too deeply"),
        ("{'a': 1}", "is not JSON"),
        ('{"a": 0x10}', "is not JSON"),
        ("\x00" * 100, "is not JSON"),
    ],
)
def test_the_reader_says_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "a.json"
    path.write_text(text)
    refused(lambda: documents.read(path, expected="settings"), "a.json", words)


def test_the_reader_opens_only_files(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", documents.LARGEST + 1)
    for name in ("pipe", "loop", "nothing", "large", "missing", ".", "x" * 300, "a\0b"):
        refused(lambda name=name: documents.read(tmp_path / name, expected="settings"), seconds=2)
    (tmp_path / "bom.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert documents.read(tmp_path / "bom.json", expected="settings") == {"a": 1}
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    refused(lambda: documents.read(tmp_path / "latin.json", expected="settings"), "not text in UTF-8", "latin.json")


def test_the_place_of_a_mistake_is_named(tmp_path):
    (tmp_path / "geco.json").write_text('{"lora": {"rank": "ten"}}')
    message = refused(lambda: weights.adapter_config(tmp_path))
    assert message == f"{tmp_path}/geco.json: lora.rank: expected a whole number, got 'ten'"
    (tmp_path / "geco.json").write_text('{"lora": {"rank": -3}}')
    assert refused(lambda: weights.adapter_config(tmp_path)).endswith("geco.json: lora.rank must be above 0, got -3")


def test_an_adapter_is_not_dropped_in_silence(tiny_folder, tmp_path):
    folder = fresh(tiny_folder).save_pretrained(tmp_path / "run")
    values = json.loads((folder / "geco.json").read_text())
    (folder / "geco.json").write_text(json.dumps({**values, "lora": None}))
    refused(lambda: weights.adapter_config(folder), "lora is null", "adapter_model.safetensors")


def test_finite_is_a_predicate_that_can_fail():
    assert not finite({"a": [float("nan")]})
    assert not says(EncoderConfig(), codec.to_json(EncoderConfig(size=14)).encode())
