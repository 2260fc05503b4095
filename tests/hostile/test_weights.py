"""Files of weights and what loads them: damaged, foreign, malicious; a full disk, no home, a cache that was touched."""

import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hostile.mutations import HTML, LFS, byte_mutants
from hostile.valid import as_users_have_it, cases  # noqa: F401 (a fixture)
from hostile.verdicts import check, refused
from original_dinov2 import original
from safetensors.torch import load_file, save, save_file
from tiny_model import fresh

from geco.errors import GecoError
from geco.extraction import read_features, write_features
from geco.models import cache, weights
from geco.models.geco import Geco
from geco.system import cost, devices, tensors
from geco.types import FeatureMap

PIXELS = torch.rand(1, 3, 28, 42, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def adapter(tiny_folder, tmp_path_factory):
    """The folder of a saved adapter that does something."""
    model = fresh(tiny_folder)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.fill_(0.01)
    return model.save_pretrained(tmp_path_factory.mktemp("adapter"))


@pytest.fixture
def damaged(adapter, tmp_path):
    """A copy of the adapter to spoil."""
    return Path(shutil.copytree(adapter, tmp_path / "model"))


@torch.no_grad()
def features(model):
    return model(pixels=PIXELS)


def is_sound(model):
    return bool(torch.isfinite(features(model)).all())


def mutants_of(state, **options):
    return byte_mutants(save(state), **options)


TENSORS = {"a": torch.arange(64.0).reshape(8, 8), "b": torch.ones(3)}


# --- safetensors and checkpoints --------------------------------------------------------------------------------------


@cases(mutants_of(TENSORS, flips=20))
def test_a_safetensors_file(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)

    def right(read):
        return all(bool(torch.isfinite(value.double()).all()) for value in read[0].values())

    check(lambda: tensors.read_safetensors(path, expected="weights"), right=right, names=("w.safetensors",))


def torch_bytes(value):
    import io

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@cases(byte_mutants(torch_bytes(TENSORS), flips=12))
def test_a_pytorch_checkpoint(tmp_path, content):
    path = tmp_path / "w.pth"
    path.write_bytes(content)

    def right(state):
        return all(bool(torch.isfinite(value.double()).all()) for value in state.values())

    check(lambda: tensors.read_state(path, expected="a checkpoint of plain tensors"), right=right, names=("w.pth",))


class Evil:
    def __reduce__(self):
        return os.system, ("touch EXECUTED",)


@pytest.mark.parametrize(
    "value",
    [
        Evil(),
        {"a": Evil()},
        [Evil()],
        {"a": torch.ones(2), "b": {"c": Evil()}},
        np.ones(3),
        {"a": np.float64(1)},
        torch.nn.Linear(2, 2),
        {"state_dict": {"a": torch.ones(2)}},
        {"a": [torch.ones(2)]},
        {1: torch.ones(2)},
        torch.ones(2),
        "text",
        None,
        7,
        {"a": torch.tensor([1.0, float("nan")])},
        {"a": torch.tensor([float("inf")])},
        {"a": torch.ones(2, 2).to_sparse()},
        {"a": torch.tensor([1.0, float("nan")], dtype=torch.bfloat16)},
        {"a": torch.complex(torch.ones(2), torch.full((2,), float("nan")))},
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:30]!r}",
)
@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_of_something_else(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    torch.save(value, tmp_path / "w.pth")
    refused(lambda: weights.read_checkpoint(tmp_path / "w.pth"), "w.pth")
    refused(lambda: weights.locate(str(tmp_path / "w.pth")), "w.pth")
    assert not (tmp_path / "EXECUTED").exists()


def test_pickles_run_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        for name in ("w.pth", "w.safetensors", "w.pt", "w.bin", "w"):
            (tmp_path / name).write_bytes(pickle.dumps(Evil(), protocol=protocol))
            refused(lambda name=name: weights.locate(str(tmp_path / name)), name)
    assert not (tmp_path / "EXECUTED").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (LFS, "it is a Git LFS pointer"),
        (HTML, "it is a web page"),
        (b"PK\x03\x04" + bytes(100), "zip archive"),
        (pickle.dumps({"a": 1}), "it is a pickle"),
        (b'{"a": 1}', "it is JSON"),
        (b"hello", "it is text"),
        (bytes(1000), "it is full of zeros"),
        (b"\x89PNG\r\n", "it is a PNG image"),
        (b"GGUF" + bytes(60), "it is a GGUF file"),
    ],
)
def test_what_a_file_is_instead_is_said(tmp_path, content, words):
    for name in ("w.safetensors", "w.pth"):
        (tmp_path / name).write_bytes(content)
        message = refused(
            lambda name=name: tensors.read_state(tmp_path / name, expected="weights"), name, "not weights"
        )
        # a plain pickle of a dict is read by torch's old format, and refused for what it holds
        assert words.removeprefix("it is ") in message or "state dict" in message or "damaged" in message


