"""Tables on narrow screens keep their numbers; names from outside are shown as text, whatever they hold."""

import io
import json

import pytest
from rich.console import Console
from rich.table import Table

from isogloss.cli.screen import Bars, errors, output, say, score_table, show_json
from isogloss.progress import Step
from isogloss.shown import printable
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


EVIL = "\x1b[31m[red]ev\u202eil[/red]\x1b]0;title\x07\x9b2J :smile: https://u:SECRET@h/?api_key=SECRET"
SHOWN = "\\x1b[31m[red]ev\\u202eil[/red]\\x1b]0;title\\x07\\x9b2J :smile: https://***@h/?api_key=***"


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Both consoles as a terminal has them, with everything they write in one place."""
    written = io.StringIO()
    for one in (output, errors):
        monkeypatch.setattr(one, "_file", written)
        monkeypatch.setattr(one, "_width", 300)
    return written


def test_whatever_a_name_holds_is_shown_as_text(console: io.StringIO) -> None:
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    scores = Report(EVIL, (LanguageScores(EVIL, 9, 0.25, 0.5, 0.5, 0.125),), 40)
    for shown in (EVIL, table, score_table([scores], EVIL)):
        output.print(shown)
    say(EVIL)
    output.print(EVIL, style="dim")
    assert console.getvalue().count(SHOWN) == 9
    assert printable(console.getvalue(), layout=True) == console.getvalue() and "SECRET" not in console.getvalue()


@pytest.mark.parametrize("live", [False, True])
def test_progress_shows_names_as_text(console: io.StringIO, live: bool) -> None:
    bars = Bars()
    bars.live = live
    bars(Step(EVIL, 1, 2, "files", EVIL))
    bars(Step(EVIL, 2, 2, "files", EVIL))
    if live:
        errors.print(bars.progress)
    assert console.getvalue().count(SHOWN) == 2 and printable(console.getvalue(), layout=True) == console.getvalue()


def test_json_means_the_same_and_holds_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "\x9b31m \u202e", "model": "http://h/?token=SECRET#m"})
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": "\x9b31m \u202e", "model": "http://h/?token=***#m"} and text.isascii()
