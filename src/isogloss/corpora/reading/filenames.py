"""What the name of a file says: how it is written, which corpus it is, which languages it holds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from isogloss.corpora.reading.compression import unpacked_name
from isogloss.corpora.reading.languages import canonical, is_known, pair_in, without_pairs, without_region

BY_SUFFIX = {
    **{".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"},
    **{".parquet": "parquet", ".tmx": "tmx", ".po": "po", ".mo": "mo", ".tei": "freedict"},
}
FORMATS = ("tsv", "csv", "jsonl", "parquet", "moses", "tmx", "po", "mo", "muse", "freedict")
CATALOGUES = ("po", "mo")
_SHARD = re.compile(r"(?:(.+?)[-._])??(?:(?:train|dev|test|validation)-)?\d{3,6}-of-\d{3,6}")  # as the hub names them
_NUMBERS = re.compile(r"[\d._-]*")  # MUSE's en-de.0-5000.txt
_NOT_CORPORA = ("readme", "license", "licence", "copying", "changelog", "changes", "notice", "authors", "install", "makefile")
_PLAIN_FOLDERS = {"po", "mo", "lc_messages", "locale", "locales", "", ".", ".."}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a file in an archive."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """Its name without folders."""
        return PurePosixPath(self.member).name if self.member else self.path.name

    @property
    def folder(self) -> tuple[Path, str]:
        """Where its neighbours are."""
        return (self.path, str(PurePosixPath(self.member).parent)) if self.member else (self.path.parent, "")

    def around(self) -> Iterable[str]:
        """The names of what it lies in, from the inside out: folders, and the archive without its suffixes."""
        if self.member:
            yield from (part.name for part in PurePosixPath(self.member).parents)
            yield stem_of(self.path.name)
        yield from (part.name for part in self.path.absolute().parents)


def format_of(name: str) -> str:
    """The format that a name's suffix means; "" if it means none."""
    return BY_SUFFIX.get(Path(unpacked_name(name)[0]).suffix.lower(), "")


def stem_of(name: str) -> str:
    """A name without what says how the file is written: `news.en-de.tsv.gz` → `news.en-de`, `en-de.txt.zip` → `en-de`."""
    name = unpacked_name(name)[0]
    for suffix in (".zip", ".tar"):
        if name.lower().endswith(suffix):
            return stem_of(name[: -len(suffix)])
    path = Path(name)
    return path.stem if path.suffix.lower() in BY_SUFFIX else name


def is_no_corpus(name: str) -> bool:
    """Whether a file in a folder is there for people or tools, not to be read as pairs."""
    lower = name.lower()
    return lower.startswith((".", "__")) or lower.endswith(".origin.json") or lower.startswith(_NOT_CORPORA)


def corpus_of(entry: Entry, stem: str, source_language: str, catalogue: bool = False) -> str:
    """The name of the corpus: the file's, without languages; where nothing is left (`tatoeba/en-de.tsv`) its folder's."""
    bare = without_pairs(stem, source_language)
    if catalogue and (code := _code_at_the_end(bare)):
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


def pair_of(entry: Entry, stem: str, source_language: str) -> tuple[str, bool] | None:
    """The other language and whether the source comes first, by the file's name, the folders of an archive, or its folder.

    A folder counts only if its whole name is a pair (`talks/en-de/train.parquet`).
    """
    if found := pair_in(stem, source_language):
        return found
    archive = stem_of(entry.path.name) if entry.member else ""
    for number, name in enumerate(entry.around()):
        if number and not entry.member:
            break
        found = pair_in(name, source_language)
        if found and (name == archive or not without_pairs(name, source_language)):
            return found
        if name == archive:
            break
    return None


def catalogue_language(entry: Entry, stem: str) -> str:
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
