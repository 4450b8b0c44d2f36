"""How much of a teacher's retrieval a student keeps, on real questions and paragraphs.

    python benchmarks/retrieval_kept.py --data ../shared/data/eval/xquad_retrieval --run runs/quickstart

The index has English paragraphs, embedded by the teacher; the questions are in other languages. Measured are the untouched
student, the bridge alone (the recipe of the run without training, made here), the student of the run, and the teacher itself.
Takes about six minutes on two cores. Scores with intervals go to benchmarks/results/retrieval_kept.json.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from provenance import provenance

from isogloss import recipes
from isogloss.cli.screens.progress import progress
from isogloss.config import Recipe
from isogloss.evaluation.compare import Comparison, Score
from isogloss.evaluation.suites import SuiteSettings, evaluate_suite
from isogloss.progress import OnProgress
from isogloss.runs.finished import open_finished
from isogloss.runs.pipeline import run
from isogloss.storage import cache_folder, write_json

RESULTS = Path(__file__).with_name("results") / "retrieval_kept.json"
LANGUAGES = "ar,de,es,ru,tr,zh"  # those of XQuAD that the quickstart trains on
NAMES = ("untouched", "bridge", "student", "teacher")


def bridge_of(recipe: Recipe, folder: Path, on_progress: OnProgress) -> Path:
    """The run's recipe, with the bridge but without training."""
    output = recipe.output.replace(folder=str(folder))
    return run(recipe.replace(training=recipe.training.replace(epochs=0), output=output), on_progress).folder


def scores_of(comparison: Comparison) -> dict[str, Any]:
    """All scores in percent with their intervals: table → language → model → metric."""

    def percent(score: Score) -> list[float]:
        return [round(100 * one, 2) for one in (score.value, *(score.interval or ()))]

    return {
        table.title: {
            column.name: {
                model: {column.measure: percent(cell)} | {name: percent(score) for name, score in cell.further.items()}
                for model, cell in zip(NAMES, column.cells, strict=True)
            }
            for column in table.columns
        }
        for table in comparison.tables
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="a folder of documents and queries, or `questions`")
    parser.add_argument("--run", type=Path, required=True, help="the folder of a finished run")
    parser.add_argument("--languages", default=LANGUAGES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    recipe = recipes.parse(open_finished(str(args.run)).recipe)
    with tempfile.TemporaryDirectory() as folder, progress() as bars:
        bridge = bridge_of(recipe, Path(folder) / "bridge", bars)
        models = [recipe.student.model, str(bridge), str(args.run), recipe.teacher.model]
        how = SuiteSettings(languages=tuple(args.languages.split(",")), teacher=recipe.teacher.model, cache=cache_folder())
        comparison = evaluate_suite(models, f"retrieval:{args.data}", how, bars)
    facts = {
        "recipe": recipe.name,
        "student": recipe.student.model,
        "teacher": recipe.teacher.model,
        "data": Path(args.data).name,
        "questions": comparison.tables[0].columns[0].rows,
        "resamples": comparison.resamples,
    }
    write_json(args.out, provenance(recipe.seed) | facts | {"scores": scores_of(comparison)})


if __name__ == "__main__":
    main()
