"""What a run saves beside the weights: the sizes that embeddings were trained to be truncated to."""

import json
from pathlib import Path

from isogloss.config.stages import MlmStage
from isogloss.models.student import Student
from isogloss.report.card import CardInfo
from isogloss.runs.card import save_student
from isogloss.runs.pipeline import run
from tiny import tiny_recipe


def sizes(folder: Path) -> list[int] | None:
    found: list[int] | None = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("matryoshka_dimensions")
    return found


def test_the_config_has_the_sizes_of_the_last_training_stage(models: Path, tsv: Path, tmp_path: Path) -> None:
    trained = tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=1", "losses.dimensions=[8, 4]")
    result = run(trained)
    assert sizes(result.model) == [4, 8, 16], "the whole embedding is a size, too"
    info, model = CardInfo(name="name", description="description"), Student.from_pretrained(str(result.model), device="cpu")
    plain = tiny_recipe(models, tsv, tmp_path / "run")
    unchanged = plain.replace(stage=(MlmStage(files=(str(tsv),)),))
    other = plain.replace(losses=plain.losses.replace(dimensions=(2,)))
    for recipe, expected in ((unchanged, [4, 8, 16]), (other, [2, 16]), (plain, None)):
        save_student(recipe, model, tmp_path / "saved", info, {})
        assert sizes(tmp_path / "saved") == expected
