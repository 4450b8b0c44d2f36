"""How many pairs does a language need? Run a recipe on small parts of its pairs, and extrapolate the growth of its scores.

The parts are nested: `pairs.max_per_language` keeps the first pairs of an order that depends on the seed alone. All runs are
measured on the same held-out pairs, searched among the same candidates: those of the whole recipe, because fewer candidates
would make small runs look good. `evaluation/learning_curve.py` has the curve.

    FOLDER/pairs            all pairs of the recipe, prepared
    FOLDER/runs/SIZE        a run with SIZE pairs per language; interrupted runs continue, finished ones are reused
    FOLDER/points           the scores of each run
    FOLDER/forecast.json    the result
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.amounts import amount
from isogloss.config import Recipe, as_dict
from isogloss.config.forecasting import ForecastSettings
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.store import open_store
from isogloss.errors import IsoglossError, RecipeError
from isogloss.evaluation.alignment import AlignmentEvaluator, PerQuery
from isogloss.evaluation.forecasting import MORE_SIZES, Forecast, Measured, extrapolate
from isogloss.evaluation.learning_curve import FEWEST
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.gathering import gather_source
from isogloss.runs.measure import measured_pairs
from isogloss.runs.models import open_teacher
from isogloss.runs.pipeline import run
from isogloss.runs.record import RECORD
from isogloss.runs.run import RunResult, refuse_overlap, vector_folder
from isogloss.shapes import NUMBER, TEXT, Each, check
from isogloss.storage import LOCK, canonical_json, content_hash, folder_lock, make_folder, read_json, write_json
from isogloss.types import TRAIN, PairSource

RESULT = "forecast.json"
OWN = ("pairs", "runs", "points", RESULT, LOCK)
SMALLEST_RUN = 8  # pairs per language
POINT = {"limit": NUMBER, "pairs": NUMBER, "seconds": NUMBER, "scores": Each(TEXT, {"pairs": NUMBER})}


def forecast(
    recipe: Recipe,
    folder: Path | str,
    settings: ForecastSettings | None = None,
    on_progress: OnProgress = silent,
    fresh: bool = False,
    replace: bool = False,
) -> Forecast:
    """Run a recipe on small parts of its pairs in sub-folders of `folder`, and forecast its scores for more pairs.

    An interrupted forecast continues; finished runs are reused. `fresh` and `replace` are those of `run`, for each run.
    """
    folder, settings = Path(folder), settings or ForecastSettings()
    _refuse(recipe, folder, settings)
    with folder_lock(folder, "another forecast is using this folder", "wait for it, or name another folder"):
        pairs, _ = gather_source(recipe, folder / "pairs", on_progress)
        counts = pair_counts(pairs, settings.languages)
        limits = run_sizes(settings.sizes, max(counts.values()))
        parts = [part_of(recipe, limit, folder / "runs" / str(limit)) for limit in limits]
        places = [_place(folder, part, recipe, pairs) for part in parts]
        known = [None if fresh or replace else _known(place) for place in places]
        evaluator = None if all(known) else _evaluator(recipe, pairs, on_progress)
        measured = list[Measured]()
        for limit, part, place, before in zip(limits, parts, places, known, strict=True):
            on_progress(Step("forecast", len(measured), len(limits), "runs", f"{amount(limit, 'pair')} per language"))
            if before is None and evaluator is not None:
                before = _measured(limit, run(part, on_progress, fresh, replace), evaluator, on_progress, part.device)
                make_folder(place.parent)
                write_json(place, before._asdict())
            measured += [before] if before else []
        on_progress(Step("forecast", len(limits), len(limits), "runs"))
        found = extrapolate(measured, counts, settings, recipe.seed, folder)
        write_json(folder / RESULT, found.as_dict())
    return found


def run_sizes(sizes: Sequence[str], most: int) -> list[int]:
    """The runs' pairs per language, from words such as "1/8" (of `most`) and "5000"; ascending."""
    found = set()
    for word in sizes:
        try:
            number = Fraction(word)
        except (ValueError, ZeroDivisionError) as error:
            raise RecipeError(f"--sizes: {word!r} is not a size", hint="for example --sizes 1/16,1/8,1/4,1/2") from error
        found.add(int(number * most) if "/" in word or "." in word else int(number))
    if any(size > most for size in found):
        raise RecipeError(
            f"--sizes: {amount(max(found), 'pair')} per language, but there are at most {most:,}", hint=MORE_SIZES
        )
    kept = sorted(size for size in found if size >= SMALLEST_RUN)
    if len(kept) < FEWEST:
        message = f"a curve needs {FEWEST} runs with at least {amount(SMALLEST_RUN, 'pair')} per language, of {most:,} in all"
        raise RecipeError(f"{message}; there would be {len(kept)}", hint=MORE_SIZES)
    return kept


