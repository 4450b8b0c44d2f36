"""The model card of every kind of run, with the metadata that the Hugging Face Hub reads.

    card = model_card(CardInfo(name="mine", description="…", languages=["de", "en"]), student.model)

The metadata (language, license, base model, tags, datasets, results) and the usage example come from sentence-transformers'
`SentenceTransformerModelCardData`; the text is rendered from `TEMPLATE`. Keys and passwords in names and addresses are masked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isogloss.amounts import amount
from isogloss.evaluation.regressions import IN_WORDS
from isogloss.models.loading import BUNDLED
from isogloss.shown import masked, printable
from isogloss.types import TRAIN, PairSource, Report

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData

TAGS = ("multilingual", "isogloss")
EXAMPLES = 3  # sentences in the usage example
TEMPLATE = """\
---
{{ metadata }}
---

# {{ info.name }}

{{ info.description }}
{% if info.teacher %}
Its embeddings are in the space of `{{ info.teacher }}`: an index built with that model can be searched with this one.
{% endif %}
## Usage

{{ usage }}
{% for table in tables %}
{{ table }}
{% endfor %}
{%- if info.data or info.leak_scan %}
## Training data
{% if info.data %}
| corpus | rows | license |
|---|---|---|
{% for row in info.data -%}
| {{ row.name }} | {{ "{:,}".format(row.rows) }} | {{ row.license or "not stated" }} |
{% endfor %}{% endif %}{% if info.leak_scan %}
{{ info.leak_scan }}
{% endif %}{% endif %}{% for note in info.notes %}
{{ note }}
{% endfor %}{% if info.recipe %}
## How to reproduce

Save this as `recipe.toml` and run `isogloss run recipe.toml`:

```toml
{{ info.recipe.strip() }}
```
{% endif %}"""


@dataclass(frozen=True, slots=True)
class DataRow:
    """One training corpus."""

    name: str
    rows: int
    license: str = ""


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
    final one last; `stages` are dev scores of stages without such a report. `examples` are sentences in the model's languages.
    `recipe` is TOML.
    """

    name: str
    description: str
    base_model: str = ""
    teacher: str = ""
    languages: Sequence[str] = ()
    tags: Sequence[str] = ()
    license: str = ""
    reports: Sequence[Report] = ()
    stages: Sequence[StageScore] = ()
    regressions: Sequence[Mapping[str, Any]] = ()
    data: Sequence[DataRow] = ()
    leak_scan: str = ""
    notes: Sequence[str] = ()
    examples: Sequence[str] = ()
    recipe: str = ""


def model_card(info: CardInfo, model: "SentenceTransformer") -> str:
    """The text of README.md; the usage example shows the similarities that `model` gives."""
    from jinja2 import Environment

    data = _card_data(info, model)
    values = data.to_dict()  # computes what to_yaml and the usage example show
    tables = [table for table in (_stage_table(info), _score_table(info), _regression_table(info.regressions)) if table]
    template = Environment(autoescape=False, keep_trailing_newline=True).from_string(TEMPLATE)
    text = template.render(info=info, metadata=data.to_yaml(), usage=values["usage_snippet"], tables=tables)
    return masked(text).rstrip("\n") + "\n"


def data_rows(training: Mapping[str, Any]) -> tuple[DataRow, ...]:
    """The corpora in a description of training data (`corpora.store.training_data`)."""
    corpora: Mapping[str, Mapping[str, Any]] = training.get("corpora", {})
    return tuple(DataRow(name or "unnamed", int(facts["train"]), str(facts["licence"])) for name, facts in corpora.items())


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
    data.add_tags([*TAGS, *info.tags])
    data.base_model = _hub_name(info.base_model)
    data.register_model(model)
    data.usage_examples = [printable(text) for text in info.examples[:EXAMPLES]] or None
    data.eval_results_dict.update(_results(info))
    return data


def _hub_name(name: str) -> str | None:
    """The base model as the hub knows it; None for a local folder or an address."""
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


def _table(title: str, sentence: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
    return "\n".join([f"## {title}", "", sentence, "", *lines])


def _stage_table(info: CardInfo) -> str:
    if not info.stages:
        return ""
    rows = [
        (stage.name, f"{stage.examples:,}", f"{100 * stage.before:.2f}", f"{100 * stage.after:.2f}") for stage in info.stages
    ]
    sentence = "Spearman correlation × 100 on the STS dev set. The dev set chose the weights, so these scores are optimistic."
    return _table("Dev scores", sentence, ("stage", "examples", "before", "after"), rows)


def _score_table(info: CardInfo) -> str:
    """Scores per language after the last stage, and their averages."""
    if not info.reports:
        return ""
    report = info.reports[-1]
    columns = {"to_source": "to source", "from_source": "from source"}
    if info.teacher:
        columns = {"teacher_index": "teacher's index", **columns, "cosine": "cosine to teacher"}
    rows = [
        [score.language, *(_shown(name, getattr(score, name)) for name in columns)]
        for score in (*report.scores, report.average())
    ]
    sentence = f"Accuracy at 1 in percent on held-out sentences, {amount(report.candidates, 'candidate')}."
    return _table("Scores", sentence, ["language", *columns.values()], rows)


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if name == "cosine" else f"{100 * value:.1f}"


def _regression_table(regressions: Sequence[Mapping[str, Any]]) -> str:
    """The scores that are lower than at an earlier stage (`evaluation.regressions`)."""
    if not regressions:
        return ""
    rows = []
    for lost in regressions:
        form = "{:.2f}" if lost["score"] == "cosine" else "{:.1%}"
        before, after = (form.format(lost[name]).removesuffix("%") for name in ("before", "after"))
        noise = "beyond noise" if lost["clear"] else "within noise"
        errors = f"{lost['standard_errors']:.1f}"
        rows.append((lost["language"], IN_WORDS[lost["score"]], lost["stage"], before, after, errors, noise))
    header = ("language", "score", "worse than", "before", "after", "standard errors", "")
    return _table("Regressions", "On the same sentences these scores are lower than at an earlier stage.", header, rows)
