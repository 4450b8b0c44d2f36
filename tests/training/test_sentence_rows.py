"""Row numbers over files: what a dictionary gives, whatever the slices, in memory that depends on the slice."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.models.vector_cache import KEY, text_keys
from isogloss.training.sentence_rows import first_appearances, number_rows


def numbered(folder: Path, files: list[list[str]], at_once: int) -> tuple[list[list[int]], list[int]]:
    keys, rows = [], []
    for number, texts in enumerate(files):
        keys.append(folder / f"{number}.keys")
        rows.append(folder / f"{number}.rows")
        keys[-1].write_bytes(text_keys(texts).tobytes())
    ends = number_rows(keys, rows, at_once)
    return [np.fromfile(path, np.int64).tolist() for path in rows], ends


def by_dictionary(files: list[list[str]]) -> tuple[list[list[int]], list[int]]:
    row_of: dict[str, int] = {}
    rows, ends = [], []
    for texts in files:
        rows.append([row_of.setdefault(text, len(row_of)) for text in texts])
        ends.append(len(row_of))
    return rows, ends


@given(
    st.lists(st.lists(st.integers(0, 150).map(str), max_size=300), min_size=1, max_size=3),
    st.sampled_from([1, 64, 128, 10_000]),
)
@settings(deadline=None, max_examples=60)
def test_rows_are_those_of_a_dictionary(tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], at_once: int) -> None:
    assert numbered(tmp_path_factory.mktemp("keys"), files, at_once) == by_dictionary(files)


def test_many_slices_of_many_keys(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    files = [[f"sentence {n}" for n in random.integers(0, 5_000, size)] for size in (4_001, 6_000)]
    assert numbered(tmp_path, files, 640) == by_dictionary(files)


def test_keys_that_share_their_first_half_are_told_apart(tmp_path: Path) -> None:
    keys = np.array([b"A" * 8 + b"B" * 8, b"A" * 8 + b"C" * 8, b"A" * 8 + b"B" * 8], dtype=KEY)
    keys.tofile(tmp_path / "keys")
    assert number_rows([tmp_path / "keys"], [tmp_path / "rows"], 64) == [2]
    assert np.fromfile(tmp_path / "rows", np.int64).tolist() == [0, 1, 0]


def test_the_ends_of_the_space_of_keys_belong_to_it(tmp_path: Path) -> None:
    inside = text_keys(map(str, range(200)))
    keys = np.concatenate([inside, np.array([b"\xff" * 16, bytes(16), b"\xff" * 16], dtype=KEY)])
    keys.tofile(tmp_path / "keys")
    assert number_rows([tmp_path / "keys"], [tmp_path / "rows"], 64) == [202]
    assert np.fromfile(tmp_path / "rows", np.int64).tolist() == [*range(202), 200]


@given(st.lists(st.integers(0, 30), max_size=60), st.lists(st.integers(0, 30), max_size=60))
def test_first_appearances_are_those_of_a_set(before: list[int], after: list[int]) -> None:
    row_of: dict[int, int] = {}
    seen = {row_of.setdefault(text, len(row_of)) for text in before}
    rows = [row_of.setdefault(text, len(row_of)) for text in after]
    expected = [row not in seen and row not in rows[:place] for place, row in enumerate(rows)]
    assert first_appearances(np.array(rows, dtype=np.int64), len(seen)).tolist() == expected


def peak(folder: Path, count: int, distinct: int) -> int:
    """Bytes in use at most while `count` keys, among them `distinct` different ones, are numbered by the thousand."""
    texts = np.random.default_rng(count).integers(0, distinct, count)
    (folder / "keys").write_bytes(text_keys(map(str, texts)).tobytes())
    tracemalloc.start()
    number_rows([folder / "keys"], [folder / "rows"], 1_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_does_not_grow_with_the_keys(tmp_path: Path) -> None:
    few, many = peak(tmp_path, 4_000, 4_000), peak(tmp_path, 24_000, 24_000)
    assert many < few + 2 * 20_000  # two bytes at most for each key more, and not the sixteen that it has
    assert peak(tmp_path, 24_000, 3) < few + 2 * 20_000  # a sentence that comes eight thousand times is one key
