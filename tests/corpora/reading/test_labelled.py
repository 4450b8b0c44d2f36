"""Judged pairs in every layout that the published sets have, and what is wrong with a row, by its line."""

import bz2
import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz_cases import a_judged_parquet
from isogloss.corpora.reading.labelled import LABELS, Labelled, read_nli, read_sts
from isogloss.errors import DataError
from parallel import put

ROWS = [("A dog runs.", "An animal moves.", 0), ("He sleeps.", "He may dream.", 1), ("It rains.", "It is dry.", 2)]
RATED = [("A plane takes off.", "A plane is leaving.", 4.75), ("A man eats.", "A cat sleeps.", 0.0), ("One.", "Two.", 1.2)]


def written(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes({".gz": gzip.compress(data), ".bz2": bz2.compress(data)}.get(path.suffix, data))
    return path


def rows_of(pairs: Labelled) -> list[tuple[str, str, float]]:
    return list(zip(pairs.first, pairs.second, [round(score, 4) for score in pairs.gold.tolist()], strict=True))


NLI_TEXTS = {
    "multinli.tsv": "".join(f"{a}\t{b}\t{LABELS[c]}\n" for a, b, c in ROWS),
    "multinli15k.tsv.gz": "".join(f"{a}\t{b}\t{('entailment', 'neutral', 'contradictory')[c]}\n" for a, b, c in ROWS),
    "snli_dev.tsv.gz": "premise\thypothesis\tlabel\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c in ROWS),
    "kor.tsv.bz2": "sentence1\tsentence2\tgold_label\n" + "".join(f"{a}\t{b}\t{LABELS[c]}\n" for a, b, c in ROWS),
    "snli_1.0.txt": "gold_label\tother\tsentence1\tsentence2\n" + "".join(f"{LABELS[c]}\tx\t{a}\t{b}\n" for a, b, c in ROWS),
    "sick.txt": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    + "".join(f"{n}\t{a}\t{b}\t3.2\t{LABELS[c].upper()}\n" for n, (a, b, c) in enumerate(ROWS)),
    "label-first.tsv": "".join(f"{c}\t{a}\t{b}\n" for a, b, c in ROWS),
    "comma.csv": "".join(f'"{a}","{b}",{c}\n' for a, b, c in ROWS),
    "semicolon.csv": "premise;hypothesis;label\n" + "".join(f"{a};{b};{LABELS[c]}\n" for a, b, c in ROWS),
    "mnli.jsonl": "".join(json.dumps({"gold_label": LABELS[c], "sentence1": a, "sentence2": b}) + "\n" for a, b, c in ROWS),
    "hub.jsonl.gz": "".join(json.dumps({"premise": a, "hypothesis": b, "label": c}) + "\n" for a, b, c in ROWS),
    "windows.tsv": "\ufeff" + "".join(f"{a}\t{b}\t{c}\r\n" for a, b, c in ROWS),
}


@pytest.mark.parametrize("name", NLI_TEXTS)
def test_nli_is_read_in_every_layout(name: str, tmp_path: Path) -> None:
    pairs = read_nli([written(tmp_path / name, NLI_TEXTS[name])])
    assert rows_of(pairs) == ROWS and pairs.left_out == 0
    assert pairs.labels.tolist() == [0, 1, 2] and pairs.labels.dtype == np.int64


STS_TEXTS = {
    "STS.en-en.txt": "".join(f"{a}\t{b}\t{c}\n" for a, b, c in RATED),
    "score-first.tsv": "".join(f"{c}\t{a}\t{b}\n" for a, b, c in RATED),
    "sts-train.csv.gz": "".join(
        f"main-captions\tMSRvid\t2012test\t{n:04}\t{c}\t{a}\t{b}\n" for n, (a, b, c) in enumerate(RATED)
    ),
    "sources.csv": "".join(f"g\tf\t2015\t1\t{c}\t{a}\t{b}\thttp://one\thttp://two\n" for a, b, c in RATED),
    "KorSTS.tsv": "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    + "".join(f"g\tf\t2012\t1\t{c}\t{a}\t{b}\n" for a, b, c in RATED),
    "stsb-en.csv": "".join(f'"{a}","{b}",{c}\n' for a, b, c in RATED),
    "hub.jsonl": "".join(json.dumps({"sentence1": a, "sentence2": b, "score": c}) + "\n" for a, b, c in RATED),
}


@pytest.mark.parametrize("name", STS_TEXTS)
def test_sts_is_read_in_every_layout(name: str, tmp_path: Path) -> None:
    assert rows_of(read_sts([written(tmp_path / name, STS_TEXTS[name])])) == RATED


def test_parquet_and_several_files_are_one_set(tmp_path: Path) -> None:
    table = {"premise": [a for a, _, _ in ROWS], "hypothesis": [b for _, b, _ in ROWS], "label": [0, 1, -1]}
    pq.write_table(pa.table(table), tmp_path / "nli.parquet")
    more = written(tmp_path / "more.tsv", "Yes.\tNo.\t2\n")
    pairs = read_nli([tmp_path / "nli.parquet", more])
    assert rows_of(pairs) == [*ROWS[:2], ("Yes.", "No.", 2)] and pairs.left_out == 1


def test_sentences_may_hold_quotes_in_tsv_and_commas_in_csv(tmp_path: Path) -> None:
    quoted = written(tmp_path / "quoted.tsv", '"No," she said.\tShe "said" no.\tentailment\n')
    assert rows_of(read_nli([quoted])) == [('"No," she said.', 'She "said" no.', 0)]
    commas = written(tmp_path / "commas.csv", '"Well, yes.","A ""word"", here\nand below.",4.5\n"One","Two",1\n')
    assert rows_of(read_sts([commas])) == [("Well, yes.", 'A "word", here\nand below.', 4.5), ("One", "Two", 1.0)]


def test_rows_without_a_judgement_are_left_out_and_counted(tmp_path: Path) -> None:
    nli = written(tmp_path / "nli.tsv", "a\tb\t-\nc\td\tneutral\n\n\t\t-\ne\tf\t-\n")
    assert rows_of(read_nli([nli])) == [("c", "d", 1)] and read_nli([nli]).left_out == 3
    sts = written(tmp_path / "sts.tsv", "\ta\tb\n2.5\tc\td\n")
    assert rows_of(read_sts([sts])) == [("c", "d", 2.5)] and read_sts([sts]).left_out == 1


WRONG = {
    "a\tb\t0\nc\td\tmaybe\ne\tf\t1\n": "line 2: the label is 'maybe'",
    "a\tb\t0\nc\td\tmaybe\n": "line 2: the label is 'maybe'",
    "a\tb\t0\nc\td\t3\ne\tf\t1\n": "line 2: the label is '3'",
    "a\tb\t0\nc\td\t0.5\ne\tf\t1\n": "line 2: the label is '0.5'",
    "a\tb\t0\n\te\t1\nc\td\t1\n": "line 2: the first sentence is empty",
    "a\tb\t0\ne\t  \t1\nc\td\t1\n": "line 2: the second sentence is empty",
    "a\tb\t0\nc\td\t1\ne f\n": "line 3: 1 column, expected 3 or more",
    "one\ttwo\tthree\n": "line 1: neither a header nor a row of a known layout",
    "": "there are no rows in it",
    "a\tb\t-\n": "no row has a label",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_row_that_does_not_fit_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_nli([written(tmp_path / "nli.tsv", text)])
    assert WRONG[text] in caught.value.message and "nli.tsv" in caught.value.message and caught.value.hint


@pytest.mark.parametrize("score", ["5.1", "-0.5", "nan", "inf", "high", "-1"])
def test_scores_out_of_range_are_refused(score: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"line 3: the score is '{score}'"):
        read_sts([written(tmp_path / "sts.tsv", f"a\tb\t0\nc\td\t5\ne\tf\t{score}\n")])


def test_scores_from_0_to_1_are_not_taken_for_a_scale_of_5(tmp_path: Path) -> None:
    text = "".join(f"a {n}\tb {n}\t{n / 60}\n" for n in range(60))
    with pytest.raises(DataError, match="no score is above 1"):
        read_sts([written(tmp_path / "sts.tsv", text)])


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    cases = {
        "missing.tsv": None,
        "broken.jsonl": b'{"sentence1": "a"\n',
        "list.jsonl": b"[1, 2]\n",
        "keys.jsonl": b'{"a": "x", "b": "y"}\n',
        "latin.tsv": "a\tb\té\n".encode("latin-1"),
        "not.parquet": b"PAR1 no",
        "damaged.tsv.gz": gzip.compress(b"a\tb\t1\n" * 100)[:-9],
    }
    for name, data in cases.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=name):
            read_nli([tmp_path / name])


def test_the_hash_names_the_content(tmp_path: Path) -> None:
    one = Labelled(["ab", "c"], ["d", "e"], np.array([1, 2], dtype=np.float32))
    others = [
        Labelled(["a", "bc"], ["d", "e"], one.gold),
        Labelled(["ab", "c"], ["e", "d"], one.gold),
        Labelled(["ab", "c"], ["d", "e"], one.gold + 1),
    ]
    assert one.hash == Labelled(["ab", "c"], ["d", "e"], one.gold.copy()).hash
    assert len({one.hash, *(other.hash for other in others)}) == 4
    assert Labelled(["a", "b"], ["b", "c"], one.gold).sentences() == ["a", "b", "c"]


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool)


@given(st.lists(st.tuples(TEXT, TEXT, st.floats(0, 5, width=32)), min_size=1, max_size=20))
@settings(deadline=None, max_examples=40)
def test_csv_gives_back_any_text(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, float]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "sts.csv"
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("sentence1", "sentence2", "score"), *rows])
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    pairs = read_sts([path])
    assert list(zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)) == rows


@pytest.mark.parametrize("broken", [b"premise", b"A big dog."])
def test_parquet_with_broken_names_or_text(tmp_path: Path, broken: bytes) -> None:
    whole = a_judged_parquet()
    assert whole.count(broken)
    path = put(tmp_path / "x.parquet", whole.replace(broken, b"\x9d" + broken[1:]))
    with pytest.raises(DataError, match=r"x.parquet: not a readable Parquet file"):
        read_nli([path])
    assert len(read_nli([put(path, whole)])) == 1
