"""Work done ahead: in order, one group ahead and no more, with errors when it is their turn."""

import threading
import time

import pytest

from geco.system import ahead


def test_results_come_in_order_and_in_groups():
    with ahead.groups(iter(range(7)), lambda n: n * n, count=3) as groups:
        assert list(groups) == [[0, 1, 4], [9, 16, 25], [36]]
    with ahead.groups(iter(()), str, count=3) as groups:
        assert list(groups) == []


def test_the_next_group_is_worked_on_while_one_is_used():
    began = threading.Event()

    def work(number):
        if number == 2:
            began.set()
        return number

    with ahead.groups(iter(range(4)), work, count=2) as groups:
        assert next(groups) == [0, 1]
        assert began.wait(10), "the next group is not worked on"


def test_items_of_a_group_are_worked_on_together_and_a_single_one_without_a_thread(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=10)

    def work(number):
        both.wait()  # would not end if one were worked on after the other
        return number

    with ahead.groups(iter(range(4)), work, count=2) as groups:
        assert list(groups) == [[0, 1], [2, 3]]
    with ahead.groups(iter([1]), lambda _: threading.current_thread(), count=4) as groups:
        assert list(groups) == [[threading.current_thread()]]


def test_never_more_than_one_group_is_asked_for_ahead():
    asked = []

    def numbers():
        for number in range(20):
            asked.append(number)
            yield number

    with ahead.groups(numbers(), str, count=3) as groups:
        for used, _ in enumerate(groups, 1):
            assert len(asked) <= 3 * (used + 1)


@pytest.mark.parametrize("place", ["work", "iterator"])
def test_an_error_is_raised_at_its_turn(place):
    def numbers():
        for number in range(6):
            if place == "iterator" and number == 3:
                raise ValueError("three")
            yield number

    def work(number):
        if place == "work" and number == 3:
            raise ValueError("three")
        return number

    with ahead.groups(numbers(), work, count=2) as groups:
        assert next(groups) == [0, 1]
        with pytest.raises(ValueError, match="three"):
            next(groups)


def test_the_thread_ends_with_the_block():
    def work(number):
        time.sleep(0.01)
        return number

    with ahead.groups(iter(range(100)), work, count=50) as groups:
        next(groups)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("geco-ahead")]