def test_no_file_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.pth")
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "loop.pth").symlink_to("loop.pth")
    for name in ("pipe.pth", "folder.safetensors", "loop.pth", "missing.pth", "/dev/zero", "/dev/null", "/dev/stdin"):
        refused(lambda name=name: weights.read_checkpoint(tmp_path / name), seconds=3)
    refused(lambda: weights.locate("/dev/zero"), "/dev/zero", seconds=3)
    refused(lambda: weights.locate(str(tmp_path / "pipe.pth")), "pipe.pth", seconds=3)


# --- adapters ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapter_bytes(adapter):
    return (adapter / "adapter_model.safetensors").read_bytes()


@pytest.mark.parametrize("number", range(24))
def test_an_adapter_of_other_bytes(damaged, adapter_bytes, number):
    _, content = byte_mutants(adapter_bytes, flips=14)[number]
    (damaged / "adapter_model.safetensors").write_bytes(content)
    check(lambda: Geco.from_pretrained(damaged, device="cpu"), right=is_sound, names=("model",))


CHANGES = {
    "nan": lambda key, value: {key: torch.full_like(value, float("nan"))},
    "one nan": lambda key, value: {key: value.index_fill(0, torch.tensor([0]), float("nan"))},
    "infinity": lambda key, value: {key: torch.full_like(value, float("inf"))},
    "another shape": lambda key, value: {key: value[:1]},
    "transposed": lambda key, value: {key: value.mT.contiguous()},
    "flat": lambda key, value: {key: value.flatten()},
    "a scalar": lambda key, value: {key: torch.tensor(1.0)},
    "empty": lambda key, value: {key: torch.zeros(0)},
    "whole numbers": lambda key, value: {key: value.long()},
    "flags": lambda key, value: {key: value > 0},
    "complex": lambda key, value: {key: value.to(torch.complex64)},
    "eight bits": lambda key, value: {key: value.to(torch.float8_e4m3fn)},
    "missing": lambda key, value: {},
    "another name": lambda key, value: {key + ".x": value},
    "one more": lambda key, value: {key: value, "more": torch.ones(2)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_adapter_of_other_tensors(damaged, change):
    state = load_file(damaged / "adapter_model.safetensors")
    for key in (min(state), max(state)):
        others = {name: value for name, value in state.items() if name != key}
        save_file(others | CHANGES[change](key, state[key]), damaged / "adapter_model.safetensors")
        refused(lambda: Geco.from_pretrained(damaged, device="cpu"), "model")


def test_half_precision_weights_are_weights(damaged):
    state = load_file(damaged / "adapter_model.safetensors")
    save_file({key: value.half() for key, value in state.items()}, damaged / "adapter_model.safetensors")
    assert is_sound(Geco.from_pretrained(damaged, device="cpu"))


@pytest.mark.parametrize("file", ["adapter_model.safetensors", "geco.json", "adapter_config.json"])
@pytest.mark.parametrize("how", ["gone", "folder", "broken link", "loop"])
def test_a_file_of_an_adapter_that_is_not_there(damaged, file, how):
    path = damaged / file
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how != "gone":
        path.symlink_to("nowhere" if how == "broken link" else file)
    fine = is_sound if file == "adapter_config.json" else None  # PEFT's own file is not needed
    check(lambda: Geco.from_pretrained(damaged, device="cpu"), right=fine, names=("model",))


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"w_a_000": torch.ones(4, 24)},
        {"w_a_001": torch.ones(4, 24), "w_b_001": torch.ones(24, 4)},
        {f"w_{x}_{i:03d}": torch.ones(24) for i in range(4) for x in "ab"},
        {f"w_{x}_{i:03d}": torch.tensor(1.0) for i in range(4) for x in "ab"},
        {f"w_{x}_{i:03d}": torch.ones(4, 25) for i in range(4) for x in "ab"},
        {f"w_{x}_{i:03d}": torch.ones(0, 24) if x == "a" else torch.ones(24, 0) for i in range(4) for x in "ab"},
        {
            f"w_{x}_{i:03d}": torch.ones(4 + i, 24) if x == "a" else torch.ones(24, 4 + i)
            for i in range(4)
            for x in "ab"
        },
        {f"w_{x}_{i:03d}": torch.full((4, 24) if x == "a" else (24, 4), float("nan")) for i in range(4) for x in "ab"},
        {f"w_{x}_{i:03d}": torch.ones(4, 24) if x == "a" else torch.ones(24, 4) for i in range(40) for x in "ab"},
    ],
)
def test_a_checkpoint_of_the_reference_implementation(tiny_folder, tmp_path, state):
    torch.save(state, tmp_path / "lora.pth")
    refused(lambda: Geco.from_reference(tmp_path / "lora.pth", backbone=str(tiny_folder)), "lora.pth")


