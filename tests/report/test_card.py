"""One model card for every kind of run: its metadata is what the hub reads, its text says what was measured."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.report.card import CardInfo, StageScore, example_sentences, model_card
from isogloss.types import Bitext, LanguageScores, Pair, Report
from tiny import unigram


@pytest.fixture(scope="module")
def model(models: Path) -> SentenceTransformer:
    return Student.from_pretrained(str(models / "student"), device="cpu").model


def metadata(text: str) -> Any:  # noqa: ANN401 - attributes by the hub's own rules
    """A card's metadata as huggingface_hub reads it."""
    return ModelCard(text).data


SCORES = (LanguageScores("de", 10, 0.9, 0.95, 1.0, 0.61), LanguageScores("ko", 10, None, 0.85, 0.9, None))


def test_scores_data_and_usage(model: SentenceTransformer) -> None:
    info = CardInfo(
        name="mine",
        description="`student-model` distilled from `teacher-model` on 12 training pairs.",
        base_model="org/student-model",
        teacher="teacher-model",
        languages=["de", "en", "ko", "no"],
        tags=["distillation"],
        license="apache-2.0",
        reports=[Report("m", SCORES, 4000)],
        corpora={"Tatoeba": {"train": 1200, "license": "CC BY 2.0"}, "": {"train": 7, "license": ""}},
        leak_scan="No training pair appears in the checked test sets (STS).",
        examples=["the cat runs home.", "die Katze läuft heim."],
        recipe='[student]\nmodel = "x"',
    )
    text = model_card(info, model)
    assert "| de | 90.0 | 95.0 | 100.0 | 0.610 |" in text and "| ko | – | 85.0 | 90.0 | – |" in text
    assert "| average | – | 90.0 | 95.0 | – |" in text and "4,000 candidates" in text
    assert "| Tatoeba | 1,200 | CC BY 2.0 |\n| unnamed | 7 | not stated |" in text
    assert (
        "'die Katze läuft heim.'" in text
        and "SentenceTransformer(" in text
        and f"# [2, {model.get_embedding_dimension()}]" in text
    )
    assert "tensor([[1.0000," in text, "similarities that the model really gives"
    assert '```toml\n[student]\nmodel = "x"\n```' in text and "space of `teacher-model`" in text
    data = metadata(text)
    assert data.language == ["de", "en", "ko", "no"], "no is Norwegian, not false"
    assert data.license == "apache-2.0" and data.base_model == "org/student-model"
    assert data.library_name == "sentence-transformers" and data.pipeline_tag == "sentence-similarity"
    assert {"sentence-transformers", "isogloss", "multilingual", "distillation"} <= set(data.tags)
    assert data.eval_results is not None
    assert {one.metric_type: one.metric_value for one in data.eval_results} == {"to_source": 0.9, "from_source": 0.95}


def test_intervals_bias_licenses_and_data_sets_of_the_hub(model: SentenceTransformer) -> None:
    info = CardInfo(
        name="mine",
        description="",
        teacher="t",
        reports=[Report("m", SCORES, 4000)],
        intervals={"de": {"teacher_index": (0.8, 0.975), "to_source": (0.9, 1.0)}, "average": {"from_source": (0.88, 0.99)}},
        own_language_share={"de": 0.5, "ko": 0.6125},
        corpora={
            "parallel-sentences-tatoeba": {"train": 1, "license": "CC BY 2.0 FR"},
            "lafand": {"train": 2, "license": "CC-BY-NC"},
            "once-again": {"train": 3, "license": "concerning nobody"},
        },
    )
    text = model_card(info, model)
    assert "| de | 90.0 (80.0 to 97.5) | 95.0 (90.0 to 100.0) | 100.0 | 0.610 |" in text and "95 % intervals" in text
    assert (
        "| average | – | 90.0 | 95.0 (88.0 to 99.0) | – |" in text
        and "language: de 50.0, ko 61.3. Without bias it is 50." in text
    )
    assert "Restricted: lafand is licensed for research" in text and "once-again is" not in text
    data = metadata(text)
    assert data.datasets == ["sentence-transformers/parallel-sentences-tatoeba"] and "text-embeddings-inference" in data.tags
    plain = model_card(CardInfo(name="x", description="", reports=[Report("m", SCORES, 9)]), model)
    assert "interval" not in plain and "bias" not in plain and "Restricted" not in plain
    static = static_student(unigram(), 6, name="static", max_tokens=16).model
    assert "text-embeddings-inference" not in metadata(model_card(CardInfo(name="x", description=""), static)).tags


