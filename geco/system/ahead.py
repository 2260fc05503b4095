"""Work done ahead: groups of results, the next of which is computed in a thread while one is used."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def groups(given: Iterator[Any], work: Callable[[Any], T], *, count: int) -> Iterator[Iterator[list[T]]]:
    """Lists of at most `count` results of `work`, in order; while the caller uses one, a thread works on the next.

    The first group is computed by the caller's own thread, which also walks through `given`, one group ahead. What it
    or `work` raises is raised when it is that group's turn.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="geco-ahead") as pool:
        try:
            yield _groups(given, work, lambda item: pool.submit(work, item), count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _groups(
    given: Iterator[Any], work: Callable[[Any], T], submit: "Callable[[Any], Future[T]]", count: int
) -> Iterator[list[T]]:
    # Nobody uses a group before the first, so no thread is started for it: a single image is encoded without one.
    results = [work(item) for item in islice(given, count)]
    while results:
        group = _submitted(given, submit, count)
        yield results
        results = [group.popleft().result() for _ in range(len(group))]


def _submitted(given: Iterator[Any], submit: "Callable[[Any], Future[T]]", count: int) -> "deque[Future[T]]":
    """At most `count` results that are being worked on; an error of the iterator is the last of them."""
    group: deque[Future[T]] = deque()
    while len(group) < count:
        try:
            group.append(submit(next(given)))
        except StopIteration:
            break
        except Exception as error:
            failed: Future[T] = Future()
            failed.set_exception(error)
            group.append(failed)
            break
    return group