# --- backbones --------------------------------------------------------------------------------------------------------


@pytest.fixture
def backbone(tiny_folder, tmp_path):
    return Path(shutil.copytree(tiny_folder, tmp_path / "backbone"))


@pytest.mark.parametrize("number", range(20))
def test_the_weights_of_a_model_folder(backbone, number):
    path = backbone / "model.safetensors"
    _, content = byte_mutants(path.read_bytes(), flips=10)[number]
    path.write_bytes(content)
    check(lambda: Geco.from_pretrained(backbone, device="cpu"), right=is_sound, names=("backbone",))


@pytest.mark.parametrize("number", range(14))
def test_the_older_weights_of_a_model_folder(backbone, number):
    state = load_file(backbone / "model.safetensors")
    (backbone / "model.safetensors").unlink()
    _, content = byte_mutants(torch_bytes(state), flips=4)[number]
    (backbone / "pytorch_model.bin").write_bytes(content)
    check(lambda: Geco.from_pretrained(backbone, device="cpu"), right=is_sound, names=("backbone",))


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "one more"])
def test_a_model_folder_of_other_tensors(backbone, change):
    state = load_file(backbone / "model.safetensors")
    for key in ("encoder.layer.1.mlp.fc1.weight", "embeddings.patch_embeddings.projection.weight"):
        others = {name: value for name, value in state.items() if name != key}
        try:
            changed = CHANGES[change](key, state[key])
        except RuntimeError:  # a transpose of four dimensions
            continue
        save_file(
            others | {name: value.contiguous() for name, value in changed.items()}, backbone / "model.safetensors"
        )
        fine = is_sound if change == "transposed" and state[key].ndim == 4 else None  # patches are square
        check(lambda: Geco.from_pretrained(backbone, device="cpu"), right=fine, names=("backbone",))


def test_a_folder_with_nothing_but_its_configuration(backbone):
    (backbone / "model.safetensors").unlink()
    refused(lambda: Geco.from_pretrained(backbone, device="cpu"), "has no model.safetensors or pytorch_model.bin")


