"""Stages: what a recipe may list, how each is trained, and which lists cannot be run."""

import pickle
import re
import tomllib
from typing import Any

import pytest

from isogloss import recipes
from isogloss.config import LossSettings, Recipe, TrainingSettings, as_dict
from isogloss.config.stages import (
    TASK_DEFAULTS,
    AverageStage,
    BridgeStage,
    DistillStage,
    NliStage,
    RankStage,
    StsStage,
    TrainedStage,
    TranslateStage,
)
from isogloss.errors import RecipeError

HAM_KIM = """
name = "ham-kim"
[student]
model = "xlm-roberta-base"
[[stage]]
task = "nli"
files = ["allnli.tsv.gz"]
[[stage]]
task = "sts"
files = ["sts-train.csv"]
augment = true                       # cross-encoder labels
[[stage]]
task = "distill"
losses = { moving_teacher = 1.0 }
training = { optimizer = "lars", learning_rate = 0.02 }
"""
EVERY_TASK: list[dict[str, Any]] = [
    {"task": "bridge"},
    {"task": "distill", "name": "first", "training": {"epochs": 1}},
    {"task": "rank", "losses": {"hard_negatives": 5, "margin": 0.3}, "rounds": 2, "beside": [{"task": "nli", "files": ["n"]}]},
    {"task": "nli", "files": ["n.tsv"]},
    {"task": "sts", "files": "s.tsv", "augment": True, "search_by": "model"},
    {"task": "answers", "files": ["q.tsv"]},
    {"task": "mlm", "files": ["t.txt"]},
    {"task": "tlm"},
    {"task": "translate", "targets": ["en", "de"], "smoothing": 0.1},
    {"task": "distill"},
    {"task": "average", "of": ["first", "distill", "untouched"], "weights": [1, 2, 0.5]},
]


def with_stages(*stages: dict[str, Any], **tables: dict[str, Any]) -> Recipe:
    return recipes.parse({"stage": list(stages), **tables})


def test_the_example_of_the_design() -> None:
    recipe = recipes.parse(tomllib.loads(HAM_KIM))
    nli, sts, distill = recipe.stages
    assert isinstance(nli, NliStage) and nli.files == ("allnli.tsv.gz",)
    assert isinstance(sts, StsStage) and sts.augment and sts.neighbors == 10
    assert isinstance(distill, DistillStage) and recipe.losses_of(distill) == LossSettings(mse=1.0, moving_teacher=1.0)
    assert [stage.name for stage in recipe.stages] == ["nli", "sts", "distill"]
    trained = recipe.training_of(distill)
    assert (trained.optimizer, trained.learning_rate, trained.epochs) == ("lars", 0.02, 4)


def test_every_task_is_written_and_read_back() -> None:
    recipe = with_stages(*EVERY_TASK, student={"kind": "bilstm"}, training={"epochs": 3})
    for text in (recipes.dump(recipe), recipes.dump(recipe, comments=False)):
        again = recipes.parse(tomllib.loads(text))
        assert again == recipe and as_dict(again) == as_dict(recipe)
        assert [again.training_of(stage) for stage in again.stages] == [recipe.training_of(one) for one in recipe.stages]
    again = recipes.parse(as_dict(recipe))
    assert again == recipe
    assert [again.losses_of(stage) for stage in again.stages] == [recipe.losses_of(stage) for stage in recipe.stages]
    kept = pickle.loads(pickle.dumps(recipe))
    assert kept == recipe and as_dict(kept) == as_dict(recipe) and hash(kept) == hash(recipe)
    assert [stage.name for stage in recipe.stages][-4:] == ["tlm", "translate", "distill", "average"]


