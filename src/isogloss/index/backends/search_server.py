"""Indexes of OpenSearch and Elasticsearch, over HTTP.

    opensearch:https://host:9200#docs?column=embedding&text=text        a field of type knn_vector
    elasticsearch:https://host:9200#docs                                a field of type dense_vector

Both rank approximately and turn the similarity into a positive score, each in its own way; `unscored` takes that back.
`?candidates=N` sets the effort of Elasticsearch's search.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.parquet_file import VECTOR_NAMES
from isogloss.index.backends.search_server_http import SearchServer
from isogloss.index.build_record import KEY, record_in
from isogloss.index.columns import TEXT_NAMES, chosen_column
from isogloss.index.vector_index import IndexFacts, Metric, Nearest, ReadIndex, StoredRows
from isogloss.types import FloatArray

OPTIONS = ("column", "text", "candidates")
FIELD_TYPES = {"opensearch": "knn_vector", "elasticsearch": "dense_vector"}
METRIC_NAMES: dict[str, Metric] = {  # space types of OpenSearch, similarities of Elasticsearch
    **{"cosinesimil": "cosine", "innerproduct": "dot", "l2": "l2"},
    **{"cosine": "cosine", "dot_product": "dot", "max_inner_product": "dot", "l2_norm": "l2"},
}
MOST_CANDIDATES = 10_000  # Elasticsearch's limit


@dataclass(frozen=True, slots=True)
class VectorField:
    """A field of vectors, and how its engine names what it compares by."""

    name: str
    dimension: int
    similarity: str
    engine: str


def open_search_server(address: Address) -> "SearchServerIndex":
    """An index of a server."""
    address.refuse_other_options(OPTIONS)
    return SearchServerIndex(address)


class SearchServerIndex(ReadIndex):
    """An index that a server searches."""

    def __init__(self, address: Address) -> None:
        self.address, self._kind, self._server = address.shown, address.kind, SearchServer(address)
        mappings = mappings_in(self.address, self._server.get("/_mapping"))
        properties = mappings.get("properties") or {}
        self._built = record_in({KEY: (mappings.get("_meta") or {}).get(KEY)})
        self._field = _vector_field(address, properties)
        self._dimension = self._field.dimension
        found = METRIC_NAMES.get(self._field.similarity)
        if found is None:
            raise DataError(
                f"{self.address}: compares by {self._field.similarity}, which is not supported",
                hint=f"supported are {', '.join(METRIC_NAMES)}",
            )
        self._metric = found
        strings = [name for name, own in properties.items() if own.get("type") in ("text", "match_only_text")]
        self._text = chosen_column(address, "text", strings, TEXT_NAMES, "texts")
        self._candidates = address.number("candidates")

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        return IndexFacts(
            kind=self._kind,
            size=int(self._server.get("/_count")["count"]),
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=self._unit_norm(),
            has_texts=bool(self._text),
            exact=False,
            built=self._built,
        )

    def sample(self, count: int) -> StoredRows:
        """Documents in an order that the server draws from a fixed seed."""
        drawn = {"function_score": {"query": {"exists": {"field": self._field.name}}, "boost_mode": "replace"}}
        drawn["function_score"]["random_score"] = {"seed": 1, "field": "_seq_no"}
        name, text = self._field.name, [self._text] if self._text else []
        if self._kind == "elasticsearch":  # newer versions leave vectors out of the source
            hits = self._hits({"size": count, "query": drawn, "fields": [name], "_source": text})
            vectors = [hit["fields"][name] for hit in hits]
        else:
            hits = self._hits({"size": count, "query": drawn, "_source": [name, *text]})
            vectors = [hit["_source"][name] for hit in hits]
        rows = np.array(vectors, dtype=np.float32).reshape(len(hits), self._dimension)
        texts = [str(hit.get("_source", {}).get(self._text) or "") for hit in hits] if self._text else None
        return StoredRows([hit["_id"] for hit in hits], rows, texts)

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        if not self._text or not ids:
            return {}
        query = {"size": len(ids), "query": {"ids": {"values": list(ids)}}, "_source": [self._text]}
        found = {hit["_id"]: hit.get("_source", {}).get(self._text) for hit in self._hits(query)}
        return {name: str(text) for name, text in found.items() if text is not None}

    def _nearest(self, vectors: FloatArray, k: int) -> Iterator[Nearest]:
        for vector in vectors.astype(np.float32).tolist():
            hits = self._nearest_hits(vector, k)
            scores = np.array([hit["_score"] for hit in hits], dtype=np.float64)
            yield [hit["_id"] for hit in hits], unscored(scores, self._field.similarity, self._field.engine)

    def _nearest_hits(self, vector: list[float], k: int) -> list[dict[str, Any]]:
        name = self._field.name
        if self._kind == "elasticsearch":
            candidates = min(max(self._candidates or 100, 2 * k), MOST_CANDIDATES)
            knn = {"field": name, "query_vector": vector, "k": k, "num_candidates": candidates}
            return self._hits({"size": k, "knn": knn, "_source": False})
        return self._hits({"size": k, "query": {"knn": {name: {"vector": vector, "k": k}}}, "_source": False})

    def _hits(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            hits = self._server.post("/_search", query)["hits"]["hits"]
            return [{**hit, "_id": str(hit["_id"])} for hit in hits]
        except (KeyError, TypeError) as error:
            raise DataError(f"{self.address}: the answer has no hits", hint="check the address") from error


def mappings_in(shown: str, answer: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever JSON can hold
    """The mappings in an answer; an alias may stand for several indexes, which must be one here."""
    if not isinstance(answer, dict) or len(answer) != 1:
        found = ", ".join(answer)[:200] if isinstance(answer, dict) else "none"
        raise DataError(f"{shown}: names {found}", hint="name one index")
    mappings: dict[str, Any] = next(iter(answer.values())).get("mappings") or {}
    return mappings


def unscored(scores: "np.ndarray[Any, np.dtype[np.float64]]", similarity: str, engine: str) -> FloatArray:
    """The cosine, the dot product or the negative distance behind a server's scores, by the formulas in its manual."""
    if similarity == "cosinesimil" and engine == "nmslib":
        values = 2 - 1 / scores
    elif similarity in ("cosine", "cosinesimil", "dot_product"):
        values = 2 * scores - 1
    elif METRIC_NAMES[similarity] == "dot":
        values = np.where(scores >= 1, scores - 1, 1 - 1 / scores)
    else:
        values = 0 - np.sqrt(np.maximum(1 / scores - 1, 0))
    return values.astype(np.float32)


