"""`check_index` from end to end: known vectors with known answers, real tiny models, and a finished run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import isogloss as ig
from isogloss.config.index_check import IndexCheckSettings
from isogloss.errors import IsoglossError
from isogloss.evaluation.metrics import unit
from isogloss.index.checking.certificate import CERTIFICATE, PAGE, IndexCheck
from isogloss.index.checking.check import check_index
from isogloss.index.checking.query_sets import Query, QuerySet
from isogloss.index.fit import PROBES
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from isogloss.storage import read_json
from isogloss.types import FloatArray
from tiny import PAIRS, KnownVectors, tiny_recipe

DOCS, QUERIES, WIDTH = 600, 60, 32
SETTINGS = IndexCheckSettings(resamples=500)


def units(rows: int, seed: int) -> FloatArray:
    return unit(np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32))


class World:
    """An index of random vectors with texts, a teacher that made it, and a student that knows German well and Russian not."""

    def __init__(self, folder: Path) -> None:
        self.docs, self.address = units(DOCS, 0), str(folder / "docs.npy")
        asked = self.docs[:QUERIES] + 0.1 * units(QUERIES, 1)
        texts = {f"text {row}": vector for row, vector in enumerate(self.docs)}
        english = {f"query {row}": vector for row, vector in enumerate(asked)}
        probes = dict.fromkeys(PROBES, units(1, 5)[0])
        self.teacher = KnownVectors(texts | english | probes)
        german = {f"Frage {row}": vector for row, vector in enumerate(asked)}
        russian = {f"вопрос {row}": vector for row, vector in enumerate(units(QUERIES, 2))}
        self.student = KnownVectors(english | german | russian | probes)
        self.student.name, self.student.fingerprint = "pupil", "other"
        np.save(folder / "docs.npy", self.docs)
        lines = [json.dumps({"id": f"d{row}", "text": f"text {row}"}) for row in range(DOCS)]
        (folder / "docs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        rows = range(QUERIES)
        asked_in = [{"en": f"query {row}", "de": f"Frage {row}", "ru": f"вопрос {row}"} for row in rows]
        found = {f"q{row}": Query(asked_in[row], {f"d{row}": 1.0}) for row in rows}
        self.with_gold = QuerySet("gold", found, options=("--queries", "gold"))
        self.queries = QuerySet(
            "plain", {name: Query(one.texts) for name, one in found.items()}, options=("--queries", "plain")
        )

    def check(self, queries: QuerySet | None = None, **changes: object) -> IndexCheck:
        settings = SETTINGS.replace(**changes)
        return check_index(self.student, self.address, queries or self.queries, self.teacher, settings)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_perfect_language_ships_and_a_random_one_does_not(world: World) -> None:
    found = world.check()
    assert {language: one.level for language, one in found.verdicts.items()} == {
        "de": "ship",
        "ru": "do not ship",
        "en": "ship",
    }
    assert found.languages["de"].scores["overlap"].value == found.languages["en"].scores["rbo"].value == 1
    assert found.languages["ru"].scores["overlap"].value < 0.06, "10 of 600"
    assert found.verdict.level == "do not ship" and found.verdict.why == "ru fails" and not found.ships
    assert found.match.match == "same" and found.match.checked == 64 and found.findings == []
    assert found.teacher_scores == {} and found.queries.with_gold == 0
    german = world.check(languages=("de",))
    assert german.verdict.level == "ship" and german.ships and list(german.languages) == ["de", "en"]


def test_with_gold_the_teachers_ceiling_is_known(world: World) -> None:
    found = world.check(world.with_gold)
    assert found.teacher_scores["recall"].value == found.teacher_scores["mrr"].value == 1
    assert found.languages["de"].scores["kept_recall"].value == 1 and found.languages["de"].judged == QUERIES
    assert found.languages["ru"].scores["recall"].value < 0.2
    assert "of the teacher's recall at 10" in found.verdicts["ru"].why


def test_gold_must_be_in_the_index(world: World) -> None:
    first = {"q0": Query(world.queries.queries["q0"].texts, {"d0": 1.0, "gone": 1.0})}
    rest = {name: one for name, one in world.with_gold.queries.items() if name != "q0"}
    found = world.check(QuerySet("some", first | rest))
    (finding,) = found.findings
    assert finding.level == "warning" and "1 gold document of 61" in finding.message and "'gone'" in finding.message
    nowhere = {name: Query(one.texts, {f"x{name}": 1.0}) for name, one in world.queries.queries.items()}
    with pytest.raises(IsoglossError, match="such as 'xq0', are not among the ids"):
        world.check(QuerySet("none", nowhere))
    Path(world.address).with_suffix(".jsonl").unlink()
    with pytest.raises(IsoglossError, match="such as 'xq0', are not among the ids"):
        world.check(QuerySet("none", nowhere))


def test_misses_are_shown_with_what_was_found_instead(world: World) -> None:
    found = world.check(examples=2)
    assert "de" not in found.misses and [one.overlap for one in found.misses["ru"]] == [0, 0]
    for miss in found.misses["ru"]:
        row = int(miss.query[1:])
        assert (miss.source, miss.text) == (f"query {row}", f"вопрос {row}")
        assert (miss.teacher_id, miss.teacher_text) == (f"d{row}", f"text {row}")
        nearest = int(np.argmax(world.docs @ world.student.vectors[miss.text]))
        assert (miss.student_id, miss.student_text) == (f"d{nearest}", f"text {nearest}")
    assert world.check(examples=0).misses == {}


def test_an_index_of_another_model_never_ships(world: World) -> None:
    world.teacher.vectors = {**world.teacher.vectors} | {f"text {row}": one for row, one in enumerate(units(DOCS, 9))}
    found = world.check(languages=("de",))
    assert found.match.match == "different" and found.verdicts["de"].level == "ship"
    assert found.verdict.level == "do not ship" and "nothing to do with known" in found.verdict.why and found.verdict.advice


def test_an_index_with_changed_documents_ships_with_care(world: World) -> None:
    np.save(world.address, np.concatenate([world.docs[:450], -world.docs[450:]]))
    found = world.check(languages=("de",))
    assert found.match.match == "partly" and found.verdicts["de"].level == "ship"
    assert found.verdict.level == "ship with care" and "of the stored vectors are not those of known" in found.verdict.why
    assert "embed them again" in found.verdict.advice and found.ships


def test_without_texts_the_weaker_check_is_used(world: World) -> None:
    Path(world.address).with_suffix(".jsonl").unlink()
    found = world.check(languages=("de",))
    assert found.match.match == "plausible" and found.verdict.level == "ship" and found.verdict.why.startswith("de passes")
    Path(world.address).with_suffix(".tsv").write_text("".join(f"d{row}\ttext {row}\n" for row in range(DOCS)))
    assert world.check(verified=0, languages=("de",)).match.match == "plausible", "the texts were not asked for"


def test_what_does_not_fit_is_refused_with_the_reason(world: World, tmp_path: Path) -> None:
    np.save(world.address, world.docs[:, :8])
    with pytest.raises(IsoglossError, match="the first 8 dimensions of the teacher's") as caught:
        world.check()
    assert "truncate_dim=8" in caught.value.hint
    np.save(world.address, world.docs)
    world.student = KnownVectors({text: vector[:8] for text, vector in world.student.vectors.items()})
    with pytest.raises(IsoglossError, match="holds vectors of 32 dimensions, but known makes vectors of 8"):
        world.check()
    np.save(tmp_path / "none.npy", world.docs[:0])
    world.address = str(tmp_path / "none.npy")
    with pytest.raises(IsoglossError, match="the index is empty"):
        world.check()
    with pytest.raises(IsoglossError, match="no queries in tr"):
        world.check(languages=("tr",))


def test_a_small_index_says_what_chance_finds(world: World) -> None:
    assert world.check(k=12).findings == [], "600 documents for 12 results"
    (finding,) = world.check(k=13).findings
    assert "chance alone finds 2 % of the teacher's 13 results" in finding.message


def test_queries_that_no_document_is_about_are_reported(world: World) -> None:
    for row, vector in enumerate(units(QUERIES, 7)):
        world.teacher.vectors[f"query {row}"] = vector  # type: ignore[index]
    (finding,) = world.check().findings
    assert finding.level == "warning" and "plain: the queries have little to do with the documents" in finding.message
    assert "--queries" in finding.hint
    Path(world.address).with_suffix(".jsonl").unlink()
    found = world.check()
    assert found.match.match == "doubtful" and "not about its documents" in found.match.text and found.findings == []
    for row in range(QUERIES):  # a student that finds the same all the same
        world.student.vectors[f"Frage {row}"] = world.teacher.vectors[f"query {row}"]  # type: ignore[index]
    same = world.check(languages=("de",))
    assert same.verdicts["de"].level == "ship" and same.verdict.level == "ship with care"


def test_progress_is_reported(world: World) -> None:
    seen: list[Step] = []
    check_index(world.student, world.address, world.queries, world.teacher, SETTINGS, seen.append)
    last = {step.stage: step for step in seen}
    assert last["searching, teacher"].finished and last["searching, teacher"].total == QUERIES
    assert last["searching, student"].finished and last["searching, student"].total == 3 * QUERIES


def test_the_certificate_names_everything_and_is_the_same_each_time(world: World, tmp_path: Path) -> None:
    world.student.name = "https://me:hunter2@host/v1/embeddings#pupil"
    first, second = (replace(world.check(world.with_gold, k=5), date="2026-01-02") for _ in range(2))
    page = first.write(tmp_path / "one" / "cert")
    second.write(tmp_path / "two")
    for name in (CERTIFICATE, PAGE):
        assert (page.parent / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        assert "hunter2" not in (page.parent / name).read_text(encoding="utf-8")
    content = read_json(page.parent / CERTIFICATE)
    assert content["verdict"]["level"] == "do not ship" and content["date"] == "2026-01-02"
    assert {"kind": "npy", "size": DOCS, "dimension": WIDTH, "metric": "cosine"}.items() <= content["index"].items()
    assert content["teacher"]["fingerprint"] == "known" and content["student"]["fingerprint"] == "other"
    assert content["queries"] == {
        "name": "gold",
        "hash": world.with_gold.hash,
        "source_language": "en",
        "count": QUERIES,
        "with_gold": QUERIES,
    }
    assert content["settings"]["k"] == 5 and content["versions"]["isogloss"] and content["made_by_teacher"]["match"] == "same"
    assert content["languages"]["de"]["scores"]["overlap"] == [1, 1, 1] and content["average"]["queries"] == 2 * QUERIES
    assert content["languages"]["ru"]["missed"] == [one.query for one in first.misses["ru"]]
    assert "query 1" not in json.dumps(content), "texts are on the page only"
    assert content["command"].endswith("--teacher known --queries gold -k 5 --resamples 500")
    damaged = (page.parent / CERTIFICATE).read_text(encoding="utf-8").replace('"do not ship"', '"ship"')
    (page.parent / CERTIFICATE).write_text(damaged, encoding="utf-8")
    with pytest.raises(ValueError, match="damaged or edited"):
        read_json(page.parent / CERTIFICATE)


@pytest.fixture(scope="module")
def finished(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the tiny models."""
    folder = tmp_path_factory.mktemp("run")
    lines = [f"{pair.source}\t{pair.target}" for pair in PAIRS if pair.language == "de"]
    (folder / "en-de.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = tiny_recipe(models, folder / "en-de.tsv", folder / "run", "pairs.held_out=0.3", "training.dev_pairs=0")
    return run(recipe).folder


def test_a_run_brings_its_teacher_and_its_held_out_queries(finished: Path, tmp_path: Path) -> None:
    texts = list(dict.fromkeys(pair.source for pair in PAIRS))
    record = json.loads((finished / "run.json").read_text(encoding="utf-8"))
    np.save(tmp_path / "docs.npy", ig.embed(record["recipe"]["teacher"]["model"], texts))
    (tmp_path / "docs.tsv").write_text("".join(f"{row}\t{text}\n" for row, text in enumerate(texts)), encoding="utf-8")
    found = check_index(str(finished), str(tmp_path / "docs.npy"), settings=SETTINGS)
    held = json.loads((finished / "results.json").read_text(encoding="utf-8"))
    assert found.languages["de"].queries == next(iter(held["stages"].values()))["languages"]["de"]["queries"]
    assert found.match.match == "same" and any("is small" in one.message for one in found.findings)
    assert found.queries.name == f"held-out pairs of {finished}" and found.command().count("--queries") == 0
    model = check_index(str(finished / "model"), str(tmp_path / "docs.npy"), settings=SETTINGS)
    assert model.languages["de"].scores == found.languages["de"].scores
    other = check_index(str(finished), str(tmp_path / "docs.npy"), teacher=str(finished), settings=SETTINGS)
    assert any("learned from another teacher" in one.message for one in other.findings)


def test_without_a_run_the_teacher_must_be_named(models: Path, world: World) -> None:
    with pytest.raises(IsoglossError, match="its teacher is not known") as caught:
        check_index(str(models / "student"), world.address, world.queries)
    assert "--teacher" in caught.value.hint


def test_queries_and_documents_get_the_teachers_prompts(models: Path, tmp_path: Path) -> None:
    name, texts = str(models / "teacher"), list(dict.fromkeys(pair.source for pair in PAIRS))
    np.save(tmp_path / "docs.npy", open_encoder(name, "cpu", "my friend ").encode(texts))
    (tmp_path / "docs.tsv").write_text("".join(f"{row}\t{text}\n" for row, text in enumerate(texts)), encoding="utf-8")
    found = {pair.source: Query({"en": pair.source, "de": pair.source}) for pair in PAIRS}
    queries, student = QuerySet("own", found), open_encoder(name, "cpu", "the dog ")
    teacher = open_encoder(name, "cpu", role_prompts={"query": "the dog ", "document": "my friend "})
    check = check_index(student, str(tmp_path / "docs.npy"), queries, teacher, SETTINGS)
    assert check.match.match == "same" and not check.match.prompt, "with the prompt for documents"
    assert check.languages["de"].scores["overlap"].value == 1, "with the prompt for queries"
