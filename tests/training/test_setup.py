"""What a run refuses before its first step."""

import pytest
from training_data import config, pairs, without_masks

from geco.training import fit
from geco.training.settings import SamplingSettings


def test_transport_without_masks_says_how_to_get_them(vit, tmp_path):
    with pytest.raises(
        ValueError, match="2 objects have no foreground mask, view 0 for one; make masks with `geco masks squares ROOT`"
    ):
        fit(config(vit), {"squares": [without_masks(pairs(1)[0])]}, {}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mistakes_are_said_before_the_first_step(vit, tmp_path):
    data = {"squares": pairs(4)}
    with pytest.raises(ValueError, match="unfreeze must be at most 2, the blocks of the encoder, got 3"):
        fit(config(vit, unfreeze=3), data, {}, tmp_path / "b")
    with pytest.raises(ValueError, match="a training set needs pairs, got none from squares"):
        fit(config(vit), {"squares": []}, {}, tmp_path / "c")
    unknown = SamplingSettings(factors={"square": 2.0})
    with pytest.raises(ValueError, match=r"sampling.factors names square, but the training sets are squares"):
        fit(config(vit, sampling=unknown), data, {}, tmp_path / "d")
