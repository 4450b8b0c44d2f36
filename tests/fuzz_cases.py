"""What fuzzing begins with and how it is changed: small good files of every format, and edits of bytes, text and JSON.

Everything here is drawn from a `random.Random`, so a seed names a case. `fuzz_targets` gives the cases to the product;
`benchmarks/fuzz.py` tries a million of them, `test_fuzz_cases.py` a few thousand.
"""

import copy
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parallel import SOME

TEI = '<TEI><entry><form><orth>cat</orth></form><cit type="trans"><quote>Katze</quote></cit></entry></TEI>'
PO = 'msgid ""\nmsgstr "Language: de\\nPlural-Forms: nplurals=2; plural=n!=1;\\n"\n\n'
PO += '#, fuzzy\nmsgctxt "c"\nmsgid "a"\nmsgstr "b"\n\n'
PO += 'msgid "one\\n"\n"more"\nmsgid_plural "many"\nmsgstr[0] "ein"\nmsgstr[1] "viele"\n#~ msgid "old"\n#~ msgstr "alt"\n'


def a_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"en": ["a", "b"], "de": ["c", "d"], "score": [1, 2]}), sink)
    return sink.getvalue()


def a_judged_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"label": ["neutral"], "premise": ["A dog."], "hypothesis": ["A big dog."]}), sink)
    return sink.getvalue()


def a_zip(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        archive.writestr("X.de-en.de", "Ja.\nNein.\n" * 20)
        archive.writestr("X.de-en.en", "Yes.\nNo.\n" * 20)
    return sink.getvalue()


def an_encrypted_zip() -> bytes:
    """A zip whose members say that they need a password."""
    data = bytearray(a_zip())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(mark, place + 4)
    return bytes(data)


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
PIECES += [b"\xe2\x80\x8f", b"\xed\xa0\x80", b"&#0;", b"en", b"de", b"msgid ", b"[0]", b"nan", b"\x1f\x8b", b"", b"<!DOCTYPE"]
PIECES += [b"PAR1"]
RARE = [
    b"\x1b[31m",
    b"\xc2\xb2",
    b"\xe2\x80\xae",
    b"[" * 3000,
    b'{"a":' * 300,
    b"9" * 5000,
    b"-",
    b"1e999",
    b"\x80",
    b"\\ud800",
]
RARE += [b"NaN", b"null", b"true", b"../", b"[", b"]", b"}", b",", b":", b"=", b".", b"%", b"'", b"#", b"\x7f", b"\xc2\x9b"]

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(10**30), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *(
        "",
        " ",
        "x",
        "de",
        "../x",
        "/etc/passwd",
        "C:\\x",
        "a/b",
        ".",
        "..",
        "\x1b[31mred\x1b[0m",
        "\u202etxt",
        "\ud800",
        "²",
        "٣",
    ),
    *(
        "x" * 5000,
        "[bold]",
        "a\nb",
        "a\0b",
        "NaN",
        "1",
        "-1",
        "http://[::1",
        "https://u:p@h/",
        [],
        {},
        [[]],
        [None],
        {"": None},
    ),
    *([1, "a", None], {"a": {"b": []}}, [{}], "0" * 64),
)


def edited(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Bytes with pieces put in at places between 0 (the start) and 1 (the end), over some that were there."""
    for place, removed, piece in edits:
        start = int(place * len(data))
        data = data[:start] + piece + data[start + removed :]
    return data


def changed_bytes(random: Random, data: bytes, most: int = 4) -> bytes:
    """A few edits: pieces that mean something somewhere, pieces of the data itself, random bytes, a cut, or noise alone."""
    kind = random.random()
    if kind < 0.03:
        return random.randbytes(random.randrange(80))
    if kind < 0.08:
        return data[: random.randrange(len(data) + 1)]
    edits = []
    for _ in range(random.randint(1, most)):
        edits.append((random.random(), random.choice((0, 0, 1, 1, 2, 4, 8, 64)), _piece(random, data)))
    return edited(data, edits)


def _piece(random: Random, data: bytes) -> bytes:
    kind = random.random()
    if kind < 0.45:
        return random.choice(PIECES)
    if kind < 0.6:
        return random.choice(RARE)
    if kind < 0.75 and data:
        start = random.randrange(len(data))
        return data[start : start + random.randrange(1, 40)]
    return random.randbytes(random.randint(1, 3))


def changed_text(random: Random, text: str, most: int = 4) -> str:
    """The same for text: what is no UTF-8 any more is replaced."""
    return changed_bytes(random, text.encode(errors="replace"), most).decode(errors="replace")


def changed_json(random: Random, value: Any, most: int = 3) -> bytes:  # noqa: ANN401 - whatever JSON can hold
    """JSON text of a value in which a few things are other things, gone, doubled or elsewhere; sometimes the text itself."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, most)):
        places = list(_places(value))
        if not places:
            break
        holder, key = random.choice(places)
        _change(random, holder, key)
    text = json.dumps(value).encode()
    return changed_bytes(random, text) if random.random() < 0.2 else text


def _places(value: Any) -> "list[tuple[Any, Any]]":  # noqa: ANN401 - whatever JSON can hold
    found: list[tuple[Any, Any]] = []
    rest = [value]
    while rest:
        one = rest.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        found += [(one, key) for key in keys]
        rest += [one[key] for key in keys]
    return found


def _change(random: Random, holder: Any, key: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    kind = random.random()
    if kind < 0.6:
        holder[key] = copy.deepcopy(random.choice(ODD_VALUES))
    elif kind < 0.75:
        del holder[key]
    elif isinstance(holder, dict):
        odd = random.choice(ODD_VALUES)
        holder[odd if isinstance(odd, str) else str(odd)[:20]] = holder.pop(key) if kind < 0.9 else holder[key]
    elif kind < 0.9:
        holder.append(holder[key])
    else:
        holder[key] = holder[random.randrange(len(holder))]
