"""The recipes of `isogloss init --for`: each runs, and trains what its page says."""

import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from isogloss import recipes
from isogloss.cli.app import main
from isogloss.config.stages import AverageStage
from isogloss.runs.pipeline import run
from isogloss.runs.purposes import PURPOSES

PAGE = Path(__file__).parent.parent.parent / "docs" / "presets.md"
SMALL = ("student.max_tokens=32", "training.epochs=1", "training.dev_pairs=0", "device=cpu", "threads=1")


def written(tmp_path: Path, *arguments: object) -> Path:
    """The recipe that `init` writes."""
    out = tmp_path / "recipe.toml"
    with pytest.raises(SystemExit) as caught:
        main(["init", "--out", str(out), *map(str, arguments)])
    assert not caught.value.code
    return out


@pytest.mark.parametrize("purpose", PURPOSES)
def test_the_recipe_runs(purpose: str, models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = ("--teacher", models / "teacher", "--student", models / "student", "--languages", "de")
    out = written(tmp_path, "--for", purpose, "--pairs", tsv, *named)
    assert f"# For {purpose}. {PURPOSES[purpose].best_for}" in out.read_text(encoding="utf-8")
    assert "docs/presets.md" in out.read_text(encoding="utf-8")
    result = run(recipes.load(out, SMALL))
    trained = ["points", "ranks"] if purpose == "balanced" else ["distill"]
    assert list(result.as_dict()["training"]) == trained
    assert all(stage.summary.steps >= 1 for stage in result.stages)
    if purpose == "balanced":
        assert result.details["averaged"] == {"average": {"points": 0.7, "ranks": 0.3}}
        assert [report.model for report in result.reports] == ["untouched", "bridge", "points", "ranks", "average"]
    assert all(bool(torch.isfinite(one).all()) for one in load_file(result.model / "model.safetensors").values())


def test_without_a_purpose_it_is_balanced_and_every_setting_is_there(tmp_path: Path) -> None:
    out = written(tmp_path)
    assert out.read_text(encoding="utf-8").startswith("# For balanced. ")
    data = tomllib.loads(out.read_text(encoding="utf-8"))
    missing = [key for key in recipes.all_keys() if not _has(data, key) and not key.startswith(("add", "stage"))]
    assert not missing
    recipe = recipes.load(out)
    points, ranks = (stage for stage in recipe.stages if stage.task == "distill")
    assert recipe.losses_of(points).weights == {"mse": 1.0, "soft_similarity": 0.1}
    assert recipe.losses_of(ranks).weights == {"mse": 0.2, "soft_similarity": 0.1, "ranking": 1.0}
    assert (recipe.training_of(points).learning_rate, recipe.training_of(points).batch_pairs) == (4e-4, 512)
    assert (recipe.training_of(ranks).learning_rate, recipe.training_of(ranks).batch_pairs) == (3e-4, 1024)
    average = recipe.stages[-1]
    assert ranks.start == "bridge" and isinstance(average, AverageStage) and average.weights == (0.7, 0.3)


def _has(data: dict[str, object], key: str) -> bool:
    for part in key.split("."):
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]  # type: ignore[assignment]
    return True


@pytest.mark.parametrize(
    ("word", "hint"), [("minning", "did you mean mining?"), ("xyz", "choose from: similarity, retrieval,")]
)
def test_an_unknown_word_is_refused(word: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["init", "--for", word, "--out", str(tmp_path / "r.toml")])
    assert caught.value.code == 2 and f"hint: {hint}" in capsys.readouterr().err and not (tmp_path / "r.toml").exists()


def test_the_page_describes_every_purpose() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for purpose in PURPOSES:
        assert f"\n## {purpose}\n" in page
    assert "one seed" in page