def _vector_field(address: Address, properties: dict[str, Any]) -> VectorField:
    fields = {name: own for name, own in properties.items() if own.get("type") == FIELD_TYPES[address.kind]}
    name = chosen_column(address, "column", list(fields), VECTOR_NAMES, "vectors")
    if not name:
        raise DataError(
            f"{address.shown}: no field of type {FIELD_TYPES[address.kind]}; it has {', '.join(properties)[:200] or 'none'}",
            hint="name another index",
        )
    readers: dict[str, Callable[[dict[str, Any]], tuple[Any, str, str]]] = {
        "opensearch": _of_opensearch,
        "elasticsearch": _of_elasticsearch,
    }
    dimension, similarity, engine = readers[address.kind](fields[name])
    if not isinstance(dimension, int):
        raise DataError(f"{address.shown}: {name} has no dimension", hint="a field of a trained model is not supported")
    return VectorField(name, dimension, similarity, engine)


def _of_opensearch(field: dict[str, Any]) -> tuple[Any, str, str]:
    method = field.get("method") or {}
    return field.get("dimension"), method.get("space_type") or field.get("space_type") or "l2", method.get("engine") or ""


def _of_elasticsearch(field: dict[str, Any]) -> tuple[Any, str, str]:
    return field.get("dims"), field.get("similarity") or "cosine", ""
