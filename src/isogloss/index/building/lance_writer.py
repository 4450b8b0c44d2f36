"""Writes tables of LanceDB with the columns id, text and embedding. The note is a file beside the table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from isogloss.index.address import Address
from isogloss.index.backends.lance_table import connect, record_place
from isogloss.index.build_record import BuildRecord, read_record, write_record
from isogloss.index.building.assemble_files import as_table, embedding_type
from isogloss.index.building.writer import Batch
from isogloss.index.closing import Closing
from isogloss.index.vector_index import StoredRows
from isogloss.storage import make_folder


class LanceWriter(Closing):
    """A table that is being filled."""

    def __init__(self, address: Address, _inputs: Sequence[str] = ()) -> None:
        address.refuse_other_options(())
        self._name, self._place = address.name, record_place(address)
        make_folder(address.path)
        self._database = connect(address)
        self._table: Any = None

    def existing(self) -> tuple[bool, BuildRecord | None]:
        """Whether there is a table, and the note beside it."""
        there = self._name in self._database.list_tables().tables
        return there, read_record(self._place) if there else None

    def create(self, record: BuildRecord) -> None:
        """Create the table, in place of one that isogloss built. The note comes first: without a table it means nothing."""
        if self.existing()[0]:
            self._database.drop_table(self._name)
        write_record(self._place, record)
        self._table = self._database.create_table(self._name, schema=_schema(record))

    def resume(self, record: BuildRecord) -> BuildRecord:
        """The note with the number of documents that are stored."""
        self._table, found = self._database.open_table(self._name), self.existing()[1]
        return replace(record, done=found.done) if found is not None and found.job == record.job else record

    def write(self, batch: Batch, record: BuildRecord) -> None:
        """Store a batch, then the note."""
        rows = as_table(StoredRows(list(batch.ids), batch.vectors, list(batch.texts)), _schema(record))
        self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        write_record(self._place, record)

    def finish(self, record: BuildRecord) -> None:
        """Join the fragments of the batches."""
        self._table.optimize()
        write_record(self._place, record)


def _schema(record: BuildRecord) -> pa.Schema:
    return pa.schema([("id", pa.string()), ("text", pa.string()), ("embedding", embedding_type(record))])
