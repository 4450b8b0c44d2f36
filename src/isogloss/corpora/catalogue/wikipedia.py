r"""A dictionary of article titles, from two tables of one Wikipedia: "United States" ↔ "Vereinigte Staaten".

For English and German the dumps of the German Wikipedia are enough, and much smaller than the English ones:

    dewiki-latest-langlinks.sql.gz   INSERT INTO `langlinks` VALUES (1,'en','Alan Smithee'),(3,'en','Actinium'),…;
    dewiki-latest-page.sql.gz        INSERT INTO `page` VALUES (1,0,'Alan_Smithee',…),(3,0,'Actinium',…),…;

`langlinks` gives the English title of a page number, `page` the German title of an article (namespace 0). The first is kept in
memory for the wanted language, the second is streamed. Both are written by mysqldump: rows in parentheses, quoted strings with
\' and \\ inside them.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from isogloss.corpora.catalogue.entries import Languages
from isogloss.corpora.reading.compression import ARCHIVE_FAULTS
from isogloss.errors import DataError
from isogloss.progress import OnProgress, Step, silent

DUMPS = "https://dumps.wikimedia.org"
ENGLISH = "en"
ARTICLES = b"0"  # the namespace; others are talk pages, templates, categories

_STRING = rb"(?:_binary )?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
_VALUE = rb"(?:" + _STRING + rb"|[^',()]++)"
_ROW = re.compile(rb"\s*\((" + _VALUE + rb"),(" + _VALUE + rb"),(" + _VALUE + rb")(?:," + _VALUE + rb")*+\)\s*[,;]", re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_MEANING = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"Z": b"\x1a", b"b": b"\b"}
_ODD = re.compile(r"[\x00-\x1f\x7f]")
_WIKIS = {"nb": "no", "zh_cn": "zh", "fil": "tl"}  # Wikipedias whose code is not that of the language

Row = tuple[bytes, bytes, bytes]


def addresses(languages: Languages, version: str) -> tuple[str, str]:
    """The URLs of the two dumps: langlinks, page."""
    host = _host(languages)
    wiki = f"{_WIKIS.get(host, host)}wiki"
    base = f"{DUMPS}/{wiki}/{version}/{wiki}-{version}"
    return f"{base}-langlinks.sql.gz", f"{base}-page.sql.gz"


def titles(
    langlinks: Path, page: Path, languages: Languages, stage: str = "titles", on_progress: OnProgress = silent
) -> Iterator[tuple[str, str]]:
    """Pairs of titles, in the order of `languages`. Memory: the linked titles of one language."""
    host = _host(languages)
    other = languages[0] if host == languages[1] else languages[1]
    guest = _WIKIS.get(other, other).replace("_", "-").encode()
    linked: dict[int, bytes] = {}
    for number, language, title in rows(langlinks, "langlinks", f"{stage}: links", on_progress):
        if text(language) == guest:
            linked[_page(number, langlinks)] = text(title)
    for number, namespace, title in rows(page, "page", f"{stage}: pages", on_progress):
        there = linked.get(_page(number, page)) if namespace == ARTICLES else None
        if there is None:
            continue
        ours, theirs = _readable(text(title)), _readable(there)
        if ours and theirs:
            yield (theirs, ours) if host == languages[1] else (ours, theirs)


def rows(path: Path, table: str, stage: str = "", on_progress: OnProgress = silent) -> Iterator[Row]:
    """The first three raw values of every row that a dump inserts into a table."""
    opening = f"INSERT INTO `{table}` VALUES".encode()
    inside, found = False, False
    for number, line in enumerate(_lines(path, stage or table, on_progress), start=1):
        place = 0
        if line.startswith(opening):
            inside, found, place = True, True, len(opening)
        if not inside:
            continue
        while match := _ROW.match(line, place):
            yield match[1], match[2], match[3]
            place = match.end()
        if line[place:].strip():
            raise DataError(f"{path} line {number}: not a row of {table} at byte {place}", hint="remove the file and try again")
        inside = not line.rstrip().endswith(b";")
    if not found:
        raise DataError(f"{path}: no rows of {table}", hint="is it a dump of Wikipedia's database?")


def text(value: bytes) -> bytes:
    """An unquoted string; other values unchanged."""
    quoted = value.removeprefix(b"_binary ")
    if not quoted.startswith(b"'"):
        return value
    inner = quoted[1:-1]
    if b"\\" not in inner and b"''" not in inner:
        return inner
    return _ESCAPE.sub(lambda found: _MEANING.get(found[1], found[1]) if found[1] else b"'", inner)


def _page(number: bytes, path: Path) -> int:
    if not (number.isdigit() and len(number) < 19):
        raise DataError(
            f"{path}: {number[:40].decode(errors='replace')} is not the number of a page", hint="remove the file and try again"
        )
    return int(number)


def _host(languages: Languages) -> str:
    """The language whose dumps are read: not English, if it is one of the two."""
    return languages[0] if languages[1] == ENGLISH else languages[1]


def _readable(title: bytes) -> str:
    """A title with spaces; empty if it is not text."""
    try:
        plain = title.decode().replace("_", " ").strip()
    except UnicodeDecodeError:
        return ""
    return "" if _ODD.search(plain) else plain


def _lines(path: Path, stage: str, on_progress: OnProgress) -> Iterator[bytes]:
    """Lines of a gzip file (a megabyte each in a dump), with progress."""
    total = max(1, path.stat().st_size // 10**6)
    with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) as handle:
        try:
            for line in handle:
                yield line
                on_progress(Step(stage, min(raw.tell() // 10**6, total - 1), total, "MB"))
        except ARCHIVE_FAULTS as error:
            raise DataError(f"{path}: the dump is damaged ({error})", hint="remove it and try again") from error
    on_progress(Step(stage, total, total, "MB"))
