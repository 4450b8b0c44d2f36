"""Recipes: what is written reads back, and whatever does not fit is refused by name."""

import json
import runpy
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss import recipes
from isogloss.config import Recipe, as_dict
from isogloss.errors import RecipeError
from isogloss.runs.pipeline import quickstart_recipe
from isogloss.runs.presets import dual_recipe, finetune_recipe, laser_recipe
from tiny import UNTAUGHT


def test_defaults_write_and_read_back() -> None:
    assert recipes.parse(tomllib.loads(recipes.dump(Recipe()))) == Recipe()


@given(
    st.integers(0, 50),
    st.floats(0, 1),
    st.booleans(),
    st.lists(st.sampled_from(["de", "fr", "ko"]), unique=True),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=20),
    st.lists(st.floats(1e-6, 10), min_size=1, max_size=3),
)
def test_any_recipe_writes_and_reads_back(
    epochs: int, warmup: float, dropout: bool, languages: list[str], name: str, strengths: list[float]
) -> None:
    data = {
        "name": name,
        "languages": languages,
        "bridge": {"strengths": strengths},
        "training": {"epochs": epochs, "warmup": warmup, "dropout": dropout},
    }
    recipe = recipes.parse(data)
    assert recipes.parse(tomllib.loads(recipes.dump(recipe))) == recipe
    assert recipes.parse(tomllib.loads(recipes.dump(recipe, comments=False))) == recipe


