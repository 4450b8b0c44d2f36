"""`check_index`: measure on the user's own index how well a student replaces the teacher's English queries, and judge it.

1. Read the queries, open the index and both models. Dimension, metric and norm must fit.
2. Verify that the teacher made the index (`teacher_match`).
3. Search with the teacher's English queries, and with the student's in every language.
4. Compare what they found (`agreement`) and judge it (`verdict`). `certificate` has the result and writes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.config.index_check import IndexCheckSettings
from isogloss.corpora.reading.in_memory import PairData
from isogloss.errors import DataError
from isogloss.evaluation.metrics import Doubles
from isogloss.evaluation.teachers import open_teacher_of
from isogloss.index.checking.agreement import AVERAGE, Asked, Found, Gold, LanguageAgreement, agreements, as_numbers
from isogloss.index.checking.certificate import IndexCheck, Miss, ModelUsed, QueriesUsed
from isogloss.index.checking.query_sets import QuerySet, held_out_queries, queries_of_pairs, read_queries
from isogloss.index.checking.teacher_match import Nearness, TeacherMatch, match_teacher, match_without_texts, nearness
from isogloss.index.checking.verdict import Verdict, judge, overall
from isogloss.index.fit import IndexFinding, ModelFacts, check_fit, model_facts, refuse_errors
from isogloss.index.open import open_index
from isogloss.index.vector_index import Hits, IndexFacts, VectorIndex
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_for_queries
from isogloss.models.encoders.roles import DOCUMENT, QUERY, in_role
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.types import FloatArray

SEARCHED_AT_ONCE = 256  # queries
SMALL = 50  # documents per result: in a smaller index, chance finds more than 2 % of the results
SAMPLED = 256  # stored vectors that queries are compared with if there are no texts
DEFAULTS = IndexCheckSettings()


def check_index(
    student: "Encoder | str",
    index: "VectorIndex | str",
    queries: "QuerySet | PairData | None" = None,
    teacher: "Encoder | str | None" = None,
    settings: IndexCheckSettings = DEFAULTS,
    on_progress: OnProgress = silent,
) -> IndexCheck:
    """Say whether a student can search an index that its teacher made.

        result = ig.check_index("runs/mine", "docs.npy", "queries.tsv")
        print(result.verdict.level, result.languages["de"].scores["overlap"])
        result.write("certificate")

    `queries` is a file or folder with English queries and their translations (see `query_sets`), or pairs in memory, whose
    source side is what the teacher is asked; without any, the held-out pairs of the student's run are used. `teacher` is that
    of the student's run unless it is named.
    """
    asked = _query_set(student, queries).chosen(settings.languages, settings.max_queries)
    if isinstance(index, str):
        with open_index(index) as opened:
            return replace(check_index(student, opened, asked, teacher, settings, on_progress), given=index)
    models = _Models.open(student, teacher)
    facts = index.facts()
    stored = index.sample(settings.verified)
    match, findings = _fit(index, facts, models, settings, on_progress)
    searched = _search(index, models, asked, settings.k, on_progress)
    compared = index.sample(SAMPLED), searched.teacher.vectors, searched.hits
    if match is None:
        match = match_without_texts(facts, models.teacher, *compared)
    elif match.match != "different" and (near := nearness(facts, *compared)) and not near.above_chance:
        findings.append(_off_topic(asked.name, near))
    gold = _gold(index, facts, asked, searched, findings)
    apart = (asked.source_language,)
    scores, of_teacher = agreements(
        searched.student, searched.teacher, list(asked.queries), gold, settings.k, apart, settings.resamples
    )
    verdicts = {one: judge(one, own, settings, one in apart) for one, own in scores.items() if one != AVERAGE}
    judged = {language: one for language, one in verdicts.items() if language not in apart}
    return IndexCheck(
        address=index.address,
        facts=facts,
        sample=content_hash(*stored.ids, np.ascontiguousarray(stored.vectors).tobytes()),
        match=match,
        findings=findings,
        teacher=_used(models.teacher),
        student=_used(models.student),
        queries=QueriesUsed(
            asked.name, asked.hash, asked.source_language, len(asked.queries), sum(map(bool, gold)), asked.options
        ),
        settings=settings,
        languages=scores,
        teacher_scores=of_teacher,
        verdicts=verdicts,
        verdict=_verdict(overall(judged), match),
        misses=_misses(index, asked, searched, scores, settings.examples),
        date=datetime.now(UTC).date().isoformat(),
    )


def _verdict(found: Verdict, match: TeacherMatch) -> Verdict:
    """The verdict on all languages, and what it is worth: an index that the teacher did not make never ships."""
    if match.match == "different":
        return Verdict("do not ship", match.text, match.advice)
    if match.match in ("partly", "doubtful") and found.level == "ship":
        return Verdict("ship with care", f"{found.why}, but {match.text}", match.advice)
    return found


def _query_set(student: "Encoder | str", queries: "QuerySet | PairData | None") -> QuerySet:
    if queries is None:
        return held_out_queries(student if isinstance(student, str) else student.name)
    if isinstance(queries, str | Path):
        return read_queries(queries)
    return queries if isinstance(queries, QuerySet) else queries_of_pairs(queries, "pairs in memory")


@dataclass(frozen=True, slots=True)
class _Models:
    """The teacher, the student, and what is known about the student's embeddings."""

    teacher: Encoder
    student: Encoder
    facts: ModelFacts

    @classmethod
    def open(cls, student: "Encoder | str", teacher: "Encoder | str | None") -> "_Models":
        """Open both by name, the teacher first: without one there is nothing to check."""
        name = student if isinstance(student, str) else student.name
        named = open_teacher_of([name], teacher) if teacher is None or isinstance(teacher, str) else teacher
        if named is None:
            raise DataError(f"{name}: its teacher is not known", hint="name the model that made the index: --teacher MODEL")
        learned = open_for_queries(student) if isinstance(student, str) else student
        return cls(named, learned, model_facts(learned))


