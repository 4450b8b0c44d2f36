"""Files of an index: killed builds continue, what others made is left alone, replaced files belong together."""

import os
from pathlib import Path

import numpy as np
import pytest

from index.agreement import Interrupted, Vectors, agrees, build, interrupt, killed_build, refuses, write_documents
from isogloss.config.indexing import BuildSettings
from isogloss.index.building import file_writer
from isogloss.index.building.build import build_index
from isogloss.index.open import open_index

KINDS = ("npy", "parquet", "faiss", "safetensors")


def test_a_killed_build_continues(tmp_path: Path) -> None:
    documents, address = write_documents(tmp_path / "all.jsonl", range(40)), str(tmp_path / "docs.npy")
    assert killed_build(documents, address, 4) == -9
    refuses(lambda: open_index(address), "no such file")
    (damaged,) = (tmp_path / "docs.npy.unfinished").glob("*2.npy")
    with damaged.open("r+b") as handle:
        handle.seek(-30, os.SEEK_END)
        handle.write(b"damaged")
    model = Vectors()
    built = build_index(model, documents, address, BuildSettings(batch_size=8))
    assert built.continued_at == 16 and model.embedded - 4 == 24, "two of three batches were intact"
    agrees(address, range(40), "cosine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl", "docs.jsonl", "docs.npy", "docs.npy.json"]


def flip(path: Path) -> bytes:
    """Flip a bit in the middle of a file; what it held."""
    before = path.read_bytes()
    middle = len(before) // 2
    path.write_bytes(before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :])
    return before


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_of_an_index_is_refused(kind: str, tmp_path: Path) -> None:
    """No format has checksums that its library compares, so another vector, id or metric would come out silently."""
    address = tmp_path / f"docs.{kind}"
    build(write_documents(tmp_path / "all.jsonl", range(30)), str(address), "dot")
    note = tmp_path / f"docs.{kind}.json"
    for path in (address, *([] if kind == "parquet" else [address.with_suffix(".jsonl")])):
        before = flip(path)
        refuses(lambda: open_index(str(address)), f"{path.name} is damaged or was changed")
        path.write_bytes(before[:-20])
        refuses(lambda: open_index(str(address)), f"{path.name} is damaged or was changed")
        path.write_bytes(before)
    before = flip(note)
    refuses(lambda: open_index(str(address)), "the note of an index is damaged")
    note.write_bytes(before)
    agrees(str(address), range(30), "dot")
    flip(address)
    build(tmp_path / "all.jsonl", str(address), "dot", "replace")
    agrees(str(address), range(30), "dot")


def test_files_that_somebody_else_puts_beside_theirs_are_not_compared(tmp_path: Path) -> None:
    np.save(tmp_path / "docs.npy", np.ones((3, 5), dtype=np.float32))
    (tmp_path / "docs.npy.json").write_text('{"files": {"docs.npy": "none"}, "about": "my vectors"}')
    with open_index(str(tmp_path / "docs.npy")) as index:
        assert index.facts().size == 3 and index.facts().built is None


def test_ids_and_texts_of_an_unfinished_build_are_compared_with_their_checksum(tmp_path: Path) -> None:
    documents, address = write_documents(tmp_path / "all.jsonl", range(40)), str(tmp_path / "docs.npy")
    assert killed_build(documents, address, 4) == -9
    flip(tmp_path / "docs.npy.unfinished" / "00000001.json")
    built = build_index(Vectors(), documents, address, BuildSettings(batch_size=8))
    assert built.continued_at == 8, "the second batch is embedded again"
    agrees(address, range(40), "cosine")


def test_a_build_whose_note_is_damaged_begins_anew(tmp_path: Path) -> None:
    """Its batches may be those of other documents, so none of them is taken for one of the new build."""
    address, unfinished = str(tmp_path / "docs.npy"), tmp_path / "docs.npy.unfinished"
    build(write_documents(tmp_path / "old.jsonl", range(10)), address)
    wrong, right = (
        write_documents(tmp_path / "wrong.jsonl", range(20, 60)),
        write_documents(tmp_path / "new.jsonl", range(8, 40)),
    )
    append = BuildSettings(batch_size=16, existing="append")
    with pytest.raises(Interrupted):
        build_index(Vectors(), wrong, address, append, interrupt)
    flip(unfinished / "job.json")
    with pytest.raises(Interrupted):
        build_index(Vectors(), right, address, BuildSettings(batch_size=32, existing="append"), interrupt)
    assert sorted(path.name for path in unfinished.glob("[0-9]*")) == ["00000000.json", "00000000.npy"]
    build_index(Vectors(), right, address, append)
    agrees(address, range(40), "cosine")


