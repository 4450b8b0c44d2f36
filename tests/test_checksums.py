"""Seals, sums of folders, and checksums of rows: what is damaged is noticed, wherever the damage is."""

import hashlib
import logging
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from isogloss.checksums import (
    SEAL_BYTES,
    check_sums,
    is_intact,
    is_usable,
    load_array,
    load_arrays,
    row_checksums,
    save_array,
    save_arrays,
    seal,
    write_sums,
)
from isogloss.errors import ModelError


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@settings(max_examples=50)
@given(content=st.binary(max_size=40))
def test_every_single_bit_of_a_sealed_file_matters(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("sealed") / "kept"
    path.write_bytes(content)
    assert not is_intact(path), "it has no seal yet"
    seal(path)
    whole = path.read_bytes()
    assert whole[:-SEAL_BYTES] == content and is_intact(path)
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        assert not is_intact(path)
    for other in (whole[:-1], whole[1:], whole + b"\0", content + whole[-SEAL_BYTES:] * 2):
        path.write_bytes(other)
        assert not is_intact(path)


def test_arrays_come_back_mapped_and_a_damaged_one_is_removed_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, values = tmp_path / "a.npy", np.arange(12, dtype=np.float16).reshape(3, 4)
    assert load_array(path) is None and not caplog.records, "nothing there is nothing to report"
    save_array(path, values)
    kept = load_array(path)
    assert isinstance(kept, np.memmap) and np.array_equal(kept, values) and kept.dtype == values.dtype
    assert np.array_equal(np.load(path), values), "numpy itself reads it too"
    path.write_bytes(flipped(path.read_bytes(), 8 * 130))
    assert load_array(path) is None and not path.exists()
    assert [(record.levelno, record.getMessage().split(" is ")[1]) for record in caplog.records] == [
        (logging.WARNING, "damaged or from another version; it"),
    ]


def test_several_arrays_are_one_file(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", one=np.arange(3), other=np.ones((2, 2), dtype=np.float32))
    kept = load_arrays(tmp_path / "a.npz")
    assert kept is not None and list(kept) == ["one", "other"] and kept["other"].dtype == np.float32
    (tmp_path / "a.npz").write_bytes(flipped((tmp_path / "a.npz").read_bytes(), 3000))
    assert load_arrays(tmp_path / "a.npz") is None


def test_a_folder_in_place_of_a_file_is_not_usable_and_not_removed(tmp_path: Path) -> None:
    (tmp_path / "kept.npy").mkdir()
    assert not is_usable(tmp_path / "kept.npy") and (tmp_path / "kept.npy").is_dir()


@given(rows=arrays.arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 30))), data=st.data())
def test_any_change_inside_a_row_changes_its_checksum_and_no_other(rows: "np.ndarray", data: st.DataObject) -> None:
    sums = row_checksums(rows)
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, rows.shape[1] - 1))
    changed = rows.copy()
    changed[row, column] ^= data.draw(st.integers(1, 255))
    differs = row_checksums(changed) != sums
    assert differs[row] and differs.sum() == 1
    assert (sums > 0).all() and row_checksums(rows[:0]).shape == (0,)


def test_rows_are_told_apart_by_the_place_of_their_bytes() -> None:
    rows = np.eye(24, dtype=np.uint8)
    assert len(set(row_checksums(rows).tolist())) == 24
    halves = np.array([[1.0, 2.0, 3.0]], dtype=np.float16)
    assert row_checksums(halves) == row_checksums(halves.view(np.uint8))


def folder_of_files(folder: Path) -> Path:
    (folder / "0_Body").mkdir(parents=True)
    (folder / "0_Body" / "weights").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    (folder / "README.md").write_text("card")
    write_sums(folder, but=("README.md",))
    return folder


def refuse(folder: Path) -> None:
    check_sums(folder, lambda name: ModelError(f"{name} is damaged"))


def test_sums_of_a_folder_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    folder = folder_of_files(tmp_path / "model")
    refuse(folder)
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "0_Body/weights: OK\nconfig.json: OK\n"
    (folder / "README.md").write_text("people may write here")
    refuse(folder)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder: (folder / "0_Body" / "weights").write_bytes(b"weightt"), "0_Body/weights is damaged"),
        (lambda folder: (folder / "config.json").unlink(), r"config.json \(missing\)"),
        (lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff\xfe"), "SHA256SUMS"),
        (lambda folder: (folder / "SHA256SUMS").write_text("0  ../outside\n"), "SHA256SUMS"),
        (lambda folder: (folder / "SHA256SUMS").write_text("nothing\n"), "SHA256SUMS"),
    ],
)
def test_what_does_not_fit_the_sums_is_refused_by_name(tmp_path: Path, damage: object, named: str) -> None:
    folder = folder_of_files(tmp_path / "model")
    assert callable(damage)
    damage(folder)
    with pytest.raises(ModelError, match=named):
        refuse(folder)


def test_files_may_be_links_as_in_the_cache_of_a_hub(tmp_path: Path) -> None:
    folder = folder_of_files(tmp_path / "model")
    (folder / "config.json").rename(tmp_path / "blob")
    (folder / "config.json").symlink_to(tmp_path / "blob")
    refuse(folder)
    (tmp_path / "blob").write_text("{ }")
    with pytest.raises(ModelError, match=r"config\.json is damaged"):
        refuse(folder)


def test_a_folder_without_sums_is_not_checked(tmp_path: Path) -> None:
    refuse(tmp_path)


def test_objects_are_neither_kept_nor_loaded(tmp_path: Path) -> None:
    """They would have to be pickled, and a pickle can run anything."""
    objects = np.array([{}], dtype=object)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        save_array(tmp_path / "a.npy", objects)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        save_arrays(tmp_path / "a.npz", objects=objects)
    np.save(tmp_path / "b.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "b.npz", objects=objects)
    for name in ("b.npy", "b.npz"):
        seal(tmp_path / name)
    with pytest.raises(ValueError, match=r"allow_pickle=False|dtype"):
        load_array(tmp_path / "b.npy")
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_arrays(tmp_path / "b.npz")


def test_the_checksum_of_a_row_is_the_formula() -> None:
    rows = np.array([[1, 0, 0, 0, 0, 0, 0, 0, 2], [0] * 9], dtype=np.uint8)  # nine bytes: two words, the second one filled up
    weights = [int.from_bytes(hashlib.shake_128(b"isogloss").digest(16)[at : at + 8], "little") | 1 for at in (0, 8)]
    assert row_checksums(rows).tolist() == [(weights[0] + 2 * weights[1]) % 2**64, 1]
