"""What a recipe says about its pairs becomes a store: files, standard input, stores, source text, a judging model."""

import gzip
import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.corpora.prepare import prepare
from isogloss.errors import DataError, RecipeError
from isogloss.models.encoder import load
from isogloss.progress import Step
from isogloss.runs.gathering import gather_pairs, gather_store
from isogloss.types import Bitext, Pair


def recipe(files: list[str], *overrides: str, **pairs: object) -> Recipe:
    return recipes.parse({"pairs": {"files": files, "held_out": 0.0} | pairs}, ["cleaning.min_language=0", *overrides])


def lines(count: int, start: int = 0) -> str:
    return "".join(f"number {n} here\tNummer {n} da\n" for n in range(start, start + count))


def test_standard_input_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(lines(7).encode())))
    store = gather_store(recipe(["-"], language="de"), tmp_path / "store")
    assert len(store) == 7 and store.languages == ("de",)


def test_files_stores_and_source_text_together(tmp_path: Path) -> None:
    (tmp_path / "news.en-de.tsv").write_text(lines(5))
    (tmp_path / "more.txt").write_text("a sentence alone\nanother one\n")
    prepare(Bitext.of([Pair("old news", "alte Nachrichten", "de", "old", "train")]), out=tmp_path / "old")
    wanted = recipe([str(tmp_path / "news.en-de.tsv"), str(tmp_path / "old")], source_text=[str(tmp_path / "more.txt")])
    store = gather_store(wanted, tmp_path / "store")
    assert {name: counts["train"] for name, counts in store.manifest["corpora"].items()} == {"news": 5, "old": 1, "more": 2}
    assert store.languages == ("de", "en")


def test_licenses_that_the_user_knows_are_in_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "news.en-de.tsv").write_text(lines(5))
    known = recipe([str(tmp_path / "news.en-de.tsv")], licenses=["talks=MIT", "new*=CC BY 4.0"])
    assert gather_store(known, tmp_path / "store").manifest["corpora"]["news"]["license"] == "CC BY 4.0"
    with pytest.raises(RecipeError, match="'news' is not NAME=LICENSE"):
        gather_store(recipe([str(tmp_path / "news.en-de.tsv")], licenses=["news"]), tmp_path / "other")


def test_one_store_alone_is_taken_as_it_is_and_can_be_narrowed(tmp_path: Path) -> None:
    rows = [Pair(f"number {n}", f"{code} {n}", code, "c", "train") for n in range(4) for code in ("de", "fr")]
    prepare(Bitext.of(rows), recipe(["x"]).cleaning, out=tmp_path / "old")
    steps: list[Step] = []
    found = gather_pairs(recipe([str(tmp_path / "old")], "languages=fr"), steps.append, tmp_path / "unused")
    assert found.bitext.languages == ("fr",) and found.folder == tmp_path / "old"
    assert not (tmp_path / "unused").exists() and "taken as it is" in steps[-1].note
    with pytest.raises(DataError, match="no pairs for xx"):
        gather_pairs(recipe([str(tmp_path / "old")], "languages=fr,xx"))


def test_preparing_a_store_prepares_it(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("number 2\n")
    prepare(Bitext.of([Pair(f"number {n}", f"Nummer {n}", "de", "c", "train") for n in range(4)]), out=tmp_path / "old")
    guarded = recipe([str(tmp_path / "old")], f"leaks.against={tmp_path / 'test.txt'}")
    store = gather_store(guarded, tmp_path / "new")
    assert len(store) == 3 and store.folder == tmp_path / "new"
    with pytest.raises(DataError, match="nothing to read but the store itself"):
        gather_store(guarded, tmp_path / "old")


def test_the_store_may_lie_in_the_folder_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "news.en-de.tsv").write_text(lines(5))
    for _ in range(2):
        assert gather_store(recipe([str(tmp_path)]), tmp_path / "pairs").manifest["rows_in"] == 5
    (tmp_path / "pairs" / "manifest.json").unlink()  # as if stopped just before its end
    assert gather_store(recipe([str(tmp_path)]), tmp_path / "pairs").manifest["rows_in"] == 5


