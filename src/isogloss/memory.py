"""Return free memory to the system.

Allocators keep freed memory for later. Without this, a process would hold the peak of every stage until it ends.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


def release_memory() -> None:
    """Return free memory to the system, between two stages. Does nothing if the C library cannot."""
    gc.collect()
    trim()


def trim() -> None:
    """The same without a garbage collection, which takes longer: for every second or so inside a stage.

    Freed pieces leave holes that the next ones do not quite fill, so a long stage would hold more and more memory.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection while a large structure without cycles is built, such as a vocabulary.

    The collector would scan everything again and again as it grows, which takes several times as long as building it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _malloc_trim() -> "ctypes._NamedFuncPointer | None":
    """The C library's malloc_trim, if it is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library or system
        return None
