"""Preflight checks: find problems before training starts.

`examine_machine` checks versions, devices, memory and disk. `examine_recipe` reads the data, loads the models and checks norms,
dimensions, pooling and prompts, the settings of each stage, and for each language the number of pairs and how the student's
vocabulary splits its text.
"""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from isogloss.amounts import amount, size
from isogloss.config import Recipe
from isogloss.config.stages import TrainedStage
from isogloss.corpora.reading.languages import canonical
from isogloss.errors import IsoglossError
from isogloss.models.encoder import Encoder, SentenceEncoder
from isogloss.models.frozen_layers import SplitBody
from isogloss.models.loading import choose_device
from isogloss.models.student import Student
from isogloss.models.vector_cache import refuse_unwritable
from isogloss.models.vocabulary.coverage import UNSPACED
from isogloss.runs.clean import size_of
from isogloss.runs.gathering import gather_pairs
from isogloss.runs.models import open_models, training_text_blocks
from isogloss.runs.record import memory_gib, processor_name, versions
from isogloss.runs.run import vector_folder
from isogloss.runs.stages.data import StageData
from isogloss.runs.trackers import refuse_missing_trackers
from isogloss.storage import cache_folder
from isogloss.training.batches import PairRows, Schedule
from isogloss.training.engines.choose import ignored_settings, refuse_misfits
from isogloss.training.health import Diagnosis
from isogloss.training.schedules import unfinished_warmup
from isogloss.types import TEST, TRAIN, Bitext

Verdict = Literal["good", "note", "bad"]
SEVERITY: tuple[Verdict, ...] = ("good", "note", "bad")

SAMPLE = 200  # sentences per language
DISTILL_ONLY = ("batch_tokens", "train_layers")  # keys of [training]
FEW_TRAINING_PAIRS, FEW_HELD_OUT = 100, 20  # per language
MANY_UNKNOWN, MANY_TRUNCATED = 0.01, 0.05  # shares
MANY_TOKENS_PER_WORD = 4.0
MANY_TOKENS_PER_CHARACTER = 1.5
FEW_GIB = 4.0
RUN_GIB = 2.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its subject, what was found, and what to change if it is not good."""

    about: str
    verdict: Verdict
    text: str
    advice: str = ""


def examine_machine(folder: Path = Path()) -> list[Finding]:
    """Versions, processor, accelerator, memory and free disk."""
    import torch

    found = versions()
    listed = ", ".join(f"{name} {number}" for name, number in found.items())
    missing = [name for name, number in found.items() if number == "not installed"]
    cores = f"{processor_name()}, {amount(os.cpu_count() or 1, 'core')}, torch uses {torch.get_num_threads()}"
    device, memory = choose_device("auto"), memory_gib()
    accelerator = torch.cuda.get_device_name() if device == "cuda" else device
    slow = "" if device != "cpu" else "no accelerator: fine for the quickstart; train_layers keeps larger runs short"
    scarce = "" if memory is None or memory >= FEW_GIB else "the quickstart needs up to 4 GiB: close other programs"
    return [
        Finding("versions", "bad" if missing else "good", listed, f"pip install {' '.join(missing)}" if missing else ""),
        Finding("processor", "good", cores),
        Finding("device", "note" if slow else "good", accelerator, slow),
        Finding("memory", "note" if scarce else "good", "unknown" if memory is None else f"{memory:.1f} GiB", scarce),
        _disk(folder),
        _cache(cache_folder()),
    ]


def examine_recipe(recipe: Recipe) -> list[Finding]:
    """Everything about a recipe that can be known before training: data, models, how they fit, each language."""
    findings = [_disk(Path(recipe.output.folder)), *([_cache(vector_folder(recipe))] if recipe.teacher.model else [])]
    try:
        refuse_missing_trackers(recipe.training.trackers)
    except IsoglossError as error:
        findings.append(Finding("trackers", "bad", error.message, error.hint))
    bitext, about = None, "pairs"
    try:
        if recipe.needs_pairs:
            bitext = gather_pairs(recipe).bitext
            findings.append(_pairs(bitext))
        about = "training data"
        data = StageData.read(recipe)
        if data.content:
            rows = ", ".join(f"{amount(count, 'row')} for {name}" for name, count in data.counts().items())
            findings.append(Finding(about, "good", rows))
        about = "models"
        teacher, student, _ = open_models(recipe, bitext, data)
    except IsoglossError as error:
        return [*findings, Finding(about, "bad", error.message, error.hint)]
    if bitext is None:
        return [*findings, _student(student, recipe, None)]
    findings.append(_teacher(teacher, bitext.sources()[:SAMPLE], recipe))
    if findings[-1].verdict == "bad":
        return findings
    wanted = None if teacher is None else teacher.dimension
    findings.append(_student(student, recipe, wanted))
    return [*findings, *_settings(student, recipe, bitext, wanted), *_languages(student, bitext, recipe)]


def distillations(recipe: Recipe) -> dict[str, Recipe]:
    """For each distill stage the recipe with that stage's own training and losses, and with a bridge if one comes before."""
    if not recipe.stage:
        return {"": recipe}
    found, bridged = {}, False
    for stage in recipe.stages:
        bridged = bridged or stage.task == "bridge"
        if stage.task == "distill":
            found[stage.name] = recipe.of_stage(stage, bridged)
    return found


