"""Suites: named sets of tasks that models are measured on. Each model embeds every distinct sentence of a suite once.

    sts2017            the tracks of SemEval that the papers use      korsts         Korean STSb (R&G table 7)
    sts2017-extended   all ten of R&G tables 1 and 2                  tatoeba        112 languages and the papers' groups
    stsb               English STSb                                   tatoeba-14 …   one group; tatoeba-low: R&G table 4
    stsb-multi         its translations; mstsb: others of them        bucc           F1 of mining (R&G table 3)
    stsb-cross         English and a translation                      bias           R&G table 8, and mixed retrieval
    transfer           a probe trained in English (xnli, pawsx; sib)  mteb:A,B       tasks of the package mteb
    retrieval:FOLDER   documents, queries, qrels; the teacher's index (retrieval:questions is built in)

`sts` and `papers` are several of these. `name:part+part` measures some parts only: `bucc:zh-en`, `tatoeba:deu+fra`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.corpora.reading.languages import without_region
from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import RESAMPLES
from isogloss.evaluation.compare import MEAN_REMOVED, Comparison, Outcome, TaskScore, compare
from isogloss.evaluation.data.known_sets import BUCC, SETS, STS_ACROSS, STS_ACROSS_OFFICIAL, STS_SAME
from isogloss.evaluation.data.retrieval_sets import open_retrieval_set
from isogloss.evaluation.data.test_sets import Data, EvaluationSet, open_data
from isogloss.evaluation.leak_report import scan_of
from isogloss.evaluation.space import Space, language_means
from isogloss.evaluation.tables import short_names
from isogloss.evaluation.tasks import mteb
from isogloss.evaluation.tasks.bias import joined_sets, mixed_retrieval
from isogloss.evaluation.tasks.bitext import mining, open_splits
from isogloss.evaluation.tasks.retrieval import retrieval, teacher_space
from isogloss.evaluation.tasks.sts import sts
from isogloss.evaluation.tasks.task import Task
from isogloss.evaluation.tasks.tatoeba import GROUPS, LOW_RESOURCE, tatoeba
from isogloss.evaluation.tasks.transfer import transfer
from isogloss.evaluation.teachers import open_teacher_of
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder, refuse_missing
from isogloss.models.vector_cache import refuse_useless
from isogloss.progress import OnProgress, silent
from isogloss.storage import make_folder

MTEB, RETRIEVAL = "mteb:", "retrieval:"
OTHERS = "retrieval:FOLDER, mteb:TASK,…"

Make = Callable[[Data, str, tuple[str, ...]], Task]


@dataclass(frozen=True, slots=True)
class Part:
    """One task of a suite: the test set, its subsets, and the function that makes a task of them."""

    set: str
    subsets: tuple[str, ...]
    make: Make


def _task(kind: Callable[[str, Any], Task], read: Callable[[Data, str, str], object], table: str) -> Make:
    """A task of some kind over what `read` gives for each subset."""
    return lambda data, name, subsets: kind(table, [read(data, name, subset) for subset in subsets])


def _sts(table: str) -> Make:
    return _task(sts, Data.rated_pairs, table)


def _transfer(table: str, split: str = "dev") -> Make:
    return lambda data, name, subsets: transfer(
        table, data.labelled(name, "en", split), [data.labelled(name, one, "test") for one in subsets]
    )


def _whole(name: str, make: Make) -> Part:
    return Part(name, SETS[name].subsets, make)


_TATOEBA = _task(tatoeba, Data.translations, "Tatoeba")
_JOINED = _task(joined_sets, Data.rated_pairs, "Language bias, joined STS sets")
_MIXED = _task(mixed_retrieval, Data.translations, "Language bias, mixed retrieval")
_SAME = Part("sts2017", STS_SAME, _sts("STS 2017, one language"))
_KINDS: dict[str, tuple[Part, ...]] = {
    "sts2017": (_SAME, Part("sts2017", STS_ACROSS_OFFICIAL, _sts("STS 2017, two languages (official tracks)"))),
    "sts2017-extended": (_SAME, Part("sts2017", STS_ACROSS, _sts("STS 2017 extended, two languages"))),
    "stsb": (_whole("stsb", _sts("STSb")),),
    "stsb-multi": (_whole("stsb-multi", _sts("STSb, translated")),),
    "mstsb": (_whole("mstsb", _sts("STSb, other translations (mSTSb)")),),
    "stsb-cross": (_whole("stsb-cross", _sts("STSb, English and a translation")),),
    "korsts": (_whole("korsts", _sts("KorSTS")),),
    "tatoeba": (_whole("tatoeba", _TATOEBA),),
    **{f"tatoeba-{name}": (Part("tatoeba", codes, _TATOEBA),) for name, codes in GROUPS.items()},
    "tatoeba-low": (Part("tatoeba", LOW_RESOURCE, _TATOEBA),),
    "bucc": (Part("bucc", BUCC, _task(mining, open_splits, "BUCC 2018")),),
    "mining-news": (_whole("mining-news", _task(mining, open_splits, "News, mined")),),
    "bias": (
        Part("sts2017", (*STS_SAME, *STS_ACROSS_OFFICIAL), _JOINED),
        Part("tatoeba", GROUPS["14"], _MIXED),
    ),
    "bias-extended": (Part("sts2017", (*STS_SAME, *STS_ACROSS), _JOINED),),
    "xnli": (_whole("xnli", _transfer("XNLI, probe trained on English dev")),),
    "pawsx": (_whole("pawsx", _transfer("PAWS-X, probe trained on English dev")),),
    "sib": (_whole("sib", _transfer("SIB-200, probe trained in English", "train")),),
}
_GROUPS_OF_SUITES = {
    "sts": ("sts2017", "stsb", "stsb-multi", "stsb-cross", "korsts"),
    "papers": ("sts2017-extended", "bucc", "tatoeba", "korsts", "bias-extended"),
    "transfer": ("xnli", "pawsx"),
}
SUITES = (*_GROUPS_OF_SUITES, *_KINDS)


@dataclass(frozen=True, slots=True, eq=False)
class Suite:
    """Tasks with their data, and names of MTEB tasks."""

    tasks: tuple[Task, ...]
    mteb_tasks: tuple[str, ...] = ()

    def texts(self) -> list[tuple[str, Sequence[str]]]:
        """Every sentence that is needed, by language; many occur more than once."""
        return [column for part in self.sets() for column in part.columns()]

    def sets(self) -> list[EvaluationSet]:
        """Every test set that is needed."""
        return [part for task in self.tasks for part in task.sets]


def open_suite(
    suites: str,
    data: "Data | Callable[[], Data]",
    languages: Sequence[str] = (),
    teacher: Encoder | None = None,
    on_progress: OnProgress = silent,
) -> Suite:
    """Read the data of the suites in `suites`: `sts2017,tatoeba-14,bucc:zh-en`, `retrieval:FOLDER` or `mteb:STS17,Tatoeba`.

    `languages` keeps the parts of test sets in these languages and English. The index of `teacher` is searched, too.
    """
    plain, marked, after = suites.partition(MTEB)
    names = [name.strip() for name in plain.split(",") if name.strip()]
    folders = [name.removeprefix(RETRIEVAL) for name in names if name.startswith(RETRIEVAL)]
    parts = [part for name in names if not name.startswith(RETRIEVAL) for part in _parts(name)]
    if languages and parts:
        parts = _in_languages(parts, languages)
    if not parts and not folders and not marked:
        raise DataError("no suite is named", hint=f"choose among {', '.join(SUITES)}, {OTHERS}")
    source = data() if callable(data) and parts else data
    tasks = [part.make(source, part.set, part.subsets) for part in parts if isinstance(source, Data)]
    tasks += _retrieval(folders, languages, teacher, on_progress)
    return Suite(tuple(tasks), tuple(one.strip() for one in after.split(",") if one.strip()))


def _retrieval(
    folders: Sequence[str], languages: Sequence[str], teacher: Encoder | None, on_progress: OnProgress
) -> list[Task]:
    sets = [open_retrieval_set(folder, name) for folder, name in zip(folders, short_names(folders), strict=True)]
    if languages:
        sets = [one.in_languages(languages) for one in sets]
    spaces = [None if teacher is None else teacher_space(one, teacher, on_progress) for one in sets]
    return [retrieval(one, space) for one, space in zip(sets, spaces, strict=True)]


def _parts(name: str) -> list[Part]:
    name, _, wanted = name.partition(":")
    if name in _GROUPS_OF_SUITES:
        return [part for one in _GROUPS_OF_SUITES[name] for part in _parts(f"{one}:{wanted}" if wanted else one)]
    if name not in _KINDS:
        raise DataError(f"{name}: no such suite", hint=f"choose among {', '.join(SUITES)}, {OTHERS}")
    if not wanted:
        return list(_KINDS[name])
    known = {subset for part in _KINDS[name] for subset in part.subsets}
    chosen = {_as_known(name, one.strip(), known) for one in wanted.split("+")}
    return _kept(_KINDS[name], lambda subset: subset in chosen)


def _as_known(name: str, part: str, known: Collection[str]) -> str:
    """The subset by its own name: `tr-en` and `en-tr` are the same pair of languages."""
    left, _, right = part.partition("-")
    found = next((one for one in (part, f"{right}-{left}") if one in known), None)
    if found is None:
        raise DataError(f"{name} has no part {part}", hint=f"it has {', '.join(sorted(known))}")
    return found


def _in_languages(parts: Sequence[Part], languages: Sequence[str]) -> list[Part]:
    known = {without_region(one) for one in languages} | {"en"}
    kept = _kept(parts, lambda subset: all(without_region(code) in known for code in subset.split("-") if code.islower()))
    if not kept:
        raise DataError(
            f"nothing in these suites is in {', '.join(languages)}", hint="leave --languages out to see what there is"
        )
    return kept


def _kept(parts: Sequence[Part], wanted: Callable[[str], bool]) -> list[Part]:
    chosen = [replace(part, subsets=tuple(filter(wanted, part.subsets))) for part in parts]
    return [part for part in chosen if part.subsets]


@dataclass(frozen=True, slots=True)
class SuiteSettings:
    """How models are measured on a suite.

    `data` is a folder of test sets or "hub"; `languages` keeps the parts of test sets in these languages and English;
    differences are to the model `baseline`, by default the first. With `mean_removal` each model is measured a second time
    with each language's mean subtracted from its embeddings, and the means are saved in `means_out`. Embeddings are kept in
    `cache`, if there is one. The index of `teacher` is searched in retrieval suites; None: the teacher of the models' runs.
    """

    data: str = ""
    languages: tuple[str, ...] = ()
    baseline: str | None = None
    mean_removal: bool = False
    means_out: Path | None = None
    cache: Path | None = None
    resamples: int = RESAMPLES
    teacher: str | None = None


def evaluate_suite(
    models: Sequence[str], suite: str, settings: SuiteSettings | None = None, on_progress: OnProgress = silent
) -> Comparison:
    """Measure models by name on the suites named in `suite`, and compare them."""
    how = settings or SuiteSettings()
    names = [name for model in models for name in (model, f"{model}{MEAN_REMOVED}")[: 1 + how.mean_removal]]
    if how.means_out is not None and (len(models) > 1 or not how.mean_removal):
        raise DataError("--means-out needs --mean-removal and exactly one model", hint="name one model, and --mean-removal")
    if how.baseline is not None and how.baseline not in names:
        raise DataError(f"--baseline {how.baseline}: not among the models", hint=f"name one of {', '.join(names)}")
    searches = any(name.strip().startswith(RETRIEVAL) for name in suite.split(","))
    if how.teacher and not searches:
        raise DataError("--teacher works only with a retrieval suite", hint="leave it out, or add retrieval:FOLDER to --suite")
    refuse_missing([*models, *([how.teacher] if how.teacher else [])])
    if how.cache is not None:
        refuse_useless(how.cache)
    if how.means_out is not None:
        make_folder(how.means_out)
    found = open_teacher_of(models, how.teacher) if searches else None
    teacher = None if found is None else CachedEncoder(found, how.cache)
    opened = open_suite(suite, lambda: open_data(how.data), how.languages, teacher, on_progress)
    outcomes = []
    for name in models:
        measured = measure(name, opened, how.cache, how.mean_removal, on_progress=on_progress, means_to=how.means_out)
        outcomes += [replace(outcome, scan=scan_of(name)) for outcome in measured]
    baseline = None if how.baseline is None else outcomes[names.index(how.baseline)].model  # as the encoder calls itself
    return compare(outcomes, baseline, how.resamples)


def measure(
    model: "Encoder | str",
    suite: Suite,
    cache: Path | None = None,
    mean_removal: bool = False,
    on_progress: OnProgress = silent,
    means_to: Path | None = None,
) -> list[Outcome]:
    """Measure a model on a suite; with `mean_removal` a second time, with each language's mean subtracted.

    The means are those of the suite's own sentences: their text is used, their labels are not. They are saved in the folder
    `means_to`, where `space.read_means` finds them. With `cache`, embeddings are kept on disk as float16.
    """
    if mean_removal and suite.mteb_tasks:
        raise DataError("MTEB does not state the language of a sentence", hint="leave --mean-removal or the mteb tasks out")
    encoder = CachedEncoder(open_encoder(model) if isinstance(model, str) else model, cache)
    for task in suite.tasks:
        if not task.fits(encoder.dimension):
            raise DataError(
                f"the embeddings of {encoder.name} have {amount(encoder.dimension, 'dimension')}, those of the teacher"
                f" {task.dimension}: it cannot search the teacher's index",
                hint='measure it in its own index: --teacher ""',
            )
    sets = suite.sets()
    found: list[TaskScore] = []
    plain = None
    if sets:
        plain = Space.of_sets(encoder, sets, on_progress, f"embedding, {encoder.name}")
        found = [one for task in suite.tasks for one in task.measure(plain)]
    if suite.mteb_tasks:
        found += mteb.measure(encoder, suite.mteb_tasks, encoder.encode)
    facts = {"dimension": encoder.dimension, "fingerprint": encoder.fingerprint}
    outcomes = [Outcome(encoder.name, tuple(found), facts)]
    if mean_removal and plain is not None:
        means = language_means(plain, sets, encoder.fingerprint)
        if means_to is not None:
            means.write(means_to)
        found = [one for task in suite.tasks for one in task.measure(replace(plain, means=means))]
        outcomes.append(Outcome(encoder.name + MEAN_REMOVED, tuple(found), facts | {"means_removed": sorted(means.means)}))
    return outcomes
