"""The whole search on a tiny run: sizes as predicted, the best that fits, what is kept, and what is refused."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

from isogloss.cli.screens.frontier import show_frontier
from isogloss.config.exporting import BudgetSettings
from isogloss.errors import IsoglossError, RecipeError
from isogloss.evaluation.regressions import Regression
from isogloss.exporting.budget.result import Budgeted, write_frontier
from isogloss.exporting.budget.search import export_within_budget
from isogloss.exporting.budget.shipping import folder_bytes, temporary_model
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.storage import read_json, write_json
from tiny import TEXTS

SETTINGS = BudgetSettings(
    trims=("off",), layers=(4, 2), precisions=("fp32", "int8"), retrain_batch=16, retrain_rate=1e-3, speed_sentences=8
)


@dataclass(frozen=True, slots=True)
class Found:
    out: Path
    result: Budgeted


@pytest.fixture(scope="module")
def found(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    out = tmp_path_factory.mktemp("budget")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISOGLOSS_CACHE", str(out / "cache"))
        return Found(out, export_within_budget(str(finished), "10MB", out / "export", settings=SETTINGS))


def test_sizes_are_predicted(found: Found) -> None:
    assert len(found.result.tried) == 4 and all(one.measured for one in found.result.tried)
    for one in found.result.tried:
        assert one.size == pytest.approx(one.predicted, rel=0.002)
    sizes = {one.candidate.name: one.bytes for one in found.result.tried}
    assert sizes["off-l2-d16-int8"] < sizes["off-l4-d16-int8"] < sizes["off-l4-d16-fp32"]


def test_best_is_written_and_is_what_was_measured(found: Found, finished: Path) -> None:
    result, model = found.result, found.out / "export" / "model"
    assert result.model == model and result.size == folder_bytes(model) <= result.best.bytes <= result.budget
    assert result.best.bytes - result.size < 100, "the card that is measured with is as long as that with the scores"
    chosen = max(one.gains()[2] for one in result.tried)
    assert result.best.gains()[2] == chosen
    encoder = OnnxEncoder(model)
    whole = Student.from_pretrained(str(finished), device="cpu").encode(TEXTS)
    if result.best.candidate.layers == 4:
        assert np.einsum("rd,rd->r", encoder.encode(TEXTS), whole).mean() > 0.95
    card, before, after = (model / "README.md").read_text(), result.original.shown.mean, result.best.shown
    assert "of 4 layers" in card and str(finished.parent) not in card and 'backend="onnx")' in card and "@what" not in card
    assert after is not None and f"| average | {100 * before:.1f} | {100 * after.mean:.1f} |" in card
    assert "Score in percent on held-out sentences (mean of accuracy in the teacher's index" in card
    assert "## Training data\n\n| corpus | rows | license |\n|---|---|---|\n| pairs | 64 | not stated |" in card
    data: Any = ModelCard(card).data
    assert data.language == ["de", "en", "ru"] and data.license == "mit" and data.model_name == "tiny-10.0-MB"


def test_models_that_a_killed_search_left_are_removed(
    finished: Path, found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are hundreds of megabytes each, and nobody looks for them in the system's folder for temporary files."""
    out, system = tmp_path / "export", tmp_path / "system"
    shutil.copytree(found.out / "export", out)
    system.mkdir()
    for left in (out / ".model.partial-1", out / "work" / ".model.partial-2", out / "work" / ".layers-2-abc.partial-3"):
        left.mkdir()
    with temporary_model(out / "work") as model:
        assert model.parent.parent == out / "work" and model.parent.name.startswith(".model.partial-")
    monkeypatch.setattr("tempfile.tempdir", str(system))
    seen = set[str]()

    def listen(step: Step) -> None:
        seen.update(path.name for path in system.iterdir() if path.name.startswith("isogloss-"))

    settings = BudgetSettings(**SETTINGS.model_dump() | {"layers": (4,), "precisions": ("fp16",)})
    export_within_budget(str(finished), "10MB", out, settings=settings, on_progress=listen)
    assert not seen and not [path for path in out.rglob("*") if ".partial-" in path.name]


