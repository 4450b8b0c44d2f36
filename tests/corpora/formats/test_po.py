"""gettext catalogues, as text and compiled: what a translator wrote comes back, guesses and leftovers do not."""

import gettext
import io
import logging
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import read
from parallel import SOME, complaint, packings, put, rows, sides

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0\x04"), max_size=25).filter(
    str.strip
)
HEADER = 'msgid ""\nmsgstr ""\n"Language: de_DE\\n"\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'


def quoted(text: str, pieces: int = 1) -> str:
    """A string as .po writes it, cut into several lines."""
    step = max(1, -(-len(text) // pieces))
    parts = [text[start : start + step] for start in range(0, len(text), step)] or [""]
    table = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a"})
    return "\n".join(f'"{part.translate(table)}"' for part in parts)


@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8), pieces=st.integers(1, 3), gap=st.sampled_from(["\n", ""]))
def test_strings_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], pieces: int, gap: str
) -> None:
    body = "".join(f"msgid {quoted(s, pieces)}\nmsgstr {quoted(t, pieces)}\n{gap}" for s, t in pairs)
    found = sides(put(tmp_path_factory.mktemp("x") / "app.po", HEADER + body))
    assert found == [(source.strip(), target.strip()) for source, target in pairs]


@packings
def test_packed(tmp_path: Path, packing: str) -> None:
    body = "".join(f"msgid {quoted(s)}\nmsgstr {quoted(t)}\n\n" for s, t in SOME)
    assert sides(put(tmp_path / "de.po", body, packing)) == SOME


def test_what_is_passed_over_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = put(
        tmp_path / "app.po",
        "#, fuzzy\n" + HEADER + '# note\n#: a.c:1\n#, c-format, fuzzy\n#| msgid "old"\nmsgid "guess"\nmsgstr "Raten"\n\n'
        '#, c-format\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Öffnen"\nmsgctxt "door"\nmsgid "Open"\nmsgstr "Offen"\n'
        'msgid "untranslated"\nmsgstr ""\n\n#~ msgid "gone"\n#~ msgstr "weg"\n#~ msgid "gone too"\n#~ msgstr "auch weg"\n',
    )
    faults = Faults()
    assert [(row["source"], row["target"], row["language"], row["line"]) for row in rows(path, faults)] == [
        ("Open", "Öffnen", "de", 14),
        ("Open", "Offen", "de", 18),
    ]
    assert faults.passed_over == {"fuzzy": 1, "obsolete": 2, "untranslated": 1} and not faults.count
    caplog.set_level(logging.INFO)
    read([path, put(tmp_path / "more.po", HEADER + 'msgid "none"\nmsgstr ""\n')])
    assert "app.po: 4 entries skipped: 1 fuzzy, 2 obsolete, 1 untranslated" in caplog.text
    assert "more.po: 1 entry skipped: 1 untranslated" in caplog.text, "each file says its own"


def test_a_comment_belongs_to_the_entry_behind_it(tmp_path: Path) -> None:
    path, faults = put(tmp_path / "de.po", 'msgid "a"\nmsgstr "b"\n#, fuzzy\nmsgid "c"\nmsgstr "d"\n'), Faults()
    assert (sides(path, faults), faults.passed_over) == ([("a", "b")], {"fuzzy": 1})