def test_each_setting_comes_from_the_nearest_place_that_sets_it() -> None:
    stages: list[dict[str, Any]] = [
        {"task": "sts", "files": ["s"], "training": {"warmup": 0.3}},
        {"task": "distill"},
        {"task": "rank"},
    ]
    recipe = with_stages(*stages, training={"batch_pairs": 32, "warmup": 0.2}, losses={"margin": 0.1})
    sts, distill, rank = (recipe.training_of(stage) for stage in recipe.stages)
    assert sts == TrainingSettings(batch_pairs=32, warmup=0.3, epochs=4, learning_rate=2e-5, dropout=True)
    assert distill == TrainingSettings(batch_pairs=32, warmup=0.2)
    assert rank == TrainingSettings(batch_pairs=32, warmup=0.2, epochs=1, learning_rate=5e-5, dropout=True)
    assert recipe.losses_of(recipe.stages[1]) == LossSettings(margin=0.1)
    assert recipe.losses_of(recipe.stages[2]) == LossSettings(mse=0.0, ranking=1.0, margin=0.1)
    default = with_stages({"task": "nli", "files": ["n"]}, training={"epochs": 4})  # the class's default, but set
    assert default != with_stages({"task": "nli", "files": ["n"]})
    assert default.training_of(default.stages[0]).epochs == 4


def test_the_defaults_of_tasks_are_settings() -> None:
    for task, values in TASK_DEFAULTS.items():
        assert TrainingSettings(**values).given() == values, task
    assert {key: TASK_DEFAULTS["nli"][key] for key in ("batch_pairs", "learning_rate", "epochs", "dropout")} == {
        "batch_pairs": 16,
        "learning_rate": 2e-5,
        "epochs": 1,
        "dropout": True,
    }


@pytest.mark.parametrize(
    ("tables", "names"),
    [
        ({}, ["bridge", "distill"]),
        ({"bridge": {"enabled": False}}, ["distill"]),
        ({"training": {"epochs": 0}}, ["bridge"]),
        ({"training": {"epochs": 0, "steps": 5}}, ["bridge", "distill"]),
    ],
)
def test_a_recipe_without_stages_has_those_of_run(tables: dict[str, Any], names: list[str]) -> None:
    recipe = recipes.parse(tables)
    assert [stage.name for stage in recipe.stages] == names and "stage" not in as_dict(recipe)
    for stage in recipe.stages:
        assert recipe.training_of(stage) == recipe.training and recipe.losses_of(stage) == recipe.losses


def test_repeated_tasks_are_numbered() -> None:
    recipe = with_stages({"task": "distill"}, {"task": "distill", "name": "distill-2"}, {"task": "distill"}, {"task": "tlm"})
    assert [stage.name for stage in recipe.stages] == ["distill", "distill-2", "distill-3", "tlm"]


def test_stages_from_python() -> None:
    given = TrainingSettings(epochs=3)
    rank = RankStage(training=given)  # type: ignore[arg-type]
    recipe = Recipe(stage=(BridgeStage(), rank, AverageStage(of=("rank", "untouched"))))
    assert isinstance(recipe.stages[1], TrainedStage) and rank.training.given() == {"epochs": 3}
    assert recipe.training_of(rank).epochs == 3 and recipe.training_of(rank).learning_rate == 5e-5


def test_overrides_reach_stages() -> None:
    data = tomllib.loads(HAM_KIM)
    recipe = recipes.parse(data, ["stage.2.training.learning_rate=0.5", "stage.0.name=first", "training.epochs=7"])
    assert recipe.stages[0].name == "first" and recipe.training_of(recipe.stages[0]).epochs == 7
    assert recipe.training_of(recipe.stages[2]).learning_rate == 0.5
    for override in ("stage.3.name=x", "stage.name=x", "stage.x.name=y"):
        with pytest.raises(RecipeError, match=re.escape(f"--set {override}")):
            recipes.parse(data, [override])
    with pytest.raises(RecipeError, match=re.escape("--set stage.1.augment=3: stage.1.augment must be true or false, not 3")):
        recipes.parse(data, ["stage.1.augment=3"])


