"""Whether a file on a server is still the one that was fetched, asked without fetching it again.

What the server said of a file (its ETag, its date, its length) is kept in the cache, apart from the file: a folder of the
user's own gets no more than the file and its note of descent. A note counts only for the very bytes it was made for.
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
    """What a server says of a file without sending it; what it does not say is empty."""

    etag: str = ""
    modified: str = ""
    size: int | None = None

    @classmethod
    def of(cls, response: http.client.HTTPResponse) -> Self:
        """As an answer's headers have it."""
        return cls(
            etag=response.headers.get("ETag", ""),
            modified=response.headers.get("Last-Modified", ""),
            size=whole_number(response.headers.get("Content-Length")),
        )

    @property
    def validator(self) -> str:
        """What a download may be continued by: a strong ETag, or the date (a weak ETag may not be used so)."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def is_same(self, now: "Remote") -> bool:
        """Whether the file is still this one, by the surest thing that both sides tell; False if there is none."""
        if self.etag and now.etag:
            return self.etag.removeprefix("W/") == now.etag.removeprefix("W/")
        if self.modified and now.modified:
            return self.modified == now.modified
        return self.size is not None and self.size == now.size


def is_unchanged(url: str, known: Remote, patience: Patience, token: str = "") -> bool:
    """Ask the server. A plain GET whose body is not read: servers that refuse HEAD, or redirect it, answer this one."""
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
    """Note what the server said of the file that is now at `target`, or that it was made of."""
    write_json(_note(target), {"url": masked(url), "sha256": _sum(target), **asdict(remote)})


def recall(target: Path, url: str) -> Remote | None:
    """What was noted of the file at `target`; None if that was another file, or came from elsewhere."""
    try:
        told = check(read_json(_note(target)), NOTE)
    except (OSError, ValueError):
        return None
    if told["url"] != masked(url) or told["sha256"] != _sum(target):
        return None
    return Remote(told["etag"], told["modified"], told["size"])


def forget(target: Path) -> None:
    """Drop the note; before a file is replaced, so that it never speaks of other bytes."""
    _note(target).unlink(missing_ok=True)


def _sum(target: Path) -> str:
    origin = origin_of(target)
    return origin.sha256 if origin is not None else ""  # a file that is only worked from has no checksum


def _note(target: Path) -> Path:
    return cache_folder() / "corpora" / ".kept" / ".remote" / f"{content_hash(str(target.absolute()))}.json"
