"""The graph engine, operation by operation on the CPU: it takes the steps of the plainest loop there is.

Recording as CUDA graphs changes when work is launched, not which; it is tried where there is a CUDA device.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isogloss.config import LossSettings
from isogloss.errors import IsoglossError
from isogloss.kernels.fused_qkv import FusedAttention
from isogloss.losses.combined import CombinedLoss
from isogloss.models.student import Student
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.graphs import LOGGED_STEPS, GraphEngine
from isogloss.training.tasks.distill import DistillTask, TrainingInputs
from isogloss.types import IntArray
from training.by_hand import (
    ALL_THREE,
    SENTENCES,
    a_student,
    all_pairs,
    an_optimizer,
    descend,
    encode,
    furthest,
    learnt,
    shared_material,
    some_batches,
    some_material,
    unit_teacher,
    weights_of,
)

STEPS = 14


def engine_for(
    student: Student,
    material: TrainingInputs,
    combined: CombinedLoss = ALL_THREE,
    optimizer: OptimizerConfig | None = None,
    pairs: int = 8,
    dtype: torch.dtype = torch.float32,
    record: bool = False,
    compiled: bool = False,
) -> GraphEngine:
    tasks, optimizer = [DistillTask(material, combined)], optimizer or an_optimizer(STEPS)
    return GraphEngine(student, tasks, optimizer, [pairs], dtype, record=record, compiled=compiled)


def take(engine: GraphEngine, batches: list[IntArray]) -> None:
    for chosen in batches:
        engine.step(engine.prepare(chosen))


@pytest.mark.parametrize(
    "combined", [ALL_THREE, CombinedLoss(LossSettings(mse=1.0, normalized=True, spread=0.1))], ids=["three", "others"]
)
def test_it_follows_the_loop_anybody_would_write(models: Path, combined: CombinedLoss) -> None:
    ours, theirs, batches = a_student(models), a_student(models), some_batches(STEPS)
    material = some_material(ours)
    engine = engine_for(ours, material, combined)
    take(engine, batches)
    told = engine.losses()
    engine.close()
    expected = descend(theirs, material, combined, an_optimizer(STEPS), batches)
    norms = [values["gradient_norm"] for values in expected]
    assert min(norms) < an_optimizer(STEPS).clip_norm < max(norms), "the clip bites at some steps only"
    assert [list(values) for values in told] == [[*combined.weights, "loss", "gradient_norm"]] * STEPS
    for mine, other in zip(told, expected, strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4
    assert furthest(weights_of(ours), weights_of(a_student(models))) > 1e-2, "and went somewhere"


def test_translations_that_sources_share_are_no_negatives(models: Path) -> None:
    ours, theirs, batches = a_student(models), a_student(models), some_batches(6)
    material, combined = shared_material(ours), CombinedLoss(LossSettings(mse=0.0, ranking=1.0, spread=0.1))
    engine = engine_for(ours, material, combined)
    take(engine, batches)
    told = engine.losses()
    engine.close()
    expected = descend(theirs, material, combined, an_optimizer(STEPS), batches)
    for mine, other in zip(told, expected, strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4


def test_without_a_teacher_or_a_bridge(models: Path) -> None:
    ours, theirs, batches = a_student(models, bridged=False), a_student(models, bridged=False), some_batches(6)
    material, combined = some_material(ours, teacher=False), CombinedLoss(LossSettings(mse=0.0, ranking=1.0))
    engine = engine_for(ours, material, combined)
    take(engine, batches)
    engine.close()
    descend(theirs, material, combined, an_optimizer(STEPS), batches)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4


def test_stopped_in_the_middle_it_goes_on_to_the_same_weights(models: Path, tmp_path: Path) -> None:
    whole, cut, batches = a_student(models), a_student(models), some_batches(STEPS)
    engine = engine_for(whole, some_material(whole))
    take(engine, batches)
    last = engine.losses()[-1]
    engine.close()
    first = engine_for(cut, some_material(cut))
    take(first, batches[:5])
    torch.save(first.state_dict(), tmp_path / "state.pt")
    take(first, batches[5:7])  # what a kill undoes
    continued = a_student(models)
    second = engine_for(continued, some_material(continued))
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert not second.losses(), "steps that were read before are not told again"
    take(second, batches[5:])
    assert second.losses()[-1] == last
    second.close()
    assert furthest(weights_of(whole), weights_of(continued)) == 0.0


def test_weights_of_an_earlier_step_are_what_the_student_was_then(models: Path) -> None:
    ours, short, batches = a_student(models), a_student(models), some_batches(STEPS)
    engine = engine_for(ours, some_material(ours))
    take(engine, batches[:6])
    kept, seen = engine.weights(), ours.vectors_of(engine.tasks[0].tokens, np.arange(20))
    take(engine, batches[6:])
    assert len(torch.unique(engine.rows.at)) > 3, "rows are at different steps"
    engine.load_weights(kept)
    assert np.allclose(ours.vectors_of(engine.tasks[0].tokens, np.arange(20)), seen, atol=1e-6)
    engine.close()
    other = engine_for(short, some_material(short))
    take(other, batches[:6])
    other.close()
    assert furthest(weights_of(ours), weights_of(short)) < 1e-6, "nothing that was still due is added to them"


def test_its_vectors_are_the_students(models: Path) -> None:
    ours = a_student(models)
    material = some_material(ours)
    engine = engine_for(ours, material)
    take(engine, some_batches(4))
    rows = np.array([5, 3, 70, 11, 5])
    seen = ours.vectors_of(material.tokens, rows)
    engine.close()
    with torch.no_grad():
        assert np.allclose(seen, encode(ours, material.tokens, rows).numpy(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bf16"])
def test_it_gives_the_student_back_as_any_library_takes_it(models: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    ours = a_student(models)
    kinds = [type(module) for module in ours.body.modules()]
    attention = ours.body.config._attn_implementation
    engine = engine_for(ours, some_material(ours), dtype=dtype)
    assert any(isinstance(module, FusedAttention) for module in ours.body.modules())
    take(engine, some_batches(STEPS))
    assert np.isfinite([values["loss"] for values in engine.losses()]).all()
    engine.close()
    assert [type(module) for module in ours.body.modules()] == kinds
    assert ours.body.config._attn_implementation == attention
    assert {parameter.dtype for parameter in ours.model.parameters()} == {torch.float32}
    vectors = ours.encode(SENTENCES[:12])
    ours.model.save(str(tmp_path / "saved"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(SENTENCES[:12])
    assert np.allclose(vectors, again, atol=1e-5)
    assert np.abs(vectors - a_student(models).encode(SENTENCES[:12])).max() > 1e-2


def test_half_precision_learns_what_single_does(models: Path) -> None:
    losses = []
    for dtype in (torch.float32, torch.bfloat16):
        ours = a_student(models)
        engine = engine_for(ours, some_material(ours), optimizer=an_optimizer(30), dtype=dtype)
        take(engine, some_batches(30))
        losses.append([values["loss"] for values in engine.losses()])
        engine.close()
    assert losses[1][0] == pytest.approx(losses[0][0], rel=0.05)
    assert np.mean(losses[1][-8:]) == pytest.approx(np.mean(losses[0][-8:]), rel=0.05)
    assert np.mean(losses[1][-8:]) < 0.95 * losses[1][0]


def test_filling_is_counted(models: Path) -> None:
    ours = a_student(models)
    material = some_material(ours)
    engine = engine_for(ours, material)
    chosen = np.arange(8)
    load = engine.step(engine.prepare(chosen))
    rows = np.unique(np.concatenate([all_pairs().source[chosen], all_pairs().target[chosen]]))
    assert (
        load.tokens == int(material.tokens.lengths_of(rows).sum()) and load.computed % 128 == 0 and load.computed >= load.tokens
    )
    engine.close()


def test_broken_weights_are_not_sound(models: Path) -> None:
    for break_it in ("table", "body"):
        ours = a_student(models)
        engine = engine_for(ours, some_material(ours))
        assert engine.is_finite()
        (engine.table.weight.data if break_it == "table" else engine.flats[0].master)[3] = torch.nan
        assert not engine.is_finite()
        engine.close()


def test_losses_that_nobody_asked_for_are_kept_for_a_while(models: Path) -> None:
    ours = a_student(models)
    engine = engine_for(ours, some_material(ours), optimizer=an_optimizer(LOGGED_STEPS + 5))
    engine.step_at.fill_(LOGGED_STEPS - 2)  # the record of losses turns round here
    engine.recorder.log.read_at = LOGGED_STEPS - 2
    take(engine, some_batches(4))
    told = engine.losses()
    assert len(told) == 4 and np.isfinite([list(values.values()) for values in told]).all()
    assert engine.losses() == []
    engine.close()


def test_a_batch_that_reads_the_whole_vocabulary_is_refused(models: Path) -> None:
    ours = a_student(models)
    material = some_material(ours)
    tokens = material.tokens
    tokens.ids[: tokens.offsets[30]] = np.resize(np.arange(len(ours.table)), tokens.offsets[30])
    engine = engine_for(ours, material, pairs=80)
    with pytest.raises(IsoglossError, match="every row"):
        engine.prepare(np.arange(80))
    engine.close()


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_steps_are_the_same_steps(models: Path, compiled: bool) -> None:
    steps = 24
    theirs = a_student(models)
    expected = descend(theirs, some_material(theirs), ALL_THREE, an_optimizer(steps), some_batches(steps))
    ours = a_student(models)
    ours.model.to("cuda")
    engine = engine_for(ours, some_material(ours), optimizer=an_optimizer(steps), record=True, compiled=compiled)
    take(engine, some_batches(steps))
    told = engine.losses()
    assert any(step.graph is not None for step in engine.recorder.steps.values())
    engine.close()
    ours.model.to("cpu")
    assert [values["loss"] for values in told] == pytest.approx([values["loss"] for values in expected], rel=5e-3)
    assert np.abs(ours.encode(SENTENCES) - theirs.encode(SENTENCES)).max() < 2e-2


@pytest.mark.gpu
def test_recorded_in_half_precision_it_learns(models: Path) -> None:
    ours = a_student(models)
    ours.model.to("cuda")
    material = TrainingInputs(ours.tokenize(SENTENCES), all_pairs(), unit_teacher())
    engine = engine_for(ours, material, optimizer=an_optimizer(60), dtype=torch.bfloat16, record=True, compiled=True)
    take(engine, some_batches(60))
    losses = [values["loss"] for values in engine.losses()]
    engine.close()
    assert len(losses) == 60 and np.mean(losses[-8:]) < 0.95 * losses[0]
    assert {parameter.dtype for parameter in ours.model.parameters()} == {torch.float32}
