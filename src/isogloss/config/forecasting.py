"""The settings of `isogloss forecast`: which score, which runs it is forecast from, and for how many pairs."""

from typing import Literal

from isogloss.config.settings import Settings, setting


class ForecastSettings(Settings):
    """What is forecast, and the small runs that the forecast is made from. docs/verbs/forecast.md explains the scores."""

    score: Literal["index", "to-source", "from-source", "cosine"] = setting(
        "index", "Score to forecast; index is search in the teacher's index."
    )
    wanted: float = setting(95.0, "Score to reach, in percent (a cosine of 0.9 is 90).", above=1.0, at_most=100.0)
    languages: tuple[str, ...] = setting((), "Languages to forecast; empty: all.")
    sizes: tuple[str, ...] = setting(
        ("1/16", "1/8", "1/4", "1/2"), "Sizes of the runs: pairs per language, or shares of all pairs."
    )
    at: tuple[int, ...] = setting((), "Pairs to forecast the score for; empty: all, and 2, 4 and 10 times.")
    resamples: int = setting(2_000, "Bootstrap resamples for the intervals.", at_least=100)
