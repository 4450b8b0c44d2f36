"""Search an index with text: the queries are embedded with a model, the hits come back with their texts."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from isogloss.errors import DataError
from isogloss.index.fit import ModelFacts, check_before_search, model_facts, refuse_errors
from isogloss.index.open import open_index
from isogloss.index.vector_index import Hits, IndexFacts, VectorIndex, has_unit_norm
from isogloss.models.cached_encoder import embed
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_for_queries
from isogloss.progress import OnProgress, silent

logger = logging.getLogger(__name__)
STAGE = "queries"


@dataclass(frozen=True, slots=True)
class Match:
    """A document that a search found. The text is None if the index has none. Higher scores are better."""

    id: str
    score: float
    text: str | None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query and the documents that were found for it, the best first."""

    query: str
    matches: list[Match]


def search_index(
    model: "Encoder | str",
    queries: Sequence[str],
    address: "VectorIndex | str",
    k: int = 10,
    on_progress: OnProgress = silent,
) -> list[QueryResult]:
    """The k nearest documents of each query.

        ig.search_index("runs/mine/model", ["Wo ist der Bahnhof?"], "docs.npy")

    Raises if the model does not fit the index; what else should be known about the two is logged as a warning.
    """
    if isinstance(queries, str):
        raise DataError("search_index was given one query, not a list of them", hint="write [query]")
    if not queries or not all(query.strip() for query in queries):
        raise DataError("there is an empty query" if queries else "there are no queries", hint="a query is a line of text")
    if isinstance(address, str):
        with open_index(address) as index:
            return search_index(model, queries, index, k, on_progress)
    encoder = open_for_queries(model) if isinstance(model, str) else model
    vectors = embed(encoder, list(queries), on_progress=on_progress, stage=STAGE)
    report(address, address.facts(), model_facts(encoder, has_unit_norm(vectors)))
    found = address.search(vectors, k)
    return [_with_texts(address, query, hits) for query, hits in zip(queries, found, strict=True)]


def report(index: VectorIndex, facts: IndexFacts, model: ModelFacts) -> None:
    """Raise if a model cannot search an index; log what else should be known."""
    for finding in refuse_errors(check_before_search(index, facts, model)):
        level = logging.WARNING if finding.level == "warning" else logging.INFO
        logger.log(level, "%s", "; ".join(part for part in (finding.message, finding.hint) if part))


def _with_texts(index: VectorIndex, query: str, hits: Hits) -> QueryResult:
    texts = index.texts(hits.ids)
    rows = zip(hits.ids, hits.scores.tolist(), strict=True)
    return QueryResult(query, [Match(name, score, texts.get(name)) for name, score in rows])
