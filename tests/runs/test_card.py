"""What a run saves beside the weights: the sizes that embeddings were trained to be truncated to."""

import json
import tomllib
from pathlib import Path

from isogloss import recipes
from isogloss.config.sections import OutputSettings
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


def test_a_card_names_no_folders_of_this_machine(models: Path, tsv: Path, tmp_path: Path) -> None:
    """Cards are published with their models; what is left is the recipe that somebody else can run on files of these names."""
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=0", "student.prompt=~/ask:", "output.license=mit")
    card = (run(recipe).model / "README.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in card and str(models) not in card and str(tsv.parent) not in card
    shown = recipes.parse(tomllib.loads(card.split("```toml\n")[1].split("```")[0]))
    assert shown.pairs.files == (tsv.name,) and (shown.teacher.model, shown.student.model) == ("teacher", "student")
    assert shown.output == OutputSettings(license="mit") and shown.student.prompt == "~/ask:"
    assert shown.training == recipe.training and shown.stages == recipe.stages
    assert "`student` distilled from `teacher`" in card and "in the space of `teacher`" in card