def _fit(
    index: VectorIndex, facts: IndexFacts, models: _Models, settings: IndexCheckSettings, on_progress: OnProgress
) -> tuple[TeacherMatch | None, list[IndexFinding]]:
    """Whether the teacher made the index, and what to know about the models. Raises if one of them cannot search it."""
    match, k = None, settings.k
    if facts.size and settings.verified:
        match = match_teacher(index, facts, in_role(models.teacher, DOCUMENT), index.sample(settings.verified), on_progress)
    if match is not None and facts.dimension != models.teacher.dimension:
        raise DataError(f"{index.address}: {match.text}", hint=match.advice)
    teacher = model_facts(models.teacher)
    findings = refuse_errors([*check_fit(index.address, facts, teacher), *check_fit(index.address, facts, models.facts)])
    if models.facts.teacher not in ("", teacher.fingerprint):
        message = f"{models.student.name} learned from another teacher than {models.teacher.name}, or with another prompt"
        findings.append(IndexFinding("warning", message, "name the teacher of its run, or leave --teacher out"))
    if facts.size < SMALL * k:
        message = (
            f"{index.address} is small: chance alone finds {100 * min(k / facts.size, 1):.0f} % of the teacher's {k} results"
        )
        findings.append(IndexFinding("warning", message, "check the whole index, or compare fewer results: -k 1"))
    return match, list(dict.fromkeys(findings))


def _off_topic(name: str, near: Nearness) -> IndexFinding:
    """Queries that no document is about: what comes first is a matter of chance, and agreement is lower than it will be."""
    message = (
        f"{name}: the queries have little to do with the documents (the teacher's first results have a median cosine of"
        f" {near.first:.2f}, unrelated ones about {near.chance:.2f}), so agreement is hard to reach"
    )
    return IndexFinding("warning", message, "check with queries of your users: --queries FILE")


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """What was found: by the teacher with all English queries, by the student in each language. Documents are numbers."""

    teacher: Found
    student: dict[str, Asked]
    hits: list[Hits]  # of the teacher
    number_of: dict[str, int]

    def names(self) -> dict[int, str]:
        """The ids of the documents."""
        return {number: name for name, number in self.number_of.items()}


