"""The card of an export: that of the original, with a section on what this export is and how close it comes to the original.

    text = export_card(original_card, ExportInfo(…))

Scores that the card already has are those of the original; their headings say so, and the metadata gets the export's own
instead. `templates/export.md` has the words of the section.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.report.card import SERVER_TAG
from isogloss.shown import masked

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

SCORED = re.compile(r"^## (Scores|Dev scores|Retrieval|Regressions|Test sets)$", re.MULTILINE)
NEXT_SECTION = re.compile(r"^## (?!Usage)", re.MULTILINE)
PRINTED = re.compile(r"(?<=^print\(similarities\)\n)(#.*\n)+", re.MULTILINE)  # in the usage example
COSINE = "cosine_to_original"
THEIRS = "\n\nThe scores in other sections are those of the original."


@dataclass(frozen=True, slots=True)
class Copy:
    """A file of an export, or the folder: its name, its path inside the folder (or ""), its scores by language."""

    name: str
    file: str
    megabytes: float
    cosine: float
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportInfo:
    """What the card says about an export: `what` it is, how it was measured, the scores of the original by language."""

    name: str
    what: str
    measure: str
    metric: str  # for the metadata
    original: Mapping[str, float]
    copies: Sequence[Copy]
    base_model: str | None = None  # on the hub
    for_servers: bool = True  # whether text-embeddings-inference can load it


def export_card(original: str, info: ExportInfo) -> str:
    """The text of README.md. `original` is the text of a card; its usage example then shows no similarities."""
    from huggingface_hub import ModelCard

    card = ModelCard(original, ignore_metadata_errors=True)
    data: Any = card.data  # of which fields is up to the card
    data.base_model = info.base_model or data.base_model
    data.tags = [tag for tag in data.tags or [] if info.for_servers or tag != SERVER_TAG] or None
    data.model_name = data.model_name or info.name
    data.eval_results = [result for copy in info.copies for result in _results(copy, info.metric)]
    data.metrics = [info.metric, COSINE]
    text = PRINTED.sub("", card.text)
    section = masked(_section(info)) + (THEIRS if SCORED.search(text) else "") + "\n\n"
    text = SCORED.sub(r"## \1 (original)", text)
    place = NEXT_SECTION.search(text)
    at = len(text) if place is None else place.start()
    before = text[:at].rstrip("\n") + "\n\n"
    card.text = before + section + text[at:]
    return str(card).rstrip("\n") + "\n"


def _section(info: ExportInfo) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=False, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["average"] = _average
    template = Path(__file__).with_name("templates").joinpath("export.md").read_text(encoding="utf-8")
    return environment.from_string(template).render(info=info).strip("\n")


def _average(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _results(copy: Copy, metric: str) -> list["EvalResult"]:
    """The export's own scores, for the metadata."""
    from huggingface_hub import EvalResult

    values = {metric: _average(copy.scores.values()), COSINE: copy.cosine}
    return [
        EvalResult(
            task_type="translation-retrieval",
            task_name="Translation retrieval",
            dataset_type="held-out-pairs",
            dataset_name=f"held-out pairs, {copy.name}",
            dataset_config=copy.name,
            metric_type=name,
            metric_value=round(value, 4),
        )
        for name, value in values.items()
    ]
