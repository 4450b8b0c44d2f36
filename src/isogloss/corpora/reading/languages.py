"""Language codes: one short form for each language (`eng`, `en_US` and `en` are all English), and the pairs in file names.

Corpora name a language by ISO 639-1 (`de`), 639-3 (`deu`), 639-2/B (`ger`), a member of a macrolanguage (`cmn`, `arb`) or a
locale (`pt_BR`). Pairs of two corpora can only be trained and counted together if their codes agree, so every code goes
through `canonical`. langcodes knows the aliases and the usual scripts; which of the 8,000 valid codes are meant as languages
in a file name or a header (`dev`, `url` and `src` are valid) is ours to say.
"""

import re
from functools import lru_cache

import langcodes

_OURS = {"hbs": "sh", "tgl": "tl", "tl": "tl", "twi": "tw", "tw": "tw", "pbt": "ps"}  # langcodes: sr-Latn, fil, ak, pbt
_OUTDATED = {"in", "mo", "bh"}  # more often words than Indonesian, Moldovan and Bihari
_LONG_CODES = """
abq ace acm ady aeb afb ain ajp akk alt ang apc arq ars ary arz ast avk awa ayl azb ban bar bcl bem ber bho bjn bpy brx bug cbk
ceb chr ckb cop crh csb cyo dag diq din doi dsb dtp dyu egl egy ext fil fon frm fro frp frr fur gag gbm gcf gil gom gos got grc
gsw hak haw hil hne hoc hsb hrx ilo inh izh jbo kaa kab kam kbp kea kha kjh kmb koi kok kpv krc krl ksh kum kzj lad lez lfn lij
lld lmo ltg lua luo lus lzh lzz mag mai max mdf mfe mgm mhr min mni mos mrj mus mvv mwl myv mzn nah nan nap nds new niu nog nov
nso nst nus nys orv ota pag pam pap pau pcd pcm pfl phn pms pnb ppl prg quc quy quz rap rif rom rue sah sat scn sco sdh sgs
shi shs shy sjn skr srn stq swg syc szl tet tig tkl tlh tly tmr tmw toi tok tpi tpw tum tvl tyv tzl tzm udm umb vec vep vls
vro war wuu xal xmf yua yue zea zgh zlm zza
"""
_LONG = frozenset(_LONG_CODES.split())
_SCRIPT_NAMES = {"latin": "Latn", "cyrillic": "Cyrl"}
_REGION = r"(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3})|_[a-z]{2})?"
_CODE = rf"[a-z]{{2,3}}{_REGION}"
_PAIR = re.compile(rf"(?=(?<![A-Za-z0-9])({_CODE})-({_CODE})(?![A-Za-z0-9]))")
_SHAPE = re.compile(r"[a-z]{2,3}([-_]([A-Za-z]{2,4}|\d{3})){0,2}")


@lru_cache(maxsize=4096)
def _language(primary: str) -> str:
    """The short form of a code without script and region: `deu` → `de`, `cmn` → `zh`; `yue` stays."""
    if primary in _LONG or primary in _OUTDATED or not re.fullmatch(r"[a-z]{2,3}", primary):
        return primary
    found = _OURS.get(primary) or langcodes.standardize_tag(primary, macro=True)
    return primary if "-" in found else found  # Montenegrin (`cnr`) is not taken for sr-ME


@lru_cache(maxsize=4096)
def canonical(code: str) -> str:
    """The short form of a code: `deu` → `de`, `pt_br` → `pt-BR`, `zho_Hant` → `zh-Hant`, `eng_Latn` → `en`.

    A script is kept if the language is usually written in another one.
    """
    primary, *rest = re.split(r"[-_@.]", re.sub(r"^[\s\-_@.]+", "", code.rstrip()))  # what comes first is the language
    primary = _language(primary.strip().lower())
    script = region = ""
    for part in rest:
        if part.lower() in _SCRIPT_NAMES or (len(part) == 4 and part.isascii() and part.isalpha()):
            script = _SCRIPT_NAMES.get(part.lower(), part.title())
        elif re.fullmatch(r"[A-Za-z]{2}|\d{3}", part, re.ASCII):
            region = part.upper()
    if script and (not langcodes.tag_is_valid(f"und-{script}") or script == _usual_script(primary)):
        script = ""
    return "-".join(part for part in (primary, script, region) if part)


def _usual_script(primary: str) -> str | None:
    return langcodes.Language.get(primary).maximize().script if re.fullmatch(r"[a-z]{2,3}", primary) else None


@lru_cache(maxsize=4096)
def without_region(code: str) -> str:
    """The language of a locale: `de_DE.UTF-8` → `de`, `sr@latin` → `sr-Latn`."""
    return "-".join(part for part in canonical(code).split("-") if not re.fullmatch(r"[A-Z]{2}|\d{3}", part))


def is_shaped_like_a_code(text: str) -> bool:
    """Whether `text` could be a code: two or three lower-case letters, optionally with a script and a region."""
    return bool(_SHAPE.fullmatch(text))


@lru_cache(maxsize=4096)
def is_known(code: str) -> bool:
    """Whether `code` is a language that corpora have: any valid two-letter code, or one of the usual three-letter ones."""
    primary = canonical(code).split("-")[0]
    if not is_shaped_like_a_code(code) or primary in _OUTDATED:
        return False
    return primary in _LONG or (len(primary) == 2 and langcodes.tag_is_valid(primary))


@lru_cache(maxsize=4096)
def is_source(code: str, source_language: str) -> bool:
    """Whether `code` is the source language, in any of its spellings: `eng` and `en-US` are `en`."""
    return is_shaped_like_a_code(code) and source_language in (canonical(code), without_region(code))


def same_language(one: str, other: str) -> bool:
    """Whether two codes are equal, or one of them leaves the region open (`pt`, `pt-BR`)."""
    return one == other or without_region(one) == other or one == without_region(other)


def pair_in(stem: str, source_language: str) -> tuple[str, bool] | None:
    """The other language in a name such as `news.de-en`, and whether the source comes first; None if there is no pair.

    The last pair with the source language counts. A rare code must be as long as that of the source (`xyz-eng`), and beside
    another hyphen (`freedict-eng-deu`) both must be known; otherwise `dev-en` and `state-of-en` would be pairs.
    """
    for match in reversed(list(_PAIR.finditer(stem))):
        first, second = match[1], match[2]
        hyphenated = stem[: match.start()].endswith("-") or stem[match.end(2) :].startswith("-")
        if not (is_known(first) and is_known(second)) and (hyphenated or len(first) != len(second)):
            continue
        if is_source(first, source_language) and not is_source(second, source_language):
            return canonical(second), True
        if is_source(second, source_language) and not is_source(first, source_language):
            return canonical(first), False
    return None


def without_pairs(stem: str, source_language: str) -> str:
    """A name without language pairs: `news.de-en` → `news`. A release number after the pair is removed, too."""
    for match in reversed(list(_PAIR.finditer(stem))):
        first, second = match[1], match[2]
        before, after = stem[: match.start()], stem[match.end(2) :]
        whole = (not before or before[-1] in "._-") and (not after or after[0] in "._-")
        known = is_known(first) and is_known(second)
        if whole and (known or is_source(first, source_language) or is_source(second, source_language)):
            after = re.sub(r"^-v?\d.*", "", after)
            stem = f"{before.rstrip('._-')}{after}" if before else after.lstrip("._-")
    return stem