@pytest.mark.parametrize(
    ("forms", "strings", "expected"),
    [
        ("nplurals=2; plural=(n != 1);", ["ein", "viele"], [("one", "ein"), ("many", "viele")]),
        ("nplurals=1; plural=0;", ["alle"], [("many", "alle")]),
        (
            "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
            ["один", "два", "пять"],
            [("one", "один"), ("many", "пять")],
        ),
        (
            "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : 3;",
            ["zero", "uno", "due", "molti"],
            [("one", "uno"), ("many", "molti")],
        ),
        ("nonsense", ["ein", "x", "viele"], [("one", "ein"), ("many", "viele")]),
        ("nplurals=2; plural=n%0;", ["ein", "viele"], [("one", "ein"), ("many", "viele")]),
        ("nplurals=2; plural=(n != 1);", ["", "viele"], [("many", "viele")]),
    ],
)
def test_plurals(tmp_path: Path, forms: str, strings: list[str], expected: list[tuple[str, str]]) -> None:
    entry = 'msgid "one"\nmsgid_plural "many"\n' + "".join(f'msgstr[{n}] "{text}"\n' for n, text in enumerate(strings))
    assert sides(put(tmp_path / "x.po", f'msgid ""\nmsgstr "Language: de\\nPlural-Forms: {forms}\\n"\n\n{entry}')) == expected


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ('msgid "a"\nmsgstr "b\n', 3),
        ('msgid "a"\nmsgstr b\nmsgstr c\n', 3),
        ('msgid "a"\n"b" "c"\nmsgstr "d"\n', 3),
        ('msgstr "a"\n', 2),
        ('msgid "a"\n', 2),
        ('"a"\n', 2),
        ('msgid "a"\nmsgstr "\\xff"\n', 3),
        (b'msgid "a"\nmsgstr "\xff"\n', 3),
    ],
)
def test_a_broken_entry_is_one_fault_and_the_next_is_read(tmp_path: Path, entry: str | bytes, line: int) -> None:
    raw = entry.encode() if isinstance(entry, str) else entry
    path = put(tmp_path / "de.po", b"\n" + raw + b'\n#: next\nmsgid "good"\nmsgstr "gut"\n')
    assert f"de.po line {line}:" in complaint(path).message
    faults = Faults("skip")
    assert (sides(path, faults), faults.count) == ([("good", "gut")], 1)


def test_the_language_comes_from_the_user_the_name_or_the_header(tmp_path: Path) -> None:
    entry = 'msgid "a"\nmsgstr "b"\n'
    assert rows(put(tmp_path / "po" / "pt_BR.po", entry))[0]["language"] == "pt"
    assert rows(put(tmp_path / "locale" / "ka" / "LC_MESSAGES" / "app.po", entry))[0]["language"] == "ka"
    assert rows(put(tmp_path / "app.po", HEADER + entry))[0]["language"] == "de"
    assert rows(put(tmp_path / "app.po", HEADER + entry), language="de-AT")[0]["language"] == "de-AT"
    assert "the target language is not known" in complaint(put(tmp_path / "app.po", entry)).message


def compiled(entries: dict[str, str], order: str = "<") -> bytes:
    """A .mo file, after the layout in gettext's manual."""
    pairs = sorted((original.encode(), translation.encode()) for original, translation in entries.items())
    tables, data = [b"", b""], b""
    start = 28 + 16 * len(pairs)
    for side in (0, 1):
        for pair in pairs:
            tables[side] += struct.pack(f"{order}2I", len(pair[side]), start + len(data))
            data += pair[side] + b"\0"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, start)
    return head + tables[0] + tables[1] + data


@given(entries=st.dictionaries(TEXT, TEXT, max_size=6), order=st.sampled_from("<>"))
def test_compiled_entries_are_those_that_gettext_reads(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, str], order: str
) -> None:
    header = {"": "Language: de\nContent-Type: text/plain; charset=UTF-8\n"}
    data = compiled(header | entries, order)
    found = sides(put(tmp_path_factory.mktemp("x") / "app.mo", data))
    theirs = gettext.GNUTranslations(io.BytesIO(data))
    assert set(found) == {(text.strip(), theirs.gettext(text).strip()) for text in entries}


@packings
def test_compiled_contexts_and_plurals(tmp_path: Path, packing: str) -> None:
    entries = {
        "": "Language: de\nPlural-Forms: nplurals=2; plural=n!=1;\n",
        "menu\x04Open": "Öffnen",
        "one\0many": "ein\0viele",
    }
    faults = Faults()
    path = put(tmp_path / "app.mo", compiled(entries | {"zero": ""}), packing)
    assert sides(path, faults) == [("Open", "Öffnen"), ("one", "ein"), ("many", "viele")]
    assert faults.passed_over == {"untranslated": 1}


def test_compiled_files_that_are_damaged(tmp_path: Path) -> None:
    data = compiled({"": "Language: de\n", "a": "b"})
    for cut in (data[:20], data[:40], data[:-3]):
        assert "damaged" in complaint(put(tmp_path / "de.mo", cut)).message
    assert "not a .mo file" in complaint(put(tmp_path / "de.mo", b"msgid")).message
    path = put(tmp_path / "de.mo", data.replace(b"\0b\0", b"\0\xff\0"))
    assert "entry 2: not UTF-8 (byte 0xff" in complaint(path).message
    assert sides(path, Faults("skip")) == []
