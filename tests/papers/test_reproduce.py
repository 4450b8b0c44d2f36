"""Whole tables in the small lab: rows, controls, claims, parts that are put together, and what they look like."""

import json
import runpy
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from isogloss.errors import IsoglossError, ModelError, RecipeError
from isogloss_papers.pictures import picture
from isogloss_papers.published import published, table_names
from isogloss_papers.recipe import CONTROLS
from isogloss_papers.rendering import lines, markdown, notes_of
from isogloss_papers.reproduce import CONTROL, EXTRA, PAPER, Reproduction, reproduce
from isogloss_papers.workshop import CannotBeMade
from papers_world import TOY

SVG = "{http://www.w3.org/2000/svg}"


def reproduced(lab: Path, table: str, **more: Any) -> Reproduction:  # noqa: ANN401 - options of reproduce
    options: dict[str, Any] = {"data": lab / "data", "out": lab / "out", "models": lab / "models", "device": "cpu"}
    return reproduce(table, **{**options, "overrides": TOY, "resamples": 40, **more})


@pytest.mark.parametrize("name", table_names())
def test_every_table_is_reproduced(lab: Path, name: str) -> None:
    result, table = reproduced(lab, name), published(name)
    theirs = [row for row in result.rows if row.kind == PAPER]
    assert [row.label for row in theirs] == [row.label for row in table.rows]
    assert [row.published for row in theirs] == [row.figures for row in table.rows]
    assert {row.system for row in result.rows if row.kind == EXTRA} == set(table.extra)
    for row in result.rows:
        measured = [column for column, figure in zip(table.columns, row.ours, strict=True) if figure is not None]
        assert bool(measured) != bool(row.why), row.label
        if measured and row.system not in ("data-europarl", "data-unpc"):
            assert measured == [column for column in table.columns if column.parts("lab")]
            assert row.backbone and all(figure.low <= figure.value <= figure.high for figure in row.ours if figure)
    assert len(result.claims) == len(table.claims) and all(one.verdict != "not measured" for one in result.claims)
    controls = [row.system for row in result.rows if row.kind == CONTROL]
    untouched = "control-undistilled" in controls or any(row.system == "xlm-r-mean" for row in result.rows)
    assert untouched and "control-teacher-body" in controls and "control-random" in controls
    assert Reproduction.from_dict(result.as_dict()) == result
    drawn = picture(result)
    assert bool(drawn) == (name in ("rg-table-6", "rg-table-8", "hk-table-4"))
    text = markdown(result, ["picture.svg"] if drawn else [])
    assert text.count("| paper |") == len(table.rows) and text.count("| ours |") == len(result.rows)
    assert all(sentence in text for sentence in notes_of(result.rows)) and result.title in text


def test_a_row_of_each_language_has_the_model_of_its_language(lab: Path) -> None:
    """The German column comes from the model that learnt German, the Arabic one from the other."""
    both = reproduced(lab, "rg-table-6", rows=["size-full", "xlm-r-mean"])
    full = next(row for row in both.rows if row.system == "size-full")
    assert full.pairs.startswith("de ") and ", ar " in full.pairs and "(de, ar)" in full.data
    systems = lab / "out" / "systems"
    for place, language in enumerate(("de", "ar")):
        (made,) = {path.name for path in (systems / f"size-full-{language}").iterdir()}
        files = list((lab / "out" / "scores" / "rg-table-6").glob(f"size-full-{language}-*.json"))
        assert made and files
        known = [json.loads(file.read_text())[""][both.columns[place]]["value"] for file in files]
        figure = full.ours[place]
        assert figure is not None and figure.value in known


def test_rows_are_chosen_by_system(lab: Path) -> None:
    result = reproduced(lab, "rg-table-1", rows=["muse", "xlm-r-mean"])
    assert [row.system for row in result.rows] == ["xlm-r-mean", "muse"]
    assert {one.verdict for one in result.claims} == {"not measured"}
    alone = reproduced(lab, "rg-table-1", rows=["control-random"])
    assert [row.kind for row in alone.rows] == [CONTROL]
    with pytest.raises(RecipeError, match="rg-table-1 has no row hk-moving-teacher"):
        reproduced(lab, "rg-table-1", rows=["hk-moving-teacher"])


def test_what_cannot_be_made_is_a_row_and_alone_an_error(lab: Path) -> None:
    result = reproduced(lab, "rg-table-7", rows=["korean-roberta-base", "muse"])
    korean = next(row for row in result.rows if row.system == "korean-roberta-base")
    assert korean.why == "its weights are not published" and not any(korean.ours)
    assert "not made: its weights are not published" in markdown(result)
    with pytest.raises(CannotBeMade, match="its weights are not published"):
        reproduced(lab, "rg-table-7", rows=["korean-roberta-base"])
    paper = {"scale": "paper", "overrides": (), "rows": ["labse", "laser"]}
    assert all(row.why for row in reproduced(lab, "rg-table-1", **paper).rows), "no hub here: both rows say why"
    with pytest.raises(ModelError):
        reproduced(lab, "rg-table-1", **{**paper, "rows": ["labse"]})


