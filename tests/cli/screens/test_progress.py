"""Tables on narrow screens keep their numbers; progress says what is true; names from outside are shown as text."""

import io
import json

import pytest
from rich.console import Console
from rich.table import Table

from isogloss.cli.screens import progress as screen
from isogloss.cli.screens.progress import Bars, errors, output, say, score_table, show_json
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


def seen(monkeypatch: pytest.MonkeyPatch, *steps: tuple[float, Step]) -> list[str]:
    """The lines that are printed where there is no terminal, for steps at these seconds."""
    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(screen, "errors", console)
    times = iter(when for when, _ in steps)
    bars = screen.Bars(lambda: next(times))
    for _, step in steps:
        bars(step)
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_a_stage_that_begins_again_has_a_rate_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    again = seen(
        monkeypatch,
        (0.0, Step("embed", 64, 100, "sentences")),
        (2.0, Step("embed", 100, 100, "sentences")),
        (10.0, Step("embed", 0, 500, "sentences")),
        (30.0, Step("embed", 40, 500, "sentences")),
        (60.0, Step("embed", 500, 500, "sentences")),
    )
    assert again == [
        "embedding 100 of 100 sentences in 2 s, 18 sentences/s",
        "embedding 40 of 500 sentences in 20 s, 2 sentences/s, 3 min 50 s left",
        "embedding 500 of 500 sentences in 50 s, 10 sentences/s",
    ]


def test_a_stage_whose_unit_changes_has_a_rate_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = seen(
        monkeypatch,
        (0.0, Step("get", 0, 900, "kB")),
        (20.0, Step("get", 800, 900, "kB")),
        (30.0, Step("get", 1, 9, "MB")),
        (50.0, Step("get", 3, 9, "MB")),
        (51.0, Step("get", 3, 9, "", "waiting")),
    )
    assert lines == ["get 800 of 900 kB in 20 s, 40 kB/s, 2 s left", "get 3 of 9 MB in 20 s, 0.1 MB/s, 1 min left"]


def test_what_is_left_is_said_in_minutes_and_one_is_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = seen(
        monkeypatch,
        (0.0, Step("train", 0, 10_000, "pairs")),
        (175.0, Step("train", 1_000, 10_000, "pairs")),
        (176.0, Step("pairs", 1, 1, "pairs")),
    )
    assert lines == ["training 1,000 of 10,000 pairs in 2 min 55 s, 5.7 pairs/s, 26 min left", "reading pairs 1 of 1 pair"]


def test_one_held_out_sentence_is_singular() -> None:
    one = Report("x", (LanguageScores("de", 1, 0.5, 0.5, 0.5, 0.5),), 40)
    assert screen.held_out_title(one).startswith("1 held-out sentence per language, ")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_bars_on_a_terminal_keep_names_and_numbers(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    monkeypatch.setattr(screen, "errors", console)
    times = iter((0.0, 0.0, 20.0, 25.0))
    bars = screen.Bars(lambda: next(times))
    note = "loss 0.8677, dev 100.0 % found, mse 0.9723; best was before the first step, and a word more"
    for step in (
        Step("teacher, held out", 0, 4_000, "sentences"),
        Step("untouched student", 4_000, 4_000, "sentences", "reused from the cache"),
        Step("teacher, held out", 100, 4_000, "sentences", note),
        Step("distill", 7, 9, "pairs", note),
    ):
        bars(step)
    console.print(bars.progress.get_renderable())
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert [line[:20].strip() for line in lines] == ["teacher, held out", "untouched student", "distilling"]
    if width >= 80:
        assert "100/4,000  5 sentences/s  13 min left" in lines[0] and "4,000/4,000  reused from the cache" in lines[1]
    if width == 200:
        assert lines[0].endswith("a word more")


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
    shown = console.getvalue().count(SHOWN)  # on a terminal, a bar's name is cut where it is too long
    assert shown == (1 if live else 2) and printable(console.getvalue(), layout=True) == console.getvalue()


def test_json_means_the_same_and_holds_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "\x9b31m \u202e", "model": "http://h/?token=SECRET#m"})
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": "\x9b31m \u202e", "model": "http://h/?token=***#m"} and text.isascii()
