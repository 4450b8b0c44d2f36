"""What was freed goes back: measured by what the system says the process holds."""

import sys
from pathlib import Path

import pytest

from isogloss.memory import give_back


def held() -> int:
    """KiB of this process's own memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells it otherwise")
def test_what_small_pieces_took_is_given_back() -> None:
    before = held()
    pieces = [bytes(700) for _ in range(200_000)]  # too small to be mapped alone: the heap grows for them
    last = bytearray(700)  # and keeps what is under the last piece
    assert held() - before > 100_000
    del pieces
    give_back()
    assert held() - before < 50_000
    assert len(last) == 700