def test_overrides() -> None:
    recipe = recipes.parse(
        {"training": {"epochs": 9}},
        ["training.epochs=2", "languages=de,fr", "name=my run", "student.trim=corpus", "bridge.strengths=[0.5]"],
    )
    assert (recipe.training.epochs, recipe.languages, recipe.name, recipe.student.trim) == (2, ("de", "fr"), "my run", "corpus")
    assert recipe.bridge.strengths == (0.5,)


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("training.epoch=3", "unknown key training.epoch", "did you mean training.epochs?"),
        ("epochs=3", "unknown key epochs", "did you mean training.epochs?"),
        ("trainin.epochs=3", "unknown key trainin", "did you mean training?"),
        ("training.zzzz=3", "unknown key training.zzzz", "keys here are: epochs, steps, batch_pairs"),
        ("training.epochs=many", "training.epochs must be a whole number, not 'many'", "--set training.epochs=3"),
        ("training.epochs=1.5", "training.epochs must be a whole number, not 1.5", ""),
        ("training.dropout=1", "training.dropout must be true or false, not 1", ""),
        ("training.epochs=true", "training.epochs must be a whole number, not True", ""),
        ("training.dev_share=7", "training.dev_share = 7 is out of range", "between 0 and 0.5"),
        ("training.batch_pairs=0", "training.batch_pairs = 0 is out of range", "at least 1"),
        ("training.learning_rate=nan", "training.learning_rate is not a finite number", "0.1"),
        ("student.trim=all", "student.trim = 'all' is not known", "alphabet, corpus, off"),
        ("training=3", "training must be a table", "[training]"),
        ("name.x=3", "name is a value, not a table", ""),
        ("nonsense", "expected key=value", "--set training.epochs=3"),
        ("bridge.strengths=[inf]", "bridge.strengths is not a finite number", ""),
        ("bridge.strengths=[0.0]", "bridge.strengths = 0.0 is out of range", "above 0"),
        ("pairs.files=[]", "pairs.files is empty", "phrasebook"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(override: str, message: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipes.parse({"name": "x"}, [override])
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("override", "blamed"),
    [
        ("training.epochs=many", "--set training.epochs=many: "),
        ("training.epochs = -3", "--set training.epochs = -3: "),
        ("training={epochs='x'}", "--set training={epochs='x'}: "),
        ("trainin.epochs=3", "--set trainin.epochs=3: unknown key trainin"),
        ("training.epoch=3", "--set training.epoch=3: unknown key training.epoch"),
        ("training.warmup=0.2", "my.toml: training.batch_pairs must be a whole number"),
        ("seed=3", "my.toml: training.batch_pairs must be a whole number"),
        (recipes.FromOption("--device", "device", "abacus"), "--device abacus: device = 'abacus' is not known"),
    ],
)
def test_the_one_who_wrote_it_is_blamed(override: str, blamed: str) -> None:
    """The order of keys is that of the file, and its own mistake comes last."""
    data = {"training": {"epochs": 1, "batch_pairs": "some"}}
    if "batch_pairs" not in blamed:
        del data["training"]["batch_pairs"]
    with pytest.raises(RecipeError) as caught:
        recipes.parse(data, [override], "my.toml")
    assert caught.value.message.startswith(blamed)


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        (
            ["student.dimension=8"],
            'student.dimension = 8 is for static students, but student.kind is "encoder"',
            "static",
        ),
        (["training.patience=3", "training.dev_pairs=0"], "training.patience = 3", "raise training.dev_pairs"),
        (["training.patience=3", "training.dev_share=0"], "training.dev_share = 0 keeps none", "training.patience = 0"),
        (["training.batch_pairs=1", "losses.soft_similarity=1"], "losses.soft_similarity compares", "batch_pairs"),
        (
            ["training.batch_pairs=1", "losses.ranking=1"],
            "training.batch_pairs = 1 leaves no others",
            "losses.ranking = 0",
        ),
        (["training.batch_pairs=1", "losses.spread=1"], "losses.spread compares a pair with the others", "batch_pairs"),
        (["training.batch_pairs=4", "training.accumulate=4", "losses.ranking=1"], "4 in 4 parts", "raise"),
        (["losses.mse=0", "losses.spread=0.1"], "[losses] has spread alone", "mse = 1.0 beside spread = 0.1"),
        (["losses.mse=0"], "[losses] has no weight above 0", "for example mse = 1.0"),
        (
            ["teacher.model="],
            "bridge.enabled and losses.mse need a teacher, but there is none",
            "set teacher.model, or set bridge.enabled = false and set losses.mse = 0",
        ),
        ([*UNTAUGHT, "losses.mse=1"], "losses.mse needs a teacher", "losses.mse = 0"),
        ([*UNTAUGHT, "losses.soft_similarity=1"], "losses.soft_similarity needs a teacher", "soft_similarity = 0"),
        ([*UNTAUGHT, "losses.moving_teacher=1"], "losses.moving_teacher needs a teacher", "moving_teacher = 0"),
        ([*UNTAUGHT, "bridge.enabled=true"], "bridge.enabled needs a teacher", "bridge.enabled = false"),
        ([*UNTAUGHT, "student.kind=teacher-body"], 'student.kind = "teacher-body" needs a teacher', '"encoder"'),
        ([*UNTAUGHT, "training.select=mse"], 'training.select = "mse" needs a teacher', '"both"'),
        ([*UNTAUGHT, "teacher.prompt=query"], "teacher.prompt needs a teacher", 'teacher.prompt = ""'),
        ([*UNTAUGHT, "teacher.query_prompt=q"], "teacher.query_prompt needs a teacher", 'teacher.query_prompt = ""'),
        ([*UNTAUGHT, "teacher.document_prompt=d"], "teacher.document_prompt needs a teacher", 'teacher.document_prompt = ""'),
        (
            [*UNTAUGHT, "teacher.precision=float32"],
            'teacher.precision = "float32" needs a teacher',
            'teacher.precision = "auto"',
        ),
    ],
)
def test_settings_that_cannot_be_meant_together_are_refused(overrides: list[str], message: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipes.parse({}, overrides)
    assert message in caught.value.message and hint in caught.value.hint


@pytest.mark.parametrize(
    "overrides",
    [
        ["student.kind=static", "student.dimension=8"],
        ["training.patience=3"],
        ["training.batch_pairs=1"],
        ["training.batch_pairs=1", "training.batch_tokens=900", "losses.ranking=1"],
        ["training.batch_pairs=1", "losses.ranking=1", "losses.hard_negatives=2"],
        ["training.batch_pairs=2", "losses.soft_similarity=1"],
        UNTAUGHT,
        [*UNTAUGHT, "losses.spread=0.1", "losses.hard_negatives=2", "student.kind=static"],
    ],
)
def test_settings_that_can_be_meant_together_are_taken(overrides: Sequence[str]) -> None:
    recipes.parse({}, overrides)


def test_nothing_to_do_is_refused() -> None:
    with pytest.raises(RecipeError, match="nothing to do"):
        recipes.parse({}, ["bridge.enabled=false", "training.epochs=0"])


def test_the_output_folder_may_be_called_anything() -> None:
    assert recipes.load(quickstart_recipe(), [], Path("2024-11-15")).output.folder == "2024-11-15"


def test_files(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such recipe"):
        recipes.load(tmp_path / "gone.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("languages = de, fr\n")
    with pytest.raises(RecipeError, match="not valid TOML"):
        recipes.load(bad)


def test_shipped_recipe_is_valid_and_every_key_is_explained() -> None:
    recipe = recipes.load(quickstart_recipe())
    assert len(recipe.languages) == 12
    keys = recipes.all_keys()
    assert {"name", "training.epochs", "output.folder"} <= set(keys)
    text = recipes.dump(recipe)
    assert text.count("\n# ") + 1 == len(keys)
    assert set(as_dict(recipe)) == {key.split(".")[0] for key in keys}


def test_the_quickstart_among_the_recipes_is_the_one_that_runs() -> None:
    copy = Path(__file__).parent.parent / "recipes" / "quickstart.toml"
    assert copy.read_text(encoding="utf-8") == quickstart_recipe().read_text(encoding="utf-8")


def test_the_recipe_like_labse_is_valid_and_has_no_teacher() -> None:
    recipe = recipes.load(Path(__file__).parent.parent / "recipes" / "labse-style.toml")
    assert not recipe.teacher.model and recipe.losses.margin == 0.3


def test_the_page_of_recipes_has_the_tables_of_the_settings() -> None:
    root = Path(__file__).parent.parent
    script = runpy.run_path(str(root / "scripts" / "recipe_tables.py"))
    page = (root / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert script["page"](page) == page, "run python scripts/recipe_tables.py"


@pytest.mark.parametrize("number", ["1" + "0" * 30, "-1" + "0" * 400, "9" * 4000])
def test_numbers_that_no_setting_needs_are_refused(tmp_path: Path, number: str) -> None:
    for key in ("training.epochs", "training.learning_rate", "seed"):
        with pytest.raises(RecipeError, match=f"{key} is a number too large"):
            recipes.parse({}, [f"{key}={number}"])
    (tmp_path / "x.toml").write_text("seed = " + "9" * 5000)
    with pytest.raises(RecipeError, match="not valid TOML: Exceeds the limit"):
        recipes.load(tmp_path / "x.toml")
    for value in ("9" * 5000, "[" * 50_000):
        with pytest.raises(RecipeError, match=r"^--set …=.*…: (Exceeds|nested too deeply)"):
            recipes.parse({}, [f"seed={value}"])


MANY, MANY_QUOTED = ".".join(["a"] * 100_000), ".".join(['"a"'] * 100_000)


@pytest.mark.parametrize(
    "text",
    [f"{MANY} = 1", f"[{MANY}]", f"x = {{{MANY} = 1}}", f"x = {{ y = 1, {MANY_QUOTED} = 1 }}"],
    ids=["plain", "table", "inline", "quoted"],
)
def test_a_key_of_very_many_parts_is_refused_at_once(tmp_path: Path, text: str) -> None:
    """The parser would take hours: its work grows with the square of the parts."""
    (tmp_path / "r.toml").write_text(f'name = "x"\n{text}\n')
    with pytest.raises(RecipeError, match="line 2: a key with over 100 dots"):
        recipes.load(tmp_path / "r.toml")


@pytest.mark.parametrize("override", [f"{MANY}=1", f"x={{{MANY} = 1}}"], ids=["key", "value"])
def test_so_is_one_on_the_command_line(override: str) -> None:
    with pytest.raises(RecipeError, match="a key with over 100 dots"):
        recipes.parse({}, [override])


def test_text_with_many_dots_is_no_key(tmp_path: Path) -> None:
    files = [f"{number}.en-de.tsv.gz" for number in range(200)]
    (tmp_path / "r.toml").write_text(f"[pairs]\nfiles = {json.dumps(files)}\n[student]\nprompt = '{'.' * 200}'\n")
    recipe = recipes.load(tmp_path / "r.toml", [f"teacher.prompt={'.' * 200}"])
    assert recipe.pairs.files == tuple(files) and recipe.student.prompt == recipe.teacher.prompt == "." * 200


@pytest.mark.parametrize(
    "data",
    [
        finetune_recipe("x", "out", ["nli.tsv"], ["sts.tsv"], ["dev.tsv"], augment={"neighbors": 3}, training={"epochs": 4}),
        dual_recipe(["en-de.tsv"], "out", "x", "muse", ["nli.tsv"], ["qa.tsv"], shares=(2.0, 1.0, 1.0)),
        laser_recipe(["en-de.tsv"], "out", "lab"),
    ],
    ids=["finetune", "dual", "laser"],
)
def test_a_recipe_without_its_defaults_is_the_same_recipe(data: dict[str, Any]) -> None:
    recipe = recipes.parse(data)
    again = recipes.parse(tomllib.loads(recipes.dump(recipe, comments=False, defaults=False)))
    assert [again.training_of(stage) for stage in again.stages] == [recipe.training_of(stage) for stage in recipe.stages]
    assert [again.losses_of(stage) for stage in again.stages] == [recipe.losses_of(stage) for stage in recipe.stages]
    assert recipes.dump(again) == recipes.dump(recipe)
