"""What a file name says: the format, the corpus, the languages, and the other files of Moses text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from isogloss.corpora.reading.compression import unpacked_name
from isogloss.corpora.reading.languages import (
    canonical,
    is_known,
    is_shaped_like_a_code,
    is_source,
    pair_in,
    same_language,
    without_pairs,
    without_region,
)
from isogloss.errors import DataError


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be read; its module in `formats` has the same name."""

    suffixes: tuple[str, ...] = ()
    dictionary: bool = False  # entries, not sentences
    catalog: bool = False  # messages of a program in one language, which the file name ends with


FORMATS = {
    "tsv": Format((".tsv", ".tab", ".txt")),
    "csv": Format((".csv",)),
    "jsonl": Format((".jsonl", ".ndjson", ".json")),
    "parquet": Format((".parquet",)),
    "moses": Format(),
    "tmx": Format((".tmx",)),
    "po": Format((".po",), catalog=True),
    "mo": Format((".mo",), catalog=True),
    "muse": Format(dictionary=True),
    "freedict": Format((".tei",), dictionary=True),
}
BY_SUFFIX = {suffix: name for name, one in FORMATS.items() for suffix in one.suffixes}
_SHARD = re.compile(
    r"(?:(.+?)[-._])??(?:(?:train|dev|test|validation)-)?\d{3,6}-of-\d{3,6}"
)  # as the Hugging Face hub names them
_NUMBERS = re.compile(r"[\d._-]*")  # MUSE's en-de.0-5000.txt
_NOT_CORPORA = ("readme", "license", "licence", "copying", "changelog", "changes", "notice", "authors", "install", "makefile")
_PLAIN_FOLDERS = {"po", "mo", "lc_messages", "locale", "locales", "", ".", ".."}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, or a file in an archive."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """Its name without folders."""
        return PurePosixPath(self.member).name if self.member else self.path.name

    @property
    def folder(self) -> tuple[Path, str]:
        """The folder, or the folder in the archive."""
        return (self.path, str(PurePosixPath(self.member).parent)) if self.member else (self.path.parent, "")

    def around(self) -> Iterable[str]:
        """The names of its folders and of the archive (without suffixes), from the inside out."""
        if self.member:
            yield from (part.name for part in PurePosixPath(self.member).parents)
            yield stem_of(self.path.name)
        yield from (part.name for part in self.path.absolute().parents)


def format_of(name: str) -> str:
    """The format of a name's suffix; "" if it is unknown."""
    return BY_SUFFIX.get(Path(unpacked_name(name)[0]).suffix.lower(), "")


def stem_of(name: str) -> str:
    """A name without its suffixes: `news.en-de.tsv.gz` → `news.en-de`, `en-de.txt.zip` → `en-de`."""
    name = unpacked_name(name)[0]
    for suffix in (".zip", ".tar"):
        if name.lower().endswith(suffix):
            return stem_of(name[: -len(suffix)])
    path = Path(name)
    return path.stem if path.suffix.lower() in BY_SUFFIX else name


def is_no_corpus(name: str) -> bool:
    """Whether a file is there for people or tools: a README, a hidden file."""
    lower = name.lower()
    return lower.startswith((".", "__")) or lower.endswith(".origin.json") or lower.startswith(_NOT_CORPORA)


def corpus_of(entry: FileEntry, stem: str, source_language: str, catalog: bool = False) -> str:
    """The name of the corpus: the file's without languages, or its folder's if nothing is left (`tatoeba/en-de.tsv`)."""
    bare = without_pairs(stem, source_language)
    if catalog and (code := _code_at_the_end(bare)):
        bare = bare[: -len(code)].rstrip("._-")
    shard = _SHARD.fullmatch(bare)
    bare = (shard[1] or "") if shard else bare
    if bare and not _NUMBERS.fullmatch(bare):
        return bare
    for name in entry.around():
        bare = without_pairs(name, source_language)
        if bare.lower() not in _PLAIN_FOLDERS and not is_known(bare):
            return bare
    return "corpus"


def pair_of(entry: FileEntry, stem: str, source_language: str) -> tuple[str, bool] | None:
    """The other language and whether the source comes first, by the name of the file, the archive or the folder.

    A folder's name must be a pair and nothing else (`talks/en-de/train.parquet`).
    """
    if found := pair_in(stem, source_language):
        return found
    count = len(PurePosixPath(entry.member).parents) + 1 if entry.member else 1  # up to the archive, or the file's folder
    for number, name in enumerate(islice(entry.around(), count), 1):
        is_archive = bool(entry.member) and number == count
        if (found := pair_in(name, source_language)) and (is_archive or not without_pairs(name, source_language)):
            return found
    return None


def catalog_language(entry: FileEntry, stem: str) -> str:
    """The language of a .po or .mo file by its name (`de.po`, `app.pt_BR.po`) or its folder (`de/LC_MESSAGES/app.mo`)."""
    if code := _code_at_the_end(stem):
        return without_region(code)
    for name in entry.around():
        if name.lower() not in _PLAIN_FOLDERS:
            return without_region(name) if _is_locale(name) else ""
    return ""


def _code_at_the_end(stem: str) -> str:
    found = re.search(r"(?:^|[._-])([a-z]{2,3}(?:_[A-Z]{2})?(?:@[a-z]+)?)$", stem)
    return found[1] if found and _is_locale(found[1]) else ""


def _is_locale(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?(@[a-z]+)?", name)) and is_known(canonical(name).split("-")[0])


@dataclass(frozen=True, slots=True)
class MosesFiles:
    """Two line-aligned files, the language of the second, and optionally the file with their scores."""

    stem: str
    source: FileEntry
    target: FileEntry
    language: str
    scores: FileEntry | None = None


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
    stem: str, code: str, neighbors: Iterable[FileEntry], source_language: str, target: str, chosen: bool
) -> list[MosesFiles]:
    """The pairs that the file `stem.code` belongs to; none if there is no other file.

    Of files in more than two languages, all are paired with the source; but only one if the user gave the `target` language,
    or has `chosen` that file.
    """
    found: dict[str, FileEntry] = {}
    scores = None
    for entry in neighbors:
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


def missing_half(entry: FileEntry, stem: str, code: str, source_language: str, target: str) -> DataError:
    """The error for Moses text with only one of its two files."""
    pair = pair_in(stem, source_language)
    mine = is_source(code, source_language)
    wanted = (pair[0] if pair else target or "XX") if mine else source_language
    place = f"{entry.path}:{entry.member}" if entry.member else str(entry.path)
    return DataError(
        f"{place}: its other half is missing",
        hint=f"Moses text is two files: {stem}.{wanted} should be beside it; set the format if it is another one",
    )
