"""Addresses of indexes: what kind it is, where it is, and what its columns are called.

    docs.npy   docs.safetensors   docs.faiss   docs.parquet         files; ids and texts are in docs.jsonl beside them
    postgresql://user@host/db?table=docs                            PostgreSQL with pgvector
    qdrant:FOLDER#COLLECTION   qdrant:https://host:6333#COLLECTION
    lancedb:FOLDER#TABLE
    opensearch:https://host:9200#INDEX   elasticsearch:https://host:9200#INDEX

Options follow a question mark: `docs.npy?metric=dot&ids=names.txt`, `lancedb:FOLDER#TABLE?column=vector`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_plus

from isogloss.errors import DataError
from isogloss.index.vector_index import METRICS, Metric
from isogloss.shown import masked

FILES = {".npy": "npy", ".safetensors": "safetensors", ".faiss": "faiss", ".parquet": "parquet"}
NAMED = {"qdrant": "COLLECTION", "lancedb": "TABLE", "opensearch": "INDEX", "elasticsearch": "INDEX"}
POSTGRES = ("postgresql", "postgres")
LARGEST_NUMBER = 10**6
FORMS = (
    "an index is a file (.npy, .safetensors, .faiss, .parquet), postgresql://host/db?table=NAME, qdrant:FOLDER#NAME, "
    "qdrant:https://host:6333#NAME, lancedb:FOLDER#NAME, opensearch:https://host:9200#NAME or elasticsearch:…"
)


@dataclass(frozen=True, slots=True)
class Address:
    """An address in parts. `place` may hold a password: only `shown` is for messages and records."""

    kind: str
    place: str  # a path, or a URL
    name: str = ""  # of the collection, the table or the index
    options: Mapping[str, str] | None = None

    @property
    def shown(self) -> str:
        """The address without its options, and without passwords and keys."""
        prefix = f"{self.kind}:" if self.kind in NAMED else ""
        return masked(f"{prefix}{self.place}" + (f"#{self.name}" if self.name else ""))

    @property
    def path(self) -> Path:
        """The place as a path."""
        return Path(self.place).expanduser()

    def option(self, name: str, default: str = "") -> str:
        """An option's value."""
        return (self.options or {}).get(name, default)

    def metric(self, default: Metric = "cosine") -> Metric:
        """The option `metric`."""
        given = self.option("metric", default)
        found = next((one for one in METRICS if one == given), None)
        if found is None:
            raise DataError(f"{self.shown}: the metric {given!r} is not known", hint=f"choose one of {', '.join(METRICS)}")
        return found

    def number(self, name: str, default: int = 0) -> int:
        """An option that is a whole number above 0."""
        value = self.option(name)
        if value and not (value.isascii() and value.isdigit() and 0 < int(value) < LARGEST_NUMBER):
            raise DataError(f"{self.shown}: {name}={value} is not a number", hint=f"for example {name}=64")
        return int(value) if value else default

    def refuse_other_options(self, known: Collection[str]) -> None:
        """Raise for an option that this kind of index does not have: it may be misspelled."""
        if unknown := sorted(set(self.options or {}) - set(known)):
            raise DataError(
                f"{self.shown}: the option {unknown[0]!r} is not known", hint=f"the options are {', '.join(sorted(known))}"
            )


def parse_address(text: str) -> Address:
    """The parts of an address."""
    scheme = re.match(r"(\w+):", text)
    if scheme and scheme[1] in POSTGRES:
        place, options = _split_options(text)
        return Address("postgresql", place, options.get("table", ""), options)
    if scheme and scheme[1] in NAMED:
        return _named(scheme[1], text.removeprefix(scheme[0]))
    if scheme and scheme[1] in ("http", "https"):
        raise DataError(f"{text}: what kind of server is it?", hint=f"write qdrant:{text} or opensearch:{text}")
    place, options = (text, {}) if Path(text).expanduser().exists() else _split_options(text)
    kind = FILES.get(Path(place).suffix.lower())
    if kind is None:
        raise DataError(f"{text}: not the address of a vector index", hint=FORMS)
    return Address(kind, place, options=options)


def _named(kind: str, rest: str) -> Address:
    place, _, name = rest.partition("#")
    name, options = _split_options(name)
    if not place or not name:
        example = "opensearch:https://host:9200#docs" if NAMED[kind] == "INDEX" else f"{kind}:FOLDER#docs"
        raise DataError(f"{kind}:{rest}: the address names no {NAMED[kind].lower()}", hint=f"for example {example}")
    return Address(kind, place, name, options)


def _split_options(text: str) -> tuple[str, dict[str, str]]:
    place, _, query = text.partition("?")
    pairs = (part.partition("=") for part in query.split("&") if part)
    return place, {unquote_plus(key): unquote_plus(value) for key, _, value in pairs}
