"""Fuzzing of what servers and programs answer: urllib and http.client are real, only the connection is not."""

import gzip
import io
import itertools
import os
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from fuzz_cases import an_encrypted_zip, changed_bytes, changed_json, changed_text
from isogloss.corpora.catalogue import hub_datasets, opus, repack, wikipedia
from isogloss.corpora.catalogue.download import fetch, is_unchanged
from isogloss.corpora.catalogue.retries import Patience
from isogloss.corpora.reading.origin import Origin
from isogloss.models.encoders.command import _parse
from isogloss.models.encoders.endpoint import Endpoint
from parallel import put

NO_PATIENCE = Patience(attempts=2, attempts_to_connect=1, timeout=5, wait=lambda seconds: None)


class Answers:
    """Servers that answer anything: urllib and http.client are real, only the connection is not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opus = {"corpora": [self._offer("TED2020", "v1"), self._offer("TED2020", "v2018q4")]}
        lfs = {"sha256": "0" * 64, "size": 3, "pointerSize": 131}
        self.hub = {
            "sha": "0123456789abcdef",
            "siblings": [
                {"rfilename": "README.md", "size": 3},
                {"rfilename": "en-de/train-00000-of-00001.parquet", "size": 3, "lfs": lfs},
            ],
        }
        self.vectors = {"data": [{"index": 0, "embedding": [0.5, 1.0]}, {"index": 1, "embedding": [0.5, 0.25]}], "model": "m"}
        self.dumps = {
            "langlinks": b"INSERT INTO `langlinks` VALUES (1,'en','Alan Smithee'),(3,'en','Actin\\'ium');\n",
            "page": b"INSERT INTO `page` VALUES (1,0,'Alan_Smithee',0),(3,0,'Actinium',1);\n",
        }
        csv = io.BytesIO()
        with zipfile.ZipFile(csv, "w") as archive:
            archive.writestr("a.csv", 'en_text,th_text\n"One, two.",x\nThree.,y\n')
        self.csv = csv.getvalue()
        self.scored = gzip.compress(b"1.05\tOne.\tEins.\n1.2\tTwo.\tZwei.\n", 1)
        self.serial = itertools.count()

    @staticmethod
    def _offer(corpus: str, version: str) -> dict[str, Any]:
        facts = {"corpus": corpus, "version": version, "source": "de", "target": "en", "preprocessing": "moses"}
        return facts | {"url": "https://h/x.txt.zip", "alignment_pairs": 3, "size": "7", "latest": "True", "documents": ""}

    def services(self, random: Random) -> None:
        name, body = self.drawn(random)
        with _connected(lambda: answer_on_the_wire(random, body)):
            self.ask(name, "http://127.0.0.1:9")

    def drawn(self, random: Random) -> tuple[str, bytes]:
        """A service, and what it says."""
        name, value = random.choice((("opus", self.opus), ("hub", self.hub), ("vectors", self.vectors), ("file", None)))
        return name, changed_json(random, value) if value is not None else changed_bytes(random, self.csv)

    def ask(self, name: str, base: str) -> None:
        """Ask one service at an address."""
        here = {"ISOGLOSS_OPUS_API": f"{base}/", "HF_ENDPOINT": base, "HF_HUB_OFFLINE": "", "HF_TOKEN": "hf_x", "NO_PROXY": "*"}
        here |= {"ISOGLOSS_CACHE": str(self.folder / "cache"), "OPENAI_API_KEY": "sk-x"}
        with mock.patch.dict(os.environ, here), mock.patch("isogloss.models.encoders.endpoint.time.sleep"):
            if name == "opus":
                _ = opus.find("TED2020", ("en", "de"), patience=NO_PATIENCE).suffix
            elif name == "hub":
                hub_datasets.find("o/n", ("en", "de"), patience=NO_PATIENCE)
            elif name == "vectors":
                Endpoint(f"{base}/v1/embeddings#m", tries=2, first_wait=0.0).encode(["a", "bc"])
            else:
                self._fetch(base)

    def _fetch(self, base: str) -> None:
        target = self.folder / "fetched.zip"
        try:
            fetch(f"{base}/x.zip", target, origin=Origin(corpus="X"), patience=NO_PATIENCE)
            is_unchanged(f"{base}/x.zip", Origin(corpus="X", etag='"e"', modified="m", size=3), NO_PATIENCE)
        finally:
            for path in self.folder.glob("fetched.zip*"):
                path.unlink()

    def wikipedia(self, random: Random) -> None:
        bad, whole = random.choice(("langlinks", "page")), random.random() < 0.5
        paths = {}
        for name, dump in self.dumps.items():
            data = gzip.compress(changed_bytes(random, dump) if name == bad and not whole else dump, 1)
            data = changed_bytes(random, data) if name == bad and whole else data
            paths[name] = put(self.folder / f"{name}.sql.gz", data)
        list(wikipedia.titles(paths["langlinks"], paths["page"], ("en", "de")))

    def odd_layouts(self, random: Random) -> None:
        layout, data, languages = random.choice((("scored", self.scored, ("de", "en")), ("csv in zip", self.csv, ("en", "th"))))
        if random.random() < 0.1:
            data = an_encrypted_zip()
        path = put(self.folder / ("x.gz" if layout == "scored" else "x.zip"), changed_bytes(random, data))
        repack.repack(layout, path, self.folder / "out.tsv.gz", (languages[0], languages[1]), 1.1)

    def programs(self, random: Random) -> None:
        text = changed_text(random, "[0.5, 1.0]\n0.5 1.0\n0.25,3\n")
        _parse([line for line in text.split("\n") if line.strip()] or [""], "program")


def answer_on_the_wire(random: Random, body: bytes) -> bytes:
    """An answer as it comes over the wire; its head is odd as often as not."""
    status = random.choice(
        (b"200 OK",) * 6 + (b"302 Found", b"404 Not Found", b"416 x", b"429 busy", b"206 Partial", b"500 x", b"304 x")
    )
    lines = [b"HTTP/1.1 " + status, b"Connection: close"]
    length = str(len(body)).encode() if random.random() < 0.7 else _odd_header(random)
    lines.append(b"Content-Length: " + length)
    for name in (
        b"Location",
        b"Retry-After",
        b"Content-Range",
        b"ETag",
        b"Last-Modified",
        b"Transfer-Encoding",
        b"Content-Type",
    ):
        if random.random() < 0.15:
            lines.append(name + b": " + _odd_header(random))
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    return changed_bytes(random, head) + body if random.random() < 0.1 else head + body


def _odd_header(random: Random) -> bytes:
    known: tuple[bytes, ...] = (
        b"chunked",
        b"text/html",
        b"\xb2",
        b"9" * 5000,
        b"-1",
        b"1e9",
        b"bytes 0-2/3",
        b"bytes */\xb2",
        b"http://[::1",
        b"file:///x",
    )
    known += (
        b"/again",
        b"http://h:99999/",
        b"ftp://h/",
        b"Mon, 99 Jan 0001 00:00:00 GMT",
        b"Fri, 31 Dec 9999 23:59:59 -2359",
        b'W/"e"',
    )
    value = random.choice(known)
    return value if random.random() < 0.7 else changed_bytes(random, value, 1).replace(b"\n", b"").replace(b"\r", b"")


class _Wire:
    """A socket that has its answer ready, whatever is asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self.answer))

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None


@contextmanager
def _connected(answer: Callable[[], bytes]) -> Iterator[None]:
    with mock.patch.object(socket, "create_connection", side_effect=lambda *_, **__: _Wire(answer())):
        yield