@pytest.mark.parametrize("kind", KINDS)
def test_a_build_that_dies_while_it_moves_files_is_finished_by_the_next(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / f"docs.{kind}")
    build(write_documents(tmp_path / "old.jsonl", range(20)), address)
    documents = write_documents(tmp_path / "new.jsonl", range(10, 40))

    class Killed(BaseException):
        pass

    def die(path: Path, target: Path) -> Path:
        if path.name == f"docs.{kind}" and path.parent.name == "staged":
            raise Killed
        os.replace(path, target)
        return target

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(Killed):
            build(documents, address, existing="append")
    refuses(lambda: open_index(address), "interrupted while it moved the finished files")
    model = Vectors()
    build_index(model, documents, address, BuildSettings(batch_size=16))
    assert model.embedded == 4
    agrees(address, range(40), "cosine")


def test_a_build_that_failed_before_its_first_batch_is_no_obstacle(tmp_path: Path) -> None:
    class Broken(Vectors):
        def encode(self, texts: object, *_: object) -> np.ndarray:
            return np.full((len(texts), 5), np.nan, dtype=np.float32)  # type: ignore[arg-type]

    documents, address = write_documents(tmp_path / "all.jsonl", range(10)), str(tmp_path / "docs.npy")
    refuses(lambda: build_index(Broken("broken"), documents, address), "not finite")
    build(documents, address)
    agrees(address, range(10), "cosine")


def test_files_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "all.jsonl", range(10))
    for name in ("docs.npy", "docs.jsonl"):
        (tmp_path / name).write_text("mine")
        for existing in ("refuse", "replace", "append"):
            refuses(
                lambda existing=existing: build(documents, str(tmp_path / "docs.npy"), "cosine", existing),
                "was not built by isogloss",
            )
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    refuses(lambda: build(documents, str(tmp_path / "all.npy")), "is also an input")
    (tmp_path / "folder.npy").mkdir()
    refuses(lambda: build(documents, str(tmp_path / "folder.npy")), "is a folder")
    refuses(lambda: build(documents, str(tmp_path / "docs.npy?ids=all.jsonl")), "the option 'ids'")


def test_a_file_that_came_between_two_attempts_is_left_alone(tmp_path: Path) -> None:
    documents, address = write_documents(tmp_path / "all.jsonl", range(40)), tmp_path / "docs.npy"
    with pytest.raises(Interrupted):
        build_index(Vectors(), documents, str(address), BuildSettings(batch_size=16), interrupt)
    for name in ("docs.npy", "docs.jsonl"):
        (tmp_path / name).write_text("mine")
        refuses(lambda: build(documents, str(address), existing="replace"), "was not built by isogloss")
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    build(documents, str(address))
    agrees(str(address), range(40), "cosine")


def test_a_note_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    documents, address = write_documents(tmp_path / "all.jsonl", range(10)), tmp_path / "docs.npy"
    note = tmp_path / "docs.npy.json"
    note.write_text('{"about": "my vectors"}')
    refuses(lambda: build(documents, str(address), existing="replace"), f"{note.name}: exists and was not built by isogloss")
    assert note.read_text() == '{"about": "my vectors"}'
    note.unlink()
    build(documents, str(tmp_path / "docs.parquet"))
    (tmp_path / "docs.parquet").unlink()  # its own note is no obstacle
    build(documents, str(tmp_path / "docs.parquet"))
    agrees(str(tmp_path / "docs.parquet"), range(10), "cosine")


def test_two_builds_at_once_are_refused(tmp_path: Path) -> None:
    documents, address = write_documents(tmp_path / "all.jsonl", range(10)), str(tmp_path / "docs.npy")

    def again(step: object) -> None:
        refuses(lambda: build(documents, address), file_writer.BUSY)
        refuses(lambda: build(documents, address, "dot", existing="replace"), file_writer.BUSY)

    build_index(Vectors(), documents, address, on_progress=again)
    agrees(address, range(10), "cosine")


def test_vectors_too_large_for_half_precision_are_refused(tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "all.jsonl", range(3))
    rows = np.full((3, 2), 1e6, dtype=np.float32)
    settings = BuildSettings(precision="float16")
    refuses(lambda: build_index(Vectors(rows=rows), documents, str(tmp_path / "docs.npy"), settings), "too large for float16")


def test_libraries_read_what_was_written(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    documents = write_documents(tmp_path / "all.jsonl", range(10))
    for precision, dtype in (("float32", np.float32), ("float16", np.float16)):
        build(documents, str(tmp_path / "docs.npy"), existing="replace", precision=precision)
        build(documents, str(tmp_path / "other.safetensors"), existing="replace", precision=precision)
        rows, (tensor,) = np.load(tmp_path / "docs.npy"), load_file(tmp_path / "other.safetensors").values()
        assert rows.dtype == tensor.dtype == dtype
        assert np.array_equal(rows, tensor) and np.array_equal(rows, Vectors().rows[:10].astype(dtype))
