"""`isogloss forecast` as a person meets it: a real run of the command, and its sentences."""

import json
from pathlib import Path

import numpy as np
import pytest

from isogloss import recipes
from isogloss.cli.app import main
from isogloss.cli.screens.forecast import show
from isogloss.config.forecasting import ForecastSettings
from isogloss.evaluation.forecasting import Estimate, Forecast, LanguageForecast, Measured
from isogloss.evaluation.learning_curve import Points
from isogloss.storage import read_json
from tiny import tiny_recipe


def isogloss(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments)])
    return int(caught.value.code or 0)


def test_the_command_runs_and_reuses_its_runs(
    models: Path, tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.toml").write_text(recipes.dump(tiny_recipe(models, tsv, Path("runs/mine"), "training.epochs=1")), encoding="utf-8")
    given = ("forecast", "r.toml", "--wanted", 70, "--sizes", "8,16,1/1", "--set", "seed=3", "--at", "40,400")
    assert isogloss(*given) == 0
    first = capsys.readouterr()
    assert "forecast from runs; pairs per language: 8, 16 and 32" in first.out
    assert " 40 " in first.out and "de: 70 %" in first.out and "Runs and numbers: runs/mine-forecast" in first.out
    assert isogloss(*given, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == read_json(Path("runs/mine-forecast/forecast.json")) and told["wanted"] == 0.7
    assert isogloss("forecast", "r.toml", "--sizes", "8,16,1/0") == 2
    assert "hint: for example --sizes" in capsys.readouterr().err
    assert isogloss("forecast", "r.toml", "--wanted", "0.95") == 2
    assert "between 1 and 100" in capsys.readouterr().err


def language(needed: Estimate, enough: float = 1.0, misfit: float = 1.0) -> LanguageForecast:
    points = Points(np.array([1000.0, 2000.0, 4000.0]), np.array([0.7, 0.8, 0.85]), np.full(3, 0.01))
    level = Estimate(0.932, 0.91, 0.975)
    return LanguageForecast("de", points, 8000, {12_000: Estimate(0.9, 0.88, 0.93)}, level, needed, enough, misfit, 700)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (
            language(Estimate(12_345, 9_876, 23_456)),
            "de: 91 % needs about 12,000 pairs (9,900 to 23,000; you have 8,000), a run of about 12 min here.\n",
        ),
        (
            language(Estimate(12_345, 9_876, np.inf), enough=0.9),
            "(9,900 or more, perhaps no number is enough; you have 8,000), a run of about 12 min here. 10% of",
        ),
        (
            language(Estimate(np.inf, 9_876, np.inf), enough=0.3),
            "de: 91 % may not be reachable by more pairs of this kind (the curve levels off at 93.2 (91–98); 30% of the",
        ),
        (
            language(Estimate(np.inf, np.inf, np.inf), enough=0.01),
            "de: 91 % is not reachable by more pairs of this kind (the curve levels off at 93.2 (91–98)).\n",
        ),
        (language(Estimate(12_345, np.inf, np.inf), enough=0.01), "(12,000 or more, perhaps no number is enough; you have"),
        (language(Estimate(1e6, 9_876, 1e8)), "That is more than 30-fold the largest run"),
        (language(Estimate(12_345, 9_876, 23_456), misfit=3.0), "not on a curve of this form"),
    ],
)
def test_the_sentence_says_what_is_known(own: LanguageForecast, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings, runs = ForecastSettings(wanted=91), tuple(Measured(size, size, 1.0, {}) for size in (1000, 2000, 4000))
    show(Forecast(Path("f"), settings, {"de": own}, {"sw": "too few"}, runs))
    out = capsys.readouterr().out
    assert said in out and "sw: no forecast: too few.\n" in out and "  12k" in out and "90.0 (88–93)" in out


def test_what_was_reached_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    runs = tuple(Measured(size, size, 1.0, {}) for size in (1000, 2000, 4000))
    own = language(Estimate(1_812, 1_500, 2_200))
    show(Forecast(Path("f"), ForecastSettings(wanted=78), {"de": own}, {}, runs))
    assert "de: 78 % is reached with about 1,800 pairs, of 8,000 pairs." in capsys.readouterr().out