def _search(index: VectorIndex, models: _Models, queries: QuerySet, k: int, on_progress: OnProgress) -> _Searched:
    """Embed the queries and search them."""
    everything, source = list(queries.queries.values()), queries.source_language
    vectors = in_role(models.teacher, QUERY).encode([one.texts[source] for one in everything], on_progress, "teacher")
    hits = _hits(index, vectors, k, on_progress, "searching, teacher")
    rows = {
        language: [row for row, one in enumerate(everything) if language in one.texts]
        for language in (*queries.languages, source)
    }
    texts = [everything[row].texts[language] for language, own in rows.items() for row in own]
    asked = models.student.encode(texts, on_progress, "student")
    found = _hits(index, asked, k, on_progress, "searching, student")
    number_of: dict[str, int] = {}
    teacher = Found(as_numbers([one.ids for one in hits], number_of, k), vectors)
    student, start = {}, 0
    for language, own in rows.items():
        part = slice(start, start := start + len(own))
        student[language] = Asked(own, Found(as_numbers([one.ids for one in found[part]], number_of, k), asked[part]))
    return _Searched(teacher, student, hits, number_of)


def _hits(index: VectorIndex, vectors: FloatArray, k: int, on_progress: OnProgress, stage: str) -> list[Hits]:
    found: list[Hits] = []
    for start in range(0, len(vectors), SEARCHED_AT_ONCE):
        found += index.search(vectors[start : start + SEARCHED_AT_ONCE], k)
        on_progress(Step(stage, len(found), len(vectors), "queries"))
    return found


def _gold(index: VectorIndex, facts: IndexFacts, queries: QuerySet, searched: _Searched, findings: list[IndexFinding]) -> Gold:
    """The gold documents of each query as numbers. Raises if none of them is in the index."""
    wanted = list(dict.fromkeys(name for one in queries.queries.values() for name in one.gold))
    there = set(searched.number_of)
    if facts.has_texts:
        there |= set(index.texts(wanted))
    missing = [name for name in wanted if name not in there]
    if wanted and len(missing) == len(wanted):
        raise DataError(
            f"{queries.name}: the gold documents, such as {wanted[0]!r}, are not among the ids of {index.address}",
            hint="gold has ids of the index; an .npy file takes them from docs.jsonl or ?ids=FILE",
        )
    if missing and facts.has_texts:
        message = f"{queries.name}: {amount(len(missing), 'gold document')} of {len(wanted)} are not in the index"
        findings.append(
            IndexFinding("warning", f"{message}, such as {missing[0]!r}", "recall cannot be 1; the kept recall can")
        )
    numbers = searched.number_of
    return [
        {numbers.setdefault(name, len(numbers)): grade for name, grade in one.gold.items()} for one in queries.queries.values()
    ]


def _used(encoder: Encoder) -> ModelUsed:
    return ModelUsed(encoder.name, encoder.fingerprint, encoder.dimension, getattr(encoder, "prompt", ""))


def _misses(
    index: VectorIndex, queries: QuerySet, searched: _Searched, scores: Mapping[str, LanguageAgreement], most: int
) -> dict[str, list[Miss]]:
    """For each language the queries whose results have least in common with the teacher's, and the first result of both."""
    names, ids = searched.names(), list(queries.queries)
    chosen = {
        language: _least([scores[language].per_query[name] for name in ("first_found", "overlap", "rbo")], most)
        for language in searched.student
    }

    def first(found: Found, row: int) -> str:
        return names.get(int(found.documents[row, 0]), "")

    pairs = {
        (language, place): (first(searched.teacher, own.rows[place]), first(own.found, place))
        for language, own in searched.student.items()
        for place in chosen[language]
    }
    texts = index.texts([name for both in pairs.values() for name in both if name])
    found: dict[str, list[Miss]] = {}
    for (language, place), (its, mine) in pairs.items():
        row, own = searched.student[language].rows[place], scores[language].per_query
        asked, source = queries.queries[ids[row]].texts, queries.source_language
        overlap = round(float(own["overlap"][place]), 4)
        miss = Miss(ids[row], asked[source], asked[language], overlap, its, texts.get(its, ""), mine, texts.get(mine, ""))
        found.setdefault(language, []).append(miss)
    return found


def _least(columns: Sequence[Doubles], most: int) -> list[int]:
    """The places with the lowest values, by the first column, then the next; only those that are not perfect."""
    order = np.lexsort([*reversed(columns)])
    return [int(place) for place in order[:most] if columns[1][place] < 1]
