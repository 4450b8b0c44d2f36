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
from isogloss.evaluation.compare import Comparison, Score, compare
from isogloss.evaluation.data.retrieval_sets import open_retrieval_set
from isogloss.evaluation.suites import Suite, measure
from isogloss.evaluation.tasks.retrieval import retrieval, teacher_space
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoders.open import open_encoder
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
    parser.add_argument("--bridge", type=Path, help="the same recipe, run with training.epochs=0; made if it is not named")
    parser.add_argument("--languages", default=LANGUAGES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    recipe = recipes.parse(open_finished(str(args.run)).recipe)
    with tempfile.TemporaryDirectory() as folder, progress() as bars:
        bridge = args.bridge or bridge_of(recipe, Path(folder) / "bridge", bars)
        models = [recipe.student.model, str(bridge), str(args.run), recipe.teacher.model]
        data = open_retrieval_set(args.data).in_languages(args.languages.split(","))
        teacher = CachedEncoder(open_encoder(recipe.teacher.model), cache_folder())
        suite = Suite((retrieval(data, teacher_space(data, teacher, bars), own_index=False),))
        comparison = compare([one for name in models for one in measure(name, suite, cache_folder(), on_progress=bars)])
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
