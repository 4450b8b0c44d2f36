"""Sentences of evaluation sets are found in any layout; labels, ids and scores are not taken for text."""

import csv
import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.formats.test_po import compiled
from isogloss.corpora import questions
from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.prepare import prepare
from isogloss.errors import DataError
from isogloss.types import Bitext, Pair


def texts(path: Path | str) -> dict[str, list[str]]:
    return {name: found.to_pylist() for name, found in evaluation_sets([str(path)])}


def test_plain_lines(tmp_path: Path) -> None:
    path = tmp_path / "tatoeba.deu-eng.deu.gz"
    path.write_bytes(gzip.compress(b"Ja.\nNein danke.\n\nJa.\n"))
    assert texts(path) == {path.name: ["Ja.", "Nein danke."]}


def test_sentences_and_scores(tmp_path: Path) -> None:
    path = tmp_path / "STS.txt"
    rows = [
        f"main-captions\tMSRvid\t2012test\t{n:04}\t{n % 6}.0\tA man is number {n}.\tA woman has {n} dogs.\n" for n in range(40)
    ]
    path.write_text("".join(rows))
    (found,) = texts(path).values()
    assert len(found) == 80 and found[0] == "A man is number 0." and found[1] == "A woman has 0 dogs."


def test_header_labels_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "dev.csv"
    rows = [f'"It rains, {n} times",neutral,"Sun {n} shines"\n' for n in range(30)]
    path.write_text("premise,label,hypothesis\n" + "".join(rows))
    (found,) = texts(path).values()
    assert len(found) == 60 and "premise" not in found and "neutral" not in found and "It rains, 3 times" in found


def test_ids_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "zh-en.en").write_text("".join(f"en-{n:09}\tSentence of the year {n}\n" for n in range(30)))
    (tmp_path / "zh-en.gold").write_text("".join(f"zh-{n:09}\ten-{n:09}\n" for n in range(30)))
    found = texts(tmp_path)
    assert found.pop(f"{tmp_path.name}/zh-en.gold") == []
    assert all(text.startswith("Sentence") for text in found[f"{tmp_path.name}/zh-en.en"])


def test_json_lines_and_parquet(tmp_path: Path) -> None:
    rows = [{"translation": {"en": f"Good day {n}", "de": f"Guten Tag {n}"}, "id": n} for n in range(25)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.table({"s": [f"One text {n}" for n in range(25)], "n": list(range(25))}), tmp_path / "b.parquet")
    found = texts(tmp_path)
    assert [len(one) for one in found.values()] == [50, 25]


def test_files_can_be_left_out_and_the_phrasebook_is_known(tmp_path: Path) -> None:
    for name in ("test.txt", "train.txt", "README.md", "LICENSE"):
        (tmp_path / name).write_text("Some sentence.\n")
    names = [name for name, _ in evaluation_sets([str(tmp_path), "phrasebook", "!*train*"])]
    assert names == [f"{tmp_path.name}/test.txt", "phrasebook (test)"]


def test_the_bundled_questions_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = dict(evaluation_sets(["questions"]))
    assert list(sets) == ["questions/paragraphs.tsv", "questions/questions.tsv"]
    rows = [line.split("\t") for line in (questions.folder() / "questions.tsv").read_text(encoding="utf-8").splitlines()]
    asked = set(sets["questions/questions.tsv"].to_pylist())
    assert asked == {cell for row in rows[1:] for cell in row[2:]}, "every question in every language, and no ids"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions").mkdir()
    assert dict(evaluation_sets(["questions"])) == sets, "it is in the default settings, so nothing else goes by that name"


@pytest.mark.parametrize("name", ["nowhere.txt", "nothing-*.tsv"])
def test_what_is_not_there_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no evaluation text there"):
        list(evaluation_sets([str(tmp_path / name)]))


