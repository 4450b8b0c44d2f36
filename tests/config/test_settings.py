"""Settings are checked when constructed, whoever constructs them, and a problem names its key."""

import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss import config
from isogloss.config import Recipe, Settings, as_dict
from isogloss.config.mining import MiningSettings, SearchSettings
from isogloss.errors import RecipeError
from isogloss.training.train import TaskSettings


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ({"epochs": "three"}, "training.epochs must be a whole number, not 'three'", "for example: training.epochs = 3"),
        ({"epochs": "3"}, "training.epochs must be a whole number, not '3'", ""),
        ({"epochs": True}, "training.epochs must be a whole number, not True", ""),
        ({"epochs": 1.0}, "training.epochs must be a whole number, not 1.0", ""),
        ({"epochs": None}, "training.epochs must be a whole number, not None", ""),
        ({"epochs": -1}, "training.epochs = -1 is out of range", "it must be at least 0"),
        ({"epochs": 10**30}, "training.epochs is a number too large", "18 digits"),
        ({"learning_rate": 10**400}, "training.learning_rate is a number too large", "18 digits"),
        ({"learning_rate": True}, "training.learning_rate must be a number, not True", ""),
        ({"learning_rate": math.nan}, "training.learning_rate is not a finite number", ""),
        ({"learning_rate": math.inf}, "training.learning_rate is not a finite number", ""),
        ({"dev_share": 0.6}, "training.dev_share = 0.6 is out of range", "between 0 and 0.5"),
        ({"dropout": 1}, "training.dropout must be true or false, not 1", ""),
        ({"precision": "fp8"}, "training.precision = 'fp8' is not known", "choose from: auto, bf16, float32"),
        ({"learning_rte": 1.0}, "unknown key training.learning_rte", "did you mean training.learning_rate?"),
        ({"learning_rte": 1.0, "epochs": "x"}, "unknown key training.learning_rte", "did you mean"),
        ({"trackers": [3]}, "training.trackers must be text, not 3", ""),
    ],
)
def test_what_does_not_fit_is_refused_at_construction(values: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        config.TrainingSettings(**values)
    assert caught.value.message == message and hint in caught.value.hint
    with pytest.raises(RecipeError) as again:
        Recipe(training=values)  # type: ignore[arg-type]
    assert again.value.message == message and hint in again.value.hint
    with pytest.raises(RecipeError):
        config.TrainingSettings().replace(**values)


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        (TaskSettings, {}),
        (MiningSettings, {}),
        (SearchSettings, {}),
        (config.AddingSettings, {"run": "x", "languages": ("sw",), "pairs": ("a",)}),
    ],
)
def test_every_settings_class_checks_types_and_keys(kind: type[Settings], needed: dict[str, Any]) -> None:
    made = kind(**needed)
    assert made == pickle.loads(pickle.dumps(made)) == made.replace() and hash(made) == hash(made.replace())
    assert kind(**as_dict(made)) == made
    assert all(field.description for field in kind.model_fields.values())
    with pytest.raises(RecipeError, match="unknown key nonsense"):
        kind(**needed, nonsense=3)
    for name, field in kind.model_fields.items():
        if field.annotation in (int, float, bool, str):
            with pytest.raises(RecipeError, match=rf"^{name} must be "):
                kind(**{**needed, name: object()})
    for name in needed:
        with pytest.raises(RecipeError, match=rf"^{name} is missing|nothing to train on"):
            kind(**{key: value for key, value in needed.items() if key != name})


def test_what_is_converted() -> None:
    settings = config.LossSettings(mse=1, dimensions=[64, 32])  # type: ignore[arg-type]
    assert type(settings.mse) is float and settings.dimensions == (64, 32)
    assert Recipe(languages="de").languages == ("de",)  # type: ignore[arg-type]
    assert SearchSettings(folder=Path("x")).folder == Path("x")
    with pytest.raises(RecipeError, match=r"losses\.dimensions is a number too large"):
        config.LossSettings(dimensions=(10**30,))
    with pytest.raises(RecipeError, match=r"losses\.dimensions = 0 is out of range"):
        config.LossSettings(dimensions=(0,))


def test_settings_are_frozen_and_replace_makes_a_checked_copy() -> None:
    settings = config.TrainingSettings(epochs=2)
    with pytest.raises(Exception, match="frozen"):
        settings.epochs = 3
    changed = settings.replace(batch_pairs=8)
    assert (settings.batch_pairs, changed.batch_pairs, changed.epochs) == (64, 8, 2)
    assert changed.given() == {"epochs": 2, "batch_pairs": 8}


@given(st.sampled_from([config.TrainingSettings, config.LossSettings, config.CleaningSettings]), st.data())
def test_one_range_for_all(kind: type[Settings], data: st.DataObject) -> None:
    """A number is accepted if and only if it is within the limits that the JSON schema states."""
    schema = kind.model_json_schema()["properties"]
    names = [name for name, value in schema.items() if value.get("type") in ("number", "integer")]
    name = data.draw(st.sampled_from(names))
    low, high = schema[name].get("minimum", -math.inf), schema[name].get("maximum", math.inf)
    numbers: st.SearchStrategy[float] = st.integers(-5, 2000)
    value = data.draw(numbers if schema[name]["type"] == "integer" else st.one_of(numbers, st.floats(-5, 5)))
    required = {"ranking": 1.0} if kind is config.LossSettings and name != "ranking" else {}
    if low <= value <= high:
        assert getattr(kind(**{**required, name: value}), name) == value or name == "mse"
    else:
        with pytest.raises(RecipeError, match="out of range"):
            kind(**{**required, name: value})
