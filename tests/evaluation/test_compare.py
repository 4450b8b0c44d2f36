"""Models side by side: differences, averages, significance, leaks; and the tables that are made of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import IsoglossError
from isogloss.evaluation.bootstrap import fixed, share
from isogloss.evaluation.compare import AVERAGE, Comparison, Outcome, TaskScore, compare
from isogloss.evaluation.leak_report import Scan, SetFile
from isogloss.evaluation.tables import grids, latex, markdown, score_text, short_names, with_interval
from isogloss.evaluation.tasks.bias import DIFFERENCE


def outcome(model: str, good: float, seed: int = 0, scan: Scan | None = None) -> Outcome:
    """Two columns of 200 rows; a row is right where its difficulty is below how good the model is."""
    columns = []
    for place, name in enumerate(("en-de", "kat")):
        hard = np.random.default_rng(place).random(200)
        hits = hard + 0.02 * np.random.default_rng(seed).normal(size=200) < good
        others = {"en → xx": good, "xx → en": good / 2}
        origin = (SetFile(f"sets/{name}.txt", Path(f"sets/{name}.txt")),)
        shown = ("en → xx", "xx → en")
        columns.append(TaskScore("Tatoeba", name, "accuracy", share(hits, f"set {name}"), others, origin, shown=shown))
    columns.append(TaskScore("Tatoeba", "group", "accuracy", share(np.ones(3), "g"), averaged=False, note="a note"))
    return Outcome(model, tuple(columns), {"dimension": 4}, scan)


@pytest.fixture
def compared() -> Comparison:
    return compare([outcome("weak", 0.5), outcome("strong", 0.6), outcome("same", 0.5, seed=3)], resamples=2000)


def test_differences_are_paired_and_significant_where_they_are_not_chance(compared: Comparison) -> None:
    (table,) = compared.tables
    assert [column.name for column in table.columns] == ["en-de", "kat", "group", AVERAGE]
    average = table.columns[3].cells
    assert average[0].value == pytest.approx((table.columns[0].cells[0].value + table.columns[1].cells[0].value) / 2)
    strong, same = average[1].difference, average[2].difference
    assert average[0].difference is None and strong is not None and same is not None
    assert strong.value == pytest.approx(average[1].value - average[0].value)
    assert strong.significant and strong.p < 0.01 and strong.interval.low > 0
    assert not same.significant and same.p > 0.05 and same.interval.low <= same.value <= same.interval.high
    alone = average[1].interval
    assert alone is not None
    assert strong.interval.high - strong.interval.low < alone.high - alone.low, "what models have in common cancels out"
    assert average[1].others["xx → en"] == pytest.approx(0.3)


def test_another_baseline_turns_differences_round(compared: Comparison) -> None:
    turned = compare([outcome("weak", 0.5), outcome("strong", 0.6)], baseline="strong", resamples=2000)
    was, now = compared.tables[0].columns[0].cells[1].difference, turned.tables[0].columns[0].cells[0].difference
    assert was is not None and now is not None
    assert now.value == pytest.approx(-was.value) and now.interval.low == pytest.approx(-was.interval.high)
    with pytest.raises(IsoglossError, match="other: the baseline is not among the models"):
        compare([outcome("weak", 0.5)], baseline="other")


def test_json_holds_everything(compared: Comparison) -> None:
    told = json.loads(json.dumps(compared.as_dict(), allow_nan=False))
    assert told["baseline"] == "weak" and told["resamples"] == 2000 and told["models"][1]["dimension"] == 4
    cell = told["tables"][0]["columns"][0]["scores"][1]
    assert cell["model"] == "strong" and cell["difference"]["significant"] is True and cell["leaks"] == "not known"
    assert told["tables"][0]["columns"][2]["note"] == "a note"
    single = compare([outcome("weak", 0.5)], resamples=0).as_dict()
    assert single["baseline"] is None and single["tables"][0]["columns"][0]["scores"][0]["interval"] is None


def test_leak_states_stand_under_the_scores() -> None:
    scan = Scan((("kat.txt", ""),), tuple(f"corpus{number}" for number in range(7)))
    compared = compare([outcome("m", 0.5, scan=scan), outcome("n", 0.5)], resamples=0)
    (table,), (grid,) = compared.tables, grids(compared)
    states = [column.cells[0].leaks for column in table.columns]
    assert states == ["not scanned", "scanned, by name", "not known", "partly scanned"]
    known, unknown = (one for one in grid.notes if "leak" in one)
    assert known.startswith("leak scan of the training text of m (corpus0, corpus1, corpus2, corpus3, corpus4 and 2 more): not")
    assert "scanned, by name for kat" in known and "not scanned for en-de" in known
    assert unknown == "leak scan of the training text of n: not known"
    told = compared.as_dict()["models"]
    assert told[0]["scanned"] == ["kat.txt"] and len(told[0]["learnt_from"]) == 7 and told[1]["scanned"] is None


def test_numbers_of_others_have_no_interval() -> None:
    outcome = Outcome("m", (TaskScore("MTEB STS17", "en-de", "main score", fixed(0.5, "x")),))
    (table,) = compare([outcome, outcome]).tables
    assert table.columns[0].cells[0].interval is None and table.columns[0].cells[1].difference is None


def test_markdown(compared: Comparison) -> None:
    lines = markdown(compared).splitlines()
    assert lines[0] == "### Tatoeba" and lines[2] == "| Model | en-de | kat | group | Avg. |"
    strong = next(line for line in lines if line.startswith("| strong"))
    value = compared.tables[0].columns[0].cells[1].value
    assert f"**{100 * value:.1f}\\*" in strong and " to " in strong
    assert any("differs from weak" in line for line in lines) and any("a note" in line for line in lines)


def test_latex_as_the_papers_set_it(compared: Comparison) -> None:
    text = latex(compare([outcome("a_b", 0.5), outcome("b", 0.6)], resamples=200))
    assert r"\textbf{Model} & \textbf{EN-DE} & \textbf{KA} & \textbf{group} & \textbf{Avg.} \\" in text
    assert r"a\_b & " in text and r"\begin{tabular}{lrrrr}" in text and r"\toprule" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    assert "→" not in text and r"\textbf{" in text.split(r"\midrule")[1]


def test_directions_stand_under_their_model() -> None:
    columns = tuple(one for one in outcome("m", 0.5).measured if one.column != "group")
    (grid,) = grids(compare([Outcome("m", columns)], resamples=0))
    assert [line.label for line in grid.lines] == ["m", "  en → xx", "  xx → en"]
    assert grid.lines[1].cells == ("50.0", "50.0", "50.0") and grid.lines[2].cells == ("25.0", "25.0", "25.0")


def test_wide_tables_are_turned_and_differences_have_signs() -> None:
    many = tuple(TaskScore("T", f"l{n}", "accuracy", share(np.ones(2), f"{n}")) for n in range(20))
    (grid,) = grids(compare([Outcome("m", many), Outcome("n", many)], resamples=10))
    assert grid.header == ("m", "n") and grid.lines[0].label == "l0" and len(grid.lines) == 21
    assert (
        score_text(-0.0092, DIFFERENCE) == "−0.92" and score_text(0.001, DIFFERENCE) == "+0.10" and score_text(0.8151) == "81.5"
    )


def test_names_are_as_short_as_they_can_be_told_apart() -> None:
    assert short_names(["runs/a", "org/b"]) == ("a", "b") and short_names(["x/run/", "y/run"]) == ("x/run", "y/run")
    assert short_names(["http://h/v1#m", "cmd:a/b c"]) == ("http://h/v1#m", "cmd:a/b c")


def further(model: str, value: float, languages: int) -> Outcome:
    hits = np.arange(20) < 20 * value
    found = [
        TaskScore("T", f"l{n}", "recall@1", share(hits, "t"), further={"recall@10": share(~hits, "t")})
        for n in range(languages)
    ]
    return Outcome(model, tuple(found))


def test_further_metrics_have_intervals_and_differences_of_their_own() -> None:
    (table,) = compare([further("m", 0.25, 2), further("n", 0.75, 2)], resamples=200).tables
    average = table.columns[-1].cells
    assert [cell.value for cell in average] == [0.25, 0.75] and [cell.further["recall@10"].value for cell in average] == [
        0.75,
        0.25,
    ]
    other = average[1].further["recall@10"]
    assert other.interval is not None and other.interval.low < 0.25 < other.interval.high
    assert other.difference is not None and other.difference.value == -0.5 and other.difference.significant


def test_further_metrics_stand_below_their_model_or_beside_it_or_in_tables_of_their_own() -> None:
    one, two = further("m", 0.25, 20), further("n", 0.75, 20)
    (narrow,) = grids(compare([further("m", 0.25, 2)], resamples=0))
    assert [(line.label, line.cells) for line in narrow.lines] == [("m", ("25.0",) * 3), ("  recall@10", ("75.0",) * 3)]
    (wide,) = grids(compare([one], resamples=0))
    assert wide.title == "m: T" and wide.header == ("recall@1", "recall@10") and wide.notes[0] == "all × 100"
    assert len(wide.lines) == 21 and wide.lines[-1].label == "Avg." and wide.lines[-1].cells == ("25.0", "75.0")
    first, second = grids(compare([one, two], resamples=100))
    assert (first.title, second.title) == ("T", "T: recall@10") and first.header == second.header == ("m", "n")
    assert second.lines[0].cells == ("75.0", "25.0*") and second.lines[0].best == (True, False)
    spans = [grid.lines[0].cells[0].partition(" ")[2] for grid in grids(compare([one, two], resamples=100), with_interval)]
    assert spans[0] and spans[0] != spans[1], "each has its own interval"
    assert second.notes[0] == "recall@10, × 100" and r"recall@10, $\times$ 100." in latex(compare([one, two], resamples=0))