def test_several_files_are_read_and_each_is_checked(backbone):
    expected = features(Geco.from_pretrained(backbone, device="cpu"))
    state = load_file(backbone / "model.safetensors")
    (backbone / "model.safetensors").unlink()
    half = len(state) // 2
    table = {}
    for number, keys in enumerate((list(state)[:half], list(state)[half:])):
        save_file({key: state[key] for key in keys}, backbone / f"part-{number}.safetensors")
        table |= dict.fromkeys(keys, f"part-{number}.safetensors")
    (backbone / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    assert features(Geco.from_pretrained(backbone, device="cpu")).equal(expected)
    (backbone / "part-1.safetensors").write_bytes(LFS)
    refused(lambda: Geco.from_pretrained(backbone, device="cpu"), "part-1.safetensors", "Git LFS pointer")
    (backbone / "part-1.safetensors").unlink()
    refused(lambda: Geco.from_pretrained(backbone, device="cpu"), "part-1.safetensors", "no such file")


ORIGINAL = {
    "a key more": lambda s: s | {"head.weight": torch.ones(2)},
    "a block less": lambda s: {k: v for k, v in s.items() if not k.startswith("blocks.1.mlp")},
    "no patches": lambda s: s | {"patch_embed.proj.weight": torch.ones(3)},
    "no grid": lambda s: s | {"pos_embed": torch.ones(1, 7, 128)},
    "no positions": lambda s: s | {"pos_embed": torch.ones(0)},
    "flat": lambda s: s | {"blocks.0.attn.qkv.weight": torch.ones(5)},
    "nan": lambda s: s | {"norm.weight": torch.full((128,), float("nan"))},
    "another width": lambda s: s | {"norm.weight": torch.ones(5)},
    "odd block": lambda s: s | {"blocks.x.norm1.weight": torch.ones(128)},
    "far block": lambda s: s | {"blocks.999999999.norm1.weight": torch.ones(128)},
    "whole numbers": lambda s: {k: v.long() for k, v in s.items()},
}


@pytest.mark.parametrize("change", ORIGINAL)
def test_an_original_checkpoint_with(tmp_path, change):
    torch.save(ORIGINAL[change](original()), tmp_path / "dinov2.pth")
    refused(lambda: Geco.from_pretrained(tmp_path / "dinov2.pth", device="cpu"))
    left = [path.name for path in (tmp_path / "cache").glob(".*")] if (tmp_path / "cache").exists() else []
    assert left == [], "no draft is left behind"


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """An original checkpoint, a cache it was converted into, and its features."""
    folder = tmp_path_factory.mktemp("converted")
    torch.save(original(), folder / "dinov2.pth")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GECO_CACHE", str(folder / "cache"))
        model = Geco.from_pretrained(folder / "dinov2.pth", device="cpu", size=56)
    return folder, features(model)


@pytest.fixture
def converted(once, tmp_path):
    """The checkpoint, the folder of the cache to spoil, and the features."""
    shutil.copytree(once[0] / "cache", tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    return once[0] / "dinov2.pth", folder, once[1]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "checksums.json").unlink(),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "config.json").write_text("{}"),
        lambda folder: (folder / "checksums.json").write_text("[]"),
        lambda folder: (folder / "checksums.json").write_text('{"config.json": 1}'),
        lambda folder: (folder / "checksums.json").write_bytes(b"\xff"),
        lambda folder: (folder / "model.safetensors").write_bytes(b""),
        lambda folder: (folder / "model.safetensors").write_bytes(LFS),
        lambda folder: os.truncate(folder / "model.safetensors", 5000),
        lambda folder: flip(folder / "model.safetensors"),
        lambda folder: shutil.rmtree(folder),
        lambda folder: (shutil.rmtree(folder), folder.write_text("a file")),
        lambda folder: (shutil.rmtree(folder), folder.symlink_to("nowhere")),
    ],
)
def test_a_cache_that_was_touched_is_converted_again(converted, spoil):
    path, folder, expected = converted
    spoil(folder)
    assert features(Geco.from_pretrained(path, device="cpu", size=56)).equal(expected)
    assert cache.is_whole(folder)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


def test_a_damaged_cache_that_cannot_be_made_again_names_its_place(tmp_path, monkeypatch):
    import importlib.util

    folder = tmp_path / "cache" / "focus-small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(lambda: weights.locate("focus-small"), "GECO_CACHE", "focus-small")


@pytest.mark.parametrize("place", ["/proc/geco", "/dev/null/geco", "a file"])
def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, place):
    torch.save(original(), tmp_path / "dinov2.pth")
    (tmp_path / "a file").write_text("x")
    monkeypatch.setenv("GECO_CACHE", place if place.startswith("/") else str(tmp_path / place))
    refused(lambda: weights.locate(str(tmp_path / "dinov2.pth")), "GECO_CACHE")


def test_no_home(tmp_path, monkeypatch):
    torch.save(original(), tmp_path / "dinov2.pth")
    monkeypatch.delenv("GECO_CACHE")
    monkeypatch.setattr(cache, "user_cache_dir", lambda name: "~/.cache/geco")  # where nobody knows the user
    refused(lambda: weights.locate(str(tmp_path / "dinov2.pth")), "GECO_CACHE")


