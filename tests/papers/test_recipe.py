"""Recipes of systems: all of them are whole at both scales, and what does not fit is refused by name."""

from pathlib import Path

import pytest

from isogloss.config import Recipe
from isogloss.corpora.catalogue.entries import find
from isogloss.errors import RecipeError
from isogloss_papers.published import SCALES, published, table_names
from isogloss_papers.recipe import CONTROLS, FOLDER, check_settings, load_system, system_names, with_overrides
from isogloss_papers.verbs import Inputs, recipe_of

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", system_names())
def test_every_recipe_is_whole_at_both_scales(name: str) -> None:
    recipe = load_system(name)
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith("# ") and recipe.title
    for scale in SCALES:
        making = recipe.at(scale)
        check_settings(making, name)
        assert set(making.others().values()) <= set(system_names())
        for corpus in making.corpora:
            assert find(corpus).name and not find(corpus).why, "corpora that can be fetched"
        if scale == "lab" and making.how not in ("published", "random") and not name.startswith(("control", "muse")):
            assert making.differs, "what stands for what is said in the row"


def test_recipes_are_where_people_look() -> None:
    assert sorted(path.stem for path in (ROOT / "recipes" / "papers").glob("*.toml")) == system_names()


def test_no_recipe_is_for_nothing() -> None:
    used = {name for table in table_names() for name in published(table).systems} | set(CONTROLS)
    made_from = {
        other for name in system_names() for scale in SCALES for other in load_system(name).at(scale).others().values()
    }
    assert used | made_from == set(system_names())


def test_the_papers_own_numbers() -> None:
    """R&G §3 and H&K §5.3, as settings of a run."""
    rg = parsed("xlm-r-from-sbert-nli-stsb")
    training = rg.training
    assert (training.epochs, training.batch_pairs, training.warmup, training.learning_rate) == (20, 64, 10_000, 2e-5)
    assert rg.losses.mse == 1 and not rg.bridge.enabled and rg.balance.scheme == "datasets"
    hk = parsed("hk-moving-teacher")
    training = hk.training
    assert (training.optimizer, training.learning_rate, training.warmup, training.batch_pairs) == ("lars", 0.02, 54_000, 256)
    assert hk.balance.pairs_per_epoch == 105_000 * 256 and training.schedule == "cosine" and training.weight_decay == 1e-6
    assert (hk.losses.mse, hk.losses.moving_teacher, hk.losses.teacher_decay) == (0, 1, 0.99999)
    assert hk.teacher.model == hk.student.model and not hk.bridge.enabled
    decays = [parsed(f"hk-{name}").losses.teacher_decay for name in ("tau-0.9999", "tau-0.999999", "freeze-teacher")]
    assert decays == [0.9999, 0.999999, 1.0]
    assert load_system("hk-moving-teacher").paper.settings["cleaning"] == {"normalize": "ham-kim", "max_tokens": 128}


def test_decay_rates_of_the_lab_keep_what_they_mean() -> None:
    for name in ("hk-moving-teacher", "hk-tau-0.9999", "hk-tau-0.999999"):
        lab, paper = parsed(name, "lab"), parsed(name)
        steps = lab.balance.pairs_per_epoch / lab.training.batch_pairs
        assert (1 - lab.losses.teacher_decay) * steps == pytest.approx((1 - paper.losses.teacher_decay) * 105_000, rel=0.01)


def parsed(name: str, scale: str = "paper") -> Recipe:
    making = load_system(name).at(scale)
    from dataclasses import replace

    from isogloss_papers.recipe import own_settings

    return recipe_of(replace(making, settings=own_settings(making)), Inputs(), name)


BROKEN = [
    ('how = "distil"', 'how = "distill"', "how = 'distill' is not known"),
    ('teacher = "system:sbert-nli-stsb"', 'techer = "x"', "unknown key techer"),
    ('teacher = "system:sbert-nli-stsb"', "", 'how = "distil" needs teacher'),
    ('model = "multilingual-e5-small"', 'model = "multilingual-e5-small"\nwhy = "x"', "why says nothing where how"),
    ("epochs = 1,", "epoch = 1,", "unknown key training.epoch"),
    ("pairs_per_epoch = 300000", "pairs_per_epoch = -1", "balance.pairs_per_epoch = -1 is out of range"),
    ('languages = ["ko"]', "", "it needs either languages or each"),
    ('languages = ["ko"]', 'languages = "ko"', "languages must be a list"),
    ("[lab]", "[laboratory]", r"\[lab\] is missing"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_a_wrong_recipe_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (FOLDER / "xlm-r-korean-from-sbert-nli-stsb.toml").read_text(encoding="utf-8")
    head, mark, lab = text.partition("[lab]")
    whole = mark + lab
    assert old in whole
    (tmp_path / "one.toml").write_text(head + whole.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RecipeError, match=message):
        check_settings(load_system("one", tmp_path).lab, "one.toml [lab]")


def test_overrides_are_for_one_verb() -> None:
    distil, laser = load_system("xlm-r-low-resource").lab, load_system("laser").lab
    told = ("distil.training.epochs=3", "laser.training.steps=5", "cleaning.min_language=0.1")
    assert with_overrides(distil, told).settings["training"]["epochs"] == 3
    assert "steps" not in with_overrides(distil, told).settings
    assert with_overrides(laser, told).settings["training"]["steps"] == 5
    assert with_overrides(laser, told).settings["cleaning"] == {"min_language": 0.1}
    assert "cleaning" not in with_overrides(load_system("xlm-r-nli-stsb").lab, told).settings
    assert distil.settings["training"]["epochs"] == 1, "the recipe itself stays as it is"
    for wrong in ("training.epochs=3", "distil", "distil.epochs"):
        with pytest.raises(RecipeError, match=r"expected VERB\.key=value"):
            with_overrides(distil, (wrong,))
