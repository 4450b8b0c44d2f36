"""Translation memories (TMX): units with one variant a language, two or many.

Inline markup that stands for formatting (bpt, ept, ph, it, ut) is dropped with its content; text in hi is text.
"""

import logging

from isogloss.corpora.blocks import Blocks
from isogloss.corpora.faults import Faults
from isogloss.corpora.formats.markup import Units, records
from isogloss.corpora.formats.records import Record, gathered
from isogloss.corpora.languages import canonical, is_shaped_like_a_code, is_source, same_language, without_region
from isogloss.corpora.sources import Source

logger = logging.getLogger(__name__)

_FORMATTING = {"bpt", "ept", "ph", "it", "ut"}


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a TMX file: the source with every other language, or with the one that is told or in the file's name."""
    units = _TranslationUnits(source)
    yield from gathered(records(source, units), source.name, faults)
    if units.passed_over:
        wanted = source.language or "another language"
        logger.info("%s: %d units lack %s or %s", source.name, units.passed_over, source.source_language, wanted)


class _TranslationUnits(Units):
    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._unit_line = 0
        self._language = ""
        self._variants: list[tuple[str, str]] = []
        self._text: list[str] | None = None  # of the segment at hand
        self._dropping = 0  # how deep in formatting
        self._roles: dict[str, str] = {}
        self.passed_over = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "tu":
            self._unit_line, self._variants = self.line, []
        elif tag == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif tag == "seg":
            self._text = []
        elif tag in _FORMATTING and self._text is not None:
            self._dropping += 1

    def text(self, data: str) -> None:
        if self._text is not None and not self._dropping:
            self._text.append(data)

    def end(self, tag: str) -> None:
        if tag == "seg" and self._text is not None:
            self._variants.append((self._language, "".join(self._text)))
            self._text, self._dropping = None, 0
        elif tag in _FORMATTING and self._dropping:
            self._dropping -= 1
        elif tag == "tu":
            self._finish()

    def _finish(self) -> None:
        sources: list[str] = []
        targets: list[tuple[str, str]] = []
        for code, text in self._variants:
            if code not in self._roles:
                self._roles[code] = _role(code, self._source)
            role = self._roles[code]
            if role == self._source.source_language:
                sources.append(text)
            elif role:
                targets.append((role, text))
        if sources and targets:
            self.ready.append(Record(self._unit_line, sources[0], targets))
        else:
            self.passed_over += 1


def _role(code: str, source: Source) -> str:
    """The language that a variant counts as, or "" if it is not wanted. TMX does not mind the case of codes."""
    primary, *rest = code.replace("_", "-").split("-")
    code = "-".join([primary.lower(), *rest])
    if not is_shaped_like_a_code(code):
        return ""
    if is_source(code, source.source_language):
        return source.source_language
    if source.language:
        return source.language if same_language(canonical(code), source.language) else ""
    return without_region(code)
