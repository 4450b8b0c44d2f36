"""The summary of a store against plain loops over its pairs."""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.stores import stored
from isogloss.config import BalanceSettings, CleaningSettings
from isogloss.corpora.store import Store
from isogloss.corpora.summary import BINS, SCHEMES, Lengths, Summary, summarize
from isogloss.errors import DataError
from isogloss.progress import Step
from isogloss.types import Pair

TOPICS = ("river", "cloud", "stone", "window", "garden", "letter", "bridge", "harbour", "winter", "market")
MAKE: dict[str, Callable[[str, int], str]] = {
    "de": lambda topic, number: f"Wir sahen {topic}, Nummer {number}, gestern Abend!",
    "zh": lambda topic, number: f"我们昨天看到了{number}号。" * (1 + number % 3),
    "ar": lambda topic, number: f"رأينا الرقم {number} أمس",
}
# Nothing but text that must stay: rules have tests of their own.
KEEP_ALL = CleaningSettings(min_language=0.0, min_script=0.0, max_length_ratio=1000.0, max_repetition=1.0, duplicates="exact")


def pairs() -> list[Pair]:
    made = []
    for number in range(60):
        topic = TOPICS[number % 10]
        source = f"We saw the {topic} number {number} last night, didn't we?"
        for place, language in enumerate(MAKE):
            if number % (place + 1) == 0:
                corpus = ("news", "talks")[number % 2]
                made.append(Pair(source, MAKE[language](topic, number), language, corpus, ""))
        if number % 4 == 0:
            made.append(Pair(source, f"noch einmal: {number} {topic}", "de", "talks", ""))
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stored(tmp_path_factory.mktemp("store") / "small", pairs(), KEEP_ALL)


@pytest.fixture(scope="module")
def summary(store: Store) -> Summary:
    return summarize(store)


def tokens(text: str) -> int:
    """Written from the description: words, marks, characters of scripts without spaces."""
    count, inside = 0, False
    for character in text:
        if character == " ":
            inside = False
        elif "CJK" in unicodedata.name(character) and character.isalnum():
            count, inside = count + 1, False
        elif character.isalnum():
            count, inside = count + (not inside), True
        else:
            count, inside = count + 1, False
    return count


def test_counts_are_those_of_the_rows(store: Store, summary: Summary) -> None:
    counted = Counter((pair.corpus, pair.language, pair.split) for pair in store.bitext())
    assert [(cell.corpus, cell.language) for cell in summary.cells] == sorted({key[:2] for key in counted})
    for cell in summary.cells:
        assert cell.train == counted[cell.corpus, cell.language, "train"]
        assert cell.test == counted[cell.corpus, cell.language, "test"]
    assert summary.pairs == len(store) == len(store.bitext())
    assert summary.corpora == ("news", "talks")
    assert [own.language for own in summary.languages] == ["ar", "de", "zh"]
    for own in summary.languages:
        assert (own.train, own.test) == tuple(
            sum(number for key, number in counted.items() if key[1:] == (own.language, split)) for split in ("train", "test")
        )


def test_lengths_are_those_of_the_sentences(store: Store, summary: Summary) -> None:
    for own in summary.languages:
        rows = [pair for pair in store.bitext() if pair.language == own.language]
        for side, found in (("source", own.source), ("target", own.target)):
            lengths = sorted(tokens(getattr(pair, side)) for pair in rows)
            assert found.mean == pytest.approx(sum(lengths) / len(lengths))
            assert found.longest == lengths[-1]
            assert found.median == lengths[math.ceil(0.5 * len(lengths)) - 1]
            assert found.most == lengths[math.ceil(0.95 * len(lengths)) - 1]
            assert sum(found.histogram) == len(lengths)


@given(st.dictionaries(st.integers(0, 300), st.integers(1, 9), min_size=1))
def test_length_statistics_by_definition(counts: dict[int, int]) -> None:
    every = sorted(length for length, times in counts.items() for _ in range(times))
    found = Lengths.of(counts)
    for share, value in ((0.5, found.median), (0.95, found.most)):
        assert value in counts
        assert sum(length <= value for length in every) >= share * len(every)
        assert sum(length < value for length in every) < share * len(every)
    ends = (*BINS[1:], math.inf)
    for start, stop, count in zip(BINS, ends, found.histogram, strict=True):
        assert count == sum(start <= length < stop for length in every)


