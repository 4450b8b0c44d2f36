"""Distillation on tiny real models: it learns, repeats exactly, and continues exactly after being stopped."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from isogloss.config import BalanceSettings, BridgeSettings, LossSettings, Recipe, TrainingSettings
from isogloss.errors import DataError, IsoglossError, ModelError
from isogloss.evaluation.alignment import evaluate
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.training.distillation import Distillation, distill
from isogloss.types import Bitext
from tiny import PAIRS
from training.by_hand import same, weights_of

FAST = TrainingSettings(epochs=6, batch_pairs=16, learning_rate=3e-3, checkpoint_seconds=0.0, dev_pairs=0)
BRIEF = FAST.replace(epochs=1)  # where it need not learn
Trained = Callable[[int, str], dict[str, torch.Tensor]]


def recipe(
    training: TrainingSettings = FAST,
    seed: int = 17,
    balance: BalanceSettings | None = None,
    bridge: BridgeSettings | None = None,
    combined: LossSettings | None = None,
) -> Recipe:
    return Recipe(
        seed=seed,
        training=training,
        balance=balance or BalanceSettings(),
        bridge=bridge or BridgeSettings(),
        losses=combined or LossSettings(),
    )


def test_a_cpu_that_computes_bf16_trains_on_vectors_in_bf16(
    models: Path, bitext: Bitext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece of stored work says so in its name, so that none is mixed with float32; and it learns as much."""
    teacher, ends, kept = load(str(models / "teacher")), dict[str, float](), dict[str, set[str]]()
    for precision in ("float32", "bf16"):
        monkeypatch.setenv("ISOGLOSS_CPU_PRECISION", precision)
        student, folder = Student.from_pretrained(str(models / "student")), tmp_path / precision
        session = Distillation(student, teacher, bitext, recipe(FAST.replace(train_layers=2)), folder, tmp_path / "cache")
        assert session.dtype == {"float32": torch.float32, "bf16": torch.bfloat16}[precision]
        session.build_bridge()
        ends[precision] = session.train().loss
        kept[precision] = {path.name for path in folder.iterdir() if not path.name.startswith("data")}
        assert {parameter.dtype for parameter in student.model.parameters()} == {torch.float32}
        assert next(folder.glob("activations-*/part-*.npy")).stat().st_size > 0
    assert not kept["float32"] & kept["bf16"]
    fingerprints = {path.name for path in (tmp_path / "cache" / "vectors").iterdir()}
    assert fingerprints == {teacher.fingerprint, f"{teacher.fingerprint}-bf16"}
    assert ends["bf16"] == pytest.approx(ends["float32"], rel=0.1)


def two_corpora(bitext: Bitext) -> Bitext:
    """The same pairs, a tenth of them in a corpus of its own."""
    return bitext.with_column("corpus", ["small" if place % 20 < 2 else "large" for place in range(len(bitext))])