def _settings(student: Student, recipe: Recipe, bitext: Bitext, wanted: int | None) -> list[Finding]:
    """Settings without an effect, stage by stage."""
    notes: list[tuple[str, Diagnosis | None]] = []
    trained = distillations(recipe)
    for name, own in trained.items():
        notes += [(name, note) for note in ignored_settings(student.dimension, wanted, own)]
    ranked = [stage for stage in recipe.stages if stage.task in ("rank", "tlm", "translate")]
    trained |= {stage.name: recipe.replace(training=recipe.training_of(stage)) for stage in ranked}
    notes += [(name, unfinished_warmup(own.training.warmup, most_steps(bitext, own))) for name, own in trained.items()]
    for stage in recipe.stages:
        if isinstance(stage, TrainedStage) and stage.task != "distill":
            idle = [f"training.{name}" for name in DISTILL_ONLY if name in stage.training.given()]
            notes += [(stage.name, Diagnosis(f"{name} is for distill stages", "leave it out")) for name in idle]
    return [Finding(f"stage {name}" if name else "settings", "note", note.sentence, note.hint) for name, note in notes if note]


def _disk(folder: Path) -> Finding:
    """Free space where `folder` is, or will be."""
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(existing).free / 2**30
    advice = "" if free >= RUN_GIB else f"a run needs about {RUN_GIB:.0f} GiB: free some, or set output.folder"
    about = "disk" if folder == Path() else "disk of the run"
    return Finding(about, "bad" if advice else "good", f"{free:.1f} GiB free", advice)


def _cache(folder: Path) -> Finding:
    """Whether the cache can be written, and its size: it grows with every teacher and corpus."""
    try:
        refuse_unwritable(folder)
    except IsoglossError as error:
        return Finding("cache", "bad", error.message, error.hint)
    return Finding("cache", "good", f"{size(size_of(folder))} in {folder}; isogloss clean --cache makes room")


def _pairs(bitext: Bitext) -> Finding:
    train, test = bitext.where(split=TRAIN), bitext.where(split=TEST)
    learnt = set(bitext.languages) - {bitext.source_language}
    text = f"{amount(len(train), 'pair')} to train on, {len(test):,} held out, {amount(len(learnt), 'language')}"
    if not len(train):
        return Finding("pairs", "bad", text, "nothing is left to train on: lower pairs.held_out")
    if not len(test):
        return Finding("pairs", "bad", text, "nothing is held out to measure on: raise pairs.held_out")
    return Finding("pairs", "good", text)


def most_steps(bitext: Bitext, recipe: Recipe) -> int:
    """The maximum number of training steps: without dev pairs, and with one pair per batch if batches are counted in tokens."""
    table, settings = bitext.where(split=TRAIN).table, recipe.training
    columns = [table.column(name).combine_chunks().dictionary_encode() for name in ("source", "corpus", "language")]
    source, corpus, language = (one.indices.to_numpy(zero_copy_only=False).astype(np.int64) for one in columns)
    rows = PairRows(source, source, corpus, language)
    batch = 1 if settings.batch_tokens else settings.batch_pairs
    if settings.steps or not len(source):
        return settings.steps if len(source) else 0
    return Schedule(rows, recipe.balance, recipe.seed, settings.epochs, batch).steps


