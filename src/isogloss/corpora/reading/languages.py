"""Codes of languages: one short name for each (`eng`, `en_US` and `en` are all English), and what a file's name says of them.

Corpora name the same language in several ways: ISO 639-1 (`de`), 639-3 (`deu`), the old 639-2/B (`ger`), a part of a
group for the whole (`cmn` for Chinese, `arb` for Arabic), or a locale (`pt_BR`). Pairs of two corpora can only be trained
and counted together if they agree, so every code goes through `canonical`.
"""

import re
from functools import lru_cache

_SHORT = """
aar:aa abk:ab ave:ae afr:af aka:ak amh:am arg:an ara:ar asm:as ava:av aym:ay aze:az bak:ba bel:be bul:bg bis:bi bam:bm ben:bn
bod:bo bre:br bos:bs cat:ca che:ce cha:ch cos:co cre:cr ces:cs chu:cu chv:cv cym:cy dan:da deu:de div:dv dzo:dz ewe:ee ell:el
eng:en epo:eo spa:es est:et eus:eu fas:fa ful:ff fin:fi fij:fj fao:fo fra:fr fry:fy gle:ga gla:gd glg:gl grn:gn guj:gu glv:gv
hau:ha heb:he hin:hi hmo:ho hrv:hr hat:ht hun:hu hye:hy her:hz ina:ia ind:id ile:ie ibo:ig iii:ii ipk:ik ido:io isl:is ita:it
iku:iu jpn:ja jav:jv kat:ka kon:kg kik:ki kua:kj kaz:kk kal:kl khm:km kan:kn kor:ko kau:kr kas:ks kur:ku kom:kv cor:kw kir:ky
lat:la ltz:lb lug:lg lim:li lin:ln lao:lo lit:lt lub:lu lav:lv mlg:mg mah:mh mri:mi mkd:mk mal:ml mon:mn mar:mr msa:ms mlt:mt
mya:my nau:na nob:nb nde:nd nep:ne ndo:ng nld:nl nno:nn nor:no nbl:nr nav:nv nya:ny oci:oc oji:oj orm:om ori:or oss:os pan:pa
pli:pi pol:pl pus:ps por:pt que:qu roh:rm run:rn ron:ro rus:ru kin:rw san:sa srd:sc snd:sd sme:se sag:sg hbs:sh sin:si slk:sk
slv:sl smo:sm sna:sn som:so sqi:sq srp:sr ssw:ss sot:st sun:su swe:sv swa:sw tam:ta tel:te tgk:tg tha:th tir:ti tuk:tk tgl:tl
tsn:tn ton:to tur:tr tso:ts tat:tt twi:tw tah:ty uig:ug ukr:uk urd:ur uzb:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh yid:yi
yor:yo zha:za zho:zh zul:zu
"""
_BIBLIOGRAPHIC = """
alb:sq arm:hy baq:eu bur:my chi:zh cze:cs dut:nl fre:fr geo:ka ger:de gre:el ice:is mac:mk mao:mi may:ms per:fa rum:ro slo:sk
tib:bo wel:cy scc:sr scr:hr
"""
# The one member of a group that stands for the group in corpora, and codes that were replaced.
_USUAL = """
arb:ar cmn:zh swh:sw pes:fa lvs:lv ekk:et zsm:ms uzn:uz azj:az khk:mn npi:ne ory:or plt:mg ydd:yi kmr:ku gaz:om pbt:ps
iw:he ji:yi jw:jv
"""
_LONG_ONLY = """
abq ace acm ady aeb afb ain ajp akk alt ang apc arq ars ary arz ast avk awa ayl azb ban bar bcl bem ber bho bjn bpy brx bug cbk
ceb chr ckb cop crh csb cyo dag diq din doi dsb dtp dyu egl egy ext fil fon frm fro frp frr fur gag gbm gcf gil gom gos got grc
gsw hak haw hil hne hoc hsb hrx ilo inh izh jbo kaa kab kam kbp kea kha kjh kmb koi kok kpv krc krl ksh kum kzj lad lez lfn lij
lld lmo ltg lua luo lus lzh lzz mag mai max mdf mfe mgm mhr min mni mos mrj mus mvv mwl myv mzn nah nan nap nds new niu nog nov
nso nst nus nys orv ota pag pam pap pau pcd pcm pfl phn pms pnb ppl prg quc quy quz rap rif rom rue sah sat scn sco sdh sgs
shi shs shy sjn skr srn stq swg syc szl tet tig tkl tlh tly tmr tmw toi tok tpi tpw tum tvl tyv tzl tzm udm umb vec vep vls
vro war wuu xal xmf yua yue zea zgh zlm zza
"""


