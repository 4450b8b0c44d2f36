"""PostgreSQL with pgvector, a real server: tables that others made, tables that isogloss builds, and what is refused."""

from pathlib import Path

import numpy as np
import psycopg
import pytest

from index.agreement import (
    QUERIES,
    ROWS,
    WIDTH,
    Vectors,
    agrees,
    build,
    continues_after_a_kill,
    lifecycle,
    refuses,
    write_documents,
)
from index.postgres_server import Postgres
from isogloss import IsoglossError
from isogloss.index.backends import postgres_table
from isogloss.index.backends.postgres_table import as_text
from isogloss.index.fit import check_fit, model_facts
from isogloss.index.open import open_index
from isogloss.index.vector_index import METRICS, Metric


@pytest.fixture
def table(postgres: Postgres) -> Postgres:
    """A table of somebody else, with strange names."""
    postgres('DROP SCHEMA IF EXISTS "My Docs" CASCADE')
    postgres('CREATE SCHEMA "My Docs"')
    postgres(f'CREATE TABLE "My Docs"."a;b" ("doc no" bigint PRIMARY KEY, "the ""text""" text, "Vec" vector({WIDTH}), n int)')
    with psycopg.connect(postgres.uri, autocommit=True) as connection, connection.cursor() as cursor:
        rows = [(number, f"größter text {number}", as_text(row)) for number, row in enumerate(ROWS)]
        cursor.executemany('INSERT INTO "My Docs"."a;b" VALUES (%s, %s, %s::vector)', rows)
    return postgres


TABLE = "My+Docs.a;b"


@pytest.mark.parametrize("metric", METRICS)
def test_hits_and_scores_are_those_of_brute_force(postgres: Postgres, metric: Metric, tmp_path: Path) -> None:
    built = build(write_documents(tmp_path / "all.jsonl", range(70)), postgres.address("every"), metric, "replace")
    assert "postgres" in built.address and built.documents == 70
    agrees(postgres.address("every"), range(70), metric)
    ((found,),) = postgres("SELECT indexdef FROM pg_indexes WHERE tablename = 'every' AND indexdef LIKE '%%hnsw%%'")
    assert {"cosine": "vector_cosine_ops", "dot": "vector_ip_ops", "l2": "vector_l2_ops"}[metric] in found


def test_a_table_is_built_continued_extended_and_replaced(postgres: Postgres, tmp_path: Path) -> None:
    postgres("CREATE SCHEMA IF NOT EXISTS own")
    lifecycle(tmp_path, postgres.address("own.docs"))
    assert postgres("SELECT count(*) FROM own.docs") == [(20,)]


def test_a_killed_build_continues(postgres: Postgres, tmp_path: Path) -> None:
    continues_after_a_kill(tmp_path, postgres.address("killed"))


def test_half_precision(postgres: Postgres, tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "all.jsonl", range(70))
    build(documents, postgres.address("half"), "dot", "replace", precision="float16")
    agrees(postgres.address("half"), range(70), "dot", tolerance=5e-3)
    assert postgres("SELECT DISTINCT pg_typeof(embedding)::text FROM half") == [("halfvec",)]


def test_a_table_of_somebody_else_is_read_and_never_changed(table: Postgres, tmp_path: Path) -> None:
    with open_index(table.address(TABLE)) as index:
        facts = index.facts()
        assert (facts.size, facts.metric, facts.exact, facts.built) == (70, "cosine", True, None)
        assert "no ANN index, so every row is compared; its vectors are compared by cosine" in facts.note
        assert index.texts(["3", "5"]) == {"3": "größter text 3", "5": "größter text 5"}
        assert index.search(ROWS[7:8], 1)[0].ids == ["7"]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            index._connection.execute('DELETE FROM "My Docs"."a;b"')  # type: ignore[attr-defined]
    for existing in ("refuse", "replace", "append"):
        refuses(
            lambda existing=existing: build(
                write_documents(tmp_path / "all.jsonl", range(9)), table.address(TABLE), "cosine", existing
            ),
            "was not built by isogloss",
        )
    assert table('SELECT count(*) FROM "My Docs"."a;b"') == [(70,)]


def test_the_metric_is_that_of_the_ann_index(table: Postgres) -> None:
    table('CREATE INDEX ON "My Docs"."a;b" USING hnsw ("Vec" vector_ip_ops)')
    with open_index(table.address(TABLE)) as index:
        facts = index.facts()
        assert (facts.metric, facts.exact, facts.note) == ("dot", False, "")
        index._set("enable_seqscan", "off")  # type: ignore[attr-defined]  # else so few rows are compared one by one
        plan = "".join(str(row) for row in index._rows("EXPLAIN SELECT 1 FROM {table} ORDER BY {vector} <#> %s::{kind} LIMIT 3", (as_text(ROWS[0]),)))  # type: ignore[attr-defined] # fmt: skip # noqa: E501
        assert "Index Scan" in plan
        assert len(index.search(QUERIES, 60)[0].ids) == 60, "more than pgvector's default of 40"
    with open_index(table.address(TABLE, metric="l2")) as index:
        assert index.facts().metric == "l2" and "the ANN index is for dot" in index.facts().note
    table('CREATE INDEX ON "My Docs"."a;b" USING ivfflat ("Vec" vector_l2_ops) WITH (lists = 2)')
    with open_index(table.address(TABLE, metric="l2", probes=2)) as index:
        assert not index.facts().exact and len(index.search(QUERIES, 60)[0].ids) == 60
    with open_index(table.address(TABLE)) as index:
        assert "there are ANN indexes for" in index.facts().note


