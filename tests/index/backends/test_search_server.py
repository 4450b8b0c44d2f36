"""OpenSearch and Elasticsearch, against the stand-in: mappings, scores, logins, what is refused. No real server is asked."""

import base64
from typing import Any

import numpy as np
import pytest

from index.agreement import QUERIES, ROWS, WIDTH, refuses
from index.brute_force import best
from index.search_server_stand_in import METRICS, StandIn, stand_in
from isogloss import IsoglossError
from isogloss.index.backends.search_server import unscored
from isogloss.index.open import open_index

FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("opensearch", {"type": "knn_vector", "dimension": WIDTH, "method": {"space_type": "cosinesimil", "engine": "nmslib"}}),
    ("opensearch", {"type": "knn_vector", "dimension": WIDTH, "method": {"space_type": "innerproduct", "engine": "faiss"}}),
    ("opensearch", {"type": "knn_vector", "dimension": WIDTH, "space_type": "cosinesimil"}),
    ("opensearch", {"type": "knn_vector", "dimension": WIDTH, "space_type": "l2"}),
    ("elasticsearch", {"type": "dense_vector", "dims": WIDTH, "similarity": "cosine"}),
    ("elasticsearch", {"type": "dense_vector", "dims": WIDTH, "similarity": "max_inner_product"}),
    ("elasticsearch", {"type": "dense_vector", "dims": WIDTH, "similarity": "dot_product"}),
    ("elasticsearch", {"type": "dense_vector", "dims": WIDTH, "similarity": "l2_norm"}),
]


def filled(server: StandIn, field: dict[str, Any], **others: dict[str, Any]) -> None:
    documents = {f"d{row}": {"embedding": vector.tolist(), "body": f"text {row}"} for row, vector in enumerate(ROWS)}
    properties = {"embedding": field, "body": {"type": "text"}, "when": {"type": "date"}, **others}
    server.indexes["docs"] = {"mappings": {"properties": properties}, "documents": documents}


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=str)
def test_scores_are_cosines_dot_products_and_distances(kind: str, field: dict[str, Any], search_server: StandIn) -> None:
    filled(search_server, field)
    name = field.get("similarity") or field.get("space_type") or field["method"]["space_type"]
    with open_index(f"{kind}:http://{search_server.address}#docs") as index:
        facts = index.facts()
        assert (facts.size, facts.dimension, facts.metric, facts.exact) == (70, WIDTH, METRICS[name], False)
        for query, hits in zip(QUERIES, index.search(QUERIES, 5), strict=True):
            expected = best(query, ROWS, 5, METRICS[name])
            assert hits.ids == [f"d{row}" for row, _ in expected]
            assert hits.scores == pytest.approx([value for _, value in expected], abs=1e-5)
        assert index.texts(["d3", "d99"]) == {"d3": "text 3"} and index.sample(2).texts == ["text 0", "text 1"]


def test_a_score_of_one_is_a_dot_product_of_zero() -> None:
    scores = np.array([1.0, 3.0, 0.5])
    assert unscored(scores, "max_inner_product", "").tolist() == [0.0, 2.0, -1.0]


def test_the_defaults_of_a_mapping(search_server: StandIn) -> None:
    filled(search_server, {"type": "knn_vector", "dimension": WIDTH})
    with open_index(f"opensearch:http://{search_server.address}#docs") as index:
        assert index.facts().metric == "l2"
    filled(search_server, {"type": "dense_vector", "dims": WIDTH})
    with open_index(f"elasticsearch:http://{search_server.address}#docs") as index:
        assert index.facts().metric == "cosine"


def test_logins_are_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in(password="s3cret") as server:
        filled(server, FIELDS[2][1])
        address = f"opensearch:http://{server.address}#docs"
        refuses(lambda: open_index(address), "denies access (401)")
        with pytest.raises(IsoglossError) as caught:
            open_index(address.replace("http://", "http://me:wr0ng@"))
        assert "OPENSEARCH_USER and OPENSEARCH_PASSWORD" in caught.value.hint and "wr0ng" not in str(caught.value)
        with open_index(address.replace("http://", "http://me:s3cret@")) as index:
            assert index.facts().size == 70 and "s3cret" not in index.address
        monkeypatch.setenv("OPENSEARCH_USER", "me")
        monkeypatch.setenv("OPENSEARCH_PASSWORD", "s3cret")
        open_index(address).close()
        assert base64.b64decode(server.headers["Authorization"].split()[1]) == b"me:s3cret"
        filled(server, FIELDS[4][1])
        refuses(lambda: open_index(address.replace("opensearch", "elasticsearch")), "401")
        monkeypatch.setenv("ELASTICSEARCH_API_KEY", "s3cret")
        open_index(address.replace("opensearch", "elasticsearch")).close()
        assert server.headers["Authorization"] == "ApiKey s3cret"


def test_what_cannot_be_opened_is_explained(search_server: StandIn) -> None:
    filled(search_server, FIELDS[2][1], vector=FIELDS[2][1])
    here = f"opensearch:http://{search_server.address}"
    for address, said in (
        (f"{here}#none", "there is no such index"),
        (f"{here}#docs?column=when", "there is no column 'when' of vectors"),
        (f"{here}#docs?candidates=x", "candidates=x is not a number"),
        ("opensearch:http://127.0.0.1:9#docs", "no answer"),
        ("opensearch:ftp://host#docs", "not a web address"),
        (here.replace("opensearch", "elasticsearch") + "#docs", "no field of type dense_vector; it has embedding, body, when"),
    ):
        refuses(lambda address=address: open_index(address), said)
    filled(search_server, {"type": "knn_vector", "model_id": "trained"})
    refuses(lambda: open_index(f"{here}#docs"), "has no dimension")
    filled(search_server, {"type": "knn_vector", "dimension": WIDTH, "space_type": "l1"})
    refuses(lambda: open_index(f"{here}#docs"), "compares by l1, which is not supported")