def test_it_moves_the_student_to_the_teacher(models: Path, bitext: Bitext) -> None:
    teacher, student = load(str(models / "teacher")), Student.from_pretrained(str(models / "student"))
    losses: list[float] = []
    distill(
        student, teacher, bitext, recipe(), on_progress=lambda step: losses.extend([step.values["loss"]] if step.values else [])
    )
    assert losses[-1] < 0.7 * losses[0]
    after = evaluate(student, teacher, bitext).average()
    assert after.teacher_index is not None and after.cosine is not None
    assert after.teacher_index > 3 / 40, "far better than chance among forty"
    assert np.allclose(np.linalg.norm(student.encode(["the cat runs home."]), axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("train_layers", [0, 2])
def test_the_same_seed_gives_the_same_weights_and_another_does_not(
    models: Path, bitext: Bitext, train_layers: int, tmp_path: Path
) -> None:
    results = []
    for place, seed in enumerate((5, 5, 6)):
        student = Student.from_pretrained(str(models / "student"))
        settings = TrainingSettings(epochs=2, batch_pairs=16, train_layers=train_layers, dropout=True, dev_pairs=0)
        distill(student, load(str(models / "teacher")), bitext, recipe(settings, seed), folder=tmp_path / str(place))
        results.append(weights_of(student))
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def in_four_epochs(train_layers: int, scheme: str) -> Recipe:
    settings = TrainingSettings(
        epochs=4, batch_pairs=16, train_layers=train_layers, dropout=True, checkpoint_seconds=0.0, dev_pairs=0
    )
    return recipe(settings, balance=BalanceSettings(scheme=scheme))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def uninterrupted(models: Path, bitext: Bitext, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The weights of such a training that was never stopped."""

    @cache
    def trained(train_layers: int, scheme: str) -> dict[str, torch.Tensor]:
        student, whole = Student.from_pretrained(str(models / "student")), tmp_path_factory.mktemp("whole")
        distill(student, load(str(models / "teacher")), two_corpora(bitext), in_four_epochs(train_layers, scheme), whole)
        return weights_of(student)

    return trained


# Every two of them together.
@pytest.mark.parametrize(
    ("stop_after", "train_layers", "scheme"),
    [
        *((1, 0, "everything"), (7, 0, "corpora"), (13, 0, "everything")),
        *((1, 2, "corpora"), (7, 2, "everything"), (13, 2, "corpora")),
    ],
)
def test_stopped_anywhere_it_continues_to_the_same_weights(
    models: Path, bitext: Bitext, tmp_path: Path, uninterrupted: Trained, train_layers: int, stop_after: int, scheme: str
) -> None:
    bitext, settings, teacher = two_corpora(bitext), in_four_epochs(train_layers, scheme), load(str(models / "teacher"))
    taken = 0

    def stop(step: Step) -> None:
        nonlocal taken
        taken += step.stage == "distill"
        if taken > stop_after + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(
            Student.from_pretrained(str(models / "student")),
            teacher,
            bitext,
            settings,
            folder=tmp_path / "cut",
            on_progress=stop,
        )
    continued, notes = Student.from_pretrained(str(models / "student")), []
    summary = distill(
        continued,
        teacher,
        bitext,
        settings,
        folder=tmp_path / "cut",
        on_progress=lambda step: notes.append(step.note),
    )
    assert same(uninterrupted(train_layers, scheme), weights_of(continued))
    assert 0 < summary.steps_now < summary.steps
    assert any("continued at step" in note for note in notes)


# ── in shards ───────────────────────────────────────────────────────────────────────────────────────────────────────────


# ── a second time ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_session_finds_everything_done(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    teacher, first = load(str(models / "teacher")), Student.from_pretrained(str(models / "student"))
    distill(first, teacher, bitext, recipe(BRIEF), folder=tmp_path, cache=tmp_path / "cache")
    again, notes = Student.from_pretrained(str(models / "student")), []
    summary = distill(
        again,
        teacher,
        bitext,
        recipe(BRIEF),
        folder=tmp_path,
        cache=tmp_path / "cache",
        on_progress=lambda s: notes.append((s.stage, s.note)),
    )
    assert summary.steps_now == 0 and same(weights_of(first), weights_of(again))
    assert {
        ("teacher", "reused"),
        ("untouched student", "reused"),
        ("distill", "reused: training was finished"),
    } <= set(notes)


def test_other_settings_do_not_reuse_the_training(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    teacher = load(str(models / "teacher"))
    distill(Student.from_pretrained(str(models / "student")), teacher, bitext, recipe(BRIEF), folder=tmp_path)
    other = BRIEF.replace(learning_rate=1e-3)
    assert (
        distill(Student.from_pretrained(str(models / "student")), teacher, bitext, recipe(other), folder=tmp_path).steps_now > 0
    )


def test_another_balance_does_not_reuse_the_training(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    teacher, bitext = load(str(models / "teacher")), two_corpora(bitext)
    students = []
    for scheme in ("everything", "corpora", "languages"):
        students.append(Student.from_pretrained(str(models / "student")))
        balance = BalanceSettings(scheme=scheme)
        assert distill(students[-1], teacher, bitext, recipe(BRIEF, balance=balance), folder=tmp_path).steps_now > 0
    assert not same(weights_of(students[0]), weights_of(students[1]))


def test_progress_counts_the_pairs_that_are_drawn(models: Path, bitext: Bitext) -> None:
    steps: list[Step] = []
    balance = BalanceSettings(scheme="corpora", pairs_per_epoch=50)
    settings = TrainingSettings(epochs=2, batch_pairs=16, dev_pairs=0)
    summary = distill(
        Student.from_pretrained(str(models / "student")),
        load(str(models / "teacher")),
        two_corpora(bitext),
        recipe(settings, balance=balance),
        on_progress=lambda step: steps.extend([step] if step.stage == "distill" else []),
    )
    assert summary.steps == 8
    assert [step.done for step in steps] == [0, 16, 32, 48, 50, 66, 82, 98, 100] and {step.total for step in steps} == {100}


def test_fewer_translations_of_a_source_are_trained_on_and_the_bridge_keeps_all(models: Path, bitext: Bitext) -> None:
    student, teacher = Student.from_pretrained(str(models / "student")), load(str(models / "teacher"))
    balance = BalanceSettings(group="source", max_translations=1)
    session = Distillation(student, teacher, bitext, recipe(BRIEF, balance=balance))
    schedule, pairs = session._schedule(), session.pairs
    drawn = np.concatenate([schedule.examples(step) for step in range(schedule.steps)])
    assert sorted(pairs.source[drawn]) == sorted(set(pairs.source)) and len(drawn) < len(pairs)
    assert len(session._bridge_pairs) == len(pairs)


def test_bridge_alone_lands_on_the_best_linear_map(models: Path, bitext: Bitext) -> None:
    session = Distillation(Student.from_pretrained(str(models / "student")), load(str(models / "teacher")), bitext)
    texts = [*bitext.sources(), *bitext.column("target"), "a sentence that no pair has"]
    untouched = session.untouched_vectors(texts)
    bridge = session.build_bridge()
    mapped = bridge.apply(untouched)
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    assert np.allclose(session.student.encode(texts), mapped, atol=1e-5)


def test_another_dimension_needs_a_bridge(models: Path, bitext: Bitext) -> None:
    with pytest.raises(ModelError, match="gives 24-d vectors, the teacher 16-d") as caught:
        distill(
            Student.from_pretrained(str(models / "student")),
            load(str(models / "teacher")),
            bitext,
            recipe(bridge=BridgeSettings(enabled=False)),
        )
    assert "bridge.enabled = true" in caught.value.hint


def test_without_a_bridge_the_student_is_normalised_for_a_unit_norm_teacher(models: Path, bitext: Bitext) -> None:
    student = Student.from_pretrained(str(models / "teacher"))
    settings = TrainingSettings(epochs=1, batch_pairs=16)
    distill(student, load(str(models / "teacher")), bitext, recipe(settings, bridge=BridgeSettings(enabled=False)))
    assert len(list(student.model)) == 3


def test_an_exploding_loss_stops_and_keeps_the_checkpoint(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    settings = TrainingSettings(epochs=4, batch_pairs=16, learning_rate=1e30, clip_norm=0.0, warmup=0.0, checkpoint_seconds=0.0)
    with pytest.raises(IsoglossError, match=r"not finite|became") as caught:
        distill(
            Student.from_pretrained(str(models / "student")),
            load(str(models / "teacher")),
            bitext,
            recipe(settings),
            folder=tmp_path,
        )
    assert "learning_rate" in caught.value.hint
    assert list(tmp_path.glob("checkpoints-*/step-*.pt"))


def test_nothing_to_train_on(models: Path) -> None:
    held = Bitext.of(pair for pair in PAIRS if pair.split == "test")
    with pytest.raises(DataError, match="no pairs to train on"):
        distill(Student.from_pretrained(str(models / "student")), load(str(models / "teacher")), held)


def test_damaged_arrays_are_computed_again(
    models: Path, bitext: Bitext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teacher, first = load(str(models / "teacher")), Student.from_pretrained(str(models / "student"))
    settings = TrainingSettings(epochs=2, batch_pairs=16, train_layers=2)
    distill(first, teacher, bitext, recipe(settings), folder=tmp_path, cache=tmp_path / "cache")
    for path in [*tmp_path.rglob("*.npy")]:
        path.write_bytes(path.read_bytes()[:200])
    for path in tmp_path.rglob("step-*.pt"):
        path.unlink()
    again = Student.from_pretrained(str(models / "student"))
    distill(again, teacher, bitext, recipe(settings), folder=tmp_path, cache=tmp_path / "cache")
    assert same(weights_of(first), weights_of(again))
    assert caplog.text.count("is damaged") == 3, "the teacher's matrix, the untouched student's vectors, activations"


def test_after_a_damaged_checkpoint_training_starts_again(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    teacher, students = load(str(models / "teacher")), [Student.from_pretrained(str(models / "student")) for _ in range(2)]
    distill(students[0], teacher, bitext, recipe(BRIEF), folder=tmp_path)
    (path,) = tmp_path.glob("checkpoints-*/step-*.pt")
    path.write_bytes(path.read_bytes()[:100])
    assert distill(students[1], teacher, bitext, recipe(BRIEF), folder=tmp_path).steps_now > 0
    assert same(weights_of(students[0]), weights_of(students[1]))


# ── what would be silent ────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_settings_beside_a_checkpoint_are_said(
    models: Path, bitext: Bitext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teacher = load(str(models / "teacher"))
    short = FAST.replace(epochs=1)
    for settings in (short, short, short.replace(checkpoint_seconds=5.0)):
        distill(Student.from_pretrained(str(models / "student")), teacher, bitext, recipe(settings), folder=tmp_path)
    assert not caplog.messages, "nothing is passed over where a training goes on, or only how often it is kept changes"
    distill(
        Student.from_pretrained(str(models / "student")),
        teacher,
        bitext,
        recipe(short.replace(learning_rate=1e-3)),
        folder=tmp_path,
    )
    (said,) = caplog.messages
    assert "the checkpoint of step 4 there is of other settings (training.learning_rate was 0.003)" in said


def test_another_engine_beside_a_checkpoint_is_said(
    models: Path, bitext: Bitext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teacher = load(str(models / "teacher"))
    distill(Student.from_pretrained(str(models / "student")), teacher, bitext, recipe(FAST.replace(epochs=1)), folder=tmp_path)
    (folder,) = tmp_path.glob("checkpoints-*")
    folder.rename(folder.with_name(folder.name.replace("eager-rows", "graphs")))
    distill(Student.from_pretrained(str(models / "student")), teacher, bitext, recipe(FAST.replace(epochs=1)), folder=tmp_path)
    (said,) = caplog.messages
    assert "is of the graphs engine and this is the eager one, so training starts at step 0" in said


def test_settings_that_change_nothing_are_said(models: Path, bitext: Bitext, caplog: pytest.LogCaptureFixture) -> None:
    settings = TrainingSettings(epochs=1, batch_pairs=16, warmup=9.0, patience=2, dev_share=0.01, select="mse")
    moving = LossSettings(mse=0.0, moving_teacher=1.0)
    teacher, student = load(str(models / "teacher")), Student.from_pretrained(str(models / "student"))
    distill(student, teacher, bitext, recipe(settings, combined=moving))
    select, dev, warmup = caplog.messages
    assert 'training.select = "mse" chooses by the distance to the teacher' in select
    assert "as dev pairs: the last weights are kept, not the best, and training.patience = 2 never ends training" in dev
    assert "training.warmup = 9 steps, but training has 4" in warmup


def test_without_a_bridge_its_sentences_are_not_embedded(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    texts, steps = [*bitext.sources()[:3], "a sentence that no pair has"], list[Step]()
    session = Distillation(
        Student.from_pretrained(str(models / "teacher")),
        load(str(models / "teacher")),
        bitext,
        recipe(bridge=BridgeSettings(enabled=False)),
        tmp_path,
        on_progress=steps.append,
    )
    vectors = session.untouched_vectors(texts)
    assert np.allclose(vectors, session.student.encode(texts), atol=1e-6)
    assert max(step.total for step in steps if step.stage == "untouched student") <= len(texts)
    assert [path.name.rsplit("-", 1)[0] for path in tmp_path.glob("untouched*")] == ["untouched-texts"]
