"""Tables on narrow screens keep their numbers."""

import io

from rich.console import Console

from isogloss.cli.screen import score_table
from isogloss.types import LanguageScores, Report


def shown(reports: list[Report], width: int) -> str:
    console = Console(file=io.StringIO(), width=width, soft_wrap=True)
    console.print(score_table(reports, "held out"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_many_stages_are_shown_whole_and_what_nobody_measured_is_not() -> None:
    stages = [
        Report(f"round {n}", (LanguageScores("de", 9, None, n / 10 + 0.001, n / 10 + 0.002, None),), 40) for n in range(6)
    ]
    text = shown(stages, 50)
    assert "teacher" not in text and "…" not in text and "average" in text
    assert all(f"{10 * n}.1" in text and f"{10 * n}.2" in text for n in range(6))


def test_a_measure_that_one_language_has_is_shown() -> None:
    scores = (LanguageScores("de", 9, 0.25, 0.5, 0.5, 0.125), LanguageScores("fr", 9, None, 0.5, 0.5, None))
    text = shown([Report("x", scores, 40)], 100)
    assert "teacher's index" in text and "25.0" in text and "–" in text
