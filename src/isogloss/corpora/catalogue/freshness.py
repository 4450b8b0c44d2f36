"""Ask a server whether a file has changed, without downloading it again.

The ETag, date and length of a downloaded file are kept in the cache, not beside the file. A note is only valid for the bytes it
was made for.
"""

import http.client
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from isogloss.corpora.catalogue.retries import NotChanged, Patience, Tries, Trouble, open_url
from isogloss.corpora.reading.origin import origin_of
from isogloss.shapes import COUNT, NOTHING, TEXT, Either, check
from isogloss.shown import masked
from isogloss.storage import cache_folder, content_hash, read_json, write_json
from isogloss.web import whole_number

NOTE = {"url": TEXT, "sha256": TEXT, "etag": TEXT, "modified": TEXT, "size": Either(COUNT, NOTHING)}


@dataclass(frozen=True, slots=True)
class Remote:
    """What a server says about a file; empty where it says nothing."""

    etag: str = ""
    modified: str = ""
    size: int | None = None

    @classmethod
    def of(cls, response: http.client.HTTPResponse) -> Self:
        """From the headers of a response."""
        return cls(
            etag=response.headers.get("ETag", ""),
            modified=response.headers.get("Last-Modified", ""),
            size=whole_number(response.headers.get("Content-Length")),
        )

    @property
    def validator(self) -> str:
        """What a download may be resumed by: a strong ETag, or the date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def is_same(self, now: "Remote") -> bool:
        """Whether the file is unchanged, by the most reliable value that both have; False if there is none."""
        if self.etag and now.etag:
            return self.etag.removeprefix("W/") == now.etag.removeprefix("W/")
        if self.modified and now.modified:
            return self.modified == now.modified
        return self.size is not None and self.size == now.size


def is_unchanged(url: str, known: Remote, patience: Patience, token: str = "") -> bool:
    """Ask the server with a GET whose body is not read, since some servers refuse HEAD."""
    asked = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
    tries = Tries(url, patience)
    while True:
        try:
            with open_url(url, patience.timeout, {key: value for key, value in asked.items() if value}, token) as response:
                return known.is_same(Remote.of(response))
        except NotChanged:
            return True
        except Trouble as trouble:
            patience.wait(tries.failed(trouble))


def remember(target: Path, url: str, remote: Remote) -> None:
    """Note what the server said about the file at `target`, or about the one it was made from."""
    write_json(_note(target), {"url": masked(url), "sha256": _sum(target), **asdict(remote)})


def recall(target: Path, url: str) -> Remote | None:
    """What was noted about the file at `target`; None if that was another file or URL."""
    try:
        known = check(read_json(_note(target)), NOTE)
    except (OSError, ValueError):
        return None
    if known["url"] != masked(url) or known["sha256"] != _sum(target):
        return None
    return Remote(known["etag"], known["modified"], known["size"])


def forget(target: Path) -> None:
    """Remove the note, before a file is replaced."""
    _note(target).unlink(missing_ok=True)


def _sum(target: Path) -> str:
    origin = origin_of(target)
    return origin.sha256 if origin is not None else ""  # an intermediate file has no checksum


def _note(target: Path) -> Path:
    return cache_folder() / "corpora" / ".kept" / ".remote" / f"{content_hash(str(target.absolute()))}.json"
