"""Writes indexes of OpenSearch and Elasticsearch with the fields text and embedding. The note is in `_meta` of the mapping."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.search_server import mappings_in
from isogloss.index.backends.search_server_http import SearchServer
from isogloss.index.build_record import KEY, BuildRecord, record_in
from isogloss.index.building.writer import Batch, pieces
from isogloss.index.closing import Closing

SPACE_TYPES = {"cosine": "cosinesimil", "dot": "innerproduct", "l2": "l2"}
SIMILARITIES = {"cosine": "cosine", "dot": "max_inner_product", "l2": "l2_norm"}


class SearchServerWriter(Closing):
    """An index that is being filled."""

    def __init__(self, address: Address, _inputs: Sequence[str] = ()) -> None:
        address.refuse_other_options(())
        self._kind, self._shown, self._server = address.kind, address.shown, SearchServer(address)

    def existing(self) -> tuple[bool, BuildRecord | None]:
        """Whether there is an index, and the note in its mapping."""
        if not self._server.exists():
            return False, None
        mappings = mappings_in(self._shown, self._server.get("/_mapping"))
        return True, record_in({KEY: (mappings.get("_meta") or {}).get(KEY)})

    def create(self, record: BuildRecord) -> None:
        """Create the index, in place of one that isogloss built."""
        if record.precision != "float32":
            raise DataError(f"{self._shown}: vectors are stored as float32 here", hint="use --precision float32")
        if self.existing()[0]:
            self._server.delete()
        properties = {"text": {"type": "text"}, "embedding": _field(self._kind, record)}
        content: dict[str, Any] = {"mappings": {"_meta": record.as_dict(), "properties": properties}}
        if self._kind == "opensearch":
            content["settings"] = {"index": {"knn": True}}
        self._server.put("", content)

    def resume(self, record: BuildRecord) -> BuildRecord:
        """The note with the number of documents that are stored."""
        found = self.existing()[1]
        return replace(record, done=found.done) if found is not None and found.job == record.job else record

    def write(self, batch: Batch, record: BuildRecord) -> None:
        """Store a batch, then the note."""
        for part in pieces(batch):
            lines: list[dict[str, Any]] = []
            for name, text, vector in zip(part.ids, part.texts, part.vectors.tolist(), strict=True):
                lines += [{"index": {"_id": name}}, {"text": text, "embedding": vector}]
            self._server.bulk(lines)
        self._note(record)

    def finish(self, record: BuildRecord) -> None:
        """Make all documents visible."""
        self._server.post("/_refresh", {})
        self._note(record)

    def _note(self, record: BuildRecord) -> None:
        self._server.put("/_mapping", {"_meta": record.as_dict()})


def _field(kind: str, record: BuildRecord) -> dict[str, Any]:
    """The mapping of the vectors."""
    if kind == "elasticsearch":
        similarity = SIMILARITIES[record.metric]
        return {"type": "dense_vector", "dims": record.dimension, "index": True, "similarity": similarity}
    method = {"name": "hnsw", "engine": "lucene", "space_type": SPACE_TYPES[record.metric]}
    return {"type": "knn_vector", "dimension": record.dimension, "method": method}
