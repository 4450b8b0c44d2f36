"""`isogloss reproduce` as a person meets it: the list, a table on the screen, JSON, files, and bad input with exit code 2."""

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from isogloss.cli.app import main
from isogloss.cli.screens.progress import output
from isogloss_papers.cli import _parts
from isogloss_papers.published import published, table_names
from isogloss_papers.recipe import CONTROLS, system_names
from isogloss_papers.reproduce import Reproduction, Row
from isogloss_papers.scores import Figure
from papers_world import TOY, evaluation, write_models


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli-lab")
    write_models(folder / "models")
    evaluation(folder / "data")
    return folder


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def options(place: Path) -> list[object]:
    toy = [part for one in TOY for part in ("--set", one)]
    return ["--data", place / "data", "--models", place / "models", "--out", place / "out", "--resamples", 20, *toy]


def test_the_list_names_tables_and_systems(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "reproduce", "--list")
    assert code == 0
    for name in (*table_names(), *system_names()):
        assert name in out
    code, out, _ = call(capsys, "reproduce", "--list", "--json")
    told = json.loads(out)
    assert list(told["tables"]) == table_names() and told["systems"]["laser"]["lab"] == "laser"


def test_the_list_of_a_table_has_its_systems_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "reproduce", "rg-table-8", "--list")
    wanted = {*published("rg-table-8").systems, *CONTROLS}
    assert code == 0 and "rg-table-8" in out and "rg-table-1" not in out
    assert {name for name in system_names() if any(line.startswith(f"{name} ") for line in out.splitlines())} == wanted
    code, out, _ = call(capsys, "reproduce", "rg-table-8", "--list", "--json")
    assert list(json.loads(out)["tables"]) == ["rg-table-8"] and set(json.loads(out)["systems"]) == wanted
    code, _, err = call(capsys, "reproduce", "rg-table-9", "--list")
    assert code == 2 and "rg-table-9: no such table" in err


def test_no_name_is_lost_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "_width", 80)
    _, out, _ = call(capsys, "reproduce", "--list")
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    starts = {line.split(" ")[0] for line in out.splitlines()}
    assert {*table_names(), *system_names()} <= starts


def test_a_wide_table_is_shown_in_parts_that_all_name_their_rows() -> None:
    known = published("rg-table-2")
    figures = tuple(Figure(80.0, 79.0, 81.0, 250) for _ in known.columns)
    rows = tuple(
        Row(label=one.label, system=one.system, kind="paper", published=one.figures, ours=figures) for one in known.rows[:4]
    )
    whole = Reproduction(
        table=known.name,
        title=known.title,
        paper=known.paper,
        measure=known.measure,
        scale="lab",
        columns=tuple(one.name for one in known.columns),
        digits=tuple(known.digits_of(one) for one in known.columns),
        rows=rows,
        claims=(),
    )
    console = Console(file=io.StringIO(), width=80, soft_wrap=True)
    parts = list(_parts(whole, 80))
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert len(parts) > 1 and "…" not in text and all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert all(text.count(row.label.split(" ")[0]) >= len(parts) for row in rows)
    assert text.count("79.0–81.0") == len(rows) * len(known.columns)


def test_a_table_on_the_screen_and_in_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--rows", "muse,xlm-r-from-sbert-paraphrases,control-undistilled")
    code, out, err = call(capsys, "reproduce", "rg-table-8", *rows, *options(place), "--device", "cpu")
    assert code == 0, err
    assert "81.7" in out and "−0.19" in out and "mUSE: muse" in out and "not measured: distilled has less bias" in out
    assert "XLM-R ← SBERT-paraphrases: not made: " in out, "there is no training text in this place"
    written = json.loads((place / "out" / "rg-table-8.json").read_text())
    assert [row["system"] for row in written["rows"]] == ["muse", "xlm-r-from-sbert-paraphrases", "control-undistilled"]
    assert "| mUSE | paper | 81.7 | 81.6 | −0.19 |" in (place / "out" / "rg-table-8.md").read_text(encoding="utf-8")
    assert (place / "out" / "rg-table-8.svg").read_text(encoding="utf-8").startswith("<svg")
    code, out, _ = call(capsys, "reproduce", "rg-table-8", *rows, *options(place), "--json")
    assert code == 0 and json.loads(out) == written, "the second time everything is found"
    code, out, _ = call(capsys, "reproduce", "rg-table-8", *rows, *options(place), "--markdown")
    assert code == 0 and "| mUSE | paper | 81.7 | 81.6 | −0.19 |" in out


def test_several_tables_are_one_command_and_one_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "reproduce", "all", "--rows", "muse", *options(place), "--device", "cpu")
    assert code == 0, err
    written = place / "out" / "tables.md"
    text = written.read_text(encoding="utf-8")
    assert f"All of them on one page: {written}" in out
    with_muse = [name for name in table_names() if "muse" in published(name).systems]
    assert [line.split(":")[0][4:] for line in text.splitlines() if line.startswith("### ")] == with_muse
    assert text.count("**not measured**") >= 2 * len(with_muse), "every claim stands first, and below its table"
    code, out, _ = call(capsys, "reproduce", "rg-table-7,rg-table-8", "--rows", "muse", *options(place), "--json")
    assert code == 0 and list(json.loads(out)) == ["rg-table-7", "rg-table-8"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no table is named"),
        ((" , ",), "no table is named"),
        (("rg-table-1,rg-table-9",), "rg-table-9: no such table"),
        (("all", "--rows", "nobody"), "none of these tables has a row nobody"),
        (("rg-table-9",), "rg-table-9: no such table"),
        (("rg-table-1", "--scale", "huge"), "scale = 'huge' is not known"),
        (("rg-table-1", "--rows", "nobody"), "rg-table-1 has no row nobody"),
        (("rg-table-1", "--set", "epochs=1"), "expected VERB.key=value"),
        (("rg-table-7", "--rows", "korean-roberta-base"), "its weights are not published"),
        (("rg-table-7", "--rows", "labse"), "rg-table-7 has no row labse"),
        (("rg-table-7", "--rows", "xlm-r-korean", "--device", "abacus"), "device = 'abacus'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    fixed = ("--data", place / "data", "--models", place / "models", "--out", place / "bad")
    code, out, err = call(capsys, "reproduce", *arguments, *fixed)
    assert code == 2 and not out and message in err and "\nhint: " in err and "Traceback" not in err


def test_test_sets_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "reproduce", "rg-table-7", "--data", tmp_path, "--out", tmp_path / "out")
    assert code == 2 and "korsts" in err
    code, _, err = call(capsys, "reproduce", "rg-table-7", "--data", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert code == 2 and "nowhere: no such folder" in err and "eval/" in err


def test_a_table_without_its_test_sets_does_not_stop_the_others(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "data" / "eval", tmp_path / "data" / "eval", ignore=shutil.ignore_patterns("kor_nlu"))
    fixed = ("--data", tmp_path / "data", "--models", place / "models", "--out", tmp_path / "out", "--resamples", 0)
    code, out, err = call(capsys, "reproduce", "rg-table-7,rg-table-8", "--rows", "control-undistilled", *fixed)
    assert code == 2 and "1 of 2 tables could not be made: rg-table-7: " in err and "korsts" in err
    assert "rg-table-8: " in out and "rg-table-8" in (tmp_path / "out" / "tables.md").read_text(encoding="utf-8")
