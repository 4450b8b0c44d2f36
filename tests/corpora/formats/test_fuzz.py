"""Whatever a file holds, a reader gives pairs or says what is wrong with it: no other exception, no pair without text."""

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.corpora.faults import Faults
from isogloss.errors import DataError
from parallel import PACK, SOME, put, rows

TEI = '<TEI><entry><form><orth>cat</orth></form><cit type="trans"><quote>Katze</quote></cit></entry></TEI>'
PO = 'msgid ""\nmsgstr "Language: de\\nPlural-Forms: nplurals=2; plural=n!=1;\\n"\n\n'
PO += '#, fuzzy\nmsgctxt "c"\nmsgid "a"\nmsgstr "b"\n\n'
PO += 'msgid "one\\n"\n"more"\nmsgid_plural "many"\nmsgstr[0] "ein"\nmsgstr[1] "viele"\n#~ msgid "old"\n#~ msgstr "alt"\n'


def a_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"en": ["a", "b"], "de": ["c", "d"], "score": [1, 2]}), sink)
    return sink.getvalue()


def a_zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.de-en.de", "Ja.\nNein.\n" * 20)
        archive.writestr("X.de-en.en", "Yes.\nNo.\n" * 20)
    return sink.getvalue()


def a_tar() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as tar:
        info = tarfile.TarInfo("eng-deu.tei")
        info.size = len(TEI)
        tar.addfile(info, io.BytesIO(TEI.encode()))
    return sink.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "en-de.tsv": lambda: "".join(f"{source}\t{target}\n" for source, target in SOME).encode(),
    "x.tsv": lambda: b"id\tsplit\ten\tde\tfr\tscore\n1\ttrain\tOne.\tEins.\tUn.\t1.5\n2\ttest\tTwo.\tZwei.\tDeux.\t\n",
    "x.csv": lambda: b'source,target,language\n"a ""b""","c\nd",de\nx,y,fr\n',
    "en-de.txt": lambda: b"cat Katze\ndog\tHund\n",
    "x.jsonl": lambda: "".join(json.dumps({"en": source, "de": target}) + "\n" for source, target in SOME).encode(),
    "x.parquet": a_parquet,
    "x.tmx": lambda: b'<tmx><tu><tuv xml:lang="en"><seg>a<ph/>b</seg></tuv><tuv lang="de"><seg>c</seg></tuv></tu></tmx>',
    "x.po": PO.encode,
    "de.mo": lambda: struct.pack("<7I", 0x950412DE, 0, 1, 28, 36, 0, 44) + struct.pack("<4I", 1, 44, 1, 46) + b"a\0b\0",
    "eng-deu.tei": TEI.encode,
    "x.zip": a_zip,
    "x.tar.gz": a_tar,
}
PIECES = [
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b'"',
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b" ",
    b"\\",
    b"{",
    b"<",
]
PIECES += [
    b"\xe2\x80\x8f",
    b"\xed\xa0\x80",
    b"&#0;",
    b"en",
    b"de",
    b"msgid ",
    b"[0]",
    b"nan",
    b"\x1f\x8b",
    b"",
    b"<!DOCTYPE",
    b"PAR1",
]
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(PIECES) | st.binary(min_size=1, max_size=3))
POLICIES = st.sampled_from(["fail", "skip", "stop-after 1"])


def edited(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for place, removed, piece in edits:
        start = int(place * len(data))
        data = data[:start] + piece + data[start + removed :]
    return data


@pytest.mark.parametrize("name", list(FILES))
@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(EDIT, min_size=1, max_size=4),
    noise=st.none() | st.binary(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
    packing=st.sampled_from(list(PACK)),
    after=st.booleans(),
    policy=POLICIES,
)
def test_a_reader_gives_pairs_or_says_what_is_wrong(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    edits: list[tuple[float, int, bytes]],
    noise: bytes | None,
    packing: str,
    after: bool,
    policy: str,
) -> None:
    data = FILES[name]() if noise is None else noise
    packing = "" if name.endswith(("zip", "gz")) else packing
    whole = edited(PACK[packing](data), edits) if after else PACK[packing](edited(data, edits))
    path = put(tmp_path_factory.mktemp("x") / (name + packing), whole)
    for told in ((), ("de",), ("de", "source=1,target=2,quoted")):
        found, message = read_or_explained(path, Faults(policy), *told)
        assert len(message) < 1000
        assert all(row["source"] and row["target"] and row["language"] for row in found)


def read_or_explained(path: Path, faults: Faults, language: str = "", columns: str = "") -> tuple[list[dict[str, object]], str]:
    try:
        return rows(path, faults, language, columns=columns), ""
    except DataError as error:
        return [], f"{error.message} {error.hint}"


@pytest.mark.parametrize("name", list(FILES))
def test_the_files_that_are_edited_are_good_ones(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    assert rows(put(tmp_path_factory.mktemp("x") / name, FILES[name]()))
