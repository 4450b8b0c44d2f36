"""Writes collections of Qdrant. Points have UUIDs made of the ids, which are in the payload with the texts.

The note is in the metadata of the collection.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.qdrant_collection import DISTANCES, MADE_ID, MADE_TEXT, asked, connect, record_of
from isogloss.index.build_record import BuildRecord
from isogloss.index.building.writer import Batch, pieces
from isogloss.index.closing import Closing

SPACE = uuid.UUID("6f1a2c52-1d5d-5b5e-9d55-2a6f1b6d8c11")  # of the points' UUIDs


class QdrantWriter(Closing):
    """A collection that is being filled."""

    def __init__(self, address: Address, _inputs: Sequence[str] = ()) -> None:
        address.refuse_other_options(())
        self._shown, self._name, self._client = address.shown, address.name, connect(address, make=True)

    def existing(self) -> tuple[bool, BuildRecord | None]:
        """Whether there is a collection, and the note in its metadata."""
        if not asked(self._shown, self._client.collection_exists, self._name):
            return False, None
        return True, record_of(asked(self._shown, self._client.get_collection, self._name).config)

    def create(self, record: BuildRecord) -> None:
        """Create the collection, in place of one that isogloss built."""
        from qdrant_client import models

        distance = next(name for name, metric in DISTANCES.items() if metric == record.metric)
        kind = models.Datatype.FLOAT16 if record.precision == "float16" else models.Datatype.FLOAT32
        size = models.VectorParams(size=record.dimension, distance=models.Distance(distance), datatype=kind)
        if self.existing()[0]:
            asked(self._shown, self._client.delete_collection, self._name)
        asked(self._shown, self._client.create_collection, self._name, vectors_config=size, metadata=record.as_dict())
        if self.existing()[1] is None:
            asked(self._shown, self._client.delete_collection, self._name)
            raise DataError(f"{self._shown}: this server is too old to store metadata", hint="use Qdrant 1.16 or newer")

    def resume(self, record: BuildRecord) -> BuildRecord:
        """The note with the number of documents that are stored."""
        found = self.existing()[1]
        return replace(record, done=found.done) if found is not None and found.job == record.job else record

    def write(self, batch: Batch, record: BuildRecord) -> None:
        """Store a batch, then the note."""
        from qdrant_client import models

        for part in pieces(batch):
            points = models.Batch(
                ids=[str(uuid.uuid5(SPACE, name)) for name in part.ids],
                vectors=part.vectors.tolist(),
                payloads=[{MADE_ID: name, MADE_TEXT: text} for name, text in zip(part.ids, part.texts, strict=True)],
            )
            asked(self._shown, self._client.upsert, self._name, points=points, wait=True)
        self._note(record)

    def finish(self, record: BuildRecord) -> None:
        """Note that the collection is complete."""
        self._note(record)

    def close(self) -> None:
        """Close the folder or the connection."""
        self._client.close()

    def _note(self, record: BuildRecord) -> None:
        asked(self._shown, self._client.update_collection, self._name, metadata=record.as_dict())