def test_languages_can_be_spelt_in_several_ways(tmp_path: Path) -> None:
    (tmp_path / "news.en-pt_BR.tsv").write_text(lines(5))
    for spelling in ("pt-BR", "pt_br", "por-BR"):
        found = gather_pairs(recipe([str(tmp_path / "news.en-pt_BR.tsv")], f"languages={spelling}"))
        assert found.bitext.languages == ("pt-BR",)


def test_a_table_of_many_languages_may_be_named_after_one(tmp_path: Path) -> None:
    table = tmp_path / "multi.en-de.tsv"
    table.write_text("en\tde\tfr\n" + "".join(f"number {n}\tNummer {n}\tnuméro {n}\n" for n in range(5)))
    for languages in ("de", "fr", "de,fr"):
        assert gather_store(recipe([str(table)], f"languages={languages}"), tmp_path / "s").languages == tuple(
            languages.split(",")
        )


def test_pairs_that_a_model_puts_far_apart_go(tmp_path: Path, models: Path) -> None:
    (tmp_path / "en-de.tsv").write_text("the cat sleeps.\tthe cat sleeps today.\nthe cat sleeps.\tхлеб и вода.\n")
    similar = [f"cleaning.similarity_model={models / 'student'}", "cleaning.min_script=0"]
    everything = recipe([str(tmp_path / "en-de.tsv")], *similar, "cleaning.min_similarity=-1")
    assert len(gather_store(everything, tmp_path / "store")) == 2
    (scored,) = (tmp_path / "store" / "scored").glob("*.parquet")
    scores = {row["target"]: row["score low similarity"] for row in pq.read_table(scored).to_pylist()}
    one, *others = load(str(models / "student")).encode(["the cat sleeps.", *scores])
    for score, other in zip(scores.values(), others, strict=True):
        assert score == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other), abs=1e-5)
    between = sum(scores.values()) / 2
    stricter = recipe([str(tmp_path / "en-de.tsv")], *similar, f"cleaning.min_similarity={between}")
    assert gather_store(stricter, tmp_path / "store").bitext().column("target") == [max(scores, key=scores.__getitem__)]


def test_corpora_of_the_catalogue_need_languages(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"pairs\.corpora needs `languages`"):
        gather_store(recipe([], corpora=["TED2020"]), tmp_path / "store")


def test_packed_standard_input_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(lines(7).encode()))))
    assert len(gather_store(recipe(["-"], language="de"), tmp_path / "store")) == 7
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match="standard input is closed"):
        gather_store(recipe(["-"], language="de"), tmp_path / "other")


def test_shipped_text_has_its_license(tmp_path: Path) -> None:
    store = gather_store(recipe(["phrasebook"], source_text=["reader"]), tmp_path / "store")
    assert {name: known["license"] for name, known in store.manifest["corpora"].items()} == {
        "phrasebook": "CC0 1.0",
        "reader": "CC0 1.0",
    }


def test_told_languages_are_checked(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(lines(3))
    for told, message in (("german", "'german' is not a language code"), ("en", "cannot be the source language")):
        with pytest.raises(DataError, match=message):
            gather_store(recipe([str(tmp_path / "x.tsv")], language=told), tmp_path / "store")


def test_a_store_is_prepared_again_if_only_a_part_of_it_is_wanted(tmp_path: Path) -> None:
    rows = [Pair(f"number {n}", f"{code} {n}", code, "c", "train") for n in range(9) for code in ("de", "fr")]
    prepare(Bitext.of(rows), recipe(["x"]).cleaning, held_out=0, out=tmp_path / "old")
    limited = recipe([str(tmp_path / "old")], max_per_language=4)
    store = gather_store(limited, tmp_path / "new")
    assert gather_pairs(limited, out=tmp_path / "own").folder == tmp_path / "own"
    assert {language: counts["train"] for language, counts in store.manifest["languages"].items()} == {"de": 4, "fr": 4}
    assert len(set(store.bitext().column("source"))) == 4
    hashes = [
        gather_store(recipe([str(tmp_path / "old")], f"seed={seed}", max_per_corpus=4), tmp_path / str(seed)).hash
        for seed in (17, 18)
    ]
    assert hashes[0] == store.hash != hashes[1]
