"""Processes as torchrun names them in the environment."""

from geco.system import Processes, processes


def test_alone_unless_launched(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    assert processes.launched_count() == 1
    assert processes.is_first()
    alone = Processes.launched()
    assert (alone.index, alone.count, alone.wait()) == (0, 1, None)


def test_the_environment_says_how_many_and_which(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    assert processes.launched_count() == 4
    assert not processes.is_first()
