"""Models that lost layers: trained again, kept, and found again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isogloss.config.exporting import BudgetSettings
from isogloss.errors import RecipeError
from isogloss.exporting.budget.forms import Form, Forms
from isogloss.exporting.budget.retraining import ShortModels
from isogloss.exporting.source import ExportSource
from isogloss.models.student import Student
from isogloss.progress import Step
from tiny import PAIRS

GERMAN = "die Katze schläft nachts."
TRAINED = [pair for pair in PAIRS if pair.split == "train"]


def short_models(finished: Path, work: Path, steps: list[Step] | None = None, **settings: Any) -> ShortModels:  # noqa: ANN401
    chosen = BudgetSettings(retrain_batch=16, retrain_rate=1e-3, **settings)
    report = (lambda _step: None) if steps is None else steps.append
    return ShortModels(ExportSource(str(finished), chosen, on_progress=report), chosen, work)


def error(short: Student, whole: Student) -> float:
    """The mean squared distance of both sides to the whole model's embedding of the source."""
    wanted = whole.encode([pair.source for pair in TRAINED])
    sides = [short.encode([getattr(pair, side) for pair in TRAINED]) for side in ("source", "target")]
    return float(sum(np.square(side - wanted).sum(1).mean() for side in sides))


def test_training_again_makes_a_cut_model_better_than_the_bridge_alone(finished: Path, tmp_path: Path) -> None:
    bridged = short_models(finished, tmp_path / "bridged", retrain_epochs=0)(2)
    trained = short_models(finished, tmp_path / "trained", retrain_epochs=15)(2)
    whole = Student.from_pretrained(str(finished), device="cpu")
    assert trained.body.config.num_hidden_layers == 2 and trained.dimension == whole.dimension
    assert error(trained, whole) < 0.85 * error(bridged, whole)
    assert (trained.table == whole.table).all()  # so trimming it before or after makes no difference


def test_trained_model_is_found_again_and_a_damaged_one_is_made_again(
    finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[Step] = []
    short = short_models(finished, tmp_path, steps, retrain_epochs=1)
    first = short(2)
    folder = short.folder(2)
    assert folder.parent == tmp_path and not list((tmp_path / "training").glob("checkpoints-*"))

    def trained(found: Sequence[Step]) -> bool:
        return any(step.stage == "2 layers" and step.unit == "pairs" for step in found)

    assert trained(steps)
    steps.clear()
    again = short_models(finished, tmp_path, steps, retrain_epochs=1)(2)
    assert not trained(steps) and again.encode(["the cat."]) == pytest.approx(first.encode(["the cat."]), abs=1e-6)
    assert short_models(finished, tmp_path, retrain_epochs=2).folder(2) != folder
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    assert short_models(finished, tmp_path, steps, retrain_epochs=1)(2).fingerprint == first.fingerprint
    assert trained(steps) and "trained again" in caplog.text


def test_pairs_are_sampled_if_there_are_too_many(finished: Path, tmp_path: Path) -> None:
    assert len(short_models(finished, tmp_path, retrain_pairs=20).pairs) == 20
    whole = short_models(finished, tmp_path)
    assert whole.pairs is whole.source.pairs


def forms_of(finished: Path, work: Path, **settings: Any) -> Forms:  # noqa: ANN401
    short = short_models(finished, work, **settings)
    return Forms(short.source, short.settings, short)


def test_forms_are_all_combinations_without_doubles(finished: Path, tmp_path: Path) -> None:
    forms = forms_of(finished, tmp_path)
    whole = forms.source.student
    assert forms.layers == (4, 3, 2, 1) and forms.dimensions == (16,)
    assert list(forms.trims) == ["off", "alphabet", "corpus"]
    rows = list(forms.trims.values())
    assert rows[0] == len(whole.table) and rows == sorted(set(rows), reverse=True)
    assert len(forms.all()) == 12 and len(set(forms.all())) == 12
    for form in forms.all()[:3]:
        shaped = forms.open(form)
        assert len(shaped.table) == form.rows == len(forms.tokenizer(form.trim))
        assert shaped.encode(["die Katze schläft nachts."]) == pytest.approx(
            whole.encode(["die Katze schläft nachts."]), abs=1e-5
        )


def test_named_forms_are_checked(finished: Path, tmp_path: Path) -> None:
    forms = forms_of(finished, tmp_path, layers=(2, 4), dimensions=(8,), trims=("corpus",))
    assert forms.layers == (4, 2) and forms.dimensions == (16, 8) and list(forms.trims) == ["corpus"]
    assert Form("corpus", 9, 2, 8).describe(4) == "corpus vocabulary of 9 tokens, 2 of 4 layers"
    with pytest.raises(RecipeError, match="--layers 5, but the model has 4"):
        _ = forms_of(finished, tmp_path, layers=(5,)).layers
    with pytest.raises(RecipeError, match="--dimensions 17, but embeddings have 16"):
        _ = forms_of(finished, tmp_path, dimensions=(17,)).dimensions


def test_vocabulary_stays_if_no_pairs_say_what_the_model_is_for(models: Path, tmp_path: Path) -> None:
    settings = BudgetSettings()
    source = ExportSource(str(models / "student"), settings)
    assert list(Forms(source, settings, ShortModels(source, settings, tmp_path)).trims) == ["off"]
