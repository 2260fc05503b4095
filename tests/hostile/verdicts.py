"""The verdict of a hostile case: a clean error, the right result, or a failure; nothing else.

A clean error is a GecoError of one line and at most 300 characters that names what it is about. A right result is one
that the case's own predicate accepts. Everything else fails: another exception, a result that nobody vouches for, and
a call that does not come back.
"""

import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from geco.errors import GecoError

LONGEST = 300  # characters of a message
SECONDS = 10.0  # after which a call counts as a hang; far above what any case needs on a busy machine


@dataclass(frozen=True)
class Verdict:
    """How a case ended, and the line that says so."""

    kind: Literal["clean error", "right result", "failure"]
    text: str

    def __bool__(self) -> bool:
        return self.kind != "failure"


class _Hang(BaseException):
    """Not an Exception, so that no handler of the code under test takes it for an error of the input."""


def verdict(
    call: Callable[[], Any],
    *,
    right: Callable[[Any], bool] | None = None,
    names: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """How the call ends. `right` accepts its result (None: no result is right); `names` must be in the message."""
    try:
        with _limited(seconds):
            result = call()
    except _Hang:
        return Verdict("failure", f"did not come back within {seconds} s")
    except GecoError as error:
        return _of_message(str(error), names)
    except Exception as error:
        return Verdict("failure", f"{type(error).__module__}.{type(error).__qualname__}: {error}"[:600])
    if right is None:
        return Verdict("failure", f"accepted in silence: {result!r}"[:600])
    try:
        accepted = bool(right(result))
    except Exception as error:
        return Verdict("failure", f"the predicate failed on {result!r}: {error!r}"[:600])
    return Verdict("right result" if accepted else "failure", f"result: {result!r}"[:600])


def check(
    call: Callable[[], Any],
    *,
    right: Callable[[Any], bool] | None = None,
    names: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """The verdict, which must not be a failure."""
    ended = verdict(call, right=right, names=names, seconds=seconds)
    assert ended, ended.text
    return ended


def refused(call: Callable[[], Any], *names: str, seconds: float = SECONDS) -> str:
    """The message of a call that must end with a clean error."""
    return check(call, names=names, seconds=seconds).text


def unchecked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or class as users have it: without the type checker that the tests put before it."""
    if not isinstance(function, type):
        return inspect.unwrap(function)

    def construct(*arguments: Any, **fields: Any) -> Any:
        instance = object.__new__(function)
        inspect.unwrap(function.__init__)(instance, *arguments, **fields)
        return instance

    return construct


def _of_message(message: str, names: tuple[str, ...]) -> Verdict:
    faults = [f"does not name {name!r}" for name in names if name not in message]
    faults += ["is empty"] if not message.strip() else []
    faults += ["has several lines"] if len(message.splitlines()) > 1 else []
    faults += [f"has {len(message)} characters"] if len(message) > LONGEST else []
    faults += ["shows a traceback"] if "Traceback" in message else []
    if faults:
        return Verdict("failure", f"the message {', '.join(faults)}: {message}"[:900])
    return Verdict("clean error", message)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupts the main thread after this time, also inside a system call that blocks."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