def test_frontier_is_written(found: Found) -> None:
    written = json.loads((found.out / "export" / "frontier.json").read_text())
    assert written["best"] == found.result.best.candidate.name and len(written["tried"]) == 4
    marked = {row["name"] for row in written["tried"] if row["frontier"]}
    assert marked == {one.candidate.name for one in found.result.frontier} and written["lost"].keys() == {"average", "de", "ru"}
    for name in ("frontier.html", "frontier.svg"):
        assert (found.out / "export" / name).read_text().count('data-kind="dropped"') in (1, 4)


def test_table_fits_a_screen(found: Found, capsys: pytest.CaptureFixture[str]) -> None:
    show_frontier(found.result, as_json=False)
    shown = capsys.readouterr().out
    table = shown[: shown.index("no other is as small")]
    assert max(map(len, table.splitlines())) <= 80 and table.count("int8") == 2
    assert "points of the score on average" in shown and str(found.result.model) in shown
    show_frontier(found.result, as_json=True)
    assert json.loads(capsys.readouterr().out)["best"] == found.result.best.candidate.name


def test_what_a_language_clearly_loses_is_said_aloud(found: Found, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = Regression("the original", "ar", "teacher_index", 0.88, 0.73, 4.2, True)
    said = "on the held-out pairs the model is worse than the original: found in the teacher's index 73.0% (was 88.0%) in ar."
    for trim, advice in (("corpus", "--trims off,alphabet"), ("off", "raise --budget")):
        best = replace(found.result.best, candidate=replace(found.result.best.candidate, trim=trim))  # type: ignore[arg-type]
        result = replace(found.result, best=best, losses=(lost,), folder=tmp_path, tried=(best,))
        show_frontier(result, as_json=False)
        shown = capsys.readouterr()
        assert f"! {said}" in shown.out + shown.err and advice in shown.out + shown.err
        write_frontier(result)
        assert json.loads((tmp_path / "frontier.json").read_text())["regressions"][0]["language"] == "ar"
        assert "is worse than the original" in (tmp_path / "frontier.html").read_text()
    page = (found.out / "export" / "frontier.html").read_text()
    assert "<title>tiny: what fits into 10.0 MB</title>" in page


def test_losses_of_the_best_are_logged(found: Found, finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lost = Regression("the original", "de", "to_source", 0.9, 0.5, 3.0, True)
    shutil.copytree(found.out / "export", tmp_path / "export")
    for kept in (tmp_path / "export" / "work").glob("measured-*.json"):
        content = read_json(kept)
        write_json(kept, content | {"measured": content["measured"] | {"losses": [asdict(lost)]}})
    again = export_within_budget(str(finished), "10MB", tmp_path / "export", settings=SETTINGS)
    assert again.losses == (lost,) and again.best.candidate == found.result.best.candidate
    assert "worse than the original: sources found by their translation 50.0% (was 90.0%) in de" in caplog.text


def test_another_budget_reuses_everything_and_never_gets_better_when_smaller(found: Found, finished: Path) -> None:
    steps: list[Step] = []
    sizes = sorted(one.bytes for one in found.result.tried)
    budget = f"{(sizes[-1] + 1) / 1000}KB"
    again = export_within_budget(str(finished), budget, found.out / "export", settings=SETTINGS, on_progress=steps.append)
    stages = {step.stage for step in steps}
    assert not {stage for stage in stages if stage.startswith("embedding") and "original" not in stage}
    assert not any(step.stage == "2 layers" and step.unit == "pairs" for step in steps)
    assert again.best == found.result.best


def test_nothing_fits(found: Found, finished: Path) -> None:
    before = {path: path.read_bytes() for path in (found.out / "export").rglob("*.*") if path.is_file()}
    with pytest.raises(IsoglossError, match=r"nothing fits into 0\.0 MB: the smallest candidate has 0\.1 MB") as refused:
        export_within_budget(str(finished), "1KB", found.out / "export", settings=SETTINGS)
    assert "--layers" in refused.value.hint and "2 of 4 layers" in refused.value.message
    assert before == {path: path.read_bytes() for path in (found.out / "export").rglob("*.*") if path.is_file()}


def test_other_files_are_not_replaced(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("three years", encoding="utf-8")
    with pytest.raises(IsoglossError, match="not a model"):
        export_within_budget(str(finished), "60MB", tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "thesis.txt"]
    with pytest.raises(RecipeError, match="is not a size"):
        export_within_budget(str(finished), "sixty", tmp_path / "new")
    assert not (tmp_path / "new").exists()
