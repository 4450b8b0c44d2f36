"""Find Moses text by file names: `news.de-en.de` belongs to `news.de-en.en`, `train.en` to `train.de`."""

from collections.abc import Iterable
from dataclasses import dataclass

from isogloss.corpora.reading.compression import unpacked_name
from isogloss.corpora.reading.filenames import Entry
from isogloss.corpora.reading.languages import canonical, is_known, is_shaped_like_a_code, is_source, pair_in, same_language
from isogloss.errors import DataError


@dataclass(frozen=True, slots=True)
class MosesFiles:
    """Two line-aligned files, the language of the second, and optionally the file with their scores."""

    stem: str
    source: Entry
    target: Entry
    language: str
    scores: Entry | None = None


def half_of(name: str, source_language: str) -> tuple[str, str] | None:
    """The stem and the code of a name that ends in a language; None for other names.

    A rare code counts if the pair before it has it too: `tatoeba.xyz-eng.xyz`.
    """
    stem, dot, code = unpacked_name(name)[0].rpartition(".")
    if not dot or not stem or not is_shaped_like_a_code(code):
        return None
    pair = pair_in(stem, source_language)
    in_pair = pair is not None and (canonical(code) == pair[0] or is_source(code, source_language))
    return (stem, code) if in_pair or (pair is None and is_known(code)) else None


def matched(
    stem: str, code: str, neighbours: Iterable[Entry], source_language: str, target: str, chosen: bool
) -> list[MosesFiles]:
    """The pairs that the file `stem.code` belongs to; none if there is no other file.

    Of files in more than two languages, all are paired with the source; but only one if the user gave the `target` language,
    or has `chosen` that file.
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
    elif target:
        others = [one for one in others if same_language(canonical(one), target)]
    return [MosesFiles(stem, found[mine[0]], found[one], canonical(one), scores) for one in others] if mine else []


def missing_half(entry: Entry, stem: str, code: str, source_language: str, target: str) -> DataError:
    """The error for Moses text with only one of its two files."""
    pair = pair_in(stem, source_language)
    mine = is_source(code, source_language)
    wanted = (pair[0] if pair else target or "XX") if mine else source_language
    place = f"{entry.path}:{entry.member}" if entry.member else str(entry.path)
    return DataError(
        f"{place}: its other half is missing",
        hint=f"Moses text is two files: {stem}.{wanted} should be beside it; set the format if it is another one",
    )
