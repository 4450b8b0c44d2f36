"""What was freed goes back: measured by what the system says the process holds."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from isogloss.memory import give_back, no_looking, trim


def held() -> int:
    """KiB of this process's own memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells it otherwise")
@pytest.mark.parametrize("hand_back", [give_back, trim])
def test_what_small_pieces_took_is_given_back(hand_back: Callable[[], None]) -> None:
    before = held()
    pieces = [bytes(700) for _ in range(200_000)]  # too small to be mapped alone: the heap grows for them
    some = pieces[::1_000]  # and keeps what is between these
    assert held() - before > 100_000
    del pieces
    assert held() - before > 100_000
    hand_back()
    assert held() - before < 50_000
    assert len(some) == 200


def test_python_looks_for_cycles_again_where_it_did_before() -> None:
    with no_looking():
        assert not gc.isenabled()
        with pytest.raises(KeyError), no_looking():
            raise KeyError
        assert not gc.isenabled(), "it did not look before"
    assert gc.isenabled()