def test_parts_of_a_table_are_put_together(lab: Path) -> None:
    whole = reproduced(lab, "rg-table-8")
    parts = [
        reproduced(lab, "rg-table-8", rows=rows) for rows in (["muse", "labse"], ["laser", "xlm-r-from-sbert-paraphrases"])
    ]
    rest = reproduced(lab, "rg-table-8", rows=["muse-trained", *CONTROLS])
    joined = parts[0].with_rows_of(parts[1]).with_rows_of(rest)
    assert joined == whole and whole.with_missing_rows("not yet") == whole
    some = parts[0].with_missing_rows("not yet")
    papers = [row for row in whole.rows if row.kind == PAPER]
    assert [(row.label, row.published) for row in some.rows] == [(row.label, row.published) for row in papers]
    assert [row.why for row in some.rows if not any(row.ours)] == ["not yet"] * (len(papers) - 2)
    with pytest.raises(IsoglossError, match="rg-table-7 at lab is no part of rg-table-8"):
        whole.with_rows_of(reproduced(lab, "rg-table-7", rows=["muse"]))


def test_lines_have_theirs_and_ours(lab: Path) -> None:
    result = reproduced(lab, "rg-table-8", rows=["muse", "control-random"])
    shown = lines(result)
    assert [(line.label, line.whose) for line in shown] == [
        ("mUSE", "paper"),
        ("", "ours"),
        ("control: student from random weights", "ours"),
    ]
    assert shown[0].cells == ("81.7", "81.6", "−0.19")
    figure = result.rows[0].ours[2]
    assert figure is not None
    assert shown[1].cells[2] == f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})".replace("-", "−")


def test_pictures_have_ours_and_theirs(lab: Path) -> None:
    for name, columns in (("rg-table-6", 2), ("hk-table-4", 3)):
        result = reproduced(lab, name)
        root = ElementTree.fromstring(picture(result))
        paths = [one for one in root.iter() if one.tag.removeprefix(SVG) == "path"]
        assert all(path.get("d") for path in paths)
        kinds = Counter(str(path.get("data-kind")).partition("-")[0] for path in paths)
        figures = sum(figure is not None for row in result.rows if row.at or row.published_pairs for figure in row.ours)
        assert kinds == {"line": columns, "dash": columns, "bar": figures}, "each of our figures has its interval"
    result = reproduced(lab, "rg-table-8")
    root = ElementTree.fromstring(picture(result))
    assert len([one for one in root.iter() if one.get("data-kind") == "interval"]) == sum(any(row.ours) for row in result.rows)
    texts = [one.text for one in root.iter() if one.tag.removeprefix(SVG) == "text"]
    for row in result.rows:
        assert row.label in texts
    assert "−1.29" in texts and "−0.11" in texts


def test_what_was_set_for_a_run_is_said_in_its_rows(lab: Path) -> None:
    result = reproduced(lab, "rg-table-1", rows=["muse", "xlm-r-from-sbert-nli-stsb"])
    muse, student = (next(row for row in result.rows if row.system == name) for name in ("muse", "xlm-r-from-sbert-nli-stsb"))
    assert not any("set for this run" in sentence for sentence in muse.differs)
    (told,) = [sentence for sentence in student.differs if sentence.startswith("set for this run, in place of the recipe: ")]
    assert "distil.training.epochs=1" in told and "finetune.training.batch_pairs=32" in told and "leaks.level=off" in told
    assert "laser." not in told and "moving." not in told


def test_overrides_and_scales_that_do_not_exist(lab: Path) -> None:
    with pytest.raises(RecipeError, match="scale = 'huge' is not known"):
        reproduced(lab, "rg-table-1", scale="huge")
    with pytest.raises(RecipeError, match="unknown key"):
        reproduced(lab, "rg-table-1", overrides=("distil.training.epoch=1",))


def test_the_page_is_written_from_results_of_several_runs(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """benchmarks/papers.py: parts are kept row by row, those of another machine are merged, and the page has all of them."""
    root = Path(__file__).parent.parent.parent
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    script = runpy.run_path(str(root / "benchmarks" / "papers.py"))
    script["page"].__globals__.update(IMAGES=tmp_path / "images", COMMENTS=tmp_path / "none.json")
    here, there = tmp_path / "here", tmp_path / "there"
    options: dict[str, Any] = {"work": lab / "out", "data": lab / "data", "carry": None, "device": "cpu", "set": TOY}
    options |= {"seconds": 1e9, "ready": False}
    monkeypatch.setattr(script["run"].__globals__["Workshop"], "model_called", lambda _, name: str(lab / "models" / name))
    for rows, folder in ((["muse"], here), (["labse", "korean-roberta-base"], there), (["xlm-r-mean"], here)):
        script["run"](Namespace(**options, only=["rg-table-8"], rows=rows, results=folder))
    script["merge"](Namespace(folder=there, results=here))
    kept = json.loads((here / "rg-table-8.json").read_text())
    assert [row["system"] for row in kept["table"]["rows"]] == ["muse", "labse"] and set(kept["measured"]) == {"mUSE", "LaBSE"}
    script["page"](Namespace(results=here, page=tmp_path / "papers.md"))
    page = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert "| mUSE | paper | 81.7 | 81.6 | −0.19 |" in page and "| LaBSE | paper | 74.4 | 73.1 | −1.29 |" in page
    assert (
        "2 of 4 rows have numbers of ours" in page and "Measured on " in page and (tmp_path / "images/rg-table-8.svg").exists()
    )
    script["run"](Namespace(**{**options, "seconds": -1.0}, only=["rg-table-7"], rows=[], results=here))
    assert not (here / "rg-table-7.json").exists(), "no time, no row"
