import pytest

from geco.system import plugins


def test_a_file_is_a_plugin_and_underscored_files_are_not():
    found = plugins.names("backbones")
    assert {"dinov2", "dino"} <= set(found)
    assert not any(name.startswith("_") for name in found)


@pytest.mark.parametrize("name", ["dinov2", "DINOv2", "DINO-v2"])
def test_hyphens_and_case_are_forgiven(name):
    assert plugins.find("backbones", name).__name__ == "geco.backbones.dinov2"


def test_a_typo_lists_the_choices():
    with pytest.raises(ValueError, match=r"no 'dinov4'; did you mean 'dinov[23]'\? Choices: .*dino, dinov2"):
        plugins.find("backbones", "dinov4")