@pytest.mark.parametrize(
    ("stage", "message", "hint"),
    [
        ({"task": "nil"}, "stage.0.task = 'nil' is not known", "bridge, distill, rank, nli, sts"),
        ({"files": ["x"]}, "stage.0.task is missing", "task ="),
        ({"task": "nli"}, "stage.0.files is missing", "set stage.0.files"),
        ({"task": "nli", "files": []}, "stage.0.files has too few values", "at least 1"),
        ({"task": "nli", "files": [3]}, "stage.0.files must be text, not 3", ""),
        ({"task": "nli", "file": "x", "files": ["x"]}, "unknown key stage.0.file", "did you mean stage.0.files?"),
        ({"task": "distill", "training": {"epoch": 3}}, "unknown key stage.0.training.epoch", "stage.0.training.epochs?"),
        ({"task": "distill", "training": {"epochs": -3}}, "stage.0.training.epochs = -3 is out of range", "at least 0"),
        ({"task": "distill", "losses": {"mse": "x"}}, "stage.0.losses.mse must be a number, not 'x'", ""),
        ({"task": "distill", "training": 3}, "stage.0.training must be a table", ""),
        ({"task": "bridge", "training": {}}, "unknown key stage.0.training", ""),
        ({"task": "translate", "smoothing": 2.0}, "stage.0.smoothing = 2.0 is out of range", "between 0 and 0.9"),
        ({"task": "rank", "share": 0}, "stage.0.share = 0 is out of range", "above 0"),
        ({"task": "rank", "beside": [{"task": "sts", "files": "x"}]}, "stage.0.beside.0.task = 'sts' is not known", "nli"),
        ({"task": "rank", "beside": {"task": "nli", "fils": "x"}}, "unknown key stage.0.beside.0.fils", "beside.0.files?"),
        ({"task": "average", "of": ["x"]}, "stage.0.of has too few values", "at least 2"),
        ({"task": "average", "of": ["x", "y"], "weights": [1, 0]}, "stage.0.weights = 0 is out of range", "above 0"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(stage: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipes.parse({"stage": [stage]}, where="my.toml")
    assert message in caught.value.message and hint in caught.value.hint
    assert caught.value.message.startswith("my.toml: ")


NO_TEACHER: dict[str, Any] = {"teacher": {"model": ""}}
SMALL_BATCH: dict[str, Any] = {"training": {"batch_pairs": 1}}


@pytest.mark.parametrize(
    ("stages", "tables", "message", "hint"),
    [
        ([{"task": "bridge"}, {"task": "rank"}], NO_TEACHER, "stage bridge needs a teacher", "leave it out"),
        ([{"task": "distill"}], NO_TEACHER, "stage distill: losses.mse needs a teacher", "set losses.mse = 0"),
        ([{"task": "rank", "losses": {"mse": 1}}], NO_TEACHER, "stage rank: losses.mse needs a teacher", "teacher.model"),
        ([{"task": "distill", "losses": {"mse": 0}}], {}, "[losses] has no weight above 0", "mse = 1.0"),
        ([{"task": "rank", "losses": {"mse": 1, "ranking": 0}}], {}, "but losses.ranking is 0", "losses.ranking = 1"),
        ([{"task": "bridge"}], {"bridge": {"enabled": False}}, "bridge.enabled is false", "leave one"),
        ([{"task": "translate"}], {}, 'student.kind is "encoder"', 'student.kind = "bilstm"'),
        (
            [{"task": "translate", "training": {"dropout": False}}],
            {"student": {"kind": "bilstm"}, **NO_TEACHER},
            "not for LSTMs",
            "student.lstm_dropout = 0.0",
        ),
        ([{"task": "translate", "targets": ["en"]}], {"student": {"kind": "bilstm"}}, "two different languages", "en,es"),
        ([{"task": "tlm", "name": "a"}, {"task": "tlm", "name": "a"}], {}, "two stages are named a", "name of its own"),
        ([{"task": "tlm", "name": "untouched"}], {}, "stage name 'untouched' cannot be used", "letters"),
        ([{"task": "tlm", "name": "../x"}], {}, "stage name '../x' cannot be used", "letters"),
        ([{"task": "average", "of": ["tlm", "untouched"]}, {"task": "tlm"}], {}, "tlm is not an earlier stage", "untouched"),
        ([{"task": "tlm"}, {"task": "average", "of": ["tml", "tlm"]}], {}, "tml is not an earlier stage", "untouched, tlm"),
        ([{"task": "tlm"}, {"task": "average", "of": ["tlm", "tlm"]}], {}, "names a stage twice", "weight"),
        (
            [{"task": "tlm"}, {"task": "average", "of": ["tlm", "untouched"], "weights": [1]}],
            {},
            "1 number for 2",
            "one",
        ),
        ([{"task": "rank", "losses": {"hard_negatives": 5}}], {}, "needs a second round", "rounds = 2"),
        ([{"task": "rank", "rounds": 2}], {}, "rounds = 2 needs hard negatives", "hard_negatives = 5"),
        ([{"task": "rank"}], SMALL_BATCH, "stage rank: losses.ranking compares a pair", "raise training.batch_pairs"),
        ([{"task": "distill", "training": {"epochs": 0}}], {}, "stage distill: training.epochs is 0", "leave the stage out"),
        ([{"task": "tlm", "training": {"select": "loss"}}], {}, 'training.select = "loss" is for translate', "both"),
        ([{"task": "tlm", "training": {"accumulate": 2, "chunk_pairs": 2}}], {}, "both split a batch", "leave one out"),
        ([{"task": "distill", "training": {"patience": 2, "dev_pairs": 0}}], {}, "training.patience = 2", "dev_pairs"),
        ([{"task": "sts", "files": "s", "cross_epochs": 2}], {}, "cross_epochs is set, but augment is false", "augment = true"),
        ([{"task": "tlm"}], {"pairs": {"files": []}}, "pairs.files is empty", "phrasebook"),
        ([{"task": "tlm"}], {"student": {"hidden": 64}}, "student.hidden = 64 is for BiLSTM students", '"bilstm"'),
    ],
)
def test_stages_that_cannot_run_are_refused(stages: list[Any], tables: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        with_stages(*stages, **tables)
    assert message in caught.value.message and hint in caught.value.hint


@pytest.mark.parametrize(
    ("stages", "tables"),
    [
        ([{"task": "nli", "files": "n"}, {"task": "bridge"}, {"task": "distill"}], {}),
        ([{"task": "nli", "files": "n"}, {"task": "sts", "files": "s"}], {"pairs": {"files": []}, **NO_TEACHER}),
        ([{"task": "rank"}, {"task": "answers", "files": "q"}, {"task": "mlm", "files": "t"}], NO_TEACHER),
        ([{"task": "rank"}], {"bridge": {"enabled": False}}),
        ([{"task": "translate", "training": {"select": "loss"}}], {"student": {"kind": "bilstm", "hidden": 64}, **NO_TEACHER}),
        ([{"task": "nli", "files": "n", "training": {"batch_pairs": 1, "patience": 2, "dev_pairs": 0}}], {}),
    ],
)
def test_stages_that_can_run_are_accepted(stages: list[Any], tables: dict[str, Any]) -> None:
    assert len(with_stages(*stages, **tables).stages) == len(stages)


def test_the_schema_for_editors_knows_every_key_and_task() -> None:
    schema = recipes.json_schema()
    for key in recipes.all_keys():
        *tables, last = key.split(".")
        place = schema
        for table in tables:
            place = schema["$defs"][place["properties"][table]["$ref"].rpartition("/")[2]]
        assert place["properties"][last]["description"] and place["additionalProperties"] is False, key
    tasks = schema["properties"]["stage"]["items"]["discriminator"]["mapping"]
    assert set(tasks) == {stage["task"] for stage in EVERY_TASK}
    assert TranslateStage.model_fields.keys() == schema["$defs"]["TranslateStage"]["properties"].keys()
