"""Forecasts: real runs on parts of the pairs, and what is made of their scores."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isogloss.config.forecasting import ForecastSettings
from isogloss.errors import IsoglossError
from isogloss.evaluation.alignment import PerQuery
from isogloss.evaluation.forecasting import Measured, extrapolate, seconds_for
from isogloss.runs.forecast import RESULT, forecast, run_sizes, standard_error
from isogloss.storage import read_json
from tiny import tiny_recipe

SMALL = ForecastSettings(sizes=("8", "16", "24", "32"), wanted=60, resamples=100)


def measured(limit: int, **scores: tuple[int, float]) -> Measured:
    """A run with a number of pairs and an index score for each language."""
    own = {language: {"pairs": pairs, "teacher_index": [score, 0.004]} for language, (pairs, score) in scores.items()}
    return Measured(limit, sum(pairs for pairs, _ in scores.values()), 10 + limit / 100, own)


def grown(size: int, level: float = 0.96) -> float:
    return float(level - 0.2 * np.power(size / 1000, -0.7))


RUNS = [measured(size, de=(size, grown(size)), sw=(300, 0.5)) for size in (1000, 2000, 4000, 8000)]


def test_runs_on_parts_are_measured_alike_and_reused(models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=1")
    found = forecast(recipe, tmp_path / "forecast", SMALL)
    assert set(found.languages) == {"de", "ru"} and not found.unknown
    german = found.languages["de"]
    assert german.points.sizes.tolist() == [8, 16, 24, 32] and german.available == 32
    assert list(german.at) == [32, 64, 128, 320]
    assert all(one.low <= one.high for one in (*german.at.values(), german.level, german.needed))
    assert not (tmp_path / "run" / "model").exists()
    held_out = {
        tuple(sorted(row["source"] for row in rows if row["split"] == "test"))
        for rows in (stored(tmp_path / "forecast" / "runs" / str(size) / "pairs") for size in (8, 32))
    }
    assert len(held_out) == 1
    small, large = (
        {(row["source"], row["target"]) for row in stored(tmp_path / "forecast" / "runs" / str(size) / "pairs")}
        for size in (8, 16)
    )
    assert small < large
    written = read_json(tmp_path / "forecast" / RESULT)
    assert written == json.loads(json.dumps(found.as_dict()))
    whole = read_json(tmp_path / "forecast" / "runs" / "32" / "results.json")
    assert [one["pairs"] for one in written["runs"]] == [16, 32, 48, 64] and whole["pairs"]["train"] == 64
    weights = [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("forecast/runs/*/model/model.safetensors"))]
    again = forecast(recipe, tmp_path / "forecast", SMALL.replace(score="to-source", languages=("de",), at=(1000,)))
    assert list(again.languages) == ["de"] and list(again.languages["de"].at) == [1000]
    assert again.runs == found.runs
    assert weights == [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("forecast/runs/*/model/model.safetensors"))]
    (tmp_path / "forecast" / "notes.txt").write_text("mine")
    with pytest.raises(IsoglossError, match="other files"):
        forecast(recipe, tmp_path / "forecast", SMALL)


def stored(folder: Path) -> list[dict[str, str]]:
    from isogloss.corpora.store import open_store

    rows: list[dict[str, str]] = open_store(folder).bitext().table.to_pylist()
    return rows


def test_a_forecast_says_what_is_reachable() -> None:
    settings = ForecastSettings(wanted=93, resamples=200)
    found = extrapolate(RUNS, {"de": 16_000, "sw": 300}, settings, seed=17, folder=Path("f"))
    german = found.languages["de"]
    expected = 1000 * (0.2 / 0.03) ** (1 / 0.7)
    assert german.needed.value == pytest.approx(expected, rel=0.05)
    assert german.needed.low < expected < german.needed.high and german.is_reachable and not german.is_far
    assert german.at[160_000].value == pytest.approx(grown(160_000), abs=0.003)
    assert german.seconds == pytest.approx(seconds_for(RUNS, 2 * german.needed.value))
    assert "the runs have 1 size of its pairs (at most 300); a curve needs 3" in found.unknown["sw"]
    high = extrapolate(RUNS, {"de": 16_000}, replace_wanted(99.5), seed=17, folder=Path("f")).languages["de"]
    assert not high.is_reachable and high.needed.value == np.inf and high.seconds is None and high.enough < 0.5
    assert high.as_dict()["pairs_needed"][0] is None
    none = [measured(size, de=(size, 0.0)) for size in (10, 20, 40)]
    assert extrapolate(none, {"de": 50}, ForecastSettings(), 1, Path("f")).languages["de"].level.low == 0.0
    assert replace(high, needed=german.needed._replace(value=1e9)).is_far


def replace_wanted(wanted: float) -> ForecastSettings:
    return ForecastSettings(wanted=wanted, resamples=200)


def test_seconds_grow_with_the_pairs() -> None:
    runs = [measured(size, de=(size, 0.5)) for size in (1000, 2000, 4000)]
    assert seconds_for(runs, 10_000) == pytest.approx(110)


@pytest.mark.parametrize(
    ("words", "most", "sizes"),
    [(("1/16", "1/8", "1/4", "1/2"), 1600, [100, 200, 400, 800]), (("2000", "500", "1000", "3"), 2000, [500, 1000, 2000])],
)
def test_sizes_are_pairs_or_shares(words: tuple[str, ...], most: int, sizes: list[int]) -> None:
    assert run_sizes(words, most) == sizes


@pytest.mark.parametrize(
    ("words", "said"), [(("x",), "'x' is not a size"), (("1/0",), "not a size"), (("1", "3000"), "3,000"), (("8", "9"), "be 2")]
)
def test_sizes_that_make_no_curve_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(IsoglossError, match=said):
        run_sizes(words, 2000)


def test_the_error_of_a_mean_counts_source_sentences() -> None:
    cosines = np.array([0.2, 0.9, 0.4, 0.7])
    alone = standard_error(PerQuery(cosines, np.arange(4)), is_share=False)
    assert alone == pytest.approx(cosines.std() / 2)
    twice = PerQuery(np.repeat(cosines, 2), np.repeat(np.arange(4), 2))
    assert standard_error(twice, is_share=False) == pytest.approx(alone)
    certain = PerQuery(np.ones(98), np.arange(98))
    assert standard_error(certain, is_share=True) == pytest.approx(np.sqrt(0.99 * 0.01 / 100))


def test_what_has_no_forecast_is_refused(models: Path, tsv: Path, tmp_path: Path) -> None:
    untaught = tiny_recipe(
        models, tsv, tmp_path / "run", "teacher.model=", "bridge.enabled=false", "losses.mse=0", "losses.ranking=1"
    )
    with pytest.raises(IsoglossError, match="needs a teacher"):
        forecast(untaught, tmp_path / "forecast", SMALL)
    with pytest.raises(IsoglossError, match="no pairs in fi"):
        forecast(tiny_recipe(models, tsv, tmp_path / "run"), tmp_path / "forecast", SMALL.replace(languages=("fi",)))
