"""Collections of Qdrant: embedded in a folder, or of a server.

    qdrant:FOLDER#docs                      the embedded mode of qdrant-client
    qdrant:https://host:6333#docs           a server; the key is in $QDRANT_API_KEY

`?vector=NAME` names one of several vectors, `?text=KEY` the payload key of the texts, `?id=KEY` that of ids that are not
Qdrant's own (these are numbers and UUIDs), `?ef=N` the effort of a server's approximate search.
"""

import os
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from isogloss.errors import DataError, optional_package
from isogloss.index.address import Address
from isogloss.index.build_record import KEY, BuildRecord, record_in
from isogloss.index.columns import TEXT_NAMES, chosen_column
from isogloss.index.vector_index import IndexFacts, Metric, Nearest, ReadIndex, StoredRows
from isogloss.types import FloatArray
from isogloss.web import checked_key, parse_url

T = TypeVar("T")
DISTANCES: dict[str, Metric] = {"Cosine": "cosine", "Dot": "dot", "Euclid": "l2"}
OPTIONS = ("vector", "text", "id", "ef")
VARIABLE = "QDRANT_API_KEY"
TIMEOUT_SECONDS = 60
MADE_ID, MADE_TEXT = "id", "text"  # payload keys of collections that isogloss built


def open_qdrant(address: Address) -> "QdrantCollection":
    """A collection."""
    address.refuse_other_options(OPTIONS)
    client = connect(address)
    try:
        return QdrantCollection(address, client)
    except BaseException:
        client.close()
        raise


class QdrantCollection(ReadIndex):
    """A collection that Qdrant searches."""

    def __init__(self, address: Address, client: Any) -> None:  # noqa: ANN401 - an optional package
        self.address, self._client, self._name = address.shown, client, address.name
        self._embedded = not is_url(address)
        if not self._ask(client.collection_exists, self._name):
            others = ", ".join(one.name for one in self._ask(client.get_collections).collections)
            raise DataError(f"{self.address}: there is no such collection", hint=f"available: {others or 'none'}")
        config = self._ask(client.get_collection, self._name).config
        self._built = record_of(config)
        self._using, self._parameters = _vector(address, config.params.vectors)
        self._dimension = int(self._parameters.size)
        found = DISTANCES.get(str(self._parameters.distance.value))
        if found is None:
            raise DataError(
                f"{self.address}: its distance {self._parameters.distance.value} is not supported",
                hint=f"supported are {', '.join(DISTANCES)}",
            )
        self._metric = found
        self._effort = 0 if self._embedded else address.number("ef")  # an embedded search is exact
        self._id = address.option("id", MADE_ID if self._built else "")
        self._text = self._text_key(address)

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        return IndexFacts(
            kind="qdrant",
            size=int(self._ask(self._client.count, self._name, exact=True).count),
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=self._unit_norm(),
            has_texts=bool(self._text),
            exact=self._embedded,
            built=self._built,
        )

    def sample(self, count: int) -> StoredRows:
        """The first points in the order of their ids."""
        points = self._scroll(limit=count, with_vectors=[self._using] if self._using else True, with_payload=self._payload())
        vectors = [point.vector[self._using] if self._using else point.vector for point in points]
        rows = np.array(vectors, dtype=np.float32).reshape(len(points), self._dimension)
        texts = [str(point.payload.get(self._text) or "") for point in points] if self._text else None
        return StoredRows([self._id_of(point) for point in points], rows, texts)

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        from qdrant_client import models

        if not self._text or not ids:
            return {}
        if self._id:
            wanted = models.FieldCondition(key=self._id, match=models.MatchAny(any=list(ids)))
            chosen = models.Filter(must=[wanted])
            points = self._scroll(limit=len(ids), scroll_filter=chosen, with_payload=self._payload())
        else:
            own = [int(one) if one.isdecimal() else one for one in ids]
            points = self._ask(self._client.retrieve, self._name, ids=own, with_payload=self._payload())
        found = {self._id_of(point): point.payload.get(self._text) for point in points}
        return {name: str(text) for name, text in found.items() if text is not None}

    def close(self) -> None:
        """Close the folder or the connection."""
        self._client.close()

    def _nearest(self, vectors: FloatArray, k: int) -> Iterator[Nearest]:
        from qdrant_client import models

        effort = models.SearchParams(hnsw_ef=self._effort) if self._effort else None
        for vector in vectors:
            points = self._ask(
                self._client.query_points,
                self._name,
                query=vector.tolist(),
                using=self._using or None,
                limit=k,
                search_params=effort,
                with_payload=[self._id] if self._id else False,
            ).points
            scores = np.array([point.score for point in points])
            yield [self._id_of(point) for point in points], 0 - scores if self._metric == "l2" else scores

    def _id_of(self, point: Any) -> str:  # noqa: ANN401
        """The id of a point: its own, or the one in its payload."""
        named = (point.payload or {}).get(self._id) if self._id else None
        return str(point.id if named is None else named)

    def _payload(self) -> list[str] | bool:
        return [key for key in (self._id, self._text) if key] or False

    def _text_key(self, address: Address) -> str:
        if "text" in (address.options or {}):
            return address.option("text")
        if self._built:
            return MADE_TEXT
        payloads = [point.payload or {} for point in self._scroll(limit=20, with_payload=True)]
        keys = {key for one in payloads for key, value in one.items() if isinstance(value, str) and key != self._id}
        return chosen_column(address, "text", sorted(keys), TEXT_NAMES, "texts")

    def _scroll(self, **arguments: Any) -> Any:  # noqa: ANN401
        return self._ask(self._client.scroll, self._name, **arguments)[0]

    def _ask(self, call: Callable[..., T], *values: Any, **named: Any) -> T:  # noqa: ANN401
        return asked(self.address, call, *values, **named)


