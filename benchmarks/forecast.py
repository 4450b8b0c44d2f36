"""Are forecasts from small runs right? They are compared with larger runs, on real pairs.

    python benchmarks/forecast.py --data ../shared/data

Teaches multilingual-e5-small in several languages with up to 2,000 pairs each, forecasts the scores of 4 and 8 times as many,
and measures these, too. Takes about a quarter of an hour on two cores, or a few minutes on a GPU. Forecasts, intervals and the
measured scores go to benchmarks/results/forecast.json. With --out and --work it can be tried on a small size.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from provenance import provenance
from real_pairs import enough, tsv

from isogloss import recipes
from isogloss.cli.screens.progress import progress
from isogloss.config import Recipe
from isogloss.config.forecasting import ForecastSettings
from isogloss.evaluation.forecasting import Forecast
from isogloss.progress import OnProgress
from isogloss.runs.forecast import forecast
from isogloss.storage import write_json

RESULTS = Path(__file__).with_name("results") / "forecast.json"
LANGUAGES = "de,ru,tr"
SIZES, LARGER = (250, 500, 1000, 2000), (8000, 16_000)
SCORES = ("index", "to-source", "from-source", "cosine")
HELD_OUT = 0.05  # of the pairs, so that about a thousand are measured


def recipe_of(files: list[str], languages: list[str], work: Path, seed: int, device: str) -> Recipe:
    """One epoch on the upper four layers, after a bridge; measured on a thousand pairs."""
    return recipes.parse(
        {
            "name": "forecast",
            "seed": seed,
            "device": device,
            "languages": languages,
            "pairs": {"files": files, "held_out": HELD_OUT, "on_error": "skip"},
            "teacher": {"model": "all-MiniLM-L6-v2"},
            "student": {"model": "multilingual-e5-small"},
            "training": {"train_layers": 4, "epochs": 1, "batch_pairs": 64, "dev_pairs": 0},
            "evaluation": {"max_queries": 1000, "max_candidates": 3000},
            "output": {"folder": str(work / "run"), "cache": str(work / "cache")},
        }
    )


def write_pairs(data: Path, languages: list[str], folder: Path, rows: int, seed: int) -> list[str]:
    """A file of real pairs for each language."""
    files = []
    for language in languages:
        path = folder / f"en-{language}.tsv"
        path.write_bytes(b"".join(map(tsv, enough(data, language, rows, seed))))
        files.append(str(path))
    return files


def rows_of(small: Forecast, whole: Forecast, seed: int) -> list[dict[str, Any]]:
    """Each forecast beside what the larger run measured."""
    rows = []
    for language, own in small.languages.items():
        measured = whole.languages[language].points
        last = own.points.sizes.max()
        for size, score, error in zip(*measured, strict=True):
            if size <= last:
                continue
            found = own.at[int(size)]
            low, high = found.low - 1.96 * error, found.high + 1.96 * error  # the larger run is measured with an error, too
            facts = {"language": language, "score": small.settings.score, "seed": seed, "pairs": int(size)}
            rows.append(
                facts
                | {"largest_small_run": [int(last), round(float(own.points.scores[-1]), 4)]}
                | {"forecast": [round(one, 4) for one in found], "measured": [round(float(score), 4), round(float(error), 4)]}
                | {"inside": bool(low <= score <= high)}
            )
    return rows


def compared(
    recipe: Recipe, folder: Path, sizes: list[int], larger: list[int], on_progress: OnProgress
) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """The rows of all scores for one seed, and what the runs took."""
    every = ForecastSettings(sizes=tuple(map(str, (*sizes, *larger))), wanted=99)
    whole = forecast(recipe, folder, every, on_progress)
    reached = {int(size) for own in whole.languages.values() for size in own.points.sizes}  # a language may have fewer pairs
    small = every.replace(sizes=tuple(map(str, sizes)), at=tuple(sorted(reached)))
    rows = []
    for score in SCORES:
        few, more = (forecast(recipe, folder, one.replace(score=score), on_progress) for one in (small, every))
        rows += rows_of(few, more, recipe.seed)
    return rows, [{"pairs": one.pairs, "seconds": one.seconds} for one in whole.runs]


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the shared data folder")
    parser.add_argument("--languages", default=LANGUAGES)
    parser.add_argument("--sizes", type=numbers, default=list(SIZES))
    parser.add_argument("--larger", type=numbers, default=list(LARGER))
    parser.add_argument("--seeds", type=numbers, default=[17])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, help="folder for pairs and runs; a temporary one by default")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    languages, began = args.languages.split(","), time.monotonic()
    rows, runs = list[dict[str, Any]](), list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as temporary, progress() as bars:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        files = write_pairs(args.data, languages, work, int(1.5 * max(args.larger)), args.seeds[0])
        for seed in args.seeds:
            recipe = recipe_of(files, languages, work, seed, args.device)
            own, spent = compared(recipe, work / f"forecast-{seed}", args.sizes, args.larger, bars)
            rows, runs = rows + own, runs + spent
    facts = {
        "teacher": recipe.teacher.model,
        "student": recipe.student.model,
        "sizes": args.sizes,
        "larger": args.larger,
        "seeds": args.seeds,
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(args.out, provenance(args.seeds[0]) | facts | {"runs": runs, "rows": rows})


if __name__ == "__main__":
    main()
