"""Small test sets in the files and layouts of the real ones, made from the sentences of `tiny`."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

from tiny import PAIRS

GERMAN = [(pair.source, pair.target) for pair in PAIRS if pair.language == "de"]
RUSSIAN = [(pair.source, pair.target) for pair in PAIRS if pair.language == "ru"]
LABELS = ("entailment", "neutral", "contradiction")


def write_sets(folder: Path) -> Path:
    """Everything that the tests of evaluation read."""
    rated(folder)
    aligned(folder)
    mined(folder)
    labelled(folder)
    return folder


def rated(folder: Path) -> None:
    """STS 2017 (English, Spanish, Arabic by name; German and Russian by letters), STSb and KorSTS."""
    english, german, russian = [en for en, _ in GERMAN], [de for _, de in GERMAN], [ru for _, ru in RUSSIAN]
    for name, left, right in (
        ("en-en", english, english),
        ("es-es", german, german),
        ("ar-ar", russian, russian),
        ("ar-en", english, russian),  # as in the official file, the name says Arabic first and the text English
        ("es-en", german, english),
        ("tr-en", english, german),
    ):
        _write(folder / f"sts2017/STS.{name}.txt", _scored(left, right))
    rows = [line.split("\t") for line in _scored(english, english)]
    _write(folder / "stsb/sts-test.csv", [f"captions\tMSRvid\t2012\t{n}\t{g}\t{a}\t{b}" for n, (a, b, g) in enumerate(rows)])
    head = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"
    korean = [f"captions\tMSRvid\t2012\t{n}\t{g}\t{a}\t{b}" for n, (a, b, g) in enumerate(rows)]
    _write(folder / "kor_nlu/KorSTS_sts-test.tsv", [head, *korean])
    quoted = [f'"{a}, {a}",{b},{g}' for a, b, g in rows]
    for code in ("de", "en"):
        _write(folder / f"stsb_multi_mt/stsb-{code}-test.csv", quoted)


def aligned(folder: Path) -> None:
    """Two languages of Tatoeba."""
    for code, pairs in (("deu", GERMAN), ("rus", RUSSIAN)):
        _write(folder / f"tatoeba_laser_v1/tatoeba.{code}-eng.{code}", [text for _, text in pairs])
        _write(folder / f"tatoeba_laser_v1/tatoeba.{code}-eng.eng", [text for text, _ in pairs])


def mined(folder: Path) -> None:
    """BUCC with both splits in German, and with one in Chinese (which is Russian)."""
    half = len(GERMAN) // 2
    for split, pairs in (("training", GERMAN[:half]), ("test", GERMAN[half:])):
        haystack(folder / f"bucc2018/de-en/de-en.{split}", "de", pairs)
    haystack(folder / "bucc2018_zh-en/zh-en.dev", "zh", RUSSIAN)


def haystack(stem: Path, code: str, pairs: list[tuple[str, str]]) -> None:
    """Pairs of which every third has lost its English side."""
    left = [f"{code}-{n:03}\t{foreign}" for n, (_, foreign) in enumerate(pairs)]
    right = [f"en-{n:03}\t{english}" for n, (english, _) in enumerate(pairs) if n % 3]
    _write(stem.with_name(f"{stem.name}.{code}"), left)
    _write(stem.with_name(f"{stem.name}.en"), right[::-1])
    _write(stem.with_name(f"{stem.name}.gold"), [f"{code}-{n:03}\ten-{n:03}" for n in range(len(pairs)) if n % 3])


def labelled(folder: Path) -> None:
    """XNLI in English and German, PAWS-X in English with a row that nobody translated."""
    for code, texts in (("en", [en for en, _ in GERMAN]), ("de", [de for _, de in GERMAN])):
        rows = [f"{a}\t{b}\t{LABELS[n % 3]}" for n, (a, b) in enumerate(pairwise(texts))]
        for split in ("dev", "test"):
            _write(folder / f"xnli/{split}-{code}.tsv", rows)
    for split in ("dev", "test"):
        rows = [f"{a}\t{b}\t{n % 2}" for n, ((a, _), (b, _)) in enumerate(pairwise(GERMAN))]
        _write(folder / f"pawsx/{split}-en.tsv", [*rows, "NS\tsomething\t1"])


def _scored(left: list[str], right: list[str]) -> list[str]:
    """Each sentence with itself, its neighbor and one far away, and how alike they are."""
    size, rows = len(left), []
    for place, text in enumerate(left):
        rows += [f"{text}\t{right[place]}\t5.0", f"{text}\t{right[(place + 1) % size]}\t{2 + place % 3}.5"]
        rows.append(f"{text}\t{right[(place + size // 2) % size]}\t{place % 4 / 2}")
    return rows


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + "\n" for line in lines).encode()
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(text, mtime=0))


ASKED = {
    "en": [(f"q{n}", en.removesuffix(".")) for n, (en, _) in enumerate(GERMAN)],
    "de": [(f"q{n}", de) for n, (_, de) in enumerate(GERMAN)],
    "ru": [(f"q{n}", ru) for n, (_, ru) in enumerate(RUSSIAN)],
}
STORIES = {"en": [en for en, _ in GERMAN], "de": [de for _, de in GERMAN]}  # document n answers question n


def retrieval_tables(folder: Path) -> Path:
    """Questions and paragraphs, a file per language."""
    for code, texts in STORIES.items():
        _write(folder / f"paragraphs.{code}.tsv", [f"d{n}\t{text}" for n, text in enumerate(texts)])
    for code, rows in ASKED.items():
        _write(folder / f"questions.{code}.tsv", [f"{key}\td{key[1:]}\t{text}" for key, text in rows])
    return folder


def retrieval_columns(folder: Path) -> Path:
    """The same with a column per language."""
    paragraphs = [f"d{n}\tcats\t{en}\t{de}" for n, (en, de) in enumerate(zip(*STORIES.values(), strict=True))]
    _write(folder / "paragraphs.tsv", ["id\ttopic\ten\tde", *paragraphs])
    rows = zip(*ASKED.values(), strict=True)
    questions = [f"{key}\td{key[1:]}\t{en}\t{de}\t{ru}" for (key, en), (_, de), (_, ru) in rows]
    _write(folder / "questions.tsv", ["id\tparagraph\ten\tde\tru", *questions])
    return folder


def retrieval_beir(folder: Path, subfolders: bool = False) -> Path:
    """The same as in BEIR, in files or folders named by their languages; half of the text of a document is its title."""
    for code, texts in STORIES.items():
        name = "corpus.jsonl" if code == "en" else f"{code}/corpus.jsonl" if subfolders else f"corpus.{code}.jsonl"
        split = [text.partition(" ") for text in texts]
        rows = [{"_id": f"d{n}", "title": first, "text": rest} for n, (first, _, rest) in enumerate(split)]
        _write(folder / name, [json.dumps(row) for row in rows])
    for code, asked in ASKED.items():
        name = "queries.jsonl" if code == "en" else f"{code}/queries.jsonl" if subfolders else f"queries.{code}.jsonl"
        rows = [{"_id": key, "text": text} for key, text in [*asked, ("q-train", "not in the test split")]]
        _write(folder / name, [json.dumps(row) for row in rows])
    qrels = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(len(GERMAN)))]
    _write(folder / "qrels/test.tsv", qrels)
    return folder