def test_without_a_teacher_none_is_mentioned(model: SentenceTransformer) -> None:
    report = Report("m", (LanguageScores("de", 10, None, 0.95, 1.0, None),), 40)
    text = model_card(CardInfo(name="mine", description="A dual encoder.", reports=[report], tags=["dual-encoder"]), model)
    assert "| language | to source | from source |\n| --- | --- | --- |\n| de | 95.0 | 100.0 |" in text
    assert "teacher" not in text and "dual-encoder" in text and "Training data" not in text and "reproduce" not in text


def test_dev_scores_of_stages(model: SentenceTransformer) -> None:
    text = model_card(CardInfo(name="x", description="", stages=[StageScore("NLI", 1234, 0.5, 0.75)]), model)
    assert "| NLI | 1,234 | 50.00 | 75.00 |" in text
    assert [(one.metric_type, one.metric_value) for one in metadata(text).eval_results or []] == [("spearman_cosine", 0.75)]


@pytest.mark.parametrize("clear", [True, False])
def test_regressions_are_listed(model: SentenceTransformer, clear: bool) -> None:
    lost = {"language": "average", "score": "cosine", "stage": "the bridge alone", "before": 0.512, "after": 0.498}
    shares = {"language": "de", "score": "to_source", "stage": "the bridge alone", "before": 0.9, "after": 0.85}
    rest = {"standard_errors": 2.34, "clear": clear}
    text = model_card(CardInfo(name="x", description="", regressions=[lost | rest, shares | rest]), model)
    rows = [
        "| average | cosine to the teacher | the bridge alone | 0.51 | 0.50 | 2.3 |",
        "| de | sources found by their translation | the bridge alone | 90.0 | 85.0 | 2.3 |",
    ]
    assert all((row in text) == clear for row in rows) and ("2 scores are lower within noise." in text) != clear
    both = [lost | rest, shares | rest | {"clear": not clear}]
    mixed = model_card(CardInfo(name="x", description="", regressions=both), model)
    assert [row in mixed for row in rows] == [clear, not clear]
    assert "on the same sentences and queries. 1 other score is lower within noise.\n\n| language" in mixed


def test_a_card_shows_no_keys_and_names_base_models_that_the_hub_has(model: SentenceTransformer, tmp_path: Path) -> None:
    described = "`https://h/v1?api_key=SECRET#m` from `https://u:SECRET@h/v1`"
    text = model_card(CardInfo(name="x", description=described, teacher="https://u:SECRET@h/v1"), model)
    assert "SECRET" not in text and "https://***@h/v1" in text and "api_key=***#m" in text
    for name, known in (
        ("multilingual-e5-small", "intfloat/multilingual-e5-small"),
        ("org/name", "org/name"),
        ("xlm-roberta-base", None),
        (str(tmp_path), None),
        ("runs/../x", None),
        ("./mine", None),
        ("", None),
    ):
        assert metadata(model_card(CardInfo(name="x", description="", base_model=name), model)).base_model == known


def test_examples() -> None:
    pairs = [Pair("one", "eins", "de"), Pair("two", "zwei", "de"), Pair("one", "un", "fr")]
    assert example_sentences(Bitext.of(pairs)) == ["one", "eins", "un"]
    assert example_sentences(Bitext.of(pairs[:2])) == ["one", "eins", "zwei"] and example_sentences(Bitext.of([])) == []
