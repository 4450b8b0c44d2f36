"""Retrieval test sets: documents, queries, and which documents answer which queries.

A folder has one of three layouts. Files may be compressed; xx is a language, and a file without one is English.

    corpus.jsonl, corpus.xx.jsonl, xx/corpus.jsonl       {"_id": …, "title": …, "text": …}, as in BEIR
    queries.jsonl, queries.xx.jsonl, xx/queries.jsonl    {"_id": …, "text": …}
    qrels/test.tsv, xx/qrels/test.tsv                    query id, document id, grade (tab), with a header

    paragraphs.tsv, paragraphs.xx.tsv                    id, text (tab)
    questions.tsv, questions.xx.tsv                      id, id of the paragraph with the answer, question (tab)

    paragraphs.tsv                                       with a header: id, …, en, xx, … (tab)
    questions.tsv                                        with a header: id, paragraph, en, xx, … (tab)

Documents and queries with the same id are translations of each other. In BEIR's layout, a language with a qrels file of its own
(`xx/qrels/test.tsv`) may have other queries and documents than the rest.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isogloss.amounts import amount
from isogloss.corpora import questions
from isogloss.corpora.reading.compression import SUFFIXES, unpacked_name
from isogloss.corpora.reading.languages import canonical, is_known, without_region
from isogloss.corpora.reading.lines import numbered_lines
from isogloss.corpora.reading.tables import read_table
from isogloss.errors import DataError
from isogloss.evaluation.data.test_sets import EvaluationSet
from isogloss.evaluation.leak_report import SetFile
from isogloss.models.encoders.roles import DOCUMENT, QUERY
from isogloss.shapes import COUNT, NOTHING, TEXT, Misfit, check, parse_json

ENGLISH = "en"
LAYOUTS = "docs/evaluation.md has the layouts: corpus.jsonl, queries.jsonl and qrels/test.tsv, or paragraphs and questions"
TOGETHER = "do the files belong together?"
RECORD = {"_id": (TEXT, COUNT), "text": TEXT, "title?": (TEXT, NOTHING)}

Qrels = dict[str, dict[str, float]]  # query id → document id → grade; 1 or more is relevant


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NamedTexts(EvaluationSet):
    """Documents or queries in one language, with their ids."""

    ids: list[str]

    @property
    def language(self) -> str:
        """Their language."""
        return self.languages[0]


@dataclass(frozen=True, slots=True, eq=False)
class RetrievalSearch:
    """Queries, the documents they are searched in, and for each query the rows of the relevant ones with their grades."""

    queries: NamedTexts
    documents: NamedTexts
    relevance: list[dict[int, float]]


@dataclass(frozen=True, slots=True, eq=False)
class RetrievalSet:
    """Documents, queries and qrels by language. The qrels of most sets are the same for all languages."""

    name: str
    documents: Mapping[str, NamedTexts]
    queries: Mapping[str, NamedTexts]
    qrels: Mapping[str, Qrels]
    apart: frozenset[str] = frozenset()  # languages with documents and qrels of their own

    @property
    def index_language(self) -> str:
        """The language of the documents that queries in all languages are searched in; "" if there is none."""
        if ENGLISH in self.documents:
            return ENGLISH
        return next(iter(self.documents)) if len(self.documents) == 1 else ""

    def across(self) -> list[RetrievalSearch]:
        """Queries in each language, searched in the documents in `index_language`; those in this language come last."""
        index = self.index_language
        languages = sorted((one for one in self.queries if one not in self.apart or one == index), key=index.__eq__)
        return [self._search(one, index) for one in languages] if index else []

    def within(self) -> list[RetrievalSearch]:
        """Queries in each language, searched in documents in the same language; without `index_language`."""
        return [self._search(one, one) for one in self.queries if one in self.documents and one != self.index_language]

    def in_languages(self, languages: Sequence[str]) -> "RetrievalSet":
        """The queries in some languages, and those in `index_language`."""
        wanted = {without_region(one) for one in languages}
        if not any(without_region(one) in wanted for one in self.queries):
            known = ", ".join(self.queries)
            raise DataError(f"{self.name} has no queries in {', '.join(languages)}", hint=f"it has them in {known}")
        kept = {one: own for one, own in self.queries.items() if one == self.index_language or without_region(one) in wanted}
        return replace(self, queries=kept)

    def _search(self, language: str, index: str) -> RetrievalSearch:
        queries, documents, qrels = self.queries[language], self.documents[index], self.qrels[language]
        row_of = {name: row for row, name in enumerate(documents.ids)}
        for query in queries.ids:
            if missing := qrels[query].keys() - row_of.keys():
                raise DataError(
                    f"{self.name}: the answer of query {query} is document {min(missing)}, which is not in"
                    f" {documents.origin[0]}",
                    hint=TOGETHER,
                )
        relevance = [{row_of[name]: grade for name, grade in qrels[query].items()} for query in queries.ids]
        return RetrievalSearch(queries, documents, relevance)


def open_retrieval_set(place: str, name: str = "") -> RetrievalSet:
    """Read a folder, or the built-in set `questions`."""
    folder = questions.located(place)
    name = name or folder.resolve().name
    if not folder.is_dir():
        raise DataError(
            f"{place}: no such folder of documents and queries", hint=f'"{questions.NAME}" is the built-in set; {LAYOUTS}'
        )
    if _files(folder, "corpus", ".jsonl"):
        return _beir(folder, name)
    return _tables(folder, name)


# ── BEIR ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _beir(folder: Path, name: str) -> RetrievalSet:
    documents, queries = (
        {one: _records(path, name, one) for one, path in _files(folder, stem, ".jsonl").items()}
        for stem in ("corpus", "queries")
    )
    shared = [_read_qrels(path) for path in _variants(folder / "qrels", "test.tsv")]
    own = {one: _read_qrels(path) for one, path in _in_subfolders(folder, "qrels/test.tsv")}
    if not queries or not (shared or own):
        raise DataError(f"{folder}: {'qrels/test.tsv' if queries else 'queries.jsonl'} is missing", hint=LAYOUTS)
    qrels = {one: own[one] if one in own else shared[0] for one in queries if one in own or shared}
    return _checked(name, documents, queries, qrels, frozenset(own.keys() & documents.keys()))


def _read_qrels(path: Path) -> Qrels:
    found: Qrels = {}
    for number, cells in read_table(path):
        try:
            query, document, grade = cells[0].strip(), cells[1].strip(), float(cells[2])
        except (IndexError, ValueError) as error:
            if not found and len(cells) == 3:
                continue  # the header
            raise DataError(
                f"{path} line {number}: not a query id, a document id and a grade: {' '.join(cells)[:80]!r}",
                hint="qrels have three columns, separated by tabs, and a header",
            ) from error
        found.setdefault(query, {})[document] = grade
    if not any(grade > 0 for own in found.values() for grade in own.values()):
        raise DataError(f"{path}: no relevant document in it", hint="a line is: query id, document id, 1 (tab)")
    return found


def _records(path: Path, name: str, language: str) -> NamedTexts:
    """The texts of a JSONL file; a title comes first, as in BEIR."""

    def rows() -> Iterator[tuple[int, str, str]]:
        for number, line in numbered_lines(path):
            if not line.strip():
                continue
            try:
                record = check(parse_json(line), RECORD)
            except Misfit as error:
                raise DataError(f"{path} line {number}: {error}", hint='a line is {"_id": "…", "text": "…"}') from error
            except ValueError as error:
                raise DataError(
                    f"{path} line {number}: not JSON ({str(error)[:60]})", hint="write one object per line"
                ) from error
            yield number, str(record["_id"]), f"{record.get('title') or ''} {record['text']}".strip()

    return _named(path, name, language, rows())


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tables(folder: Path, name: str) -> RetrievalSet:
    paragraphs, asked = (_files(folder, stem, ".tsv") for stem in ("paragraphs", "questions"))
    if not paragraphs or not asked:
        raise DataError(f"{folder}: no documents and queries there", hint=LAYOUTS)
    documents, _ = _texts_of(paragraphs, name, text=1)
    queries, answers = _texts_of(asked, name, text=2)
    return _checked(name, documents, queries, answers)


def _texts_of(files: Mapping[str, Path], name: str, text: int) -> tuple[dict[str, NamedTexts], dict[str, Qrels]]:
    """The texts by language, and what the second column says about each: for questions the paragraph with the answer.

    Without a header, the column `text` has the text. A header begins with `id`, and may name languages.
    """
    texts: dict[str, NamedTexts] = {}
    answers: dict[str, Qrels] = {}
    for language, path in files.items():
        rows, columns = list(read_table(path)), {language: text}
        if rows and rows[0][1][0].strip().lower() == "id":
            header = [cell.strip() for cell in rows.pop(0)[1]]
            named = {canonical(cell): place for place, cell in enumerate(header) if place >= text and is_known(cell)}
            columns = named or columns
        width = 1 + max(columns.values())
        for number, cells in rows:
            if len(cells) < width:
                found = amount(len(cells), "column")
                raise DataError(f"{path} line {number}: {found}, expected {width} or more, separated by tabs", hint=LAYOUTS)
        for code, column in columns.items():
            texts[code] = _named(path, name, code, ((number, cells[0], cells[column]) for number, cells in rows))
            answers[code] = {cells[0].strip(): {cells[1].strip(): 1.0} for _, cells in rows}
    return texts, answers


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _files(folder: Path, stem: str, suffix: str) -> dict[str, Path]:
    """The file of each language: STEM.xx.tsv, xx/STEM.tsv, or STEM.tsv, which is English."""
    found: dict[str, Path] = {}
    places = [(ENGLISH, path) for path in _variants(folder, f"{stem}{suffix}")]
    for path in sorted(folder.iterdir()):
        code = re.fullmatch(rf"{stem}\.(.+){re.escape(suffix)}", unpacked_name(path.name)[0])
        places += [(canonical(code[1]), path)] if code and is_known(code[1]) and path.is_file() else []
    for language, path in [*places, *_in_subfolders(folder, f"{stem}{suffix}")]:
        if language in found:
            raise DataError(f"{folder}: {found[language].name} and {path} are both {language}", hint="remove one of them")
        found[language] = path
    return found


def _in_subfolders(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """A file in the subfolder of each language, such as `de/queries.jsonl`."""
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and is_known(inner.name):
            place = inner / name
            yield from ((canonical(inner.name), path) for path in _variants(place.parent, place.name))


def _variants(folder: Path, name: str) -> list[Path]:
    """The file with this name, plain or compressed, if it is there."""
    names = [folder / f"{name}{packed}" for packed in ("", *SUFFIXES)]
    return [path for path in names if path.is_file()][:1]


def _named(path: Path, name: str, language: str, rows: Iterable[tuple[int, str, str]]) -> NamedTexts:
    texts: dict[str, str] = {}
    for number, key, text in rows:
        if (key := key.strip()) in texts:
            raise DataError(f"{path} line {number}: the id {key} occurs twice", hint="ids must be unique")
        texts[key] = text.strip()
    if not texts:
        raise DataError(f"{path}: the file is empty", hint=LAYOUTS)
    origin = (SetFile(f"{path.parent.name}/{path.name}", path),)
    return NamedTexts(name, language, (language,), (list(texts.values()),), origin, ids=list(texts))


def _checked(
    name: str,
    documents: Mapping[str, NamedTexts],
    queries: Mapping[str, NamedTexts],
    qrels: Mapping[str, Qrels],
    apart: frozenset[str] = frozenset(),
) -> RetrievalSet:
    """The set with the queries that have a relevant document; the others cannot be answered."""
    kept = {}
    for language, own in qrels.items():
        asked = queries[language]
        rows = [row for row, key in enumerate(asked.ids) if any(grade > 0 for grade in own.get(key, {}).values())]
        if not rows:
            raise DataError(f"{name}: no query of {asked.origin[0]} has a relevant document", hint=TOGETHER)
        ids, texts = ([column[row] for row in rows] for column in (asked.ids, asked.texts[0]))
        kept[language] = replace(asked, ids=ids, texts=(texts,), role=QUERY)
    known = {key for one in queries.values() for key in one.ids}
    for own in qrels.values():
        if unknown := own.keys() - known:
            raise DataError(f"{name}: the qrels name query {min(unknown)}, which is in no file of queries", hint=TOGETHER)
    indexed = {language: replace(own, role=DOCUMENT) for language, own in documents.items()}
    return RetrievalSet(name, indexed, kept, qrels, apart)
