"""Writing: a reader sees the old thing or the new thing; a full disk is a sentence; nothing temporary stays."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.errors import IsoglossError
from isogloss.storage import (
    append_line,
    atomic_write,
    canonical_json,
    content_hash,
    folder_lock,
    make_folder,
    read_json,
    remove_stale_files,
    write_json,
    write_text,
)


def test_a_failed_write_leaves_the_old_file_and_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as temporary:
        temporary.write_text(f"half of the new, then {1 / 0}")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with atomic_write(tmp_path / "model") as temporary:
            temporary.mkdir()
            (temporary / f"{text}.txt").write_text(text)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["two.txt"]
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("number", [28, 30])
def test_a_full_or_read_only_disk_is_one_sentence(tmp_path: Path, number: int) -> None:
    path = tmp_path / "x"
    with pytest.raises(IsoglossError, match="cannot be written") as caught, atomic_write(path):
        raise OSError(number, os.strerror(number))
    assert "untouched" in caught.value.hint


def test_a_full_disk_is_known_by_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="unexpected pos"), atomic_write(tmp_path / "x"):
        raise RuntimeError("unexpected pos 64")
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 10}))
    with pytest.raises(IsoglossError, match="cannot be written"), atomic_write(tmp_path / "x"):
        raise RuntimeError("unexpected pos 64")


@pytest.mark.parametrize(
    "said", ["[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534", "basic_ios::clear: iostream error"]
)
def test_a_checkpoint_that_found_no_space_is_a_sentence_though_space_came_back(tmp_path: Path, said: str) -> None:
    """What torch.save says on a file system of four megabytes that it fills."""
    with pytest.raises(IsoglossError, match="no space left"), atomic_write(tmp_path / "step.pt"):
        raise RuntimeError(said)


def test_a_file_never_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "precious.txt").write_text("years of work")
    with pytest.raises(IsoglossError, match="is a folder"):
        write_text(tmp_path / "runs", "oops")
    assert (tmp_path / "runs" / "precious.txt").read_text() == "years of work"
    assert os.listdir(tmp_path) == ["runs"]


def test_a_folder_stepped_aside_is_put_back(tmp_path: Path) -> None:
    (tmp_path / ".model.partial-old-12345678").mkdir()
    (tmp_path / ".model.partial-old-12345678" / "modules.json").write_text("[]")
    remove_stale_files(tmp_path)
    assert (tmp_path / "model" / "modules.json").exists()


def test_other_system_errors_are_not_renamed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "x"):
        raise FileNotFoundError(2, "gone")


def test_sweep_removes_only_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / ".model.partial-12ab").mkdir()
    (tmp_path / ".x.npy.partial-34cd").write_text("half")
    (tmp_path / "keep.npy").write_text("whole")
    for name in (".[1].partial-56ef", "..[1].partial-56ef.partial-78ab", "..[1].partial-56ef.partial-old-90cd"):
        (tmp_path / name).write_text("half")
    remove_stale_files(tmp_path, "[1]")
    assert sorted(os.listdir(tmp_path)) == [".model.partial-12ab", ".x.npy.partial-34cd", "keep.npy"], "others may be at work"
    remove_stale_files(tmp_path)
    remove_stale_files(tmp_path / "nowhere")
    assert os.listdir(tmp_path) == ["keep.npy"]


def test_a_torn_last_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_line(path, '{"step": 1}')
    path.write_bytes(path.read_bytes() + b'{"step": ')
    append_line(path, '{"step": 3}')
    assert path.read_text().splitlines() == ['{"step": 1}', '{"step": ', '{"step": 3}']


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_hash_names_the_parts_not_their_sum(one: list[str], other: list[str]) -> None:
    assert (content_hash(*one) == content_hash(*other)) == (one == other)


def test_json_is_canonical(tmp_path: Path) -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == canonical_json({"a": [1.5, "é"], "b": 1})


def test_kept_json_has_a_checksum_which_a_reader_does_not_see(tmp_path: Path) -> None:
    path, value = tmp_path / "x.json", {"é": 1, "2": [0.1, None, "a"], "nested": {"b": True}}
    write_json(path, value | {2: value["2"]})  # type: ignore[arg-type]  # JSON makes it a string
    assert read_json(path) == value
    text = path.read_text(encoding="utf-8")
    assert list(json.loads(text)) == ["é", "2", "nested", "checksum"]
    path.write_text(text.replace("0.1", "0.2"), encoding="utf-8")
    with pytest.raises(ValueError, match="damaged or edited"):
        read_json(path)
    edited = json.loads(text)
    del edited["checksum"]
    path.write_text(json.dumps(edited | {"é": 5}), encoding="utf-8")
    assert read_json(path)["é"] == 5, "who removes the line means what is there"
    write_json(path, read_json(path) | {"checksum": "of something else"})
    assert read_json(path) == value | {"é": 5}


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a place where nothing can be made")
@pytest.mark.parametrize("place", ["/proc/runs/mine", "/proc", "/proc/self"])
def test_a_place_where_nothing_can_be_made_is_one_sentence(place: str) -> None:
    with (
        pytest.raises(IsoglossError, match=f"^{place}: cannot be written") as caught,
        folder_lock(Path(place), "in use", "wait"),
    ):
        pass
    assert "another folder" in caught.value.hint
    with pytest.raises(IsoglossError, match="cannot be written"):
        write_text(Path(place) / "result.json", "{}")


@pytest.mark.parametrize(("inner", "told"), [("", "it is a file"), ("runs/one", "thesis.txt is a file")])
def test_a_file_where_a_folder_should_be_is_called_one(tmp_path: Path, inner: str, told: str) -> None:
    file = tmp_path / "thesis.txt"
    file.write_text("years of work")
    with pytest.raises(IsoglossError, match=f"cannot be written .*{told}, not a folder") as caught:
        make_folder(file / inner)
    assert "name a folder" in caught.value.hint and "space" not in caught.value.hint
    with pytest.raises(IsoglossError, match=f"{told}, not a folder"), folder_lock(file / inner, "in use", "wait"):
        pass
    assert file.read_text() == "years of work"


def test_what_a_writer_does_not_find_is_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "x"):
        (tmp_path / "gone").read_text()
