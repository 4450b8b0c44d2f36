"""OPUS, the largest collection of parallel corpora, through its public API.

    https://opus.nlpl.eu/opusapi/?corpus=TED2020&source=en&preprocessing=moses&version=latest

The answer lists files: Moses text (a zip of two line-aligned files), TMX and others. OPUS names pairs in alphabetical order
(de-en) and has its own codes for some languages (`entries.spellings`), so we ask for all pairs of a language and search the
answer. `$ISOGLOSS_OPUS_API` names another server with the same API.
"""

import os
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from isogloss.corpora.catalogue.entries import Languages, spellings
from isogloss.corpora.catalogue.retries import PATIENT, Patience, ask
from isogloss.errors import DataError
from isogloss.shapes import TEXT, check
from isogloss.web import parse_url, whole_number

API = "https://opus.nlpl.eu/opusapi/"
NEWEST = "latest"
ANSWER = {"corpora": [dict.fromkeys(("corpus", "version", "source", "target", "preprocessing", "url"), TEXT)]}
KINDS = ("moses", "tmx", "tsv")  # in order of preference; Moses text is smallest and fastest to read


@dataclass(frozen=True, slots=True)
class OpusFile:
    """One file on OPUS."""

    corpus: str
    version: str
    source: str
    target: str
    kind: str
    url: str
    pairs: int

    def joins(self, languages: Languages) -> bool:
        """Whether it has these two languages, in either order and any spelling."""
        pairs = (self.source, self.target), (self.target, self.source)
        return any(all(code in spellings(wanted) for code, wanted in zip(pair, languages, strict=True)) for pair in pairs)

    @property
    def suffix(self) -> str:
        """The suffix that tells readers its format: `.zip`, `.tmx.gz`."""
        match = re.search(r"(\.tmx|\.tsv|\.txt)?(\.gz|\.zip|\.xz|\.zst)$", parse_url(self.url).path)
        return ".zip" if match and match[2] == ".zip" else match[0] if match else f".{self.kind}"


def search(
    *, source: str, target: str = "", corpus: str = "", version: str = NEWEST, kind: str = "moses", patience: Patience
) -> list[OpusFile]:
    """What OPUS has for a language or a pair, of one corpus or all."""
    asked = {"corpus": corpus, "source": source, "target": target, "preprocessing": kind, "version": version}
    address = os.environ.get("ISOGLOSS_OPUS_API") or API
    url = f"{address}?{urllib.parse.urlencode({key: value for key, value in asked.items() if value})}"
    answer = ask(url, patience)
    try:
        files = [_file(one) for one in check(answer, ANSWER)["corpora"]]
    except ValueError as error:
        raise DataError(f"{url}: unexpected answer ({error})", hint="is ISOGLOSS_OPUS_API the right address?") from error
    return [file for file in files if file.target]  # without a target it is monolingual


def find(corpus: str, languages: Languages, version: str = "", patience: Patience = PATIENT) -> OpusFile:
    """The file of a corpus with the pair: the newest version unless one is given, in the preferred format."""
    seen: list[OpusFile] = []
    for kind in KINDS:
        for code in spellings(languages[0]):
            offered = search(source=code, corpus=corpus, version=version or NEWEST, kind=kind, patience=patience)
            if not offered and not version:  # OPUS has marked no version as its latest
                offered = newest(search(source=code, corpus=corpus, version="", kind=kind, patience=patience))
            seen += offered
            if fitting := [file for file in offered if file.kind == kind and file.joins(languages)]:
                return max(fitting, key=lambda file: (_age(file.version), file.pairs))
    raise _missing(corpus, languages, version, seen)


def newest(files: Iterable[OpusFile]) -> list[OpusFile]:
    """The file of the highest version of each pair (v9 < v2018 < v2018q4)."""
    oldest_first = sorted(files, key=lambda file: _age(file.version))
    return list({(file.corpus, file.source, file.target): file for file in oldest_first}.values())


def _file(row: dict[str, Any]) -> OpusFile:
    facts = {name: row[name] for name in ("corpus", "version", "source", "target", "url")}
    return OpusFile(**facts, kind=row["preprocessing"], pairs=whole_number(row.get("alignment_pairs")) or 0)  # may be empty


def _age(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,18}", version))


def _missing(corpus: str, languages: Languages, version: str, seen: Sequence[OpusFile]) -> DataError:
    source, target = languages
    which = f"{corpus} {version}" if version else corpus
    ours = spellings(source)
    others = sorted({file.target if file.source in ours else file.source for file in seen} - set(ours))
    if not others:
        hint = f"isogloss corpora list --online --lang {source}-{target} shows what it has"
        return DataError(f"OPUS has no {which} with {source}", hint=hint)
    return DataError(f"{which} has no {source}-{target}", hint=f"with {source} it has {', '.join(others)}")