def _table(*texts: str) -> dict[str, str]:
    return dict(entry.split(":") for text in texts for entry in text.split())


_ALIASES = _table(_SHORT, _BIBLIOGRAPHIC, _USUAL)
_KNOWN = frozenset(_ALIASES.values()) | frozenset(_LONG_ONLY.split())
# Scripts that are not the language's usual one; a usual one (eng_Latn) says nothing new and is dropped.
_SECOND_SCRIPTS = {
    *(("zh", "Hant"), ("sr", "Latn"), ("bs", "Cyrl"), ("uz", "Cyrl"), ("az", "Cyrl"), ("az", "Arab"), ("kk", "Latn")),
    *(("kk", "Arab"), ("tt", "Latn"), ("pa", "Arab"), ("ku", "Arab"), ("mn", "Mong"), ("sd", "Deva"), ("ms", "Arab")),
}
_SCRIPT_NAMES = {"latin": "Latn", "cyrillic": "Cyrl"}
_REGION = r"(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3})|_[a-z]{2})?"
_CODE = rf"[a-z]{{2,3}}{_REGION}"
_PAIR = re.compile(rf"(?=(?<![A-Za-z0-9])({_CODE})-({_CODE})(?![A-Za-z0-9]))")
_SHAPE = re.compile(r"[a-z]{2,3}([-_]([A-Za-z]{2,4}|\d{3})){0,2}")


@lru_cache(maxsize=4096)
def canonical(code: str) -> str:
    """The short form of a code: `deu` → `de`, `pt_br` → `pt-BR`, `zho_Hant` → `zh-Hant`, `eng_Latn` → `en`."""
    primary, *rest = re.split(r"[-_@.]", re.sub(r"^[\s\-_@.]+", "", code.rstrip()))  # what comes first is the language
    primary = primary.strip().lower()
    primary = _ALIASES.get(primary, primary)
    script = region = ""
    for part in rest:
        if part.lower() in _SCRIPT_NAMES or (len(part) == 4 and part.isalpha()):
            script = _SCRIPT_NAMES.get(part.lower(), part.title())
        elif re.fullmatch(r"[A-Za-z]{2}|\d{3}", part):
            region = part.upper()
    script = script if (primary, script) in _SECOND_SCRIPTS else ""
    return "-".join(part for part in (primary, script, region) if part)


@lru_cache(maxsize=4096)
def without_region(code: str) -> str:
    """The language of a locale: `de_DE.UTF-8` → `de`, `sr@latin` → `sr-Latn`. Where a country was noted, not chosen."""
    return "-".join(part for part in canonical(code).split("-") if not re.fullmatch(r"[A-Z]{2}|\d{3}", part))


def is_shaped_like_a_code(text: str) -> bool:
    """Whether `text` could be a code: two or three small letters, perhaps with a script and a country after them."""
    return bool(_SHAPE.fullmatch(text))


def is_known(code: str) -> bool:
    """Whether `code` means a language that corpora have; every two-letter code does, and the usual three-letter ones."""
    return is_shaped_like_a_code(code) and canonical(code).split("-")[0] in _KNOWN


@lru_cache(maxsize=4096)
def is_source(code: str, source_language: str) -> bool:
    """Whether `code` is the source language, in any of its spellings: `eng` and `en-US` are `en`."""
    return is_shaped_like_a_code(code) and source_language in (canonical(code), without_region(code))


def same_language(one: str, other: str) -> bool:
    """Whether two codes can mean the same thing: equal, or one of them leaves the country open (`pt`, `pt-BR`)."""
    return one == other or without_region(one) == other or one == without_region(other)


def pair_in(stem: str, source_language: str) -> tuple[str, bool] | None:
    """The other language that a name such as `news.de-en` tells, and whether the source comes first; None if it does not.

    The last pair with the source language in it counts. A code that few know must be as long as that of the source
    (`xyz-eng`), and after a hyphen (`freedict-eng-deu`) both must be known: or `dev-en` and `state-of-en` would be pairs.
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
    """A name without the pairs of languages in it: `news.de-en` → `news`. A release number after the pair goes too."""
    for match in reversed(list(_PAIR.finditer(stem))):
        first, second = match[1], match[2]
        before, after = stem[: match.start()], stem[match.end(2) :]
        whole = (not before or before[-1] in "._-") and (not after or after[0] in "._-")
        known = is_known(first) and is_known(second)
        if whole and (known or is_source(first, source_language) or is_source(second, source_language)):
            after = re.sub(r"^-v?\d.*", "", after)
            stem = f"{before.rstrip('._-')}{after}" if before else after.lstrip("._-")
    return stem
