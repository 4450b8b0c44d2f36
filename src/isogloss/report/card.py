"""The model card of every kind of run, with the metadata that the Hugging Face Hub reads.

    card = model_card(CardInfo(name="mine", description="…", languages=["de", "en"]), student.model)

The metadata (language, license, base model, tags, datasets, results) and the usage example come from sentence-transformers'
`SentenceTransformerModelCardData`; `card.md` has the words and tables. Keys and passwords in names and addresses are masked.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isogloss.amounts import amount
from isogloss.corpora.catalogue.entries import hub_repository
from isogloss.evaluation.compare import Comparison
from isogloss.evaluation.regressions import IN_WORDS
from isogloss.evaluation.tasks.retrieval import kept_in_words, kept_shares
from isogloss.models.loading import BUNDLED
from isogloss.shown import masked, printable
from isogloss.types import TRAIN, PairSource, Report

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData

TAGS = ("multilingual", "isogloss")
SERVER_TAG = "text-embeddings-inference"  # the hub offers to deploy models that have it
RESTRICTED = re.compile(r"\bnc\b|non[- ]?commercial|research", re.IGNORECASE)
EXAMPLES = 3  # sentences in the usage example


@dataclass(frozen=True, slots=True)
class StageScore:
    """Correlations of a training stage on its dev set, before and after."""

    name: str
    examples: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CardInfo:
    """The content of a model card.

    `description` is a paragraph about the model and its training. `reports` are the alignment scores after each stage, the
    final one last; `stages` are dev scores of stages without such a report. `retrieval` has the scores on documents and queries
    after each stage. `intervals` and `own_language_share` are those of the final report, from `AlignmentEvaluator`. `examples`
    are sentences in the model's languages.
    `corpora` are those of `corpora.store.training_data`; `recipe` is TOML.
    """

    name: str
    description: str
    base_model: str = ""
    teacher: str = ""
    languages: Sequence[str] = ()
    tags: Sequence[str] = ()
    license: str = ""
    reports: Sequence[Report] = ()
    intervals: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    own_language_share: Mapping[str, float] = field(default_factory=dict)
    stages: Sequence[StageScore] = ()
    regressions: Sequence[Mapping[str, Any]] = ()
    retrieval: Comparison | None = None
    corpora: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    leak_scan: str = ""
    notes: Sequence[str] = ()
    examples: Sequence[str] = ()
    recipe: str = ""


def model_card(info: CardInfo, model: "SentenceTransformer") -> str:
    """The text of README.md; the usage example shows the similarities that `model` gives."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=False, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["amount"] = amount
    template = environment.from_string(Path(__file__).with_name("templates").joinpath("card.md").read_text(encoding="utf-8"))
    data = _card_data(info, model)
    usage = data.to_dict()["usage_snippet"]  # also computes what to_yaml shows
    shares = kept_shares(info.retrieval) if info.retrieval else {}
    kept = kept_in_words(shares) if shares else ""
    restricted = sorted(name for name, facts in info.corpora.items() if RESTRICTED.search(facts["license"] or ""))
    text = template.render(
        info=info, metadata=data.to_yaml(), usage=usage, scores_in_words=IN_WORDS, kept=kept, restricted=restricted
    )
    return masked(text).rstrip("\n") + "\n"


def example_sentences(pairs: PairSource) -> list[str]:
    """A source sentence, its translation, and a sentence in another language if possible."""
    for block in pairs.in_blocks(TRAIN):
        if not block.num_rows:
            continue
        languages = block.column("language").to_pylist()
        other = next((row for row, language in enumerate(languages) if language != languages[0]), block.num_rows - 1)
        return [str(block.column(side)[row]) for side, row in (("source", 0), ("target", 0), ("target", other))]
    return []


class _HeldOut(NamedTuple):
    """The evaluator that sentence-transformers' card data expects beside results."""

    description: str
    name: str
    primary_metric: str


def _card_data(info: CardInfo, model: "SentenceTransformer") -> "SentenceTransformerModelCardData":
    from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData

    data = SentenceTransformerModelCardData(
        language=list(info.languages),
        license=info.license or None,
        model_name=info.name,
        local_files_only=True,
    )
    served = (
        [SERVER_TAG] if getattr(model[0], "auto_model", None) is not None else []
    )  # the server has no static or LSTM models
    data.add_tags([*TAGS, *info.tags, *served])
    data.base_model = hub_name(info.base_model)
    data.datasets = [repo for name in info.corpora if (repo := hub_repository(name))] or None
    data.register_model(model)
    data.usage_examples = [printable(text) for text in info.examples[:EXAMPLES]] or None
    data.eval_results_dict.update(_results(info))
    return data


def hub_name(name: str) -> str | None:
    """A model as the hub knows it; None for a local folder or an address."""
    on_hub = name.count("/") == 1 and ":" not in name and name[0] not in "./~" and not Path(name).exists()
    return BUNDLED.get(name, name if on_hub else None)


def _results(info: CardInfo) -> dict[_HeldOut, dict[str, float]]:
    """Averages over languages for the hub's metadata."""
    found = {}
    if info.reports:
        average = info.reports[-1].average()
        scores = {name: getattr(average, name) for name in ("to_source", "from_source", "teacher_index", "cosine")}
        metrics = {name: round(value, 4) for name, value in scores.items() if value is not None}
        found[_HeldOut("Translation retrieval", "held-out-pairs", "to_source")] = metrics
    for stage in info.stages:
        evaluator = _HeldOut("Semantic Similarity", f"dev-set-{stage.name.lower()}", "spearman_cosine")
        found[evaluator] = {"spearman_cosine": round(stage.after, 4)}
    return found
