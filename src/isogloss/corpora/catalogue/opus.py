"""OPUS, the collection that has most parallel corpora: asked through its public API, which is one address with parameters.

    https://opus.nlpl.eu/opusapi/?corpus=TED2020&source=en&preprocessing=moses&version=latest

The answer lists files: Moses text (a zip of two line-aligned files), TMX and others. OPUS writes every pair in alphabetical
order (de-en) and spells some languages its own way (see `entries.spellings`), so one question about all pairs of a language
is asked, and the answer searched. `$ISOGLOSS_OPUS_API` names another address that speaks the same.
"""

import os
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from isogloss.corpora.catalogue.entries import Languages, spellings
from isogloss.corpora.catalogue.retries import Patience, ask
from isogloss.errors import DataError
from isogloss.shapes import TEXT, check
from isogloss.web import parse_url, whole_number

API = "https://opus.nlpl.eu/opusapi/"
NEWEST = "latest"
ANSWER = {"corpora": [dict.fromkeys(("corpus", "version", "source", "target", "preprocessing", "url"), TEXT)]}
KINDS = ("moses", "tmx", "tsv")  # the first that has the pair is taken; Moses text is the smallest and the quickest to read


@dataclass(frozen=True, slots=True)
class OpusFile:
    """One file that OPUS offers."""

    corpus: str
    version: str
    source: str
    target: str
    kind: str
    url: str
    pairs: int
    kibibytes: int

    def joins(self, languages: Languages) -> bool:
        """Whether it is about these two languages, in either order and any spelling."""
        one, other = (spellings(code) for code in languages)
        return (self.source in one and self.target in other) or (self.source in other and self.target in one)

    @property
    def suffix(self) -> str:
        """The end of its name, by which readers know what it is: `.zip`, `.tmx.gz`."""
        told = re.search(r"(\.tmx|\.tsv|\.txt)?(\.gz|\.zip|\.xz|\.zst)$", parse_url(self.url).path)
        return ".zip" if told and told[2] == ".zip" else told[0] if told else f".{self.kind}"


def search(
    *, source: str, target: str = "", corpus: str = "", version: str = NEWEST, kind: str = "moses", patience: Patience
) -> list[OpusFile]:
    """What OPUS has for a language, or a pair of languages; of one corpus or of all."""
    asked = {"corpus": corpus, "source": source, "target": target, "preprocessing": kind, "version": version}
    address = os.environ.get("ISOGLOSS_OPUS_API") or API
    url = f"{address}?{urllib.parse.urlencode({key: value for key, value in asked.items() if value})}"
    told = ask(url, patience)
    try:
        files = [_file(one) for one in check(told, ANSWER)["corpora"]]
    except ValueError as error:
        raise DataError(
            f"{url}: the answer is not what OPUS says ({error})", hint="is ISOGLOSS_OPUS_API the right address?"
        ) from error
    return [file for file in files if file.target]  # without a target it is text in one language


def find(corpus: str, languages: Languages, version: str = "", patience: Patience | None = None) -> OpusFile:
    """The file of a corpus that has the pair: the newest version unless one is named, the handiest format there is."""
    patience = patience or Patience()
    seen: list[OpusFile] = []
    for kind in KINDS:
        for code in spellings(languages[0]):
            offered = search(source=code, corpus=corpus, version=version or NEWEST, kind=kind, patience=patience)
            if not offered and not version:  # where OPUS has marked no version as its latest
                offered = newest(search(source=code, corpus=corpus, version="", kind=kind, patience=patience))
            seen += offered
            if fitting := [file for file in offered if file.kind == kind and file.joins(languages)]:
                return max(fitting, key=lambda file: (_age(file.version), file.pairs))
    raise _missing(corpus, languages, version, seen)


def newest(files: Iterable[OpusFile]) -> list[OpusFile]:
    """Of each pair, the file of the highest version (v2018 comes after v9, v2018q4 after v2018)."""
    best: dict[tuple[str, str, str], OpusFile] = {}
    for file in sorted(files, key=lambda file: _age(file.version)):
        best[file.corpus, file.source, file.target] = file
    return list(best.values())


def _file(told: dict[str, Any]) -> OpusFile:
    return OpusFile(
        corpus=told["corpus"],
        version=told["version"],
        source=told["source"],
        target=told["target"],
        kind=told["preprocessing"],
        url=told["url"],
        pairs=whole_number(told.get("alignment_pairs")) or 0,  # OPUS leaves a number empty where it does not apply
        kibibytes=whole_number(told.get("size")) or 0,
    )


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
