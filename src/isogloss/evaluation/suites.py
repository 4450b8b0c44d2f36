"""Named sets of tasks, and measuring models by them: every distinct sentence of a suite is embedded once, by each model.

    sts2017            the tracks of SemEval that the papers use      korsts         Korean STSb (R&G table 7)
    sts2017-extended   all ten of R&G tables 1 and 2                  tatoeba        112 languages and the papers' groups
    stsb               English STSb                                   tatoeba-14 …   one group; tatoeba-low: R&G table 4
    stsb-multi         its translations; mstsb: others of them        bucc           F1 of mining (R&G table 3)
    stsb-cross         English and a translation                      bias           R&G table 8, and mixed retrieval
    transfer           a probe taught in English (xnli, pawsx; sib)   mteb:A,B       tasks of the package mteb

`sts` and `papers` are several of these. `name:part+part` measures some parts only: `bucc:zh-en`, `tatoeba:deu+fra`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.corpora.reading.languages import without_region
from isogloss.errors import DataError
from isogloss.evaluation.compare import MEAN_REMOVED, Outcome
from isogloss.evaluation.data.known_sets import BUCC, SETS, STS_ACROSS, STS_ACROSS_OFFICIAL, STS_SAME
from isogloss.evaluation.data.test_sets import Data
from isogloss.evaluation.results import Measured, Task
from isogloss.evaluation.space import Space, language_means
from isogloss.evaluation.tasks import mteb
from isogloss.evaluation.tasks.bias import JoinedSets, MixedRetrieval
from isogloss.evaluation.tasks.bitext import Mining, open_splits
from isogloss.evaluation.tasks.sts import Sts
from isogloss.evaluation.tasks.tatoeba import GROUPS, LOW_RESOURCE, Tatoeba
from isogloss.evaluation.tasks.transfer import Transfer
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, silent

MTEB = "mteb:"


@dataclass(frozen=True, slots=True)
class Part:
    """One task of a suite: which set, which parts of it, and the function that makes a task of them."""

    set: str
    subsets: tuple[str, ...]
    make: "Callable[[Data, str, tuple[str, ...]], Task]"


def _sts(title: str) -> "Callable[[Data, str, tuple[str, ...]], Task]":
    return lambda data, name, subsets: Sts(title, tuple(data.rated_pairs(name, one) for one in subsets))


def _tatoeba(data: Data, name: str, subsets: tuple[str, ...]) -> Task:
    return Tatoeba(tuple(data.translations(name, one) for one in subsets))


def _mixed(data: Data, name: str, subsets: tuple[str, ...]) -> Task:
    return MixedRetrieval(tuple(data.translations(name, one) for one in subsets))


def _joined(data: Data, name: str, subsets: tuple[str, ...]) -> Task:
    return JoinedSets(tuple(data.rated_pairs(name, one) for one in subsets))


def _mining(title: str) -> "Callable[[Data, str, tuple[str, ...]], Task]":
    return lambda data, name, subsets: Mining(title, tuple(open_splits(data, name, one) for one in subsets))


def _transfer(title: str, split: str = "dev") -> "Callable[[Data, str, tuple[str, ...]], Task]":
    def make(data: Data, name: str, subsets: tuple[str, ...]) -> Task:
        train = data.labelled(name, "en", split)
        return Transfer(title, train, tuple(data.labelled(name, one, "test") for one in subsets))

    return make


def _whole(name: str, make: "Callable[[Data, str, tuple[str, ...]], Task]") -> Part:
    return Part(name, SETS[name].subsets, make)


_SAME = Part("sts2017", STS_SAME, _sts("STS 2017, one language"))
_KINDS: dict[str, tuple[Part, ...]] = {
    "sts2017": (_SAME, Part("sts2017", STS_ACROSS_OFFICIAL, _sts("STS 2017, two languages (official tracks)"))),
    "sts2017-extended": (_SAME, Part("sts2017", STS_ACROSS, _sts("STS 2017 extended, two languages"))),
    "stsb": (_whole("stsb", _sts("STSb")),),
    "stsb-multi": (_whole("stsb-multi", _sts("STSb, translated")),),
    "mstsb": (_whole("mstsb", _sts("STSb, other translations (mSTSb)")),),
    "stsb-cross": (_whole("stsb-cross", _sts("STSb, English and a translation")),),
    "korsts": (_whole("korsts", _sts("KorSTS")),),
    "tatoeba": (_whole("tatoeba", _tatoeba),),
    **{f"tatoeba-{name}": (Part("tatoeba", codes, _tatoeba),) for name, codes in GROUPS.items()},
    "tatoeba-low": (Part("tatoeba", LOW_RESOURCE, _tatoeba),),
    "bucc": (Part("bucc", BUCC, _mining("BUCC 2018")),),
    "mining-news": (_whole("mining-news", _mining("News, mined")),),
    "bias": (Part("sts2017", (*STS_SAME, *STS_ACROSS_OFFICIAL), _joined), Part("tatoeba", GROUPS["14"], _mixed)),
    "bias-extended": (Part("sts2017", (*STS_SAME, *STS_ACROSS), _joined),),
    "xnli": (_whole("xnli", _transfer("XNLI, probe taught on English dev")),),
    "pawsx": (_whole("pawsx", _transfer("PAWS-X, probe taught on English dev")),),
    "sib": (_whole("sib", _transfer("SIB-200, probe taught in English", "train")),),
}
_SEVERAL = {
    "sts": ("sts2017", "stsb", "stsb-multi", "stsb-cross", "korsts"),
    "papers": ("sts2017-extended", "bucc", "tatoeba", "korsts", "bias-extended"),
    "transfer": ("xnli", "pawsx"),
}
SUITES = (*_SEVERAL, *_KINDS)


@dataclass(frozen=True, slots=True, eq=False)
class Suite:
    """Tasks that were asked for, with their data, and names of MTEB's tasks."""

    tasks: tuple[Task, ...]
    mteb_tasks: tuple[str, ...] = ()

    def texts(self) -> list[tuple[str, Sequence[str]]]:
        """Every sentence that is needed, by language; many more than once."""
        return [spoken for task in self.tasks for spoken in task.texts()]


