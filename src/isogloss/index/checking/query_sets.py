"""Queries in English with their translations: from a file, a folder, the user's pairs, or the held-out rows of a run.

    queries.tsv     id<TAB>en<TAB>de<TAB>ar<TAB>gold             a language per column; ids and gold are optional
                    id<TAB>language<TAB>text<TAB>gold            a row per text; rows with the same id are translations
                    .csv, .parquet and compressed files have the same columns
    queries.jsonl   {"id": "q1", "en": "…", "de": "…", "gold": ["doc7"]}   or   {"id": "q1", "language": "de", "text": "…"}
    a folder        queries.en.tsv, queries.de.tsv, …            id<TAB>text<TAB>gold, no header
                    or a retrieval set, as `isogloss evaluate` reads it; `questions` is the bundled one

`gold` has the ids of the documents that answer a query, separated by spaces or commas.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.corpora import questions
from isogloss.corpora.reading.compression import unpacked_name
from isogloss.corpora.reading.filenames import format_of
from isogloss.corpora.reading.in_memory import PairData
from isogloss.corpora.reading.languages import canonical, is_known, without_region
from isogloss.corpora.reading.lines import numbered_lines
from isogloss.corpora.reading.readers import bitext_of
from isogloss.corpora.reading.tables import read_table
from isogloss.errors import DataError, IsoglossError
from isogloss.evaluation.data.retrieval_sets import open_retrieval_set
from isogloss.runs.finished import open_finished
from isogloss.shapes import parse_json
from isogloss.storage import canonical_json, content_hash
from isogloss.types import TEST

ENGLISH = "en"
GOLD = ("gold", "relevant", "documents", "document", "doc", "doc_id", "paragraph")
FORMS = "it needs columns such as id, en, de and perhaps gold, or id, language and text; docs/verbs/index-check.md has examples"


@dataclass(slots=True)
class Query:
    """A query: its text by language, and its gold documents with their grades."""

    texts: dict[str, str] = field(default_factory=dict)
    gold: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class QuerySet:
    """Queries by id, all of them with a text in the source language, and where they come from."""

    name: str
    queries: Mapping[str, Query]
    source_language: str = ENGLISH
    options: tuple[str, ...] = ()  # of the command line, that name the same queries

    @property
    def languages(self) -> list[str]:
        """Languages besides the source language, sorted."""
        return sorted({language for query in self.queries.values() for language in query.texts} - {self.source_language})

    @property
    def hash(self) -> str:
        """Hash of the content."""
        return content_hash(canonical_json({name: [one.texts, one.gold] for name, one in self.queries.items()}))

    def chosen(self, languages: Sequence[str], most: int) -> "QuerySet":
        """Up to `most` queries per language, in some languages (none: all). Raises if one of these has none."""
        for code in languages:
            if code not in self.languages and without_region(code) not in self.languages:
                there = ", ".join(self.languages)
                raise DataError(f"{self.name}: there are no queries in {code}", hint=f"there are queries in {there}")
        wanted = {canonical(one) for one in languages} | {without_region(one) for one in languages}
        kept: dict[str, Query] = {}
        counts: dict[str, int] = {}
        for name, query in self.queries.items():
            texts = {self.source_language: query.texts[self.source_language]}
            for language, text in query.texts.items():
                asked = language != self.source_language and (not languages or language in wanted)
                if asked and counts.get(language, 0) < most:
                    counts[language] = counts.get(language, 0) + 1
                    texts[language] = text
            if len(texts) > 1:
                kept[name] = Query(texts, query.gold)
        return replace(self, queries=kept)


def read_queries(place: str | Path) -> QuerySet:
    """The queries in a file or a folder."""
    path = questions.located(str(place))
    if path.is_dir():
        files = _files_by_language(path)
        return _checked(str(place), _from_files(files)) if files else _from_retrieval_set(str(place))
    reader: Callable[[Path], dict[str, Query]] = _from_jsonl if format_of(path.name) == "jsonl" else _from_table
    return _checked(str(place), reader(path))


def queries_of_pairs(data: PairData, name: str, options: tuple[str, ...] = ()) -> QuerySet:
    """Sentence pairs, only held-out ones if there are any: the teacher gets the source side, the student the target side."""
    bitext = bitext_of(data)
    rows = bitext.table.select(["source", "target", "language", "split"]).to_pylist()
    return _of_rows(name, bitext.source_language, [row for row in rows if row["split"] == TEST] or rows, options)


def held_out_queries(student: str) -> QuerySet:
    """The held-out pairs of the run that trained a student: it has not seen them."""
    hint = "name queries (--queries FILE) or pairs (--pairs FILE)"
    try:
        finished = open_finished(student)
        parts = finished.old_pairs()
    except IsoglossError as error:
        raise DataError(f"{error.message}, so there are no held-out queries", hint=hint) from error
    rows = [
        row
        for store, languages in parts
        for block in store.in_blocks(split=TEST)
        for row in block.select(["source", "target", "language"]).to_pylist()
        if row["language"] in languages
    ]
    if not rows:
        raise DataError(f"{student}: its run has no held-out pairs", hint=hint)
    return _of_rows(f"held-out pairs of {student}", parts[0][0].source_language, rows)


def _of_rows(name: str, source_language: str, rows: Iterable[Mapping[str, str]], options: tuple[str, ...] = ()) -> QuerySet:
    """Pairs with the same source are one query; of several translations into one language the first counts."""
    found: dict[str, Query] = {}
    for row in rows:
        query = found.setdefault(row["source"], Query({source_language: row["source"]}))
        query.texts.setdefault(row["language"], row["target"])
    named = {f"{number}": query for number, query in enumerate(found.values(), 1)}
    return QuerySet(name, named, source_language, options)


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_table(path: Path) -> dict[str, Query]:
    rows = list(read_table(path))
    if not rows:
        raise DataError(f"{path}: the file is empty", hint=FORMS)
    header = [cell.strip() for cell in rows.pop(0)[1]]
    lower = [cell.lower() for cell in header]
    gold = next((lower.index(name) for name in GOLD if name in lower), None)
    ids = next((lower.index(name) for name in ("id", "_id") if name in lower[:1]), None)
    if "language" in lower and "text" in lower:
        return _collected(path, _long(rows, lower, ids, gold))
    columns = {place: canonical(cell) for place, cell in enumerate(header) if place not in (ids, gold) and is_known(cell)}
    if not columns:
        raise DataError(f"{path}: its columns are {', '.join(header)[:200]}", hint=FORMS)
    return _collected(path, _wide(path, rows, columns, ids, gold))


Text = tuple[int, str, str, str, list[str]]  # line, id, language, text, gold


def _wide(
    path: Path, rows: Sequence[tuple[int, list[str]]], columns: Mapping[int, str], ids: int | None, gold: int | None
) -> Iterator[Text]:
    width = 1 + max(columns)
    for number, cells in rows:
        if len(cells) < width:
            raise DataError(
                f"{path} line {number}: {amount(len(cells), 'column')}, expected {width}", hint="separate them by tabs"
            )
        name = cells[ids].strip() if ids is not None else str(number)
        for place, language in columns.items():
            yield number, name, language, cells[place], _documents(_cell(cells, gold))


def _long(rows: Sequence[tuple[int, list[str]]], header: Sequence[str], ids: int | None, gold: int | None) -> Iterator[Text]:
    language, text = header.index("language"), header.index("text")
    for number, cells in rows:
        yield number, _cell(cells, ids).strip(), _cell(cells, language), _cell(cells, text), _documents(_cell(cells, gold))


def _cell(cells: Sequence[str], place: int | None) -> str:
    return cells[place] if place is not None and place < len(cells) else ""


def _documents(cell: str) -> list[str]:
    return [one for one in re.split(r"[,\s]+", cell) if one]


def _from_jsonl(path: Path) -> dict[str, Query]:
    def texts() -> Iterator[Text]:
        for number, line in numbered_lines(path):
            if not line.strip():
                continue
            try:
                record = parse_json(line)
                if not isinstance(record, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                raise DataError(f"{path} line {number}: not a JSON object ({str(error)[:60]})", hint=FORMS) from error
            name = str(record.get("id", record.get("_id", "")) or ("" if "language" in record else number))
            named: Any = next((record[key] for key in GOLD if key in record), [])
            gold = [str(one) for one in named] if isinstance(named, list) else _documents(str(named))
            own = {key: value for key, value in record.items() if isinstance(value, str)}
            if "language" in own and "text" in own:
                yield number, name, own["language"], own["text"], gold
            else:
                for key in (key for key in own if key not in ("id", "_id", *GOLD) and is_known(key)):
                    yield number, name, canonical(key), own[key], gold

    return _collected(path, texts())


def _collected(path: Path, texts: Iterable[Text]) -> dict[str, Query]:
    """Texts by id; those that are empty are missing."""
    found: dict[str, Query] = {}
    for number, name, language, text, gold in texts:
        if not name:
            raise DataError(f"{path} line {number}: it has no id, so it is not known what it translates", hint=FORMS)
        if not is_known(language.strip()):
            raise DataError(f"{path} line {number}: {language!r} is not the code of a language", hint="write en, de, pt-BR, …")
        query, code = found.setdefault(name, Query()), canonical(language.strip())
        query.gold |= dict.fromkeys(gold, 1.0)
        if not text.strip():
            continue
        if code in query.texts:
            raise DataError(f"{path} line {number}: a second text in {code} with the id {name}", hint="ids must be unique")
        query.texts[code] = text.strip()
    return found


# ── folders ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _files_by_language(folder: Path) -> dict[str, Path]:
    """queries.xx.tsv in a folder, by language; none if queries are part of a retrieval set."""
    found = {}
    for path in sorted(folder.iterdir()):
        code = re.fullmatch(r"queries\.(.+)\.tsv", unpacked_name(path.name)[0])
        if code and is_known(code[1]):
            found[canonical(code[1])] = path
    return found


def _from_files(files: Mapping[str, Path]) -> dict[str, Query]:
    found: dict[str, Query] = {}
    for language, path in files.items():
        rows = ((number, cells) for number, cells in read_table(path) if [cell.lower() for cell in cells[:2]] != ["id", "text"])
        texts = ((number, cells[0].strip(), language, _cell(cells, 1), _documents(_cell(cells, 2))) for number, cells in rows)
        for name, query in _collected(path, texts).items():
            own = found.setdefault(name, Query())
            own.texts |= query.texts
            own.gold |= query.gold
    return found


def _from_retrieval_set(place: str) -> QuerySet:
    data = open_retrieval_set(place)
    found: dict[str, Query] = {}
    for language, own in data.queries.items():
        if language in data.apart:
            continue
        for name, text in zip(own.ids, own.texts[0], strict=True):
            query = found.setdefault(name, Query())
            query.texts[language] = text
            query.gold |= {document: grade for document, grade in data.qrels[language][name].items() if grade > 0}
    return _checked(place, found)


def _checked(name: str, found: Mapping[str, Query]) -> QuerySet:
    """Queries with a text in English; those without one cannot be compared with what the teacher finds."""
    kept = {key: query for key, query in found.items() if ENGLISH in query.texts}
    if not kept:
        there = sorted({language for query in found.values() for language in query.texts})
        has = f"its queries are in {', '.join(there)}" if there else "there are no queries in it"
        raise DataError(f"{name}: {has}, but the teacher needs them in English", hint=FORMS)
    queries = QuerySet(name, kept, options=("--queries", name))
    if not queries.languages:
        raise DataError(f"{name}: there are queries in English only", hint="add translations: a column or file per language")
    return queries