def test_a_full_disk_while_converting(tmp_path):
    torch.save(original(), tmp_path / "dinov2.pth")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        refused(lambda: weights.locate(str(tmp_path / "dinov2.pth")), "GECO_CACHE")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list((tmp_path / "cache").iterdir()) == []


# --- foreign code -----------------------------------------------------------------------------------------------------


def test_no_question_is_asked_and_no_code_is_run(tiny_folder, tmp_path):
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "evil"))
    config = json.loads((folder / "config.json").read_text())
    code = "import pathlib\npathlib.Path(__file__).with_name('EXECUTED').touch()\n"
    (folder / "evil.py").write_text(code)
    (folder / "__init__.py").write_text(code)
    auto = {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps({**config, **auto}))
    script = f"import geco\ntry:\n    geco.load({str(folder)!r})\nexcept geco.GecoError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", script], input="y\ny\ny\n", capture_output=True, text=True, timeout=60)
    assert "asks for code of the folder's own to be run" in done.stdout
    assert "[y/N]" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "EXECUTED").exists()


# --- what is asked of a model -----------------------------------------------------------------------------------------

NAMES = [
    "", " ", "\0", "a\0b", ".", "..", "/", "~", "~nobody/x", "x" * 300, "x" * 5000, "a/b/c", "a//b", "a/..", "../a",
    "https://example.com/model", "s3://a/b", "dinov2-bse", "-", "--help", "a b/c d", "[/b]", "$x$", "\n", "a\nb", "ä/ö",
    None, 7, 1.5, True, b"x", ["x"], {"a": 1}, object(),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
def test_a_name_that_is_no_model(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    refused(lambda: Geco.from_pretrained(name))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size must be 1 or more"),
        ({"size": -14}, "size"),
        ({"size": True}, "size"),
        ({"size": 56.5}, "size: expected a whole number"),
        ({"size": float("nan")}, "size"),
        ({"size": "56"}, "size"),
        ({"size": (56, 56)}, "size"),
        ({"size": 10000}, "tokens"),
        ({"size": 10**9}, "size must be at most"),
        ({"size": 10**400}, "size"),
        ({"layer": 0}, "layer must be between 1 and 2"),
        ({"layer": -1}, "layer"),
        ({"layer": True}, "layer"),
        ({"layer": 3}, "layer"),
        ({"layer": 1.0}, "layer"),
        ({"layer": "1"}, "layer"),
        ({"layer": float("nan")}, "layer"),
        ({"norm": 0}, "norm must be true or false"),
        ({"norm": "no"}, "norm"),
        ({"device": "gpu"}, "device must be"),
        ({"device": ""}, "device"),
        ({"device": "cuda:99"}, "device"),
        ({"device": "meta"}, "device"),
        ({"device": "cpu:x"}, "device"),
        ({"device": None}, "device"),
        ({"device": 0}, "device"),
        ({"device": True}, "device"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"dtype": "load"}, "dtype"),
        ({"dtype": torch.int32}, "dtype"),
        ({"dtype": torch.complex64}, "dtype"),
        ({"dtype": None}, "dtype"),
        ({"dtype": float}, "dtype"),
        ({"colour": 1}, "have no option colour"),
    ],
)
def test_an_option_that_makes_no_sense(tiny_folder, options, words):
    refused(lambda: Geco.from_pretrained(tiny_folder, **{"device": "cpu", **options}), words)


def test_a_cost_is_refused_unless_it_is_forced(tiny_folder):
    refused(lambda: Geco.from_pretrained(tiny_folder, device="cpu", size=10000), "509,796 tokens", "1974", "--force")
    assert Geco.from_pretrained(tiny_folder, device="cpu", size=10000, force=True).input_size == 9996
    assert cost.check(1974, stride=14).tokens == 141**2 <= cost.MOST_TOKENS < 142**2


@pytest.fixture(scope="module")
def model(tiny_folder):
    return Geco.from_pretrained(tiny_folder, device="cpu", size=28)


IMAGE = torch.zeros(3, 20, 20, dtype=torch.uint8)
NOT_IMAGES = [
    None, 7, 1.5, True, [], [IMAGE], (IMAGE, IMAGE), {"image": 1}, {1, 2}, object(), len, "", "none.jpg",
    (x for x in ()), b"", b"text", Path("/"), "/", Path("none"), torch.zeros(0), torch.zeros(3, 0, 0), np.array("x"),
    torch.full((3, 20, 20), float("nan")), np.zeros((0, 0, 3), np.uint8), iter([IMAGE]), range(3), Evil(),
]  # fmt: skip


