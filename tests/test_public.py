"""The public names, and that importing them costs nothing until they are used."""

import subprocess
import sys

import pytest

import geco

PUBLIC = {
    "load",
    "transfer",
    "match",
    "heatmap",
    "features",
    "Geco",
    "FeatureMap",
    "Matches",
    "Keypoints",
    "Skeleton",
    "View",
    "Pair",
}


def test_the_public_names_are_these():
    assert sorted(geco.__all__) == sorted(PUBLIC)
    assert set(dir(geco)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_resolves_and_is_documented(name):
    assert getattr(geco, name).__doc__


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

    assert geco.__version__ == version("geco")


def test_torch_hub_entry_points(tiny_folder):
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[1] / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    hub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hub)
    assert {"torch", "geco"} & set(hub.dependencies)
    assert hub.geco(str(tiny_folder), device="cpu").dim == 24