def test_overlap_and_ways_are_those_of_the_sources(store: Store, summary: Summary) -> None:
    rows = list(store.bitext())
    news, talks = ({pair.source for pair in rows if pair.corpus == corpus} for corpus in ("news", "talks"))
    assert news & talks and summary.overlap.one_in == 1
    assert summary.overlap.share("news", "talks") == pytest.approx(len(news & talks) / len(news))
    languages = Counter(source for source, _ in {(pair.source, pair.language) for pair in rows})
    assert summary.overlap.ways == tuple(Counter(languages.values())[count] for count in (1, 2, 3))


def test_samples_are_pairs_of_the_store_and_always_the_same(store: Store, summary: Summary) -> None:
    rows = set(store.bitext())
    for own in summary.languages:
        assert len(own.samples) == len(set(own.samples)) == 3
        assert set(own.samples) <= {pair for pair in rows if pair.language == own.language}
    assert summarize(store) == summary
    many, none = summarize(store, samples=1000), summarize(store, samples=0)
    assert {pair for own in many.languages for pair in own.samples} == rows
    assert all(own.samples == () for own in none.languages)


def test_samples_come_from_all_over_the_store(store: Store) -> None:
    drawn = [pair for own in summarize(store, samples=12).languages for pair in own.samples]
    assert {pair.corpus for pair in drawn} == {"news", "talks"} and {pair.split for pair in drawn} == {"train", "test"}


def test_plans_are_what_each_scheme_promises(summary: Summary) -> None:
    trained = {(cell.corpus, cell.language): cell.train for cell in summary.cells}
    drawn = {plan.scheme: {(one.corpus, one.language): one.per_epoch for one in plan.shares} for plan in summary.plans}
    total = sum(trained.values())
    assert list(drawn) == list(SCHEMES) and drawn["everything"] == pytest.approx(trained)
    for by_cell in drawn.values():
        assert sum(by_cell.values()) == pytest.approx(total)
    assert drawn["datasets"] == pytest.approx(dict.fromkeys(trained, total / len(trained)))
    for corpus in summary.corpora:
        assert sum(number for key, number in drawn["corpora"].items() if key[0] == corpus) == pytest.approx(total / 2)
    flattened = {own.language: own.train ** (1 / BalanceSettings().temperature) for own in summary.languages}
    for language, weight in flattened.items():
        found = sum(number for key, number in drawn["languages"].items() if key[1] == language)
        assert found == pytest.approx(total * weight / sum(flattened.values()))


def test_memory_for_sources_is_bounded(store: Store) -> None:
    found = summarize(store, limit=20)
    assert found.overlap.one_in > 1 and found.pairs == len(store)


def test_progress_goes_to_the_end(store: Store) -> None:
    steps: list[Step] = []
    summarize(store, on_progress=steps.append)
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].finished and steps[-1].done == len(store)


def test_as_data_everything_is_there(summary: Summary) -> None:
    data = summary.as_dict()
    assert data["pairs"] == summary.pairs and data["cells"][0]["train"] == summary.cells[0].train
    assert data["languages"][0]["samples"][0]["source"] == summary.languages[0].samples[0].source
    assert len(data["histogram_bins"]) == len(data["languages"][0]["target"]["histogram"])


def test_a_damaged_store_is_told(tmp_path: Path) -> None:
    opened = stored(tmp_path / "store", pairs(), KEEP_ALL)
    parts = [part | {"rows": 0 if place else 3} for place, part in enumerate(opened.manifest["parts"])]
    with pytest.raises(DataError, match=r"its parts have \d+ pairs, manifest.json says 3") as caught:
        summarize(Store(opened.folder, opened.manifest | {"rows_out": 3, "parts": parts}))
    assert "isogloss prepare" in caught.value.hint
    part = next((tmp_path / "store" / "pairs").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(DataError, match="is damaged"):
        summarize(opened)
    part.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        summarize(opened)
