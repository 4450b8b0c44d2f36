"""Whose vectors an index has: real tiny models, and every cause that is told apart."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.evaluation.metrics import unit
from isogloss.index.checking.teacher_match import TeacherMatch, match_teacher, match_without_texts
from isogloss.index.open import open_index
from isogloss.models.encoder import Encoder, SentenceEncoder, load
from isogloss.models.encoders.roles import with_prompt
from isogloss.types import FloatArray
from tiny import PAIRS, KnownVectors, save_tiny_model

TEXTS = list(dict.fromkeys(pair.source for pair in PAIRS))
Written = Callable[..., TeacherMatch | None]


@pytest.fixture(scope="module")
def teacher(models: Path) -> SentenceEncoder:
    return load(str(models / "teacher"), device="cpu")


def prompted(encoder: Encoder, prompt: str) -> FloatArray:
    other = with_prompt(encoder, prompt)
    assert other is not None
    return other.encode(TEXTS)


@pytest.fixture
def matched(tmp_path: Path) -> Written:
    def match(vectors: FloatArray, by: Encoder, texts: Sequence[str] = TEXTS, options: str = "") -> TeacherMatch | None:
        np.save(tmp_path / "docs.npy", vectors)
        (tmp_path / "docs.tsv").write_text("".join(f"d{row}\t{text}\n" for row, text in enumerate(texts)), encoding="utf-8")
        with open_index(f"{tmp_path / 'docs.npy'}{options}") as index:
            return match_teacher(index, index.facts(), by, index.sample(64))

    return match


def test_the_teachers_own_vectors(matched: Written, teacher: SentenceEncoder) -> None:
    own = teacher.encode(TEXTS)
    found = matched(own, teacher)
    assert found is not None and found.match == "same" and found.checked == len(TEXTS) == 40 and found.cosine == 1
    assert "40 stored texts embedded again: the stored vectors are those of" in found.text and not found.advice
    for other in (own * 3, own.astype(np.float16)):
        assert matched(other, teacher) == found, "lengths and half precision do not matter"


def test_compressed_vectors_are_close(matched: Written, teacher: SentenceEncoder) -> None:
    own = teacher.encode(TEXTS)
    found = matched(np.round(own * 12) / 12, teacher)
    assert found is not None and found.match == "close" and "compressed" in found.text and 0.98 <= (found.cosine or 0) < 0.999


def test_a_prompt_before_documents_is_named(matched: Written, teacher: SentenceEncoder) -> None:
    found = matched(prompted(teacher, "passage: "), teacher)
    assert found is not None and found.match == "same" and found.prompt == "passage: "
    assert "with the prompt 'passage: '" in found.text and "--teacher-prompt" in found.advice
    for_queries = with_prompt(teacher, "query: ")
    assert for_queries is not None
    both = matched(prompted(teacher, "passage: "), for_queries)
    assert both is not None and both.prompt == "passage: " and not both.advice, "queries have their prompt already"
    none = matched(teacher.encode(TEXTS), for_queries)
    assert none is not None and none.match == "same" and "without a prompt" in none.text


def test_prompts_that_the_model_names_are_tried(matched: Written, teacher: SentenceEncoder) -> None:
    before = dict(teacher.model.prompts)
    teacher.model.prompts["custom"] = "our documents and all: "
    try:
        found = matched(prompted(teacher, "our documents and all: "), teacher)
    finally:
        teacher.model.prompts.clear()
        teacher.model.prompts.update(before)
    assert found is not None and found.prompt == "our documents and all: "


def test_a_mean_that_was_subtracted(matched: Written, teacher: SentenceEncoder) -> None:
    own = teacher.encode(TEXTS)
    found = matched(own - own.mean(axis=0), teacher)
    assert (
        found is not None
        and found.match == "different"
        and "minus a mean" in found.text
        and "subtract the same" in found.advice
    )


def test_an_unknown_prompt_moves_all_vectors_alike(matched: Written, teacher: SentenceEncoder) -> None:
    own = teacher.encode(TEXTS)
    found = matched(own + 0.5 * own.mean(axis=0) + 0.3 * np.roll(own.mean(axis=0), 1), teacher)
    assert found is not None and found.match == "close" and "constant offset" in found.text and "prompt" in found.advice


def random_units(rows: int, seed: int) -> FloatArray:
    return unit(np.random.default_rng(seed).normal(size=(rows, 32)).astype(np.float32))


@pytest.mark.parametrize("noise", [0.1, 0.18])
def test_a_cause_must_explain_half_of_the_difference(matched: Written, noise: float) -> None:
    """Rounded vectors are as close with their mean subtracted as they are without: that explains nothing."""
    own = random_units(40, 0)
    found = matched(own + noise * random_units(40, 1), KnownVectors(dict(zip(TEXTS, own, strict=True))))
    assert found is not None and found.match == "close" and "compressed" in found.text and "moved" not in found.text
    again = matched(own - own.mean(axis=0) + 0.01 * random_units(40, 2), KnownVectors(dict(zip(TEXTS, own, strict=True))))
    assert again is not None and again.match == "different" and "minus a mean" in again.text


def test_three_rows_are_enough_to_see_a_mean(matched: Written) -> None:
    own = random_units(3, 0)
    encoder = KnownVectors(dict(zip(TEXTS, own, strict=False)))
    found = matched(own - own.mean(axis=0), encoder, TEXTS[:3])
    assert found is not None and "minus a mean" in found.text
    two = matched(own[:2] - own[:2].mean(axis=0), encoder, TEXTS[:2])
    assert two is not None and "mean" not in two.text, "two vectors minus their mean are always opposite"


def test_lower_case(matched: Written, teacher: SentenceEncoder) -> None:
    upper = [text.upper() for text in TEXTS]
    found = matched(teacher.encode(TEXTS), teacher, upper)
    assert found is not None and found.match == "different" and "lowercased" in found.text


def test_fewer_dimensions(matched: Written, teacher: SentenceEncoder) -> None:
    found = matched(teacher.encode(TEXTS)[:, :8], teacher)
    assert found is not None and found.match == "different" and found.cosine == 1
    assert "has 8 dimensions" in found.text and "the first 8 dimensions" in found.text and "truncate_dim=8" in found.advice
    for columns in (8, 24):
        unrelated = matched(np.random.default_rng(0).normal(size=(40, columns)), teacher)
        assert unrelated is not None and "first" not in unrelated.text and "--teacher" in unrelated.advice
        assert f"the index has {columns} dimensions" in unrelated.text and unrelated.match == "different"


def test_texts_out_of_step(matched: Written, teacher: SentenceEncoder) -> None:
    found = matched(np.roll(teacher.encode(TEXTS), 1, axis=0), teacher)
    assert found is not None and found.match == "different"
    assert "out of step: the vector of the text 'd0' is stored as 'd1'" in found.text


def test_some_documents_have_changed(matched: Written, teacher: SentenceEncoder) -> None:
    vectors = teacher.encode(TEXTS)
    vectors[::4] = -vectors[::4]
    found = matched(vectors, teacher)
    assert found is not None and found.match == "partly" and "25 % of the stored vectors" in found.text
    assert "embed them again" in found.advice
    vectors[1::4] = -vectors[1::4]
    vectors[2] = -vectors[2]
    most = matched(vectors, teacher)
    assert most is not None and most.match == "different" and "52 % of the stored vectors" in most.text


def test_long_texts_that_were_cut_elsewhere(matched: Written, models: Path) -> None:
    teacher, other = (load(str(models / "teacher"), device="cpu") for _ in range(2))
    other.model.max_seq_length = 10
    long = [f"{text} {TEXTS[-1 - row]} {TEXTS[(7 * row) % 40]}" for row, text in enumerate(TEXTS)]
    texts = [text if row % 3 == 0 else long[row] for row, text in enumerate(TEXTS)]
    found = matched(other.encode(texts), teacher, texts)
    assert found is not None and found.match == "partly"
    assert "of the stored vectors are not those of" in found.text and "those of the longest texts" in found.text
    assert "max_seq_length" in found.advice


def test_another_model(matched: Written, teacher: SentenceEncoder, tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "other", width=16, layers=1, seed=9, normalize=True)
    found = matched(load(str(tmp_path / "other"), device="cpu").encode(TEXTS), teacher)
    assert found is not None and found.match == "different" and "--teacher" in found.advice
    assert "another model" in found.text or "another version" in found.text


def test_another_version(matched: Written, teacher: SentenceEncoder) -> None:
    own = teacher.encode(TEXTS)
    noise = np.random.default_rng(1).normal(size=own.shape)
    near = own + 0.7 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    found = matched(near.astype(np.float32), teacher)
    assert found is not None and found.match == "different" and "another version or pooling" in found.text


def test_without_texts_nothing_is_compared(tmp_path: Path, teacher: SentenceEncoder) -> None:
    np.save(tmp_path / "docs.npy", teacher.encode(TEXTS))
    with open_index(str(tmp_path / "docs.npy")) as index:
        assert match_teacher(index, index.facts(), teacher, index.sample(64)) is None
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"id": "{row}", "text": " "}}\n' for row in range(40)))
    with open_index(str(tmp_path / "docs.npy")) as index:
        assert match_teacher(index, index.facts(), teacher, index.sample(64)) is None


@pytest.mark.parametrize("options", ["", "?metric=dot", "?metric=l2"])
def test_without_texts_queries_are_near_or_not(tmp_path: Path, options: str) -> None:
    rng = np.random.default_rng(0)
    docs = rng.normal(size=(600, 64)).astype(np.float32)
    docs /= np.linalg.norm(docs, axis=1, keepdims=True)
    np.save(tmp_path / "docs.npy", docs)
    near = (3 * docs[:40] + 0.1 * rng.normal(size=(40, 64))).astype(np.float32)
    far = rng.normal(size=(40, 64)).astype(np.float32)
    encoder = KnownVectors({"": [0.0] * 64})
    with open_index(f"{tmp_path / 'docs.npy'}{options}") as index:
        found = [
            match_without_texts(index.facts(), encoder, index.sample(256), asked, index.search(asked, 3))
            for asked in (near, far)
        ]
    assert [one.match for one in found] == ["plausible", "doubtful"]
    cosine = float(np.median([float((docs @ one).max() / np.linalg.norm(one)) for one in near]))
    assert f"first results have a median cosine of {cosine:.2f}" in found[0].text
    assert all("not verified" in one.text and "texts=FILE" in one.advice and one.cosine is None for one in found)


def test_without_texts_and_without_a_common_length_nothing_is_known(tmp_path: Path) -> None:
    np.save(tmp_path / "docs.npy", np.random.default_rng(0).normal(size=(50, 8)))
    with open_index(f"{tmp_path / 'docs.npy'}?metric=dot") as index:
        asked = np.ones((2, 8), dtype=np.float32)
        found = match_without_texts(index.facts(), KnownVectors({"": [0.0]}), index.sample(9), asked, index.search(asked, 1))
    assert found.match == "unknown"
