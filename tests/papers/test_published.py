"""The papers' figures: averages that they print are those of the cells, and what they claim is so in their own figures."""

from statistics import mean

import pytest

from isogloss.errors import RecipeError
from isogloss_papers import published as module
from isogloss_papers.claims import SEEN, judge
from isogloss_papers.published import PublishedTable, published, table_names
from isogloss_papers.recipe import system_names

TABLES = [*(f"rg-table-{number}" for number in range(1, 9)), *(f"hk-table-{number}" for number in range(1, 5))]
MISPRINTED = {("XLM-R ← SBERT-paraphrases", 84.6), ("Reimers and Gurevych (2020)", 84.6)}  # of 88.8, 86.3 and 79.6


def test_all_tables_are_there() -> None:
    assert table_names() == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_printed_averages_are_those_of_the_cells(name: str) -> None:
    table = published(name)
    names = [column.name for column in table.columns]
    if "Avg." not in names:
        return
    for row in table.rows:
        *cells, printed = (figure for figure in row.figures if figure is not None)
        if (row.label, printed) in MISPRINTED:
            assert "84.9" in row.note and mean(cells) == pytest.approx(84.9)
        else:
            assert mean(cells) == pytest.approx(printed, abs=0.1), row.label  # cells are rounded, the average was not of them


def test_bias_is_the_difference_of_the_scores() -> None:
    for row in published("rg-table-8").rows:
        expected, actual, difference = (figure for figure in row.figures if figure is not None)
        assert actual - expected == pytest.approx(difference, abs=0.11), row.label


def test_tables_agree_where_they_print_the_same() -> None:
    """H&K took R&G's figures over; R&G's tables 5 and 6 begin with rows of table 2, and share TED2020."""
    for ours, theirs in (("hk-table-1", "rg-table-2"), ("hk-table-2", "rg-table-1")):
        known = {row.system: row.figures for row in published(theirs).rows}
        shared = [row for row in published(ours).rows if row.system in known]
        assert len(shared) == 4 and all(row.figures == known[row.system] for row in shared)
    across = {row.system: dict(zip(["ar", "de"], row.figures, strict=False)) for row in published("rg-table-2").rows}
    for name in ("rg-table-5", "rg-table-6"):
        for row in published(name).rows[:2]:
            assert row.figures == (across[row.system]["de"], across[row.system]["ar"])
    full = {row.label: row.figures for name in ("rg-table-5", "rg-table-6") for row in published(name).rows}
    assert full["TED2020"] == full["Full TED2020"]
    ham = {row.label: row.figures for row in published("hk-table-4").rows}["τ = 0.99999"]
    final = [next(row for row in published(f"hk-table-{n}").rows if row.label == "Our model") for n in (1, 2, 3)]
    assert ham == (final[0].figures[-1], final[1].figures[-1], final[2].figures[0])


@pytest.mark.parametrize("name", TABLES)
def test_what_a_paper_claims_is_so_in_its_own_figures(name: str) -> None:
    table = published(name)
    assert table.claims

    def look(system: str, column: str) -> tuple[float, float, float] | None:
        place = [one.name for one in table.columns].index(column)
        found = [row.figures[place] for row in table.rows if row.system == system]
        known = [figure for figure in found if figure is not None]
        return (mean(known),) * 3 if known else None

    for claim in table.claims:
        assert judge(claim, look, str).verdict == SEEN, claim.says


def test_every_row_has_a_recipe() -> None:
    for name in TABLES:
        assert set(published(name).systems) <= set(system_names())


def changed(tmp_path: "pytest.TempPathFactory", monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> PublishedTable:
    text = (module.FOLDER / "rg-table-7.toml").read_text(encoding="utf-8")
    assert old in text
    folder = tmp_path.mktemp("published")
    (folder / "other.toml").write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(module, "FOLDER", folder)
    module._read.cache_clear()
    return published("other")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("digits = 2", "digit = 2", "unknown key digit"),
        ("figures = [68.44]", "figures = [68.44, 1.0]", "LASER has 2 figures for 1 column"),
        ('column = "KO-KO"', 'column = "EN-KO"', "names what the table does not have"),
        ('order = ["xlm-r', 'gain = {}\norder = ["nobody", "xlm-r', "names what the table does not have"),
        ('title = "KorSTS, training in the target language"', "title = 7", "title must be text, not 7"),
    ],
)
def test_a_wrong_table_is_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        changed(tmp_path_factory, monkeypatch, old, new)
    module._read.cache_clear()


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(RecipeError, match="rg-table-9: no such table"):
        published("rg-table-9")