def _teacher(teacher: Encoder | None, sample: Sequence[str], recipe: Recipe) -> Finding:
    if teacher is None:
        return Finding("teacher", "good", "none, and no loss needs one")
    try:
        lengths = np.linalg.norm(teacher.encode(sample), axis=1)
    except IsoglossError as error:
        return Finding("teacher", "bad", error.message, error.hint)
    unit = bool(np.abs(lengths - 1).max() < 1e-2)
    norms = "unit-norm" if unit else f"norms {lengths.min():.2f} to {lengths.max():.2f}"
    text, advice = f"{recipe.teacher.model}: {teacher.dimension}-d, {norms}", ""
    if isinstance(teacher, SentenceEncoder):
        modes = [str(module.pooling_mode) for module in teacher.model if hasattr(module, "pooling_mode")]
        text += f", {modes[0]} pooling" if modes else ", no pooling layer"
        named = ", ".join(f"{name} = {prompt!r}" for name, prompt in teacher.model.prompts.items() if prompt)
        if named and not recipe.teacher.prompt:
            advice = f"it was trained with prompts ({named}): set teacher.prompt to the one your index uses"
    return Finding("teacher", "note" if advice else "good", text, advice)


def _student(student: Student, recipe: Recipe, wanted: int | None) -> Finding:
    text = f"{recipe.student.model}: {student.dimension}-d, {student.pooling} pooling"
    if student.trimming:
        text += f", vocabulary {student.trimming.rows_before:,} → {student.trimming.rows_after:,} rows"
    for name, own in distillations(recipe).items():
        try:
            if own.training.train_layers:
                SplitBody(student.body, own.training.train_layers)
            refuse_misfits(student, wanted, own)
        except IsoglossError as error:
            return Finding("student", "bad", f"stage {name}: {error.message}" if name else error.message, error.hint)
    advice = "" if student.pooling in ("mean", "cls") else "mean pooling is what the papers use"
    return Finding("student", "note" if advice else "good", text, advice)


def _languages(student: Student, bitext: Bitext, recipe: Recipe) -> list[Finding]:
    """For each language the number of pairs, and how the student's vocabulary splits its text."""
    texts: dict[str, list[str]] = {language: [] for language in (*map(canonical, recipe.languages), *bitext.languages)}
    for language, some in training_text_blocks(bitext):
        sample = texts.setdefault(language, [])
        sample += some[: SAMPLE - len(sample)]
    pairs = Counter(zip(bitext.column("language"), bitext.column("split"), strict=True))
    findings = []
    for language, sample in sorted(texts.items()):
        parts = [] if language == bitext.source_language else [_counted(pairs[language, TRAIN], pairs[language, TEST])]
        parts += [_tokenized(student, language, sample)] if sample else []
        if parts:
            verdicts, found, advice = zip(*parts, strict=True)
            worst = max(verdicts, key=SEVERITY.index)
            findings.append(Finding(language, worst, "; ".join(found), "; ".join(filter(None, advice))))
    return findings


def _counted(train: int, test: int) -> tuple[Verdict, str, str]:
    """A verdict on the number of pairs of a language, the numbers, and advice."""
    text = f"{train:,} to train on, {test:,} held out"
    if not train:
        return "bad", text, "there is nothing to learn it from: find pairs, or leave the language out"
    if not test:
        return "note", text, "it is not measured: raise pairs.held_out, or find more pairs"
    if train < FEW_TRAINING_PAIRS:
        return "note", text, "few pairs to learn from: expect a weaker result, or find more"
    if test < FEW_HELD_OUT:
        return "note", text, "few held-out pairs: its scores will be rough"
    return "good", text, ""


def _tokenized(student: Student, language: str, texts: Sequence[str]) -> tuple[Verdict, str, str]:
    """A verdict on how the vocabulary splits text, the numbers, and advice."""
    tokens, tokenizer = student.tokenize(texts), student.tokenizer
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    counted = tokens.ids[~np.isin(tokens.ids, list(special))]
    unknown = float((counted == tokenizer.unk_token_id).mean()) if len(counted) else 1.0
    unspaced = language.split("-")[0] in UNSPACED
    unit, many = ("character", MANY_TOKENS_PER_CHARACTER) if unspaced else ("word", MANY_TOKENS_PER_WORD)
    per_unit = len(counted) / max(sum(len(text) if unspaced else len(text.split()) for text in texts), 1)
    truncated = float((tokens.lengths >= student.text_tokenizer.max_tokens).mean())
    text = f"{per_unit:.2f} tokens per {unit}, {100 * unknown:.2f} % unknown, {100 * truncated:.1f} % truncated"
    if unknown > MANY_UNKNOWN:
        return "bad", text, "the student's vocabulary does not know this script: choose another student"
    if per_unit > many:
        return "note", text, "words are split into many pieces: choose another student for a better result"
    if truncated > MANY_TRUNCATED:
        return "note", text, "many sentences are truncated: raise student.max_tokens"
    return "good", text, ""