def test_vectors_that_are_missing_or_not_numbers_are_not_found(table: Postgres) -> None:
    table("INSERT INTO \"My Docs\".\"a;b\" VALUES (100, NULL, NULL), (101, 'zero', '[0,0,0,0,0]')")
    with open_index(table.address(TABLE)) as index:
        assert index.facts().size == 71
        found = index.search(QUERIES[:1], 100)[0]
        assert len(found.ids) == 70 and "100" not in found.ids and "101" not in found.ids, "a zero vector has no cosine"
        assert index.texts(["100", "101"]) == {"101": "zero"}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("?table=none", "there is no table 'none'"),
        ("?table=My+Docs.a;b&column=n", "there is no column 'n' of vectors"),
        ("?table=My+Docs.a;b&id=none", "there is no column 'none' of ids"),
        ("?table=My+Docs.a;b&metric=cosin", "the metric 'cosin'"),
        ("?table=My+Docs.a;b&colum=x", "the option 'colum'"),
        ("?table=My+Docs.a;b&timeout=soon", "timeout=soon is not a number"),
        ("?table=plain", "no column of type vector or halfvec; it has a (integer)"),
        ("?table=two", "which column holds the vectors? candidates: 'v', 'w'"),
        ("?table=two&column=v", "which column holds the ids?"),
        ("?table=mixed", "its vectors have several dimensions (2, 3)"),
        ("", "names no table"),
    ],
)
def test_what_cannot_be_opened_is_explained(table: Postgres, address: str, said: str) -> None:
    table("DROP TABLE IF EXISTS plain, two, mixed")
    table("CREATE TABLE plain (a int)")
    table("CREATE TABLE two (x int, y int, v vector(2), w vector(2))")
    table("CREATE TABLE mixed (id int, embedding vector)")
    table("INSERT INTO mixed VALUES (1, '[1,2]'), (2, '[1,2,3]')")
    refuses(lambda: open_index(table.uri + address.replace("?", "&")), said)


def test_an_empty_table_and_a_wrong_model_are_explained(table: Postgres) -> None:
    table("DROP TABLE IF EXISTS nothing")
    table("CREATE TABLE nothing (id int, embedding vector(3))")
    with open_index(table.address("nothing")) as index:
        facts = index.facts()
        assert (facts.size, facts.dimension, facts.unit_norm, facts.has_texts) == (0, 3, None, False)
        assert index.search(np.ones((1, 3), dtype=np.float32), 2)[0].ids == [] and index.texts(["1"]) == {}
        assert "is empty" in check_fit(index.address, facts, model_facts(Vectors()))[0].message
        with pytest.raises(IsoglossError, match="holds vectors of 3 dimensions"):
            index.search(QUERIES, 2)


def test_of_large_tables_some_pages_are_read(table: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    table('ANALYZE "My Docs"."a;b"')
    monkeypatch.setattr(postgres_table, "LARGE", 50)
    with open_index(table.address(TABLE)) as index:
        assert index.facts().size == 70 and len(index.sample(9).ids) == 9
        assert index.sample(9).ids == index.sample(9).ids
        read = list[str]()
        rows = index._rows  # type: ignore[attr-defined]

        def noting(query: str, values: tuple[object, ...] = ()) -> object:
            read.append(query)
            return rows(query, values)

        monkeypatch.setattr(index, "_rows", noting)
        index.facts()
        assert len(read) == 1 and "TABLESAMPLE SYSTEM (100.0" in read[0]


def test_a_slow_statement_is_stopped(table: Postgres) -> None:
    with open_index(table.address(TABLE, timeout=1)) as index:
        refuses(lambda: index._rows("SELECT pg_sleep(20)"), "took too long")  # type: ignore[attr-defined]


def test_wrong_passwords_and_servers_that_are_down(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((file,),) = postgres("SHOW hba_file")
    rules = Path(file).read_text()
    postgres("DROP ROLE IF EXISTS reader")
    postgres("CREATE ROLE reader LOGIN PASSWORD 'right'")
    try:
        Path(file).write_text("local all reader scram-sha-256\n" + rules)
        postgres.reload()
        address = postgres.address("pg_class").replace("postgres:@", "reader:wr0ng@")
        with pytest.raises(IsoglossError) as caught:
            open_index(address)
        assert "password authentication failed" in caught.value.message and "PGPASSWORD" in caught.value.hint
        assert "wr0ng" not in caught.value.message + caught.value.hint
        monkeypatch.setenv("PGPASSWORD", "right")
        refuses(lambda: open_index(address.replace(":wr0ng", "")), "no column of type vector")
    finally:
        Path(file).write_text(rules)
        postgres.reload()
    down = f"postgresql://me:s3cret@/db?host={tmp_path}&table=docs"
    with pytest.raises(IsoglossError) as caught:
        open_index(down)
    assert "no connection" in caught.value.message and "s3cret" not in str(caught.value) + caught.value.hint
    with pytest.raises(IsoglossError) as caught:
        build(write_documents(tmp_path / "all.jsonl", range(3)), down)
    assert "no connection" in caught.value.message and "s3cret" not in str(caught.value)