def open_suite(asked: str, data: "Data | Callable[[], Data]", languages: Sequence[str] = ()) -> Suite:
    """Read the data of the suites that are asked for: `sts2017,tatoeba-14,bucc:zh-en` or `mteb:STS17,Tatoeba`.

    `languages` keeps the parts of test sets that are in these languages and English.
    """
    plain, marked, after = asked.partition(MTEB)
    names = [name.strip() for name in plain.split(",") if name.strip()]
    parts = [part for name in names for part in _parts(name)]
    if languages:
        parts = _spoken(parts, languages)
    if not parts and not marked:
        raise DataError("no suite is named", hint=f"choose among {', '.join(SUITES)}, mteb:TASK,…")
    source = data() if callable(data) and parts else data
    tasks = tuple(part.make(source, part.set, part.subsets) for part in parts if isinstance(source, Data))
    return Suite(tasks, tuple(one.strip() for one in after.split(",") if one.strip()))


def _parts(name: str) -> list[Part]:
    name, _, wanted = name.partition(":")
    if name in _SEVERAL:
        return [part for one in _SEVERAL[name] for part in _parts(f"{one}:{wanted}" if wanted else one)]
    if name not in _KINDS:
        raise DataError(f"{name}: no such suite", hint=f"choose among {', '.join(SUITES)}, mteb:TASK,…")
    if not wanted:
        return list(_KINDS[name])
    known = {subset for part in _KINDS[name] for subset in part.subsets}
    chosen = {_as_known(name, one.strip(), known) for one in wanted.split("+")}
    return _kept(_KINDS[name], lambda subset: subset in chosen)


def _as_known(name: str, part: str, known: Collection[str]) -> str:
    """The part of a set by its own name: `tr-en` and `en-tr` are the same pair of languages."""
    left, _, right = part.partition("-")
    for one in (part, f"{right}-{left}"):
        if one in known:
            return one
    raise DataError(f"{name} has no part {part}", hint=f"it has {', '.join(sorted(known))}")


def _spoken(parts: Sequence[Part], languages: Sequence[str]) -> list[Part]:
    known = {without_region(one) for one in languages} | {"en"}
    kept = _kept(parts, lambda subset: all(without_region(code) in known for code in _codes(subset)))
    if not kept:
        raise DataError(
            f"nothing in these suites is in {', '.join(languages)}", hint="leave --languages out to see what there is"
        )
    return kept


def _codes(subset: str) -> list[str]:
    return [code for code in subset.split("-") if code.islower()]


def _kept(parts: Sequence[Part], wanted: Callable[[str], bool]) -> list[Part]:
    chosen = [Part(part.set, tuple(filter(wanted, part.subsets)), part.make) for part in parts]
    return [part for part in chosen if part.subsets]


def measure(
    model: "Encoder | str",
    suite: Suite,
    cache: Path | None = None,
    mean_removal: bool = False,
    device: str = "auto",
    on_progress: OnProgress = silent,
    means_to: Path | None = None,
) -> list[Outcome]:
    """What a model reaches in a suite; with `mean_removal` a second time, each language's mean taken off its vectors.

    The means are those of the suite's own sentences: no label is seen, but the text is. They are written to the folder
    `means_to`, where `space.read_means` finds them, to be used with the model. With `cache`, vectors are kept on
    disk (as fp16) under the model's fingerprint, so that only what is new is computed.
    """
    if mean_removal and suite.mteb_tasks:
        raise DataError("MTEB does not say which language a sentence is in", hint="leave --mean-removal or the mteb tasks out")
    encoder = CachedEncoder(open_encoder(model, device) if isinstance(model, str) else model, cache)
    spoken = suite.texts()
    found: list[Measured] = []
    plain = None
    if spoken:
        distinct = list(dict.fromkeys(text for _, texts in spoken for text in texts))
        vectors = encoder.encode(distinct, on_progress, f"embedding, {encoder.name}")
        plain = Space({text: row for row, text in enumerate(distinct)}, vectors)
        found = [one for task in suite.tasks for one in task.measure(plain)]
    if suite.mteb_tasks:
        found += mteb.measure(encoder, suite.mteb_tasks, encoder.encode)
    facts = {"dimension": encoder.dimension, "fingerprint": encoder.fingerprint}
    outcomes = [Outcome(encoder.name, tuple(found), facts)]
    if mean_removal and plain is not None:
        means = language_means(plain, spoken, encoder.fingerprint)
        if means_to is not None:
            means.write(means_to)
        cured = plain.without_means(means)
        found = [one for task in suite.tasks for one in task.measure(cured)]
        outcomes.append(Outcome(encoder.name + MEAN_REMOVED, tuple(found), facts | {"means_removed": sorted(means.means)}))
    return outcomes