def connect(address: Address, make: bool = False) -> Any:  # noqa: ANN401
    """A client of a folder or a server. A folder that is not Qdrant's is refused, unless one may be made."""
    missing = DataError(f"{address.shown}: this index needs the package qdrant-client", hint="pip install 'isogloss[qdrant]'")
    qdrant = optional_package("qdrant_client", missing)
    if is_url(address):
        key = checked_key(os.environ.get(VARIABLE, ""), VARIABLE)
        parse_url(address.place)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
            return qdrant.QdrantClient(
                url=address.place, api_key=key or None, check_compatibility=False, timeout=TIMEOUT_SECONDS
            )
    if not make and not (address.path / "meta.json").is_file():
        raise DataError(
            f"{address.shown}: {address.path} is not a folder of Qdrant's embedded mode",
            hint="a server has a URL: qdrant:https://host:6333#NAME",
        )
    try:
        return qdrant.QdrantClient(path=str(address.path))
    except RuntimeError as error:
        raise DataError(
            f"{address.shown}: another program has this folder open", hint="close it, or use a Qdrant server"
        ) from error
    except Exception as error:  # of JSON, pydantic, sqlite or pickle: whatever a damaged file gives
        if isinstance(error, OSError):
            raise
        reason = f"{type(error).__name__}: {str(error)[:80]}"
        raise DataError(
            f"{address.shown}: Qdrant cannot read this folder ({reason})", hint="copy it again, or build the index again"
        ) from error


def asked(shown: str, call: Callable[..., T], *values: Any, **named: Any) -> T:  # noqa: ANN401
    """The answer of a client; what it raises becomes a sentence."""
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Local mode is not recommended")
            return call(*values, **named)
    except UnexpectedResponse as error:
        hint = f"set {VARIABLE}" if error.status_code in (401, 403) else "see the server's log"
        raise DataError(f"{shown}: the server answers {error.status_code} {error.reason_phrase}", hint=hint) from None
    except ApiException as error:
        raise DataError(f"{shown}: no answer ({str(error)[:120]})", hint="is the server up?") from None
    except sqlite3.Error as error:  # of the embedded mode
        raise DataError(f"{shown}: {error}", hint="is there space on the disk? run the same command again") from error


def is_url(address: Address) -> bool:
    """Whether an address is that of a server."""
    return address.place.startswith(("http://", "https://"))


def record_of(config: Any) -> BuildRecord | None:  # noqa: ANN401
    """What `isogloss index build` noted in a collection."""
    metadata = getattr(config, "metadata", None) or {}
    return record_in({KEY: metadata[KEY]}) if KEY in metadata else None


def _vector(address: Address, vectors: Any) -> tuple[str, Any]:  # noqa: ANN401
    """The name of the vector to search, "" if there is only one without a name, and its parameters."""
    if not isinstance(vectors, dict):
        if address.option("vector"):
            raise DataError(f"{address.shown}: its vector has no name", hint="leave vector= out")
        if vectors is None:
            raise DataError(f"{address.shown}: the collection has no dense vectors", hint="name another collection")
        return "", vectors
    name = chosen_column(address, "vector", list(vectors), (), "vectors")
    if not name:
        raise DataError(f"{address.shown}: the collection has no dense vectors", hint="name another collection")
    return name, vectors[name]