@pytest.mark.parametrize("sentence", ["Let us hope they seize it.", "我们希望他们抓住这个机会", "เราหวังว่าพวกเขาจะคว้าโอกาสนี้ไว้"])
def test_a_sentence_stays_one_however_often_it_repeats(tmp_path: Path, sentence: str) -> None:
    path = tmp_path / "europarl.tsv"
    path.write_text("".join(f"{n % 6}\t{sentence}\tAnother translation, the {n}th.\n" for n in range(60)), encoding="utf-8")
    (found,) = texts(path).values()
    assert sentence in found and len(found) == 61


@pytest.mark.parametrize("label", ["neutral", "not entailment", "中立", "เป็นกลาง"])
def test_a_label_is_no_text_in_a_column_or_alone(tmp_path: Path, label: str) -> None:
    lines = [f"A sentence that is number {n}.\t{label}" for n in range(60)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "genres.txt").write_text("\n".join(label if n % 2 else "travel" for n in range(60)), encoding="utf-8")
    genres, pairs = texts(tmp_path).values()
    assert genres == [] and len(pairs) == 60 and label not in pairs


def test_short_lines_are_text(tmp_path: Path) -> None:
    path = tmp_path / "tatoeba.eng"
    lines = [f"{word}." for word in ("Go", "Yes", "Stop", "Run", "Why", "Wait", "Hello", "Jump", "Fire", "Help")]
    path.write_text("\n".join(lines * 3))
    assert list(texts(path).values()) == [lines]
    path.write_text("Yes.\nYes.\n")
    assert list(texts(path).values()) == [["Yes."]]


def test_attributions_beside_sentences_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sts.tsv"
    path.write_text("".join(f"The cat is number {n}.\tAuthor: Ann (https://example.org/{n})\n" for n in range(30)))
    (found,) = texts(path).values()
    assert len(found) == 30 and not any("Author" in text for text in found)


def test_the_header_of_a_short_table_does_not_make_its_labels_text(tmp_path: Path) -> None:
    path = tmp_path / "short.tsv"
    path.write_text("text\tlabel\nIt rains all day.\tneutral\nThe sun shines now.\tneutral\n")
    assert list(texts(path).values()) == [["It rains all day.", "The sun shines now."]]


RECORDS = [{"s1": f"It is day {n} today.", "s2": f"The {n} suns shine.", "label": "neutral"} for n in range(30)]
EXPECTED = {str(record[key]) for record in RECORDS for key in ("s1", "s2")}


