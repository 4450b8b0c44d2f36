"""Memory that nothing uses goes back to the system.

Allocators keep what was freed, for the next who asks. After a stage that needed much for a moment, a process would hold that
much to its end, and the next stage's needs would come on top of it.
"""

import ctypes
import gc
import sys
from functools import cache


def give_back() -> None:
    """Between two stages: hand free memory back. Where the C library cannot, nothing happens."""
    gc.collect()
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> "ctypes._NamedFuncPointer | None":
    """The C library's malloc_trim, if it is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return None
