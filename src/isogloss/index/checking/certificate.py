"""The result of `isogloss index check`, and its certificate: `certificate.json`, with a checksum, and a page to read.

The certificate names the index, both models, the queries and the settings, each with a hash, so that somebody else can tell
whether it is about the same things, and can measure them again.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from isogloss.config.index_check import IndexCheckSettings
from isogloss.config.settings import as_dict
from isogloss.index.checking.agreement import AVERAGE, LanguageAgreement, Measured
from isogloss.index.checking.teacher_match import TeacherMatch
from isogloss.index.checking.verdict import Verdict, criteria
from isogloss.index.fit import IndexFinding
from isogloss.index.vector_index import IndexFacts
from isogloss.report.index_check_page import index_check_page
from isogloss.runs.record import versions
from isogloss.shown import masked, masked_values
from isogloss.storage import make_folder, write_json, write_text

CERTIFICATE, PAGE = "certificate.json", "certificate.html"


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A model, by name and content."""

    name: str
    fingerprint: str
    dimension: int
    prompt: str


@dataclass(frozen=True, slots=True)
class QueriesUsed:
    """Where the queries come from, their hash, how many there are, with gold documents, too, and the options that name them."""

    name: str
    hash: str
    source_language: str
    count: int
    with_gold: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Miss:
    """A query whose results differ, and the first document that teacher and student find for it."""

    query: str  # its id
    source: str
    text: str
    overlap: float
    teacher_id: str
    teacher_text: str
    student_id: str
    student_text: str


@dataclass(frozen=True, slots=True, eq=False)
class IndexCheck:
    """Everything that was measured, and the verdict. `languages` has the average and the source language, too."""

    address: str
    facts: IndexFacts
    sample: str  # a hash of some stored vectors
    match: TeacherMatch
    findings: Sequence[IndexFinding]
    teacher: ModelUsed
    student: ModelUsed
    queries: QueriesUsed
    settings: IndexCheckSettings
    languages: Mapping[str, LanguageAgreement]
    teacher_scores: Mapping[str, Measured]
    verdicts: Mapping[str, Verdict]
    verdict: Verdict
    misses: Mapping[str, Sequence[Miss]]
    date: str
    given: str = ""  # the address as it was given, with its options

    @property
    def ships(self) -> bool:
        """Whether the student can serve the index, perhaps with care."""
        return self.verdict.level != "do not ship"

    def command(self) -> str:
        """The command that measures the same again; keys and passwords are masked."""
        words = ["isogloss", "index", "check", "--index", self.given or self.address, "--student", self.student.name]
        words += ["--teacher", self.teacher.name, *self.queries.options]
        words += ["--teacher-prompt", self.teacher.prompt] if self.teacher.prompt else []
        for name, value in self.settings.given().items():
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            option = f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}"
            words += [option, text] if value != type(self.settings).model_fields[name].default else []
        return masked(shlex.join(words))

    def as_dict(self) -> dict[str, Any]:
        """The certificate. It has no texts of queries or documents: these are on the page only."""
        facts = {name: getattr(self.facts, name) for name in ("kind", "size", "dimension", "metric", "unit_norm", "exact")}
        known = {
            "certificate": "isogloss index check",
            "date": self.date,
            "verdict": asdict(self.verdict),
            "index": {
                "address": self.address,
                **facts,
                "sample": self.sample,
                "built_with": self.facts.built.model if self.facts.built else "",
            },
            "made_by_teacher": asdict(self.match),
            "findings": [asdict(one) for one in self.findings],
            "teacher": asdict(self.teacher) | {"scores": _scores(self.teacher_scores)},
            "student": asdict(self.student),
            "queries": {name: value for name, value in asdict(self.queries).items() if name != "options"},
            "settings": as_dict(self.settings),
            "languages": {language: self._language(language) for language in self.languages if language != AVERAGE},
            "average": self._average(),
            "command": self.command(),
            "versions": versions(),
        }
        shown: dict[str, Any] = masked_values(known)
        return shown

    def page(self) -> str:
        """The page: one HTML file."""
        misses = {language: [asdict(one) for one in own] for language, own in self.misses.items()}
        minimums = {name: least for own in self.languages.values() for name, least in criteria(own, self.settings).items()}
        return index_check_page(self.as_dict(), minimums, masked_values(misses))

    def write(self, folder: Path | str) -> Path:
        """Write certificate.json and certificate.html to a folder; return the page's path."""
        place = Path(folder)
        make_folder(place)
        write_json(place / CERTIFICATE, self.as_dict())
        write_text(place / PAGE, self.page())
        return place / PAGE

    def _language(self, language: str) -> dict[str, Any]:
        own, verdict = self.languages[language], self.verdicts[language]
        return {
            "queries": own.queries,
            "with_gold": own.judged,
            "scores": _scores(own.scores),
            "verdict": asdict(verdict),
            "missed": [one.query for one in self.misses.get(language, ())],
        }

    def _average(self) -> dict[str, Any] | None:
        average = self.languages.get(AVERAGE)
        return None if average is None else {"queries": average.queries, "scores": _scores(average.scores)}


def _scores(scores: Mapping[str, Measured]) -> dict[str, list[float]]:
    """Value, lower and upper end of the interval, by name."""
    return {name: [one.value, one.low, one.high] for name, one in scores.items()}
