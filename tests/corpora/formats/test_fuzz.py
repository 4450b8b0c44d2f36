"""Whatever a file holds, a reader gives pairs or says what is wrong with it: no other exception, no pair without text."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz_cases import FILES, PIECES, edited
from isogloss.corpora.reading.malformed import Faults
from isogloss.errors import DataError
from parallel import PACK, put, rows

EDIT = st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(PIECES) | st.binary(min_size=1, max_size=3))
POLICIES = st.sampled_from(["fail", "skip", "stop-after 1"])


@pytest.mark.parametrize("name", list(FILES))
@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(EDIT, min_size=1, max_size=4),
    noise=st.none() | st.binary(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
    packing=st.sampled_from(list(PACK)),
    after=st.booleans(),
    policy=POLICIES,
)
def test_a_reader_gives_pairs_or_says_what_is_wrong(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    edits: list[tuple[float, int, bytes]],
    noise: bytes | None,
    packing: str,
    after: bool,
    policy: str,
) -> None:
    data = FILES[name]() if noise is None else noise
    packing = "" if name.endswith(("zip", "gz")) else packing
    whole = edited(PACK[packing](data), edits) if after else PACK[packing](edited(data, edits))
    path = put(tmp_path_factory.mktemp("x") / (name + packing), whole)
    for told in ((), ("de",), ("de", "source=1,target=2,quoted")):
        found, message = read_or_explained(path, Faults(policy), *told)
        assert len(message) < 1000
        assert all(row["source"] and row["target"] and row["language"] for row in found)


def read_or_explained(path: Path, faults: Faults, language: str = "", columns: str = "") -> tuple[list[dict[str, object]], str]:
    try:
        return rows(path, faults, language, columns=columns), ""
    except DataError as error:
        return [], f"{error.message} {error.hint}"


@pytest.mark.parametrize("name", list(FILES))
def test_the_files_that_are_edited_are_good_ones(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    assert rows(put(tmp_path_factory.mktemp("x") / name, FILES[name]()))
