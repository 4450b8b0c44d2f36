"""The shipped text is complete, in the right script, and its test rows are nowhere in its training rows."""

import re
import unicodedata
from collections import Counter

import pytest

from isogloss.corpora import phrasebook, questions
from isogloss.corpora.reading.readers import read, read_source_text
from isogloss.models.vocabulary.alphabets import letters_of, script_of

SCRIPTS = {"ar": {"ARABIC"}, "ja": {"CJK", "HIRAGANA", "KATAKANA"}, "ko": {"HANGUL"}, "ru": {"CYRILLIC"}, "zh": {"CJK"}}
ROWS = [line.split("\t") for line in phrasebook.path().read_text(encoding="utf-8").splitlines()]
HEADER, ROWS = ROWS[0], ROWS[1:]
COLUMN = {name: [row[place] for row in ROWS] for place, name in enumerate(HEADER)}
ALL = ("en", *phrasebook.LANGUAGES)


def bare(text: str) -> str:
    return re.sub(r"\W", "", unicodedata.normalize("NFKC", text).casefold())


def test_every_cell_is_there_and_clean() -> None:
    assert ["id", "domain", "split", *ALL] == HEADER
    assert len(ROWS) == 500
    for row in ROWS:
        assert len(row) == len(HEADER)
        for cell in row:
            assert cell == cell.strip() and cell and "  " not in cell
            assert unicodedata.normalize("NFC", cell) == cell


def test_splits_domains_and_ids() -> None:
    assert Counter(COLUMN["split"]) == {"train": 400, "test": 100}
    assert set(COLUMN["domain"]) == set(phrasebook.DOMAINS)
    assert min(Counter(COLUMN["domain"]).values()) >= 55
    assert all(
        Counter(d for d, s in zip(COLUMN["domain"], COLUMN["split"], strict=True) if s == "test")[d] >= 11
        for d in phrasebook.DOMAINS
    )
    assert len(set(COLUMN["id"])) == 500


def test_english_is_varied_and_of_the_promised_length() -> None:
    lengths = [len(text.split()) for text in COLUMN["en"]]
    assert min(lengths) >= 3 and max(lengths) <= 25
    openings = Counter(tuple(text.lower().split()[:3]) for text in COLUMN["en"])
    assert openings.most_common(1)[0][1] == 1, "two sentences open with the same three words"
    fives = Counter(
        gram for text in COLUMN["en"] for gram in {tuple(w[i : i + 5]) for w in [bare_words(text)] for i in range(len(w) - 4)}
    )
    assert fives.most_common(1)[0][1] == 1, "two sentences share five words in a row"


def bare_words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


@pytest.mark.parametrize("language", ALL)
def test_no_sentence_is_twice_or_in_both_splits(language: str) -> None:
    assert len({bare(text) for text in COLUMN[language]}) == 500


@pytest.mark.parametrize("language", phrasebook.LANGUAGES)
def test_script_matches_language(language: str) -> None:
    for text in COLUMN[language]:
        letters = [character for character in text if character.isalpha()]
        if language in SCRIPTS:
            own = sum(script_of(character) in SCRIPTS[language] for character in letters)
            assert own / len(letters) > 0.6, text
        else:
            known = letters_of(language)
            assert known is not None
            foreign = {character for character in letters if character.lower() not in known and character not in "ıİ"}
            assert not foreign, f"{foreign} in {text}"


def test_nothing_is_copied_from_one_language_to_another() -> None:
    for row in ROWS:
        sides = [bare(cell) for cell in row[3:]]
        assert len(set(sides)) == len(sides), row[0]
    seen: dict[str, tuple[str, str]] = {}
    for language in ALL:
        for number, text in zip(COLUMN["id"], COLUMN[language], strict=True):
            assert seen.setdefault(bare(text), (language, number)) == (language, number), text


@pytest.mark.parametrize("language", phrasebook.LANGUAGES)
def test_digits_survive_translation(language: str) -> None:
    for english, text in zip(COLUMN["en"], COLUMN[language], strict=True):
        wanted = set(re.findall(r"\d{2,}", english.replace(",", "")))
        found = set(
            re.findall(r"\d{2,}", re.sub(r"(?<=\d)[.,\u202f\u00a0 ](?=\d{3})", "", unicodedata.normalize("NFKC", text)))
        )
        assert not wanted or not found or wanted & found, (english, text)


def test_reader_is_new_text() -> None:
    lines = phrasebook.reader_path().read_text(encoding="utf-8").splitlines()
    assert len(lines) > 11_000
    assert sum(line.endswith("?") for line in lines) > 2_800, "the student has to place questions"
    assert len({bare(line) for line in lines}) == len(lines)
    assert not {bare(line) for line in lines} & {bare(text) for text in COLUMN["en"]}
    assert all(1 < len(line.split()) <= 25 for line in lines)
    assert len(read_source_text(["reader"])) == len(lines)


def test_reader_and_bundled_questions_share_no_text() -> None:
    """Not even seven words in a row, where the leak scan asks for eight."""
    lines = phrasebook.reader_path().read_text(encoding="utf-8").splitlines()
    tables = [questions.folder() / name for name in ("paragraphs.tsv", "questions.tsv")]
    rows = [line.split("\t") for table in tables for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    measured = [row[2] for row in rows]
    assert len(measured) == 180
    assert not {bare(line) for line in lines} & {bare(text) for text in measured}
    assert not sevens(lines) & sevens(measured)


def sevens(texts: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + 7]) for words in map(bare_words, texts) for i in range(len(words) - 6)}


def test_it_reads_as_pairs() -> None:
    bitext = read("phrasebook")
    assert len(bitext) == 6000
    assert len(bitext.where(split="test", language="tr")) == 100
