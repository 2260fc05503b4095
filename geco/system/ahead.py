"""Work done ahead: groups of results, the next of which is computed in threads while one is used."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def groups(given: Iterator[Any], work: Callable[[Any], T], *, count: int) -> Iterator[Iterator[list[T]]]:
    """Lists of at most `count` results of `work`, in order; while the caller uses one, threads work on the next.

    There are as many threads as processors, but no more than `count`. `given` is walked through by the caller's own
    thread, one group ahead. What it or `work` raises is raised when it is that group's turn.
    """
    with ThreadPoolExecutor(min(count, os.cpu_count() or 1), thread_name_prefix="geco-ahead") as pool:
        try:
            yield _groups(given, work, lambda item: pool.submit(work, item), count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _groups(
    given: Iterator[Any], work: Callable[[Any], T], submit: "Callable[[Any], Future[T]]", count: int
) -> Iterator[list[T]]:
    first = list(islice(given, count))
    if len(first) == 1:  # nobody uses a group meanwhile: a single image is encoded without starting a thread
        results = [work(first[0])]
    else:
        submitted = [submit(item) for item in first]
        results = [one.result() for one in submitted]
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
