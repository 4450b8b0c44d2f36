"""Writes indexes that are files: `.npy`, `.safetensors`, `.parquet`, `.faiss`.

    docs.npy.unfinished/job.json             the note of the build
    docs.npy.unfinished/00000000.npy         vectors of a batch, with a checksum; 00000000.json: their ids and texts
    docs.npy.unfinished/staged/              the finished files, before they are moved to their places

When everything is stored, the files are assembled in `staged/` and then moved. A process that dies while it moves them is
continued by the next one; until then the index is refused by readers (`finishing`).
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from isogloss.checksums import load_array, save_array
from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.faiss_file import FaissIndex
from isogloss.index.backends.file_index import FileIndex
from isogloss.index.build_record import BuildRecord, read_record, record_in, record_path, write_record
from isogloss.index.building.assemble_files import ASSEMBLE, Rows
from isogloss.index.building.writer import Batch
from isogloss.index.closing import Closing
from isogloss.index.open import open_index
from isogloss.index.unfinished import MARK, unfinished_folder
from isogloss.index.vector_index import StoredRows
from isogloss.storage import (
    LOCK,
    explaining_disk,
    folder_lock,
    make_folder,
    read_json,
    refuse_folder,
    refuse_overwriting,
    refuse_unwritable,
    remove,
    remove_stale_files,
    write_json,
    write_text,
)

JOB, STAGED, ROWS = "job", "staged", "rows"
BUSY = "another isogloss is building this index"


class FileWriter(Closing):
    """An index in a file, with ids and texts in a file beside it unless it is Parquet."""

    def __init__(self, address: Address, inputs: Sequence[str] = ()) -> None:
        address.refuse_other_options(())
        self._address, self._path, self._owned = address, address.path, ExitStack()
        refuse_folder(self._path)
        self._labels = None if address.kind == "parquet" else self._path.with_suffix(".jsonl")
        for output in (self._path, *([self._labels] if self._labels else [])):
            refuse_overwriting(output, inputs)
        refuse_unwritable(self._path)
        self._folder = unfinished_folder(self._path)
        self._parts: list[Path] = []
        self._append = False

    def existing(self) -> tuple[bool, BuildRecord | None]:
        """Whether there is a file, or the folder of an unfinished build; a file that came there meanwhile is not ours."""
        found = self._record_of_file() if self._path.exists() else None
        there = self._path.exists() or (self._labels is not None and self._labels.exists())
        job = self._job()
        if not self._path.exists() and not (self._folder / MARK).exists():
            self._refuse_files_beside()
        if job is None or (there and found is None and not (self._folder / MARK).exists()):
            return there, found
        return True, replace(job, done=len(list(self._folder.glob("[0-9]*.npy"))))

    def create(self, record: BuildRecord) -> None:
        """Begin an empty folder of batches."""
        self._lock()
        self._begin(record, append=False)

    def resume(self, record: BuildRecord) -> BuildRecord:
        """Continue with the batches that are intact, or begin to add to a finished index."""
        self._lock()
        if self._job() is None:
            self._begin(record, append=True)
            return record
        remove_stale_files(self._folder)
        self._append = (self._folder / "append").exists()
        done = 0
        for path in sorted(self._folder.glob("[0-9]*.npy")):
            vectors = load_array(path)  # None if it is damaged
            if vectors is None or not _is_intact(path.with_suffix(".json"), len(vectors)):
                break
            self._parts.append(path)
            done += len(vectors)
        return replace(record, done=done)

    def write(self, batch: Batch, record: BuildRecord) -> None:
        """Store a batch."""
        path = self._folder / f"{len(self._parts):08}.npy"
        write_json(path.with_suffix(".json"), {ROWS: [list(row) for row in zip(batch.ids, batch.texts, strict=True)]})
        dtype = np.float16 if record.precision == "float16" else np.float32
        if np.abs(batch.vectors).max(initial=0.0) > np.finfo(dtype).max:
            raise DataError("the vectors are too large for float16", hint="build with --precision float32")
        save_array(path, batch.vectors.astype(dtype))
        self._parts.append(path)

    def finish(self, record: BuildRecord) -> None:
        """Assemble the files, and move them to their places."""
        staged, mark = self._folder / STAGED, self._folder / MARK
        if not mark.exists():
            shutil.rmtree(staged, ignore_errors=True)
            make_folder(staged)
            with explaining_disk(self._path):
                self._assemble(staged, record)
            write_text(mark, "")
        for path in (self._labels, self._path, record_path(self._path)):
            if path is not None and (staged / path.name).exists():
                (staged / path.name).replace(path)
        mark.unlink()
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Let others build."""
        self._owned.close()

    def _begin(self, record: BuildRecord, append: bool) -> None:
        self._append = append
        for path in self._folder.iterdir():  # of another build, or of one whose note is damaged
            if path.name != LOCK:
                remove(path)
        if append:
            write_text(self._folder / "append", "")
        write_json(record_path(self._folder / JOB), record.as_dict())

    def _lock(self) -> None:
        make_folder(self._folder)
        self._owned.enter_context(folder_lock(self._folder, BUSY, "wait for it, or name another index"))

    def _refuse_files_beside(self) -> None:
        """Raise for files of somebody else, where there is no index, that the index's ids or its note would replace."""
        note = record_path(self._path)
        own_note = not note.exists() or read_record(self._path) is not None
        for path in (*([self._labels] if self._labels else []), *([] if own_note else [note])):
            if path.exists():
                raise DataError(
                    f"{path}: exists and was not built by isogloss, so it is left alone",
                    hint=f"name another index: that of {self._path.name} would replace it",
                )

    def _record_of_file(self) -> BuildRecord | None:
        if self._address.kind != "parquet" or not self._path.exists():
            return read_record(self._path)
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return record_in((pq.read_schema(self._path).metadata or {}).get(b"isogloss"))
        except (OSError, pa.ArrowException):
            return None

    def _assemble(self, staged: Path, record: BuildRecord) -> None:
        ids = {name for part in self._parts for name in (one for one, _ in self._labels_of(part))} if self._append else set()
        count = sum(len(np.load(path, mmap_mode="r")) for path in self._parts)
        if self._append:
            with open_index(self._address.place) as old:
                assert isinstance(old, FileIndex | FaissIndex)
                count += sum(name not in ids for name in old.labels.ids)
        rows = Rows(count, record, lambda: self._rows(ids))
        ASSEMBLE[self._address.kind](staged / self._path.name, rows)
        if self._labels is not None:
            with (staged / self._labels.name).open("w", encoding="utf-8", newline="\n") as handle:
                for block in self._rows(ids):
                    handle.writelines(label(name, text) for name, text in zip(block.ids, block.texts or [], strict=True))
        write_record(staged / self._path.name, record, sorted(staged.iterdir()))
        for file in staged.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())

    def _rows(self, new: set[str]) -> Iterator[StoredRows]:
        """Rows of the index as it was, without those that are replaced, then the new ones."""
        if self._append:
            with open_index(self._address.place) as old:
                assert isinstance(old, FileIndex | FaissIndex)
                for block in old.stored_blocks():
                    kept = [row for row, name in enumerate(block.ids) if name not in new]
                    texts = block.texts or [""] * len(block.ids)
                    yield StoredRows([block.ids[row] for row in kept], block.vectors[kept], [texts[row] for row in kept])
        for part in self._parts:
            labels = list(self._labels_of(part))
            yield StoredRows([name for name, _ in labels], np.load(part, mmap_mode="r"), [text for _, text in labels])

    def _labels_of(self, part: Path) -> Iterator[tuple[str, str]]:
        yield from read_json(part.with_suffix(".json"))[ROWS]

    def _job(self) -> BuildRecord | None:
        """The note of an unfinished build; without one that can be read, it begins anew."""
        try:
            return read_record(self._folder / JOB)
        except DataError:
            return None


def _is_intact(path: Path, rows: int) -> bool:
    """Whether the ids and texts of a batch are there and undamaged."""
    try:
        return len(read_json(path)[ROWS]) == rows
    except (OSError, ValueError):
        return False


def label(name: str, text: str) -> str:
    """A line of the file of ids and texts."""
    return json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n"
