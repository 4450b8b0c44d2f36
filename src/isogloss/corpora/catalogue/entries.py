"""The corpora of entries.toml.

`opus:Books` names any corpus of OPUS, and `hub:owner/name` any data set of the Hugging Face hub with one folder of Parquet
files per language pair.
"""

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from isogloss.errors import DataError

Languages = tuple[str, str]

_ENTRIES = Path(__file__).with_name("entries.toml")
_CODE = r"[a-z]{2,8}(?:_[A-Za-z]{2,4}|-[A-Z][A-Za-z]{1,3})?"  # de, pt_br, pt-BR, zh_Hant
_PAIR = re.compile(rf"({_CODE})-({_CODE})")
HUB_OWNER = "sentence-transformers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One corpus. The fields are explained at the top of entries.toml."""

    name: str
    what: str
    license: str
    page: str
    by: str
    terms: str = ""
    pairs: str = ""
    languages: tuple[str, ...] = ()
    language_count: int = 0  # if the codes are not listed
    papers: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    note: str = ""
    dictionary: bool = False
    corpus: str = ""  # its name on OPUS, if different
    repo: str = ""  # its name on the hub
    version: str = ""  # a fixed one; otherwise the newest
    files: dict[str, str] = field(default_factory=dict)  # local name → URL
    layout: str = ""  # a layout that `repack` converts
    min_score: float | None = None
    why: str = ""
    how: str = ""

    def may_have(self, languages: Languages) -> bool:
        """Whether it may have the pair; if its languages are not listed, only the service knows."""
        return not self.languages or all(any(code in self.languages for code in spellings(one)) for one in languages)

    def spelling(self, code: str) -> str:
        """The corpus' own code of a language."""
        return next((one for one in spellings(code) if one in self.languages), code)

    @property
    def how_many_languages(self) -> int:
        """The number of languages, 0 if unknown."""
        return len(self.languages) or self.language_count


# Services use different codes: Tatoeba cmn, GlobalVoices zhs, TED2020 zh_cn for zh.
_SPELLINGS = {
    "zh": ("zh", "zh_cn", "zh_CN", "zhs", "cmn"),
    "zh_cn": ("zh_cn", "zh_CN", "zhs", "cmn"),
    "zh_tw": ("zh_tw", "zh_TW", "zht"),
    "ja": ("ja", "jp"),
    "fa": ("fa", "pes"),
    "sw": ("sw", "swh"),
    "ms": ("ms", "zsm"),
    "ne": ("ne", "npi"),
    "ku": ("ku", "kmr"),
    "tl": ("tl", "fil"),
    "no": ("no", "nb"),
    "nb": ("nb", "no"),
}


def spellings(code: str) -> tuple[str, ...]:
    """The codes that services use for a language, the usual one first."""
    language, _, region = code.partition("_")
    return _SPELLINGS.get(code) or ((code, f"{language}_{region.upper()}") if len(region) == 2 else (code,))


@cache
def entries() -> dict[str, Entry]:
    """All listed corpora by name."""
    found = tomllib.loads(_ENTRIES.read_text(encoding="utf-8"))
    return {name: _entry(name, facts) for name, facts in found.items()}


def _entry(name: str, facts: dict[str, Any]) -> Entry:
    codes = tuple(facts.get("languages", "").split())
    lists = {key: tuple(facts.get(key, ())) for key in ("papers", "also")}
    repo = f"{HUB_OWNER}/{name}" if facts["by"] == "hub" else ""
    return Entry(**{"repo": repo, **facts, **lists, "name": name, "languages": codes})


def hub_repository(corpus: str) -> str:
    """The data set on the Hugging Face Hub that a corpus of the catalogue comes from; empty for others."""
    found = entries().get(corpus)
    return found.repo if found is not None and found.by == "hub" else ""


def find(name: str) -> Entry:
    """The entry of a name; case and hyphens are ignored, and alternative names work."""
    if match := re.fullmatch(r"opus:(\w[\w.+-]*)", name):
        return Entry(name=match[1], what="", license="see its page", page=f"https://opus.nlpl.eu/{match[1]}", by="opus")
    if match := re.fullmatch(r"hub:(\w[\w.-]*/(\w[\w.-]*))", name):
        page = f"https://huggingface.co/datasets/{match[1]}"
        return Entry(name=match[2], what="", license="see its page", page=page, by="hub", repo=match[1])
    known = {_plain(one): entry for entry in entries().values() for one in (entry.name, *entry.also)}
    if (found := known.get(_plain(name))) is not None:
        return found
    close = difflib.get_close_matches(_plain(name), known, n=3, cutoff=0.5)
    near = list(dict.fromkeys(known[one].name for one in close))
    raise DataError(
        f"no corpus is called {name!r}",
        hint=(f"did you mean {' or '.join(near)}? " if near else "")
        + "isogloss corpora list shows them all; any corpus of OPUS is opus:NAME",
    )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def as_languages(text: str) -> Languages:
    """`en-de` as ("en", "de")."""
    match = _PAIR.fullmatch(text.strip())
    if match is None or match[1] == match[2]:
        raise DataError(f"{text!r} is not a language pair", hint="write two codes with a hyphen: --lang en-de")
    return _usual(match[1]), _usual(match[2])


def _usual(code: str) -> str:
    """`pt-BR` and `pt_BR` as `pt_br`; a script keeps its capital (`zh_Hant`)."""
    language, _, rest = code.replace("-", "_").partition("_")
    if not rest:
        return language
    return f"{language}_{rest.title() if len(rest) == 4 else rest.lower()}"
