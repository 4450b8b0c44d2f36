"""Memory that nothing uses goes back to the system, and is not looked for where there is none.

Allocators keep what was freed, for the next who asks. After a stage that needed much for a moment, a process would hold that
much to its end, and the next stage's needs would come on top of it.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


def release_memory() -> None:
    """Between two stages: hand free memory back. Where the C library cannot, nothing happens."""
    gc.collect()
    trim()


def trim() -> None:
    """Inside a stage, every second or so: the same without a look for what is free, which takes longer than the rest.

    Pieces of a stage that come and go leave holes, which the next pieces do not quite fill: so a long stage would hold more
    and more of what it does not use.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)


@contextmanager
def gc_paused() -> Iterator[None]:
    """While a large structure is built, a vocabulary say: no looking for cycles, of which it has none.

    Python looks through all that there is, again and again as it grows, which takes several times as long as to build it.
    """
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looking:
            gc.enable()


@cache
def _malloc_trim() -> "ctypes._NamedFuncPointer | None":
    """The C library's malloc_trim, if it is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return None
