"""Distillation: train a student on pairs so that it ends up in the teacher's space.

`distill` does everything in one call. `Distillation` is the same as a session, for callers that measure between the stages:
vectors of the untouched student, then `build_bridge`, then `train`. Everything it computes is stored in its folder under a name
made from its inputs, so the next session resumes where this one was killed. Losses that use no teacher (`ranking`, `spread`)
are trained without one.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isogloss.config import Recipe, as_dict
from isogloss.config.sections import SAME_SPACE_LOSSES
from isogloss.corpora.reading.readers import pairs_of
from isogloss.corpora.sampling.sharded import SHARD
from isogloss.corpora.sampling.translations import surplus
from isogloss.errors import ModelError
from isogloss.memory import release_memory
from isogloss.models.bridge import Bridge, BridgeSolver
from isogloss.models.encoder import Encoder, SentenceEncoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.frozen_layers import Activations, SplitBody, remember
from isogloss.models.student import Student
from isogloss.models.tokenizer_checks import refuse_unknown_text
from isogloss.models.vector_cache import Float16Rows, VectorCache
from isogloss.progress import OnProgress, silent
from isogloss.storage import canonical_json, content_hash
from isogloss.training import checkpoints
from isogloss.training.batches import PairRows, Schedule
from isogloss.training.data.chunked_vectors import vectors_in_parts
from isogloss.training.data.pair_dataset import PairDataset
from isogloss.training.data.teacher_vectors import teacher_rows
from isogloss.training.data.work_files import Kept, kept_array
from isogloss.training.dev_set import DevSet, MeasuredBy
from isogloss.training.dev_split import split_dev
from isogloss.training.distributed import Distributed
from isogloss.training.engines.choose import (
    ignored_settings,
    needs_teacher_vectors,
    refuse_misfits,
    uses_fixed_teacher,
    why_not_recorded,
)
from isogloss.training.engines.eager import EngineConfig
from isogloss.training.engines.precision import input_dtype
from isogloss.training.hard_negatives import mine_negatives
from isogloss.training.health import Diagnosis
from isogloss.training.schedules import unfinished_warmup
from isogloss.training.tasks.distill import TrainingInputs, distill_task
from isogloss.training.train import fit
from isogloss.training.trainer import Callback, TrainingSummary
from isogloss.types import FloatArray, IntArray, PairSource

logger = logging.getLogger(__name__)

UNIT_NORM_TOLERANCE = 1e-2
NORMS_CHECKED = 10_000
OFTEN = 8  # with this many times the pairs that are wanted, drawing the same one twice is rare
BRIDGE_BATCH = 20_000  # rows


class Distillation:
    """One student, one teacher or none, and one set of pairs."""

    def __init__(
        self,
        student: Student,
        teacher: Encoder | None,
        pairs: PairSource,
        recipe: Recipe | None = None,
        folder: Path | str | None = None,
        cache: Path | str | None = None,
        on_progress: OnProgress = silent,
    ) -> None:
        self.student, self.teacher, self.recipe = student, teacher, recipe or Recipe()
        self.folder, self.on_progress = Path(folder) if folder is not None else None, on_progress
        self.training, self.distributed = self.recipe.training, Distributed.here()
        self.split = SplitBody(student.body, self.training.train_layers) if self.training.train_layers else None
        self.dtype = input_dtype(student, self.training)
        wanted = None if teacher is None else teacher.dimension
        refuse_misfits(student, wanted, self.recipe)
        self._warn(*ignored_settings(student.dimension, wanted, self.recipe))
        with self.distributed.main_process_first():
            self.data = PairDataset.build(pairs, student.text_tokenizer, self.folder, on_progress)
            refuse_unknown_text(self.data.tokens, student.tokenizer, student.name)
            self._teacher_rows: Float16Rows | None = None
            if teacher is not None and needs_teacher_vectors(self.recipe):
                quick = teacher.for_training() if isinstance(teacher, SentenceEncoder) else teacher
                kept = VectorCache(Path(cache), quick.fingerprint, teacher.dimension) if cache is not None else None
                self._teacher_rows = teacher_rows(quick, self.data, kept, self.folder, on_progress)
        self._activations: Activations | None = None
        half = ["bf16"] if self.dtype == torch.bfloat16 else []
        self.key = content_hash(student.fingerprint, self.data.key, *half)[:16]
        self.pairs, self.left_out, self.dev = self._split_dev()

    def _split_dev(self) -> tuple[PairRows, IntArray, PairRows | None]:
        """The pairs to train on, those of them that are left out, and the dev pairs.

        Many pairs stay mapped from disk; with mined negatives, which are numbers of trained pairs, they are copied.
        """
        pairs, settings = self.data.pairs, self.training
        wanted = settings.dev_pairs if settings.epochs else 0
        in_place = len(pairs) > SHARD and not self.recipe.losses.hard_negatives
        split = split_dev(pairs, self.data.source_keys, wanted, settings.dev_share, self.recipe.seed, in_place)
        if wanted and split[2] is None:
            idle = f", and training.patience = {settings.patience} never ends training" if settings.patience else ""
            sentence = (
                f"no language has enough pairs to hold out training.dev_share = {settings.dev_share:g} of them as dev pairs:"
            )
            hint = "raise training.dev_share, add pairs, or set training.dev_pairs = 0"
            self._warn(Diagnosis(f"{sentence} the last weights are kept, not the best{idle}", hint))
        return split

    @property
    def teacher_rows(self) -> Float16Rows:
        """The teacher's vectors of the source sentences, if the bridge or a loss uses them."""
        if self._teacher_rows is None:
            raise ModelError(
                "there are no teacher vectors: nothing in the recipe of this session uses them",
                hint="set bridge.enabled = true or losses.mse in it, and name a teacher",
            )
        return self._teacher_rows

    @functools.cached_property
    def teacher_is_unit_norm(self) -> bool:
        """Whether the teacher's vectors have length 1; then the student's must have it, too."""
        some = np.linspace(0, len(self.teacher_rows) - 1, min(len(self.teacher_rows), NORMS_CHECKED)).astype(np.int64)
        lengths = np.linalg.norm(self.teacher_rows[some].astype(np.float32), axis=1)
        return bool(np.abs(lengths - 1).max() < UNIT_NORM_TOLERANCE)

    # ── the untouched student and the bridge ────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def _bridge_pairs(self) -> PairRows:
        """The pairs that the bridge is solved from: all, or a random sample of `bridge.max_pairs`."""
        most, count, random = self.recipe.bridge.max_pairs, len(self.pairs), np.random.default_rng(self.recipe.seed)
        if count <= SHARD or count <= OFTEN * most:
            trained = np.delete(np.arange(count), self.left_out)
            if len(trained) > most:
                return self.pairs.where(np.sort(random.choice(trained, most, replace=False)))
            return self.pairs.where(trained) if len(self.left_out) else self.pairs
        # Drawing without replacement would take memory for all pairs: draw more than are wanted and drop duplicates.
        drawn = np.setdiff1d(random.integers(0, count, OFTEN // 2 * most), self.left_out)
        return self.pairs.where(np.sort(random.choice(drawn, min(most, len(drawn)), replace=False)))

    @functools.cached_property
    def _bridge_rows(self) -> IntArray:
        return np.unique(np.concatenate([self._bridge_pairs.source, self._bridge_pairs.target]))

    @functools.cached_property
    def _untouched(self) -> FloatArray:
        """The untouched student's vectors of the sentences that the bridge is solved from."""
        name = f"untouched-{content_hash(self.key, self._bridge_rows.tobytes())[:16]}"
        return self._kept(name, lambda: self._vectors(self._bridge_rows, "untouched student"))

    def untouched_vectors(self, texts: Sequence[str]) -> FloatArray:
        """The student's vectors of `texts` before anything was changed; those of the bridge's sentences are reused."""
        # `_untouched` first: `main_process_first` cannot be nested.
        known = (self._bridge_rows, self._untouched) if self.recipe.bridge.enabled else None
        name = f"untouched-texts-{content_hash(self.key, *texts)[:16]}"
        return self._kept(name, lambda: self._vectors_of(texts, "untouched student", known))

    def build_bridge(self) -> Bridge:
        """Solve the bridge on the training pairs and make it the student's last layer.

        Every source sentence counts once, and its translations together once: twelve translations of one sentence say less
        about the two spaces than twelve sentences.
        """
        pairs, rows, untouched = self._bridge_pairs, self._bridge_rows, self._untouched
        solver = BridgeSolver(untouched.shape[1], self.teacher_rows.shape[1], self.recipe.bridge.folds)

        def add(sentences: IntArray, sources: IntArray, weight: FloatArray | None = None) -> None:
            for start in range(0, len(sentences), BRIDGE_BATCH):
                part = slice(start, start + BRIDGE_BATCH)
                student = untouched[np.searchsorted(rows, sentences[part])]
                teacher = self.teacher_rows[sources[part]].astype(np.float32)
                solver.add(student, teacher, sources[part], None if weight is None else weight[part])

        sources = np.unique(pairs.source)
        add(sources, sources)
        translated = pairs.target != pairs.source
        targets, source_of = np.asarray(pairs.target[translated]), np.asarray(pairs.source[translated])
        _, place, views = np.unique(source_of, return_inverse=True, return_counts=True)
        add(targets, source_of, (1 / views[place]).astype(np.float32))
        bridge = solver.solve(self.recipe.bridge.strengths)
        self.student.add_bridge(bridge, normalize=self.teacher_is_unit_norm)
        return bridge

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def train(self, stage: str = "", callbacks: Sequence[Callback] = ()) -> TrainingSummary:
        """Train the student by the recipe's losses, resuming from a checkpoint if there is one."""
        release_memory()
        settings, teacher = self.training, self._teacher_for_losses()
        schedule = self._schedule()
        self._warn(unfinished_warmup(settings.warmup, schedule.steps))
        inputs = TrainingInputs(self.data.tokens, self.pairs, teacher, self._negatives(), self._bank())
        task = distill_task(self.student, inputs, self.recipe.losses, schedule.steps)
        remembered, dev = functools.cache(self._remembered_in_turn), None
        if self.dev is not None:
            comparable = teacher if teacher is not None and teacher.shape[1] == self.student.dimension else None
            measured = DevSet(self.dev, comparable)
            dev = MeasuredBy(measured, lambda rows: self.student.vectors_of(self.data.tokens, rows, remembered()))
        config = EngineConfig.of(
            settings,
            self.student,
            split=self.split,
            remembered=remembered,
            batch_sizes=[settings.batch_pairs],
            not_recorded=why_not_recorded(settings, self.recipe.losses.moving_teacher),
        )
        return fit(
            self.student,
            [task],
            schedule,
            settings,
            config,
            self.recipe.seed,
            folder=self.folder,
            key=self._training_key(),
            learned_from=self._settings(),
            dev=dev,
            on_progress=self.on_progress,
            stage=stage or ("train" if self.teacher is None else "distill"),
            callbacks=callbacks,
            has_teacher=self.teacher is not None,
        )

    def _teacher_for_losses(self) -> NDArray[np.float16] | None:
        """The teacher's vectors, if a loss uses them; the student then has vectors of the same kind.

        Without a teacher, vectors have length 1, as those of `train-dual`.
        """
        if self.teacher is None:
            self.student.add_normalization()
            return None
        if not uses_fixed_teacher(self.recipe.losses):
            return None
        same_space = any(name in self.recipe.losses.weights for name in SAME_SPACE_LOSSES)
        if same_space and self.student.dimension != self.teacher_rows.shape[1]:
            raise ModelError(
                f"{self.student.name} gives {self.student.dimension}-d vectors, the teacher {self.teacher_rows.shape[1]}-d",
                hint="a bridge is needed between them: set bridge.enabled = true",
            )
        if self.teacher_is_unit_norm:
            self.student.add_normalization()
        return self.teacher_rows

    def _schedule(self) -> Schedule:
        settings, pairs, lengths_of = self.training, self.pairs, self.data.tokens.lengths_of

        def tokens_of(chosen: IntArray) -> IntArray:
            return lengths_of(pairs.source[chosen]) + lengths_of(pairs.target[chosen])

        sizes, left_out = (settings.epochs, settings.batch_pairs, settings.batch_tokens), self.left_out
        if most := self.recipe.balance.max_translations:
            trained = np.delete(np.arange(len(pairs)), left_out)
            left_out = np.union1d(left_out, trained[surplus(pairs.source[trained], most, self.recipe.seed)])
        return Schedule(pairs, self.recipe.balance, self.recipe.seed, *sizes, tokens_of, left_out, SHARD)

    def _bank(self) -> FloatArray | None:
        """Teacher vectors of training sources for `bank_similarity`: all, or a random sample of `losses.bank_size`."""
        if not self.recipe.losses.bank_similarity:
            return None
        rows, most = np.unique(self._bridge_pairs.source), self.recipe.losses.bank_size
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(self.recipe.seed).choice(rows, most, replace=False))
        return self.teacher_rows[rows].astype(np.float32)

    def _negatives(self) -> IntArray | None:
        wanted, seed = self.recipe.losses.hard_negatives, self.recipe.seed
        if not wanted:
            return None

        def mine() -> IntArray:
            return mine_negatives(self.pairs, lambda rows: self._vectors(rows, "negatives"), wanted, seed)

        return self._kept(f"negatives-{self._training_key()}", mine)

    def trained_vectors(self, texts: Sequence[str]) -> FloatArray:
        """The student's vectors of `texts` after training; kept, so that a second run only measures."""
        name = f"trained-{content_hash(self.student.fingerprint, *texts)[:16]}"
        return self._kept(name, lambda: self._vectors_of(texts, "distilled student"))

    # ── vectors, keys and files ──────────────────────────────────────────────────────────────────────────────────────

    def _vectors(self, rows: IntArray, stage: str) -> FloatArray:
        """The student's vectors, as it is now, of some training sentences."""
        what = self.student, self.data.tokens, rows, self._remembered()
        return vectors_in_parts(*what, self.folder, self.on_progress, stage, self.dtype)

    def _vectors_of(self, texts: Sequence[str], stage: str, known: tuple[IntArray, FloatArray] | None = None) -> FloatArray:
        """The same for any text: training sentences by their rows (`known` has some already), others by their text."""
        vectors = np.empty((len(texts), self.student.dimension), dtype=np.float32)
        rows = self.data.rows_of(texts)
        missing = np.ones(len(texts), dtype=np.bool_)
        if known is not None:
            missing = ~np.isin(rows, known[0])
            vectors[~missing] = known[1][np.searchsorted(known[0], rows[~missing])]
        trained, new = missing & (rows >= 0), np.flatnonzero(rows < 0)
        if trained.any():
            vectors[trained] = self._vectors(rows[trained], stage)
        if len(new):
            vectors[new] = self.student.encode([texts[place] for place in new.tolist()], self.on_progress, stage)
        return vectors

    def _remembered(self) -> tuple[SplitBody, Activations] | None:
        """The activations of the frozen layers. Computed in eval mode: inside a step they would see dropout."""
        if self.split is None or self.folder is None:
            return None
        if self._activations is None:
            place = self.folder / f"activations-{self.key}-{self.split.cut}"
            self._activations = remember(self.split, self.data.tokens, place, self.on_progress, self.dtype)
        return self.split, self._activations

    def _remembered_in_turn(self) -> tuple[SplitBody, Activations] | None:
        """The same for all processes: the main one computes it, unless it exists."""
        with self.distributed.main_process_first():
            return self._remembered()

    def _settings(self) -> dict[str, Any]:
        """The settings that the trained weights depend on, table by table."""
        others = {name: as_dict(getattr(self.recipe, name)) for name in ("bridge", "balance", "losses")}
        return {"training": checkpoints.learned_from(self.training), **others, "seed": self.recipe.seed}

    def _training_key(self) -> str:
        """Names everything the trained weights depend on."""
        modules = [type(module).__name__ for module in self.student.model]
        drawn = ["in shards"] if len(self.pairs) > SHARD else []  # pairs are drawn in another order then
        settings = canonical_json([*self._settings().values(), modules, *drawn])
        return content_hash(self.key, "" if self.teacher is None else self.teacher.fingerprint, settings)[:16]

    def _warn(self, *found: Diagnosis | None) -> None:
        """Log warnings, from the main process."""
        for diagnosis in found:
            if diagnosis is not None and self.distributed.is_main_process:
                logger.warning("%s", diagnosis)

    def _kept(self, name: str, compute: Callable[[], NDArray[Kept]]) -> NDArray[Kept]:
        """An array from the folder, or computed and stored there."""
        if self.distributed.size > 1 and self.folder is not None:
            self._remembered()  # `main_process_first` cannot be nested
        stage = name.split("-")[0] + " student"
        return kept_array(self.folder, name, compute, self.distributed, self.on_progress, stage)


def distill(
    student: Student,
    teacher: Encoder | str | None,
    pairs: PairSource | Any,  # noqa: ANN401 - whatever `read` takes
    recipe: Recipe | None = None,
    folder: Path | str | None = None,
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
) -> TrainingSummary:
    """Train `student` to embed the training pairs where `teacher` embeds their source sentences.

    Changes the student in place: first the bridge in closed form (unless the recipe turns it off), then training by the
    recipe's losses. `teacher` is an encoder or its name; it may be None if neither uses it, and then embeddings get length 1.
    `pairs` is anything that `read` takes. Of the recipe, bridge, balance, losses, training and seed are used. With `folder`,
    unfinished work is kept there and continued; `cache` keeps the teacher's embeddings for other runs.
    """
    judge = open_encoder(teacher) if isinstance(teacher, str) else teacher
    session = Distillation(student, judge, pairs_of(pairs), recipe, folder, cache, on_progress)
    if session.recipe.bridge.enabled:
        session.build_bridge()
    return session.train()
