"""Signals: Ctrl-C, SIGTERM and SIGHUP stop a command in the same way.

They are raised as a KeyboardInterrupt, so that files are closed, the record says where it stopped, and child processes end. The
exit code is the shell's: 128 plus the number of the signal.
"""

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_held: list[int] | None = None  # signals that came while none was to be raised


class Stopped(Exception):
    """A signal, carried past typer, which would only say "Aborted"."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Signalled(KeyboardInterrupt):
    """A signal that asked this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def signal_of(error: KeyboardInterrupt) -> int:
    """The number of the signal; Ctrl-C may come without one."""
    return int(getattr(error, "number", signal.SIGINT))


def stoppable(verb: Callable[..., None]) -> Callable[..., None]:
    """Let signals stop a verb, and `main` hear of it."""

    @functools.wraps(verb)
    def guarded(*arguments: object, **options: object) -> None:
        try:
            with signals_interrupt():
                verb(*arguments, **options)
        except KeyboardInterrupt as error:
            raise Stopped(signal_of(error)) from error

    return guarded


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Raise a KeyboardInterrupt for SIGTERM and SIGHUP while the block runs; signals that are ignored (nohup) stay ignored.

    The first one counts: the others that a service manager sends must not disturb what is being closed. A second Ctrl-C still
    ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one is given signals
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before: dict[int, Any] = {one: signal.getsignal(one) for one in numbers if signal.getsignal(one) is not signal.SIG_IGN}

    def interrupt(number: int, _frame: object) -> None:
        for other in before:
            signal.signal(other, signal.SIG_DFL if other == signal.SIGINT else signal.SIG_IGN)
        if _held is not None:
            _held.append(number)
            return
        raise Signalled(number)

    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Inside `signals_interrupt`: a signal is raised when the block ends, for a step that must not be left half done."""
    global _held
    came: list[int] = []
    _held = came
    try:
        yield
    finally:
        _held = None
    if came:
        raise Signalled(came[0])