@pytest.mark.parametrize(
    "document",
    [
        RECORDS,
        {"version": "1.0", "data": RECORDS},
        {f"q{n}": record for n, record in enumerate(RECORDS)},
        {key: [record[key] for record in RECORDS] for key in RECORDS[0]},
        {key: {str(n): record[key] for n, record in enumerate(RECORDS)} for key in RECORDS[0]},
        [list(record.values()) for record in RECORDS],
        [{str(place): value for place, value in enumerate(record.values())} for record in RECORDS],
    ],
    ids=["list", "under-a-key", "by-name", "columns", "columns-by-row", "rows", "numbered-columns"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_json_documents(tmp_path: Path, document: object, indent: int | None) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(document, indent=indent))
    (found,) = texts(path).values()
    assert set(found) == EXPECTED


def test_an_optional_key_does_not_move_the_others(tmp_path: Path) -> None:
    rows = [({"note": "checked"} if n % 2 else {}) | record for n, record in enumerate(RECORDS)]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    (found,) = texts(path).values()
    assert set(found) == EXPECTED


def test_the_first_record_of_json_is_not_a_header(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(json.dumps({"a": a, "b": b}) for a, b in [("Yes", "Ja"), ("No way", "Auf keinen Fall")]))
    assert list(texts(path).values()) == [["Yes", "Ja", "No way", "Auf keinen Fall"]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(sorted(EXPECTED), pa.large_string()),
        pa.array(sorted(EXPECTED)).dictionary_encode(),
        pa.array([{"en": text, "id": 1} for text in sorted(EXPECTED)]),
        pa.array([[text] for text in sorted(EXPECTED)]),
        pa.array([[("en", text)] for text in sorted(EXPECTED)], pa.map_(pa.string(), pa.string())),
    ],
    ids=["large", "dictionary", "struct", "list", "map"],
)
def test_parquet_columns_of_any_kind(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "dev.parquet"
    pq.write_table(pa.table({"text.all": column, "label": ["neutral"] * len(column), "picture": [b"x"] * len(column)}), path)
    (found,) = texts(path).values()
    assert set(found) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "dev.txt"
    path.write_bytes("Guten Tag, schöne Welt.\r\n你好，世界。\r\n".encode(encoding))
    assert list(texts(path).values()) == [["Guten Tag, schöne Welt.", "你好，世界。"]]


def members_to_pack() -> dict[str, bytes]:
    parquet = io.BytesIO()
    pq.write_table(pa.table({"s": ["A text in a table."]}), parquet)
    return {
        "set/dev.txt": b"A sentence in an archive.\n",
        "set/train.txt": b"A sentence to train on.\n",
        "set/more.tsv.gz": gzip.compress(b"0.5\tPacked twice, this one.\n"),
        "set/table.parquet": parquet.getvalue(),
        "set/LICENSE": b"Do as you please.\n",
        "set/picture.png": bytes(range(256)),
    }


@pytest.mark.parametrize("name", ["set.zip", "set.tar.gz", "set.tgz", "set.tar"])
def test_archives_are_read_like_folders(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members_to_pack().items():
                archive.writestr(member, content)
    else:
        with tarfile.open(path, "w:gz" if "gz" in name else "w") as tar:
            for member, content in members_to_pack().items():
                header = tarfile.TarInfo(member)
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
    ((label, found),) = evaluation_sets([str(path), "!*train*"])
    assert label == name
    assert set(found.to_pylist()) == {"A sentence in an archive.", "Packed twice, this one.", "A text in a table."}


NO_SENTENCES = {
    "picture.bin": bytes(range(256)) * 20,
    "packed.txt": gzip.compress(b"A sentence under a wrong name.\n" * 50),
    "scores.txt": b"0.5\n4.0\n" * 30,
    "genres.txt": b"travel\nfiction\n" * 30,
    "empty.txt": b"",
    "cut.json": b'[\n  {\n    "s": "It is cut he',
    "numbers.json": b"[1, 2, 3]",
}


@pytest.mark.parametrize("name", NO_SENTENCES)
def test_a_file_without_sentences_is_refused_if_named_and_shown_if_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(NO_SENTENCES[name])
    with pytest.raises(DataError, match=rf"{name}: no sentences found in it"):
        texts(tmp_path / name)
    with pytest.raises(DataError, match="no sentences found in any file there"):
        texts(tmp_path)
    (tmp_path / "good.txt").write_text("A sentence.\n")
    shown = {f"{tmp_path.name}/{name}": [], f"{tmp_path.name}/good.txt": ["A sentence."]}
    assert texts(tmp_path) == texts(tmp_path / "*") == shown


def test_what_guards_nothing_is_refused(tmp_path: Path) -> None:
    for names, message in ((["!*train*"], "only has exclusions"), ([""], "an empty name"), (["**x"], "no evaluation text")):
        with pytest.raises(DataError, match=message):
            list(evaluation_sets(names))


def test_of_a_store_the_test_rows_are_guarded(tmp_path: Path) -> None:
    rows = [Pair("A cat.", "Eine Katze.", "de", "c", "test"), Pair("A dog.", "Ein Hund.", "de", "c", "train")]
    prepare(Bitext.of(rows), out=tmp_path / "store")
    assert texts(tmp_path / "store") == {"store (test)": ["A cat.", "Eine Katze."]}


def test_old_encodings_and_semicolons_are_read(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes("Schöne Grüße aus Köln.\n".encode("cp1252") * 3)
    (tmp_path / "half.csv").write_text("id;text\n1;One fine day, it rained.\n2;Then the sun came out.\n")
    assert texts(tmp_path / "old.txt")["old.txt"] == ["Schöne Grüße aus Köln."]
    assert texts(tmp_path / "half.csv")["half.csv"] == ["One fine day, it rained.", "Then the sun came out."]


def test_translation_memories_are_read_as_what_they_are_in_any_language(tmp_path: Path) -> None:
    units = "".join(
        f'<tu>\n<tuv xml:lang="fr">\n<seg>Le jour {n} <ph>&lt;b&gt;</ph>est\nbeau.</seg></tuv>\n'
        f'<tuv xml:lang="sv"><seg>Dag {n} är vacker &amp; lång.</seg></tuv></tu>\n'
        for n in range(30)
    )
    text = f'<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header srclang="fr"/><body>{units}</body></tmx>'
    (tmp_path / "memory.tmx").write_text(text, encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "memory.zip", "w") as archive:
        archive.writestr("deep/memory.tmx.gz", gzip.compress(text.encode()))
    for found in texts(tmp_path).values():
        assert found == [side for n in range(30) for side in (f"Le jour {n} est\nbeau.", f"Dag {n} är vacker & lång.")]
    (tmp_path / "memory.tmx").write_text(text[:-40], encoding="utf-8")
    with pytest.raises(DataError, match=r"memory\.tmx line .*: not well-formed XML"):
        texts(tmp_path / "memory.tmx")


CATALOGUE = """#, fuzzy
msgid ""
msgstr "Language: xx\\n"

#. A note: for translators only.
#: src/file.c:17
msgctxt "menu"
msgid "The first"
" message."
msgstr "Die erste \\"Nachricht\\"."

#, fuzzy
msgid "A guess that is one."
msgstr "Geraten ist es wohl."

msgid "%d file"
msgid_plural "%d files are open."
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien sind offen."

msgid "not closed
msgstr "kaputt und weg"

#~ msgid "gone for good"
#~ msgstr "für immer weg"
"""


def test_catalogues_are_read_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "app.po").write_text(CATALOGUE, encoding="utf-8")
    entries = {
        "": "Language: xx\n",
        "menu\x04The first message.": 'Die erste "Nachricht".',
        "A guess that is one.": "Geraten ist es wohl.",
    }
    entries["%d file\0%d files are open."] = "%d Datei\0%d Dateien sind offen."
    (tmp_path / "app.mo").write_bytes(compiled(entries))
    expected = {"The first message.", 'Die erste "Nachricht".', "A guess that is one.", "Geraten ist es wohl."}
    expected |= {"%d file", "%d files are open.", "%d Datei", "%d Dateien sind offen."}
    assert [set(found) for found in texts(tmp_path).values()] == [expected, expected]


def test_long_cells_leave_the_limit_of_others_alone(tmp_path: Path) -> None:
    limit, long = csv.field_size_limit(), "a word " * 30_000
    (tmp_path / "x.csv").write_text(f'"{long}",3\n"A second sentence, shorter.",2\n')
    ((_, texts),) = evaluation_sets([str(tmp_path / "x.csv")])
    assert long.strip() in [text.as_py().strip() for text in texts] and csv.field_size_limit() == limit


def test_lines_that_no_encoding_can_hold_are_let_pass(tmp_path: Path) -> None:
    lines = ['{"text": "A first sentence, whole."}', '{"text": "A second sentence, whole."}', '{"text": "half \\ud800 a pair"}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    ((_, texts),) = evaluation_sets([str(tmp_path / "x.jsonl")])
    assert texts.to_pylist() == ["A first sentence, whole.", "A second sentence, whole."]


def test_parquet_with_broken_names_of_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"premise": ["A dog."]}), tmp_path / "x.parquet")
    (tmp_path / "x.parquet").write_bytes((tmp_path / "x.parquet").read_bytes().replace(b"premise", b"\x9dremise"))
    with pytest.raises(DataError, match=r"x.parquet: not a readable Parquet file"):
        list(evaluation_sets([str(tmp_path / "x.parquet")]))
