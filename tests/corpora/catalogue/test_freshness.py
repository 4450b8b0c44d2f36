"""Asking whether what was fetched has changed: nothing is sent twice, and the old file stays until a new one is whole."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from corpora.catalogue.service import Fault, Service
from isogloss.corpora.catalogue.download import is_unchanged, kept
from isogloss.corpora.catalogue.get import get
from isogloss.corpora.catalogue.retries import Patience
from isogloss.corpora.reading.origin import Origin
from isogloss.errors import DataError

MUSE = "/dl.fbaipublicfiles.com/arrival/dictionaries/en-de.txt"
WIKIMATRIX = "/dl.fbaipublicfiles.com/laser/WikiMatrix/v1/WikiMatrix.de-en.tsv.gz"
DATES = ("Wed, 21 Oct 2015 07:28:00 GMT", "Thu, 22 Oct 2015 07:28:00 GMT")


@pytest.fixture
def mirror(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setenv("ISOGLOSS_MIRROR", service.url)
    return service


def scored(*words: str) -> bytes:
    return gzip.compress("".join(f"1.2\t{word}\t{word}\n" for word in words).encode(), mtime=0)


def words(path: Path) -> list[str]:
    return [line.split("\t")[0] for line in gzip.decompress(path.read_bytes()).decode().splitlines()[1:]]


SERVERS: list[dict[str, Any]] = [{}, {"etag": 'W/"weak"'}, {"etag": "", "last_modified": DATES[0]}]
FORGETFUL: list[dict[str, Any]] = [{**one, "conditions": False} for one in SERVERS] + [{"etag": ""}]


@pytest.mark.parametrize("server", [*SERVERS, *FORGETFUL], ids=str)
def test_what_has_not_changed_is_not_fetched_again(mirror: Service, patience: Patience, server: dict[str, Any]) -> None:
    mirror.serve(MUSE, b"house Haus\n", **server)
    mirror.serve(WIKIMATRIX, scored("a", "b"), **server)
    for name, path in (("MUSE", MUSE), ("WikiMatrix", WIKIMATRIX)):
        first = get(name, ("en", "de"), patience=patience)
        stamp = first[0].stat().st_mtime_ns
        assert get(name, ("en", "de"), refresh=True, patience=patience) == first
        assert first[0].stat().st_mtime_ns == stamp and len(mirror.requests(path)) == 2


@pytest.mark.parametrize("server", [*SERVERS, *FORGETFUL], ids=str)
def test_what_has_changed_is_fetched_anew(mirror: Service, patience: Patience, server: dict[str, Any]) -> None:
    newer = {**server, **({"etag": 'W/"other"'} if server.get("etag") else {})}
    newer |= {"last_modified": DATES[1]} if "last_modified" in server else {}
    mirror.serve(MUSE, b"house Haus\n", **server)
    mirror.serve(WIKIMATRIX, scored("a", "b"), **server)
    old = [get(name, ("en", "de"), patience=patience) for name in ("MUSE", "WikiMatrix")]
    mirror.serve(MUSE, b"house Haus\ncat Katze\n", **newer)
    mirror.serve(WIKIMATRIX, scored("a", "b", "new"), **newer)
    assert [get(name, ("en", "de"), patience=patience) for name in ("MUSE", "WikiMatrix")] == old
    for _ in range(2):
        (muse,) = get("MUSE", ("en", "de"), refresh=True, patience=patience)
        (matrix,) = get("WikiMatrix", ("en", "de"), refresh=True, patience=patience)
        assert muse.read_bytes() == b"house Haus\ncat Katze\n" and words(matrix) == ["a", "b", "new"]
        assert kept(muse) and kept(matrix)
    assert len(mirror.requests(WIKIMATRIX)) == 4  # fetched, found changed, fetched, found unchanged


def test_a_server_that_says_nothing_is_fetched_from_again(mirror: Service, patience: Patience) -> None:
    mirror.serve(MUSE, b"one eins\n", etag="", says_length=False)
    get("MUSE", ("en", "de"), patience=patience)
    mirror.serve(MUSE, b"two zwei\n", etag="", says_length=False)
    (path,) = get("MUSE", ("en", "de"), refresh=True, patience=patience)
    assert path.read_bytes() == b"two zwei\n"


def test_the_old_file_stays_until_the_new_one_is_whole(mirror: Service, patience: Patience) -> None:
    mirror.serve(MUSE, b"house Haus\n")
    mirror.serve(WIKIMATRIX, scored("a"))
    (muse,), (matrix,) = (get(name, ("en", "de"), patience=patience) for name in ("MUSE", "WikiMatrix"))
    mirror.serve(MUSE, b"house Haus\ncat Katze\n")
    mirror.serve(WIKIMATRIX, gzip.compress(b"another layout\n"))
    mirror.faults[MUSE] = [Fault(), *[Fault(cut_after=4)] * 9]
    with pytest.raises(DataError, match="cut after"):
        get("MUSE", ("en", "de"), refresh=True, patience=Patience(attempts=1))
    for _ in range(2):  # a file that could not be used is not taken for the one that is here
        with pytest.raises(DataError, match="not a score"):
            get("WikiMatrix", ("en", "de"), refresh=True, patience=patience)
    assert kept(muse) and muse.read_bytes() == b"house Haus\n"
    assert kept(matrix) and words(matrix) == ["a"]
    mirror.faults.clear()
    get("MUSE", ("en", "de"), refresh=True, patience=patience)
    assert muse.read_bytes() == b"house Haus\ncat Katze\n"


def test_an_original_that_an_interrupted_run_left_is_asked_about_too(mirror: Service, patience: Patience) -> None:
    mirror.serve(WIKIMATRIX, scored("a"))
    (path,) = get("WikiMatrix", ("en", "de"), patience=patience)
    path.with_name(".original-WikiMatrix.de-en.tsv.gz").write_bytes(scored("stale", "words"))
    mirror.serve(WIKIMATRIX, scored("new"))
    (path,) = get("WikiMatrix", ("en", "de"), refresh=True, patience=patience)
    assert words(path) == ["new"] and not list(path.parent.glob(".original*"))


def test_a_busy_server_is_asked_again(service: Service, patience: Patience, waits: list[float]) -> None:
    url = service.serve("/some", b"x", etag='"a"')
    service.faults["/some"] = [Fault(503)]
    assert is_unchanged(url, Origin(corpus="", etag='"a"'), patience) and len(waits) == 1
    assert not is_unchanged(url, Origin(corpus="", etag='"b"'), patience)
