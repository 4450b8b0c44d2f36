"""TMX: what any XML writer writes comes back; markup for formatting does not; memory stays flat."""

import tracemalloc
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.formats import records
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources
from parallel import SOME, complaint, packings, put, rows, sides

# XML cannot hold these, not even escaped.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp"]), max_size=20).filter(str.strip)
HEADER = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    '<tmx version="1.4"><header srclang="en"/><body>\n'
)


def unit(*variants: tuple[str, str], attribute: str = "xml:lang") -> str:
    inner = "".join(f"<tuv {attribute}={quoteattr(code)}><seg>{segment}</seg></tuv>" for code, segment in variants)
    return f"<tu>{inner}</tu>\n"


def document(*units: str) -> str:
    return HEADER + "".join(units) + "</body></tmx>"


@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8), encoding=st.sampled_from(["utf-8", "utf-16"]))
def test_segments_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], encoding: str
) -> None:
    text = document(*(unit(("en", escape(source)), ("de", escape(target))) for source, target in pairs))
    data = text.replace('encoding="UTF-8"', f'encoding="{encoding}"').encode(encoding)
    found = rows(put(tmp_path_factory.mktemp("x") / "memory.tmx", data))
    assert [(row["source"], row["target"]) for row in found] == [(s.strip(), t.strip()) for s, t in pairs]
    assert [row["line"] for row in found] == list(range(4, 4 + len(pairs)))


@packings
def test_packed(tmp_path: Path, packing: str) -> None:
    path = put(tmp_path / "en-de.tmx", document(*(unit(("en", escape(s)), ("de", escape(t))) for s, t in SOME)), packing)
    assert sides(path) == SOME


def test_a_zip_of_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "de-en.tmx.zip", "w") as archive:
        archive.writestr("TED2020.tmx", document(unit(("de", "Ja."), ("en", "Yes."), ("fr", "Oui."))))
    (source,) = find_sources(tmp_path / "de-en.tmx.zip")
    assert (source.corpus, source.language) == ("TED2020", "de")
    assert sides(tmp_path / "de-en.tmx.zip") == [("Yes.", "Ja.")]


def test_formatting_is_dropped_and_text_in_hi_kept(tmp_path: Path) -> None:
    bold = '<bpt i="1">&lt;b&gt;<sub>inner</sub></bpt>Bold<ept i="1">&lt;/b&gt;</ept>'
    segment = f'{bold} and <hi>high</hi><ph x="1">{{0}}</ph><it>x</it>.'
    path = put(tmp_path / "x.tmx", document(unit(("en", segment), ("de", "Fett &amp; hoch &#228;&nothere;."))))
    assert sides(path) == [("Bold and high.", "Fett & hoch ä.")]


def test_regions_case_and_many_languages(tmp_path: Path) -> None:
    many = unit(
        ("EN-us", "Yes."), ("de_AT", "Ja."), ("pt-BR", "Sim."), ("zh-Hant-TW", "是"), ("x-note-none", "?"), attribute="lang"
    )
    path, faults = put(tmp_path / "x.tmx", document(many, unit(("de", "ohne")), unit(("en", "without")))), Faults()
    assert [(row["language"], row["target"]) for row in rows(path, faults)] == [
        ("de", "Ja."),
        ("pt", "Sim."),
        ("zh-Hant", "是"),
    ]
    assert faults.passed_over == {"without one of the languages": 2}
    assert [(row["language"], row["target"]) for row in rows(path, language="pt-BR")] == [("pt-BR", "Sim.")]
    assert rows(path, language="ja") == []


def test_bad_units_are_named_by_their_line_and_broken_xml_always_raises(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tmx", document(unit(("en", "Yes."), ("de", "Ja.")), unit(("en", "No."), ("de", " "))))
    assert "x.tmx line 5: the target (de) side is empty" in complaint(path).message
    faults = Faults("skip")
    assert len(sides(path, faults)) == 1 and faults.count == 1
    for broken, message in (
        (document("<tu>\n</tuv>"), "line 5: not well-formed XML (mismatched tag"),
        (HEADER, "not well-formed XML (no element found"),
        (document(unit(("en", "\x03"), ("de", "x"))), "not well-formed XML (not well-formed (invalid token)"),
        ('<?xml version="1.0" encoding="nonsense"?><tmx/>', "not well-formed XML (unknown encoding"),
        ("", "not well-formed XML"),
    ):
        assert message in complaint(put(tmp_path / "x.tmx", broken)).message


def test_an_entity_bomb_is_refused(tmp_path: Path) -> None:
    lines = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "bomb" * 100}">' for n in range(10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE tmx [{lines}]><tmx>{unit(("en", "&e9;"), ("de", "x"))}</tmx>'
    assert "not well-formed XML" in complaint(put(tmp_path / "x.tmx", bomb)).message


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_TEXT", 2**16)
    with (tmp_path / "x.tmx").open("w") as out:
        out.write(HEADER)
        for number in range(12_000):
            out.write(unit(("en", f"sentence {number} " * 4), ("de", f"Satz {number} " * 4)))
        out.write("</body></tmx>")
    (source,) = find_sources(tmp_path / "x.tmx")
    tracemalloc.start()
    count = sum(block.num_rows for block in stream(source, Faults()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 12_000 and peak < 2**20
