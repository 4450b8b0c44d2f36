"""Figures of columns: means of parts, with the intervals of the same draws; kept and found again."""

from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.compare import compare
from isogloss.evaluation.data.test_sets import open_data
from isogloss.evaluation.suites import Suite, measure, open_suite
from isogloss.progress import silent
from isogloss_papers.published import PublishedTable, published
from isogloss_papers.scores import Figure, Gauge, _measured_before
from isogloss_papers.workshop import Made

DRAWS = 300


@pytest.fixture
def muse(lab: Path) -> Made:
    return Made(name="muse", key="muse", model=str(lab / "models" / "muse"))


def gauge_of(name: str, lab: Path, folder: Path) -> tuple[Gauge, PublishedTable, Suite]:
    table = published(name)
    suite = open_suite(table.suites["lab"], open_data(str(lab / "data" / "eval")))
    return Gauge(table, "lab", suite, folder, DRAWS), table, suite


def test_columns_are_those_of_evaluate(lab: Path, tmp_path: Path, muse: Made) -> None:
    """Where all columns are of one task, `compare` gives the same values, averages and intervals."""
    gauge, table, suite = gauge_of("rg-table-1", lab, tmp_path)
    found = gauge.figures(muse, "cpu", silent)[""]
    comparison = compare(measure(muse.open("cpu"), suite), resamples=DRAWS)
    expected = {column.name.lower(): column.cells[0] for column in comparison.tables[0].columns}
    assert set(found) == {"EN-EN", "ES-ES", "AR-AR", "Avg."}
    for name, figure in found.items():
        cell = expected[name.lower()]
        assert cell.interval is not None
        assert (figure.value, figure.low, figure.high) == pytest.approx(
            [100 * cell.value, 100 * cell.interval.low, 100 * cell.interval.high], abs=2e-2
        )
    assert found["Avg."].rows == sum(found[name].rows for name in ("EN-EN", "ES-ES", "AR-AR"))
    assert table.digits_of(table.columns[0]) == 1


def test_directions_are_drawn_as_what_they_are(lab: Path, tmp_path: Path, muse: Made) -> None:
    gauge, _, suite = gauge_of("rg-table-4", lab, tmp_path)
    found = gauge.figures(muse, "cpu", silent)
    (outcome,) = measure(muse.open("cpu"), suite)
    for one, name in zip(outcome.measured, ("KA", "SW", "TL", "TT"), strict=True):
        both = [found[direction][name] for direction in ("en → xx", "xx → en")]
        assert [figure.value for figure in both] == pytest.approx(
            [100 * one.others["en → xx"], 100 * one.others["xx → en"]], abs=1e-3
        )
        rows, share = both[0].rows, both[0].value / 100
        drawn = np.random.default_rng(5).random((2000, rows)) < share  # n rows, each right or wrong, drawn one by one
        low, high = np.quantile(100 * drawn.mean(axis=1), [0.025, 0.975])
        assert both[0].low == pytest.approx(low, abs=100 / rows) and both[0].high == pytest.approx(high, abs=100 / rows)


def test_columns_that_the_lab_has_not_are_left_out(lab: Path, tmp_path: Path, muse: Made) -> None:
    gauge, _, _ = gauge_of("rg-table-3", lab, tmp_path)
    found = gauge.figures(muse, "cpu", silent)[""]
    assert set(found) == {"DE-EN", "FR-EN", "ZH-EN", "Avg."}
    mean = np.mean([found[name].value for name in ("DE-EN", "FR-EN", "ZH-EN")])
    assert found["Avg."].value == pytest.approx(mean, abs=2e-3)


def test_figures_are_kept_under_what_they_depend_on(lab: Path, tmp_path: Path, muse: Made) -> None:
    gauge, table, suite = gauge_of("rg-table-7", lab, tmp_path)
    first = gauge.figures(muse, "cpu", silent)
    gone = Made(name="muse", key="muse", model="/nowhere")
    assert gauge.figures(gone, "cpu", silent) == first, "found, so the model is not opened"
    other = Made(name="muse", key="another", model=muse.model)
    gauge.figures(other, "cpu", silent)
    more = Gauge(table, "lab", suite, tmp_path, DRAWS + 1)
    more.figures(muse, "cpu", silent)
    assert len(list((tmp_path / "rg-table-7").iterdir())) == 3
    plain = Gauge(table, "lab", suite, tmp_path, 0).figures(muse, "cpu", silent)[""]["KO-KO"]
    assert plain == Figure(first[""]["KO-KO"].value, plain.value, plain.value, plain.rows)


def test_a_column_in_two_sets_is_refused(lab: Path, tmp_path: Path, muse: Made) -> None:
    suite = open_suite("sts2017:en-es,stsb-cross:en-es", open_data(str(lab / "data" / "eval")))
    with pytest.raises(DataError, match="en-es is in two test sets"):
        Gauge(published("rg-table-2"), "lab", suite, tmp_path, 0).figures(muse, "cpu", silent)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"": {"x": {"value": "1"}}}', '{"": {"x": {"value": 1, "low": 1, "high": 1, "rows": 1, "y": 1}}}']
)
def test_figures_that_are_none_are_not_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert _measured_before(tmp_path / "x.json") is None and _measured_before(tmp_path / "y.json") is None
    (tmp_path / "x.json").write_text('{"": {"x": {"value": 1.5, "low": 1, "high": 2, "rows": 3}}}')
    assert _measured_before(tmp_path / "x.json") == {"": {"x": Figure(1.5, 1, 2, 3)}}
