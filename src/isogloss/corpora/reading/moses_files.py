"""Moses text found by its names: `news.de-en.de` belongs to `news.de-en.en`, `train.en` to `train.de`."""

from collections.abc import Iterable
from dataclasses import dataclass

from isogloss.corpora.reading.compression import unpacked_name
from isogloss.corpora.reading.filenames import Entry
from isogloss.corpora.reading.languages import canonical, is_known, is_shaped_like_a_code, is_source, pair_in, same_language
from isogloss.errors import DataError


@dataclass(frozen=True, slots=True)
class MosesFiles:
    """Two line-aligned files, the language of the second, and the file with their scores if there is one."""

    stem: str
    source: Entry
    target: Entry
    language: str
    scores: Entry | None = None


def half_of(name: str, source_language: str) -> tuple[str, str] | None:
    """The stem and the code of a name that ends in a language; None for other names.

    A code that few know counts where the pair before it has it too: `tatoeba.xyz-eng.xyz`.
    """
    stem, dot, code = unpacked_name(name)[0].rpartition(".")
    if not dot or not stem or not is_shaped_like_a_code(code):
        return None
    pair = pair_in(stem, source_language)
    told = pair is not None and (canonical(code) == pair[0] or is_source(code, source_language))
    return (stem, code) if told or (pair is None and is_known(code)) else None


def matched(
    stem: str, code: str, neighbours: Iterable[Entry], source_language: str, told: str | None, chosen: bool
) -> list[MosesFiles]:
    """The pairs that the half `stem.code` belongs to; none if it stands alone.

    Files of more than two languages are aligned all to the source, unless the language was told or the half `chosen` by the
    user is one of the translations.
    """
    found: dict[str, Entry] = {}
    scores = None
    for entry in neighbours:
        own = half_of(entry.name, source_language)
        if own is not None and own[0] == stem:
            found.setdefault(own[1], entry)
        elif unpacked_name(entry.name)[0] == f"{stem}.scores":
            scores = entry
    mine = [one for one in found if is_source(one, source_language)]
    others = [one for one in found if not is_source(one, source_language)]
    if chosen and code in others:
        others = [code]
    elif told:
        others = [one for one in others if same_language(canonical(one), told)]
    return [MosesFiles(stem, found[mine[0]], found[one], canonical(one), scores) for one in others] if mine else []


def missing_half(entry: Entry, stem: str, code: str, source_language: str, told: str | None) -> DataError:
    """One file of two was named, and the other is not beside it."""
    pair = pair_in(stem, source_language)
    mine = is_source(code, source_language)
    wanted = (pair[0] if pair else told or "XX") if mine else source_language
    place = f"{entry.path}:{entry.member}" if entry.member else str(entry.path)
    return DataError(
        f"{place}: its other half is missing",
        hint=f"Moses text is two files: {stem}.{wanted} should be beside it; for another layout, tell the format",
    )
