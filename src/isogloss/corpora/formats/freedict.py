"""FreeDict dictionaries (TEI): every headword of an entry with every translation of it."""

from isogloss.corpora.formats.layout import target_language
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.formats.xml_units import Units, read_units
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source

_TRANSLATION = {"trans", "translation", "translationEquivalent"}
_INFLECTED = {"infl", "inflected"}


def blocks(source: Source, faults: Faults) -> Blocks:
    """The entries of a dictionary; those without a translation are counted and skipped."""
    return gathered(read_units(source, _Entries(source, faults)), source.name, faults)


class _Entries(Units[RecordOrFault]):
    def __init__(self, source: Source, faults: Faults) -> None:
        super().__init__()
        self._source, self._faults = source, faults
        self._language = target_language(source)
        self._path: list[tuple[str, str]] = []  # the open elements, each with its type
        self._entry_line = 0
        self._headwords: list[str] = []
        self._translations: list[str] = []
        self._text: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "entry":
            self._entry_line, self._headwords, self._translations = self.line, [], []
        self._path.append((tag, attributes.get("type", "")))
        if self._is_headword() or self._is_translation():
            self._text = []

    def text(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def end(self, tag: str) -> None:
        if self._text is not None and tag in ("orth", "quote"):
            (self._headwords if tag == "orth" else self._translations).append(" ".join("".join(self._text).split()))
            self._text = None
        self._path.pop()
        if tag == "entry":
            self._finish()

    def _is_headword(self) -> bool:
        """Whether this is the entry's own form, not that of a related entry or an inflected form."""
        inside = dict(self._path)
        return self._path[-1][0] == "orth" and inside.get("form", "") not in _INFLECTED and "re" not in inside

    def _is_translation(self) -> bool:
        """Whether this is a translation of the entry, not of an example."""
        kinds = [kind for tag, kind in self._path if tag == "cit"]
        related = any(tag == "re" for tag, _ in self._path)
        return self._path[-1][0] == "quote" and bool(kinds) and set(kinds) <= _TRANSLATION and not related

    def _finish(self) -> None:
        headwords, translations = filter(None, self._headwords), list(filter(None, self._translations))
        pairs = [(word, translation) for word in headwords for translation in translations]
        if not pairs:
            self._faults.passed_over["untranslated"] += 1
        for word, translation in pairs:
            source, target = (word, translation) if self._source.source_first else (translation, word)
            self.ready.append(Record(self._entry_line, source, [(self._language, target)]))
