"""The small encoder of the training tests."""

import pytest
import torch
from training_data import tiny_vit


@pytest.fixture(scope="session")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