@pytest.mark.parametrize("image", NOT_IMAGES, ids=lambda image: f"{type(image).__name__} {str(image)[:12]!r}")
def test_what_is_no_image(model, image):
    refused(lambda: model.extract(image))
    refused(lambda: model.extract_batch([image]))
    refused(lambda: list(model.extract_stream(iter([image]))))


@pytest.mark.parametrize("pictures", [None, 7, "a.jpg", Path("a.jpg"), b"x", IMAGE, np.zeros((20, 20, 3), np.uint8)])
def test_what_is_no_list_of_images(model, pictures):
    refused(lambda: model.extract_batch(pictures), "expected a list of images")
    refused(lambda: model.extract_stream(pictures), "expected a list of images")


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "8", None, float("nan"), [8]])
def test_a_batch_size_that_is_none(model, size):
    refused(lambda: model.extract_stream([IMAGE], batch_size=size), "batch_size must be a whole number above 0")
    refused(lambda: model.extract_batch([IMAGE], batch_size=size), "batch_size")


def test_what_is_a_list_of_images(model):
    assert len(model.extract_batch(torch.stack([IMAGE, IMAGE]))) == 2
    assert len(model.extract_batch(iter([IMAGE]), batch_size=np.int64(3))) == 1
    assert model.extract_batch([]) == []


def test_memory_that_runs_out_is_said(model, monkeypatch):
    def encode(_):
        raise RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9e12 bytes"
        )

    monkeypatch.setattr(type(model), "_encode_staged", lambda self, group: encode(group))
    refused(lambda: model.extract(IMAGE), "not enough memory")
    assert not devices.is_out_of_memory(RuntimeError("shapes differ"))


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null/x", "a\0b", "x" * 300])
def test_a_model_that_cannot_be_saved(model, place):
    refused(lambda: model.save_pretrained(place))


# --- features on disk -------------------------------------------------------------------------------------------------

MAP = FeatureMap(torch.arange(24.0).reshape(2, 3, 4), (30, 40))


@cases(byte_mutants(save({"features": MAP.values}, {"height": "30", "width": "40"}), flips=12))
def test_a_file_of_features(tmp_path, content):
    path = tmp_path / "f.safetensors"
    path.write_bytes(content)

    def right(read):
        return read.values.ndim == 3 and bool(torch.isfinite(read.values.double()).all()) and min(read.size) > 0

    check(lambda: read_features(path), right=right, names=("f.safetensors",))


@pytest.mark.parametrize(
    ("state", "metadata"),
    [
        ({"features": MAP.values}, None),
        ({"features": MAP.values}, {"height": "30"}),
        ({"features": MAP.values}, {"height": "0", "width": "40"}),
        ({"features": MAP.values}, {"height": "-3", "width": "40"}),
        ({"features": MAP.values}, {"height": "3.5", "width": "40"}),
        ({"features": MAP.values}, {"height": "9" * 400, "width": "40"}),
        ({"features": MAP.values}, {"height": "²", "width": "٣"}),
        ({"other": MAP.values}, {"height": "30", "width": "40"}),
        ({"features": MAP.values[0]}, {"height": "30", "width": "40"}),
        ({"features": MAP.values.long()}, {"height": "30", "width": "40"}),
        ({"features": MAP.values / 0}, {"height": "30", "width": "40"}),
        ({"features": torch.zeros(2, 0, 4)}, {"height": "30", "width": "40"}),
        ({}, {"height": "30", "width": "40"}),
    ],
)
def test_features_of_another_layout(tmp_path, state, metadata):
    save_file(state, tmp_path / "f.safetensors", metadata)
    refused(lambda: read_features(tmp_path / "f.safetensors"), "f.safetensors")


def test_features_that_cannot_be_written():
    for place in ("/proc/f.safetensors", "/dev/null/f.safetensors"):
        refused(lambda place=place: write_features(place, MAP))


def test_the_errors_are_ours():
    with pytest.raises(GecoError):
        tensors.check_finite({"a": torch.tensor(float("nan"))}, "w")
