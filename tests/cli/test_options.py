"""Options that mirror a setting have its default, range, choices and sentence, without writing them again."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from isogloss import recipes
from isogloss.cli.app import app
from isogloss.cli.options import as_setting, option_for
from isogloss.config import Settings, StudentSettings, TeacherSettings, TrainingSettings
from isogloss.config.exporting import BudgetSettings
from isogloss.config.mining import MiningSettings, ScoringSettings
from isogloss.errors import RecipeError


def test_an_option_is_made_of_its_setting() -> None:
    rate = option_for(TrainingSettings, "dev_share")
    assert (rate.default, rate.min, rate.max) == (0.05, 0.0, 0.5)
    assert rate.help == TrainingSettings.model_fields["dev_share"].description
    assert option_for(TrainingSettings, "precision").metavar == "auto|bf16|float32"
    recall = option_for(MiningSettings, "recall", "--recall", help="shorter")
    assert (recall.min, recall.max, recall.help, recall.param_decls) == (None, 1.0, "shorter", ("--recall",))
    assert option_for(TrainingSettings, "epochs", default=None).default is None


MIRRORED: dict[str, tuple[type[Settings], dict[str, str]]] = {
    "mine": (MiningSettings, {"ids": "with_ids"}),
    "score": (ScoringSettings, {}),
    "distill": (TeacherSettings, {"teacher": "model"}),
    "init": (StudentSettings, {"student": "model"}),
}


@pytest.mark.parametrize("verb", sorted(MIRRORED))
def test_verbs_have_the_defaults_of_the_schema(verb: str) -> None:
    kind, names = MIRRORED[verb]
    command: Any = typer.main.get_command(app)
    found = {names.get(option.name, option.name): option.default for option in command.commands[verb].params}
    shared = set(found) & set(kind.model_fields) - {"memory", "folder", "cache"}
    shared -= {"language", "source_language"} if verb == "score" else {"pairs", "languages"}
    assert shared and {name: found[name] for name in shared} == {name: kind.model_fields[name].default for name in shared}


def test_init_prints_the_schema_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["init", "--schema"])
    assert done.exit_code == 0 and json.loads(done.output) == json.loads(json.dumps(recipes.json_schema()))
    assert not list(tmp_path.iterdir())


def test_lists_are_separated_by_commas() -> None:
    assert as_setting(BudgetSettings, "layers", "8, 6") == (8, 6) and as_setting(BudgetSettings, "layers", "") == ()
    assert as_setting(BudgetSettings, "trims", "off,corpus") == ("off", "corpus")
    assert as_setting(BudgetSettings, "retrain_pairs", 5) == 5
    assert option_for(BudgetSettings, "precisions").default == "fp32,fp16,int8"
    with pytest.raises(RecipeError, match="--layers '8,six' is not a list of whole numbers"):
        as_setting(BudgetSettings, "layers", "8,six")
