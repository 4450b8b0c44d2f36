"""Each rule alone: known cases, an oracle where there is one, and a threshold that moves without scoring again."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from isogloss.config import CleaningSettings
from isogloss.corpora import cleaning
from isogloss.corpora.cleaning.agreement import Addresses, Identical, Numbers
from isogloss.corpora.cleaning.language import Language, Script, scripts_of
from isogloss.corpora.cleaning.length import Empty, LengthRatio, TooLong, TooManyTokens, token_counter
from isogloss.corpora.cleaning.quality_scores import GivenScore, Similarity, SimilarityModel, minimum_for
from isogloss.corpora.cleaning.repetition import Repetition
from isogloss.corpora.cleaning.rule import PairBatch, Rule, rule_classes, rules_for
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError, RecipeError
from isogloss.types import FloatArray

SIDES = st.lists(st.tuples(st.text("aB1 20.äж猫!", max_size=25), st.text("aB1 20.äж猫!", max_size=25)), min_size=1, max_size=8)


def batch(pairs: list[tuple[str, str]], language: str = "de", dictionary: bool = False, source: str = "en") -> PairBatch:
    one, other = (pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1))
    given = np.full(len(pairs), np.nan, dtype=np.float32)
    return PairBatch(Side(one, source), Side(other, language), given, dictionary)


@pytest.mark.parametrize(
    ("rule", "source", "target", "language", "kept"),
    [
        (Empty(), "Hello", "…", "de", False),
        (Empty(), "Hello", "Hallo", "de", True),
        (TooLong(10), "short", "x" * 11, "de", False),
        (TooManyTokens(3), "one two three", "eins zwei drei", "de", True),
        (TooManyTokens(3), "one two three", "eins zwei drei.", "de", False),
        (TooManyTokens(3), "cats run", "猫が走る", "ja", False),
        (LengthRatio(2.0), "a sentence", "a sentence that is far more than twice as long", "de", False),
        (LengthRatio(2.0), "Hi.", "Guten Tag.", "de", True),
        (Identical(), "Hello, World", "hello world!", "de", False),
        (Identical(), "Hello", "Hallo", "de", True),
        (Script(0.5), "the house", "дом", "ru", True),
        (Script(0.5), "the house", "the house", "ru", False),
        (Script(0.5), "дом", "дом", "ru", False),
        (Script(0.5), "the house 12", "12", "ru", True),
        (Script(0.5), "the house", "кућа", "sr", True),
        (Script(0.5), "the house", "kuća", "sr", True),
        (Script(0.5), "the house", "кућа", "sr-Latn", False),
        (Numbers(0.5), "It cost 1,000.50 in 2019.", "2019 kostete es 1.000,5.", "de", True),
        (Numbers(0.5), "In 2019.", "Im Jahr 1987.", "de", False),
        (Numbers(0.5), "At 7 o'clock", "um sieben Uhr", "de", True),
        (Numbers(0.5), "Born in 1879", "geboren", "de", False),
        (Numbers(0.5), "year 2019", "سنة ٢٠١٩", "ar", True),
        (Addresses(0.5), "See https://en.site.org/a.", "Siehe https://de.site.org/b.", "de", True),
        (Addresses(1.0), "See https://en.site.org/a.", "Siehe https://de.site.org/b.", "de", False),
        (Addresses(0.5), "Mail me@site.org", "Schreib mir", "de", False),
        (Repetition(0.6), "ha ha ha ha ha ha ha ha ha", "lustig", "de", False),
        (Repetition(0.6), "wait……………………………………", "warte", "de", False),
        (Repetition(0.6), "the cat and the dog and the bird sat on the mat", "die Katze", "de", True),
        (Language(0.2), "This sentence is in English.", "Dieser Satz ist auf Deutsch geschrieben.", "de", True),
        (Language(0.2), "This sentence is in English.", "This sentence is in English, too.", "de", False),
        (Language(0.2), "No", "No way", "de", True),
        (Language(0.2), "Unemployment fell to its lowest level.", "失业率降至十一年来最低水平。", "zh", True),
        (Language(0.2), "This sentence is in English.", "anything at all goes in a language nobody knows", "xx", True),
    ],
)
def test_known_cases(rule: Rule, source: str, target: str, language: str, kept: bool) -> None:
    pairs = batch([(source, target)], language)
    assert rule.accept(rule.score(pairs)).tolist() == [kept]


@given(pairs=SIDES)
def test_numbers_against_a_loop(pairs: list[tuple[str, str]]) -> None:
    def agreement(one: str, other: str) -> float:
        left, right = (Counter(digit for digit in side if digit in "123456789") for side in (one, other))
        either = (left | right).total()
        if min(left.total(), right.total()) == 0 and either <= 2:
            return 1.0
        return (left & right).total() / max(either, 1)

    assert Numbers(0.5).score(batch(pairs)) == pytest.approx([agreement(*pair) for pair in pairs])


@given(pairs=SIDES)
def test_repetition_against_a_loop(pairs: list[tuple[str, str]]) -> None:
    def share(text: str) -> float:
        runs = sum(len(run[0]) for run in re.finditer(r"(.)\1{5,}", text)) / max(len(text), 1)
        words = text.split()
        return max(runs, 1 - len(set(words)) / len(words) if len(words) >= 8 else 0.0)

    wanted = [max(share(one), share(other)) for one, other in pairs]
    assert Repetition(0.5).score(batch(pairs)) == pytest.approx(wanted)


@given(pairs=SIDES, language=st.sampled_from(["de", "ru", "zh", "xx"]))
def test_scores_of_a_batch_are_those_of_its_pairs(pairs: list[tuple[str, str]], language: str) -> None:
    for rule in rules_for(CleaningSettings()):
        together = rule.score(batch(pairs, language))
        alone = [rule.score(batch([pair], language))[0] for pair in pairs]
        assert together == pytest.approx(np.array(alone), nan_ok=True, abs=1e-5)


def test_a_threshold_is_not_part_of_the_scores_name() -> None:
    for rule in rules_for(CleaningSettings()):
        assert "threshold" not in rule.scoring_key()
        assert replace(rule, threshold=rule.threshold + 1).scoring_key() == rule.scoring_key()
    assert LengthRatio(2.0).scoring_key() == LengthRatio(3.0).scoring_key()
    assert LengthRatio(2.0).scoring_key() != LengthRatio(2.0, min_bytes=1).scoring_key()


def test_rules_about_sentences_leave_dictionaries_alone_and_comparisons_leave_source_text_alone() -> None:
    """As the table in docs/cleaning.md has it."""
    every = rules_for(CleaningSettings(similarity_model="m"), "WikiMatrix")
    assert len(every) == 12
    pairs, entries = batch([("a", "b")]), batch([("Berlin", "Berlin")], dictionary=True)
    alone = batch([("A.", "A.")], language="en")
    assert all(rule.applies_to(pairs) for rule in every)
    by_itself = {"empty side", "too long", "too many tokens", "wrong script", "repetition"}
    assert {rule.name for rule in every if rule.applies_to(entries)} == by_itself | {"low score in its corpus"}
    assert {rule.name for rule in every if rule.applies_to(alone)} == by_itself | {"wrong language"}


def test_rules_are_found_in_their_folder_and_applied_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["empty side", "too long", "too many tokens", "length ratio", "identical sides", "low score in its corpus"]
    names += ["wrong script", "repetition", "different numbers", "different addresses", "wrong language", "low similarity"]
    assert [one.name for one in rule_classes()] == names
    assert [rule.name for rule in rules_for(CleaningSettings(similarity_model="m"), "WikiMatrix")] == names
    (tmp_path / "shouting.py").write_text(NEW_RULE)
    monkeypatch.setattr(cleaning, "__path__", [*cleaning.__path__, str(tmp_path)])
    rule_classes.cache_clear()
    try:
        found = {rule.name: rule for rule in rules_for(CleaningSettings())}["shouting"]
        assert found.accept(found.score(batch([("HELLO THERE", "Hallo"), ("Hello", "Hallo")]))).tolist() == [False, True]
    finally:
        rule_classes.cache_clear()


NEW_RULE = '''
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.text import characters

@dataclass(frozen=True, slots=True)
class Shouting(Rule):
    """Drop pairs with a side in capitals."""

    name: ClassVar[str] = "shouting"
    order: ClassVar[int] = 85
    higher_is_better: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, settings, corpus):
        return cls(0.8)

    def score_side(self, side):
        return side.count(characters.lower_case()[side.codes] != side.codes) / np.maximum(side.lengths, 1)
'''


def test_thresholds_that_accept_everything_leave_their_rule_out() -> None:
    off = CleaningSettings(
        max_tokens=0, drop_identical=False, min_script=0, min_language=0, min_numbers=0, min_addresses=0, max_repetition=1
    )
    assert [rule.name for rule in rules_for(off)] == ["empty side", "too long", "length ratio"]


def test_a_corpus_own_score_is_judged_by_its_name() -> None:
    settings = CleaningSettings(min_scores=("Wiki*=1.05", "CC*=1.2"))
    (rule,) = [rule for rule in rules_for(settings, "WikiMatrix") if isinstance(rule, GivenScore)]
    assert rule.accept(np.array([1.04, 1.05, np.nan, 1.2], dtype=np.float32)).tolist() == [False, True, True, True]
    assert not any(isinstance(rule, GivenScore) for rule in rules_for(settings, "TED2020"))
    with pytest.raises(RecipeError, match="is not NAME=NUMBER"):
        minimum_for("x", ("WikiMatrix",))


def test_every_listed_language_has_scripts_that_exist() -> None:
    from isogloss.corpora.text.characters import SCRIPT_RANGES

    for language in ("de", "ru", "ja", "ko", "zh", "ka", "tt", "sw", "tl", "th", "ar", "hi"):
        scripts = scripts_of(language)
        assert scripts and set(scripts) <= set(SCRIPT_RANGES)
    assert scripts_of("xx") is None


def test_tokens_are_counted_by_a_given_tokenizer(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    count = token_counter(str(tmp_path))
    assert count(["abc", "a"]).tolist() == [3, 1]
    rule = TooManyTokens(2, str(tmp_path))
    assert rule.accept(rule.score(batch([("abc", "a"), ("a", "ab")]))).tolist() == [False, True]
    with pytest.raises(DataError, match=r"no tokenizer\.json there"):
        token_counter(str(tmp_path / "nowhere"))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match="not a tokenizer"):
        token_counter(str(tmp_path / "bad.json"))


def vectors(texts: list[str]) -> FloatArray:
    return np.array([[text.count("a"), text.count("b"), 0.1] for text in texts], dtype=np.float32)


def test_similarity_is_the_cosine_or_the_margin_of_the_given_model() -> None:
    pairs = batch([("aa", "a"), ("bb", "a"), ("ab", "ab")])
    one, other = (vectors([pair[place] for pair in [("aa", "a"), ("bb", "a"), ("ab", "ab")]]) for place in (0, 1))
    one, other = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (one, other))
    cosine = Similarity(0.5, "cosine", SimilarityModel(vectors, "m"))
    assert cosine.score(pairs) == pytest.approx((one * other).sum(1), abs=1e-6)
    assert cosine.accept(cosine.score(pairs)).tolist() == [True, False, True]
    between = one @ other.T
    margin = np.diag(between) / ((between.mean(1) + between.mean(0)) / 2)  # three neighbors: all of them
    assert Similarity(1.0, "margin", SimilarityModel(vectors, "m")).score(pairs) == pytest.approx(margin, abs=1e-6)
