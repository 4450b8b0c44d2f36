"""FreeDict: headwords and their translations, in either direction, out of a file or a release."""

import io
import tarfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import find_sources
from parallel import PACK, complaint, few, packings, put, rows, sides

WORD = st.text(st.characters(codec="utf-8", categories=["L", "Nd"]), min_size=1, max_size=10)
HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader/><text><body>\n'


def document(*entries: str) -> str:
    return HEADER + "\n".join(entries) + "\n</body></text></TEI>\n"


def entry(words: list[str], translations: list[str]) -> str:
    forms = "".join(f"<form><orth>{escape(word)}</orth></form>" for word in words)
    senses = "".join(f'<sense><cit type="trans"><quote>{escape(word)}</quote></cit></sense>' for word in translations)
    return f"<entry>{forms}{senses}</entry>"


@packings
@few
@given(entries=st.lists(st.tuples(st.lists(WORD, max_size=3), st.lists(WORD, max_size=3)), max_size=5), reverse=st.booleans())
def test_every_headword_with_every_translation(
    tmp_path_factory: pytest.TempPathFactory, packing: str, entries: list[tuple[list[str], list[str]]], reverse: bool
) -> None:
    name = "deu-eng.tei" if reverse else "eng-deu.tei"
    path = put(tmp_path_factory.mktemp("x") / name, document(*(entry(*one) for one in entries)), packing)
    expected = [
        ((theirs, ours, "de", line) if reverse else (ours, theirs, "de", line))
        for line, (words, translations) in enumerate(entries, 3)
        for ours in words
        for theirs in translations
    ]
    assert [(row["source"], row["target"], row["language"], row["line"]) for row in rows(path)] == expected


def test_examples_related_entries_and_inflected_forms_are_no_entries(tmp_path: Path) -> None:
    text = document(
        "<entry><form><orth>dog</orth><pron>dɒg</pron><form type='infl'><orth>dogs</orth></form></form>"
        "<sense><cit type='trans' xml:lang='de'><quote>der  <hi>Hund</hi>\n</quote></cit><note>note</note>"
        "<cit type='example'><quote>A dog barks.</quote><cit type='trans'><quote>Ein Hund bellt.</quote></cit></cit></sense>"
        "<re><form><orth>doghouse</orth></form><cit type='trans'><quote>Hundehütte</quote></cit></re></entry>"
        "<entry><form><orth>empty</orth></form></entry>"
    )
    faults = Faults()
    assert sides(put(tmp_path / "eng-deu.tei", text), faults) == [("dog", "der Hund")]
    assert faults.passed_over == {"untranslated": 1}


@pytest.mark.parametrize("packing", list(PACK))
def test_a_release(tmp_path: Path, packing: str) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for name, text in (("eng-deu/README", "about"), ("eng-deu/eng-deu.tei", document(entry(["cat"], ["Katze"])))):
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    path = put(tmp_path / "freedict-eng-deu-1.9-fd1.src.tar", sink.getvalue(), packing)
    (source,) = find_sources(path)
    assert (source.corpus, source.dictionary, source.format, source.language) == ("freedict", True, "freedict", "de")
    assert sides(path) == [("cat", "Katze")]
    assert f"{path.name}:eng-deu/eng-deu.tei" in source.name


def test_broken_files(tmp_path: Path) -> None:
    assert "not well-formed XML" in complaint(put(tmp_path / "eng-deu.tei", HEADER + "<entry>")).message
    assert "the target language is not known" in complaint(put(tmp_path / "words.tei", document())).message
