"""The public names, and that importing them costs nothing until they are used."""

import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import geco

FUNCTIONS = {"load", "transfer", "match", "heatmap", "features", "label", "propagate", "decorate", "estimate_pose"}
FUNCTIONS |= {"find"}
TYPES = {"Encoder", "FeatureMap", "Geco", "Keypoints", "MaskFile", "Matches", "Pair", "Skeleton", "View", "Window"}
TYPES |= {"Found", "Hit", "PartIndex"}
TYPES |= {"Decoration", "Extractor", "LabelSet", "LabelledImage", "Pose", "Region"}
ERRORS = {"GecoError"}
SETTINGS = {"EncoderConfig", "ImageLimits", "LoraSettings", "MatchSettings"}
SETTINGS |= {"DecorateSettings", "KeypointSettings", "PoseSettings", "SearchSettings"}
ALIASES = {"Readable", "Size"}  # names of types that have no docstring of their own
PUBLIC = FUNCTIONS | TYPES | ERRORS | SETTINGS | ALIASES


def test_the_public_names_are_these():
    assert sorted(geco.__all__) == sorted(PUBLIC)
    assert set(dir(geco)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - ALIASES))
def test_every_public_name_resolves_and_is_documented(name):
    assert getattr(geco, name).__doc__


def test_help_starts_with_what_a_user_needs():
    start = pydoc.plain(pydoc.render_doc(geco))[:1500]
    for word in ("geco.transfer(", "geco.load()", "matches.visible", "label"):
        assert word in start, word


def test_every_type_of_a_public_signature_can_be_imported_from_geco():
    """Names of our own classes in the annotations of the public functions and of Geco's public methods."""
    methods = [getattr(value, "__func__", value) for name, value in vars(geco.Geco).items() if not name.startswith("_")]
    callables = [*(getattr(geco, name) for name in FUNCTIONS), *filter(inspect.isfunction, methods)]
    signatures = [inspect.signature(function) for function in callables]
    annotations = [parameter.annotation for s in signatures for parameter in s.parameters.values()]
    text = " ".join(str(annotation) for annotation in (*annotations, *(s.return_annotation for s in signatures)))
    named = {name.rsplit(".", 1)[1] for name in re.findall(r"geco\.[\w.]+", text)}
    assert "MatchSettings" in named
    assert named <= PUBLIC, named - PUBLIC


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'mach'"):
        geco.mach  # noqa: B018


def test_importing_geco_is_cheap():
    """By what is imported, not by time."""
    code = (
        "import sys, geco\n"
        "heavy = {'torch', 'numpy', 'transformers', 'peft', 'matplotlib', 'cv2', 'PIL', 'kornia', 'accelerate'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "geco.FeatureMap\n"
        "heavy -= {'torch', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_geco_changes_no_global_state():
    code = (
        "import torch\nbefore = (torch.get_num_threads(), torch.initial_seed(), torch.get_default_dtype())\n"
        "import geco, geco.api, geco.viz, geco.matching\n"
        "assert before == (torch.get_num_threads(), torch.initial_seed(), torch.get_default_dtype())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert geco.__version__ == version("geco-features")


def test_torch_hub_entry_points(tiny_folder):
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[1] / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    hub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hub)
    assert {"torch", "geco"} & set(hub.dependencies)
    assert hub.geco(str(tiny_folder), device="cpu").dim == 24


def test_nobody_is_told_to_install_a_stranger_s_package():
    """`geco` on PyPI is another project; ours is geco-features."""
    from pathlib import Path

    root = Path(__file__).parents[1]
    pages = [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/**/*.md"), *root.glob("geco/**/*.py")]
    stranger = re.compile(r"""(?:pip|uv pip|pipx|uv add) ?(?:install)? [^\n`,;#]*?['" ]geco(?:\[|['"\s`]|$)""")
    told = [f"{page.name}: {match}" for page in pages for match in stranger.findall(page.read_text())]
    assert stranger.search("pip install 'geco[train]'")
    assert stranger.search("pip install geco")
    assert not stranger.search("pip install 'geco-features[train]'")
    assert not told