def pair_counts(pairs: PairSource, languages: Sequence[str]) -> dict[str, int]:
    """The training pairs of each language that is forecast."""
    known = [language for language in pairs.languages if language != pairs.source_language]
    wanted = list(map(canonical, languages)) or known
    if missing := [language for language in wanted if language not in known]:
        raise RecipeError(f"--languages: no pairs in {', '.join(missing)}", hint=f"there are pairs in: {', '.join(known)}")
    counts = pairs.pair_counts()
    return {language: counts.total(language=language, split=TRAIN) for language in wanted}


def part_of(recipe: Recipe, limit: int, folder: Path) -> Recipe:
    """The recipe with fewer pairs, in its own folder. What it is measured on is not its own, so it measures little."""
    return recipe.replace(
        pairs=recipe.pairs.replace(max_per_language=limit),
        leaks=recipe.leaks_scanned,
        evaluation=recipe.evaluation.replace(max_candidates=1, retrieval=""),
        output=recipe.output.replace(folder=str(folder)),
    )


def standard_error(measured: PerQuery, is_share: bool) -> float:
    """The standard error of a mean over queries; those of one source sentence are not independent.

    A share has at least that of one more right and one more wrong answer: all right by chance does not mean certain.
    """
    values = measured.values
    residuals = np.bincount(np.unique(measured.sources, return_inverse=True)[1], values - values.mean())
    error = float(np.sqrt(np.square(residuals).sum())) / len(values)
    if not is_share:
        return max(error, 1e-6)
    smoothed = (values.sum() + 1) / (len(values) + 2)
    return max(error, float(np.sqrt(smoothed * (1 - smoothed) / (len(values) + 2))))


def _evaluator(recipe: Recipe, pairs: PairSource, on_progress: OnProgress) -> AlignmentEvaluator:
    """The held-out pairs and the candidates of the whole recipe, embedded by its teacher."""
    evaluator = AlignmentEvaluator(measured_pairs(pairs, recipe.evaluation), recipe.evaluation.max_candidates)
    if (teacher := open_teacher(recipe)) is not None:
        evaluator.set_teacher(CachedEncoder(teacher, vector_folder(recipe)), on_progress, "teacher, held out")
    return evaluator


def _place(folder: Path, part: Recipe, recipe: Recipe, pairs: PairSource) -> Path:
    """The file for the scores of a run: its name depends on all that they depend on."""
    settings = (canonical_json(as_dict(part)), canonical_json(as_dict(recipe.evaluation)))
    return folder / "points" / f"{part.pairs.max_per_language}-{content_hash(*settings, pairs.hash)[:16]}.json"


def _measured(limit: int, result: RunResult, evaluator: AlignmentEvaluator, on_progress: OnProgress, device: str) -> Measured:
    vectors = open_encoder(str(result.model), device).encode(
        evaluator.texts, on_progress, f"measuring, {amount(limit, 'pair')}"
    )
    counts = open_store(result.details["store"]).pair_counts()
    scores: dict[str, dict[str, Any]] = {}
    for language, own in ((one.scores.language, one.per_query) for one in evaluator.score(vectors)):
        scores[language] = {"pairs": counts.total(language=language, split=TRAIN)}
        for name, answers in own.items():
            scores[language][name] = [float(answers.values.mean()), standard_error(answers, name != "cosine")]
    seconds = sum(read_json(result.folder / RECORD)["seconds"].values())
    return Measured(limit, sum(one["pairs"] for one in scores.values()), round(seconds, 1), scores)


def _known(place: Path) -> Measured | None:
    """What was measured before with the same recipe and the same held-out pairs."""
    try:
        return Measured(**check(read_json(place), POINT))
    except (OSError, ValueError):
        return None


def _refuse(recipe: Recipe, folder: Path, settings: ForecastSettings) -> None:
    if recipe.add is not None or not recipe.needs_pairs:
        raise RecipeError("a forecast needs a recipe that is trained on pairs", hint="isogloss init writes one")
    if settings.score in ("index", "cosine") and not recipe.teacher.model:
        raise RecipeError(f"--score {settings.score} needs a teacher", hint="choose --score to-source or from-source")
    refuse_overlap(str(folder), recipe.models())
    others = sorted(path.name for path in folder.iterdir() if path.name not in OWN) if folder.is_dir() else []
    if others:
        raise IsoglossError(f"{folder}: contains other files ({', '.join(others[:3])})", hint="name a new folder with --out")
