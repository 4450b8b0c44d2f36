"""What was freed goes back: measured by what the system says the process holds."""

import gc
import subprocess
import sys

import pytest

from isogloss.memory import gc_paused

MEASURED = """
from pathlib import Path
from isogloss.memory import release_memory, trim

def held():  # KiB of this process's own memory
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

before = held()
pieces = [bytes(700) for _ in range(200_000)]  # too small to be mapped alone: the heap grows for them
some = pieces[::1_000]  # and keeps what is between these
full = held() - before
del pieces
freed = held() - before
HAND_BACK()
print(full, freed, held() - before, len(some))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells it otherwise")
@pytest.mark.parametrize("hand_back", ["release_memory", "trim"])
def test_what_small_pieces_took_is_given_back(hand_back: str) -> None:
    """In a process of its own: in this one, the heap may have room that earlier tests left."""
    code = MEASURED.replace("HAND_BACK", hand_back)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    full, freed, handed_back, kept = map(int, done.stdout.split())
    assert full > 100_000 and freed > 100_000 and handed_back < 50_000 and kept == 200


def test_python_looks_for_cycles_again_where_it_did_before() -> None:
    with gc_paused():
        assert not gc.isenabled()
        with pytest.raises(KeyError), gc_paused():
            raise KeyError
        assert not gc.isenabled(), "it did not look before"
    assert gc.isenabled()
