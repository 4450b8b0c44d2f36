"""The card of a model within a size budget."""

from collections.abc import Mapping
from functools import cached_property

from isogloss.config.exporting import Precision
from isogloss.exporting.budget.forms import Form
from isogloss.exporting.budget.frontier import Scores
from isogloss.exporting.budget.megabytes import in_megabytes
from isogloss.exporting.budget.result import SCORE
from isogloss.exporting.budget.scores import HalvesMeasured
from isogloss.exporting.budget.shipping import GRAPH
from isogloss.exporting.card import new_card
from isogloss.exporting.output import with_backend
from isogloss.exporting.source import ExportSource
from isogloss.report.card import hub_name
from isogloss.report.export_card import Copy, ExportInfo, export_card

WHAT = "@what"  # stands for what is left of the model, in the card that all candidates share
BLANK = 1.0001  # a score before there is one: none is written with more characters


class BudgetCard:
    """The cards of all candidates of a search; they differ in what is left of the model, and in the scores."""

    def __init__(self, source: ExportSource, all_layers: int, budget: int) -> None:
        self.source, self.all_layers, self.budget = source, all_layers, budget

    @property
    def _name(self) -> str:
        return f"{self.source.title}-{in_megabytes(self.budget).replace(' ', '-')}"

    @cached_property
    def _shared(self) -> str:
        title = self.source.title
        description = f"An ONNX model made from `{title}` to fit into {in_megabytes(self.budget)}: {WHAT}."
        text = new_card(self.source, self._name, description, self.source.student.model)
        return with_backend(text, "onnx", [GRAPH.as_posix()])

    def __call__(
        self, form: Form, precision: Precision, size: int, measured: HalvesMeasured, original: Mapping[str, Scores]
    ) -> str:
        """The card of a candidate with its scores, and those of the original, by language."""
        known = all(one.teacher_index is not None for one in original.values())
        info = ExportInfo(
            name=self._name,
            what=f"ONNX graph of `{self.source.title}`",
            measure=f"Score in percent on held-out sentences ({SCORE[known]})",
            metric="score",
            original=_means(original),
            copies=[Copy(precision, GRAPH.as_posix(), size / 1e6, measured.cosine, _means(measured.languages))],
            base_model=hub_name(self.source.name),
        )
        what = f"{form.describe(self.all_layers)}, {form.dimension} dimensions, {precision}"
        whole, cut = (f", {size}]\n" for size in (self.source.student.dimension, form.dimension))
        return export_card(self._shared.replace(WHAT, what).replace(whole, cut), info)

    def blank(self, form: Form, precision: Precision) -> str:
        """A card that is as long as the one with scores will be, or a little longer: it counts in the size."""
        score = Scores(None if self.source.teacher is None else BLANK, BLANK)
        languages = dict.fromkeys(self.source.evaluator.languages, score)
        return self(form, precision, self.budget, HalvesMeasured(score, score, languages, BLANK), languages)


def _means(scores: Mapping[str, Scores]) -> dict[str, float]:
    return {language: one.mean for language, one in scores.items()}
