"""The small encoder of the training tests, and a run that has learned four pairs by heart."""

import pytest
import torch
from training_data import pairs, plain_config, tiny_vit

from geco.training import build, fit, setup


@pytest.fixture(scope="session")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def overfitted(vit, tmp_path_factory):
    """Four pairs seen 240 times; the outcome, the model that was trained, its weights before, the settings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    settings = plain_config(vit, epochs=240, validate_every=60, save_every=100)
    model = build.build(settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    data = {"squares": pairs(4)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "build", lambda _: model)
        outcome = fit(settings, data, data, tmp_path_factory.mktemp("runs") / "squares")
    torch.set_num_threads(threads)
    return outcome, model, before, settings
