"""Distillation: a student, a teacher and pairs in; the student, in the teacher's space, out.

`distill` is the whole of it in one call. `Distillation` is the same work as a session, for callers that want to measure
between the stages: vectors of the untouched student, then `build_bridge`, then `train`. Everything it computes is kept
in its folder under a name made from its inputs, so the next session continues where this one was killed.
"""

import functools
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from isogloss.config import BalanceSettings, BridgeSettings, TrainingSettings, as_dict
from isogloss.corpora.balance import coded
from isogloss.encode.cache import VectorCache
from isogloss.encode.encoder import Encoder, refuse_broken
from isogloss.encode.tokens import TokenStore
from isogloss.errors import DataError, ModelError
from isogloss.objectives.mse import mse
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import canonical_json, content_hash, load_array, make_folder, replacing
from isogloss.students.bridge import Bridge, BridgeSolver
from isogloss.students.frozen import Activations, SplitBody, remember
from isogloss.students.student import Student
from isogloss.training.batches import Batch, PairRows, Schedule
from isogloss.training.optimiser import rate_at
from isogloss.training.stepper import Stepper
from isogloss.types import TRAIN, Bitext, FloatArray, IntArray

logger = logging.getLogger(__name__)

UNIT_NORM_TOLERANCE = 1e-2
LOG_EVERY_STEPS = 10


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What training did: steps in all, steps done now (fewer after an interruption), the last loss, pairs a second."""

    steps: int
    steps_now: int
    loss: float
    pairs_per_second: float


class Distillation:
    """One student on its way to one teacher, over one set of pairs."""

    def __init__(
        self,
        student: Student,
        teacher: Encoder,
        bitext: Bitext,
        training: TrainingSettings | None = None,
        bridge: BridgeSettings | None = None,
        balance: BalanceSettings | None = None,
        seed: int = 17,
        folder: Path | str | None = None,
        cache: Path | str | None = None,
        on_progress: OnProgress = silent,
    ) -> None:
        self.student, self.teacher, self.bitext = student, teacher, bitext
        self.training, self.bridge_settings = training or TrainingSettings(), bridge or BridgeSettings()
        self.balance, self.seed, self.on_progress = balance or BalanceSettings(), seed, on_progress
        self.folder = Path(folder) if folder is not None else None
        self.split = SplitBody(student.body, self.training.train_layers) if self.training.train_layers else None
        if not len(bitext.where(split=TRAIN)):
            raise DataError("there are no pairs to train on: all are held out", hint="lower pairs.held_out or add pairs")
        self._number_sentences()
        self.tokens: TokenStore = student.tokenise(self.texts)
        self.teacher_vectors = self._teach(Path(cache) if cache is not None else None)
        self._activations: Activations | None = None
        self.key = self._key()

    def _number_sentences(self) -> None:
        """Give every distinct sentence a row: sources first, so that teacher vectors share their row numbers."""
        sources = self.bitext.sources()
        row_of = {text: row for row, text in enumerate(dict.fromkeys(sources + self.bitext.column("target")))}
        self.texts, self.sources = list(row_of), len(sources)
        self.row_of = row_of
        train = self.bitext.where(split=TRAIN)
        self.pairs = PairRows(
            np.array([row_of[text] for text in train.column("source")], dtype=np.int64),
            np.array([row_of[text] for text in train.column("target")], dtype=np.int64),
            coded(train, "corpus")[0],
            coded(train, "language")[0],
        )

    def _teach(self, cache: Path | None) -> FloatArray:
        sources = self.texts[: self.sources]
        if cache is None:
            return self.teacher.encode(sources, self.on_progress, "teacher")
        store = VectorCache(cache, self.teacher.fingerprint, self.teacher.dimension)
        return store.embed(sources, self.teacher.encode, self.on_progress, "teacher")[0]

    def _key(self) -> str:
        """Names everything the untouched student's vectors depend on."""
        return content_hash(self.student.fingerprint, self.tokens.ids.tobytes(), self.tokens.offsets.tobytes())[:16]

    @property
    def teacher_is_unit_norm(self) -> bool:
        """Whether the teacher's vectors have length 1; then the student's must too, or the loss fights the scale."""
        lengths = np.linalg.norm(self.teacher_vectors, axis=1)
        return bool(np.abs(lengths - 1).max() < UNIT_NORM_TOLERANCE)

    # ── stages ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def vectors(self, stage: str = "student", rows: IntArray | None = None) -> FloatArray:
        """The student's vectors, as it is now, of every sentence of the pairs (row numbers as in `texts`) or of some."""
        vectors = self.student.vectors_of(self.tokens, rows, self._remembered(), self.on_progress, stage)
        texts = self.texts if rows is None else [self.texts[row] for row in rows]
        refuse_broken(vectors, texts, self.student.name)
        return vectors

    def untouched_vectors(self) -> FloatArray:
        """The student's vectors before anything was changed; kept, since the bridge and the report both need them."""
        return self._kept(f"untouched-{self.key}", lambda: self.vectors("untouched student"))

    def build_bridge(self) -> Bridge:
        """Solve the bridge on the training pairs and make it the student's last layer.

        Every source sentence counts once, and its translations together once: what tells the spaces apart is the number
        of distinct places seen, and twelve views of one place must not outweigh twelve places.
        """
        untouched = self.untouched_vectors()
        solver = BridgeSolver(untouched.shape[1], self.teacher_vectors.shape[1], self.bridge_settings.folds)
        sources = np.unique(self.pairs.source)
        solver.add(untouched[sources], self.teacher_vectors[sources], sources)
        translated = self.pairs.target != self.pairs.source
        rows, source_of = self.pairs.target[translated], self.pairs.source[translated]
        views = np.bincount(source_of, minlength=self.sources)[source_of]
        solver.add(untouched[rows], self.teacher_vectors[source_of], source_of, (1 / views).astype(np.float32))
        bridge = solver.solve(self.bridge_settings.strengths)
        self.student.add_bridge(bridge, normalise=self.teacher_is_unit_norm)
        return bridge

    def train(self) -> TrainingSummary:
        """Distil by the paper's loss from where the student stands, continuing from a checkpoint if there is one."""
        settings = self.training
        if self.student.dimension != self.teacher_vectors.shape[1]:
            raise ModelError(
                f"{self.student.name} gives {self.student.dimension}-d vectors, the teacher {self.teacher_vectors.shape[1]}-d",
                hint="a bridge is needed between them: set bridge.enabled = true",
            )
        if self.teacher_is_unit_norm:
            self.student.add_normalisation()
        total = self.schedule.steps
        stepper = Stepper(self.student, self.split, settings)
        folder = self._checkpoint_folder()
        torch.manual_seed(self.seed)
        first = stepper.resume(folder) if folder else 0
        if first < total:
            self._remembered()  # now, in eval mode: inside a step it would see dropout, and move the random numbers on
        began = time.monotonic()
        loss, seen = float("nan"), 0
        done_pairs = self.schedule.pairs_before(first)
        note = f"continued at step {first} of {total}" if 0 < first < total else ""
        self._report_step(first, total, done_pairs, note or ("reused: training was finished" if first else ""), {})
        saved_at = time.monotonic()
        for step in range(first, total):
            batch = self.schedule.batch_at(step)
            loss = stepper.step(self._loss(batch), rate_at(step, total, settings))
            seen += len(batch.source_at)
            last = step + 1 == total
            if folder and (last or time.monotonic() - saved_at >= settings.checkpoint_seconds):
                stepper.save(folder, step + 1)
                saved_at = time.monotonic()
            values = {"step": step + 1.0, "loss": loss, "learning_rate": rate_at(step, total, settings)}
            shown = values if last or (step + 1) % LOG_EVERY_STEPS == 0 else {}
            self._report_step(step + 1, total, done_pairs + seen, f"loss {loss:.4f}", shown)
        self.student.model.eval()
        stepper.refuse_broken()
        return TrainingSummary(total, total - first, loss, seen / max(time.monotonic() - began, 1e-9))

    def trained_vectors(self, texts: Sequence[str]) -> FloatArray:
        """The student's vectors of `texts` (all from the pairs) after training; kept, so that a second run only measures."""
        rows = np.array([self.row_of[text] for text in texts], dtype=np.int64)
        name = f"trained-{content_hash(self._training_key(), rows.tobytes())[:16]}"
        return self._kept(name, lambda: self.vectors("distilled student", rows))

    def forget_activations(self) -> None:
        """Free the disk that remembered activations take; a later session computes them again if it needs them."""
        self._activations = None
        if self.folder:
            for place in self.folder.glob("activations-*"):
                shutil.rmtree(place, ignore_errors=True)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _remembered(self) -> tuple[SplitBody, Activations] | None:
        if self.split is None or self.folder is None:
            return None
        if self._activations is None:
            place = self.folder / f"activations-{self.key}-{self.split.cut}"
            self._activations = remember(self.split, self.tokens, place, self.on_progress)
        return self.split, self._activations

    @functools.cached_property
    def schedule(self) -> Schedule:
        """The batches of the training, step by step; made when training begins, since millions of pairs take seconds."""
        return Schedule(self.pairs, self.balance, self.seed, self.training.epochs, self.training.batch_pairs)

    def _loss(self, batch: Batch) -> torch.Tensor:
        self.student.model.train(self.training.dropout)
        vectors = self.student.batch(self.tokens, batch.rows, self._remembered())
        teacher = torch.from_numpy(self.teacher_vectors[batch.rows[batch.source_at]]).to(vectors.device)
        return mse(vectors[batch.source_at], vectors[batch.target_at], teacher)

    def _report_step(self, step: int, total: int, pairs: int, note: str, values: dict[str, float]) -> None:
        in_all = self.schedule.pairs
        self.on_progress(Step("distil", in_all if step == total else pairs, in_all, "pairs", note, values))

    def _training_key(self) -> str:
        """Names everything the trained weights depend on."""
        settings = as_dict(self.training) | {"checkpoint_seconds": 0}
        balance = as_dict(self.balance)
        parts = [settings, as_dict(self.bridge_settings), balance, self.seed, len(list(self.student.model))]
        return content_hash(self.key, canonical_json(parts), self.pairs.tobytes(), self.teacher_vectors.tobytes())[:16]

    def _checkpoint_folder(self) -> Path | None:
        if self.folder is None:
            return None
        folder = self.folder / f"checkpoints-{self._training_key()}"
        make_folder(folder)
        return folder

    def _kept(self, name: str, compute: Callable[[], FloatArray]) -> FloatArray:
        """An array from the folder, or computed and put there."""
        if self.folder is None:
            return compute()
        path = self.folder / f"{name}.npy"
        kept = load_array(path)
        if kept is not None:
            stage = name.split("-")[0] + " student"
            self.on_progress(Step(stage, len(kept), len(kept), "sentences", "reused"))
            return np.asarray(kept)
        vectors = compute()
        with replacing(path) as temporary, temporary.open("wb") as handle:
            np.save(handle, vectors)
        return vectors


def distill(
    student: Student,
    teacher: Encoder,
    bitext: Bitext,
    training: TrainingSettings | None = None,
    bridge: BridgeSettings | None = None,
    balance: BalanceSettings | None = None,
    seed: int = 17,
    folder: Path | str | None = None,
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
) -> TrainingSummary:
    """Teach `student` to put the training pairs of `bitext` where `teacher` puts their source sentences.

    Changes the student in place: first the closed-form bridge (unless `bridge.enabled` is off), then the paper's loss.
    `balance` says how much of each corpus and language an epoch holds; without it, every pair is seen once an epoch.
    With `folder`, unfinished work is kept there and taken up again; `cache` keeps the teacher's vectors for other runs.
    """
    session = Distillation(student, teacher, bitext, training, bridge, balance, seed, folder, cache, on_progress)
    if session.bridge_settings.enabled:
        session.build_bridge()
    return session.train()
