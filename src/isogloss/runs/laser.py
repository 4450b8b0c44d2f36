"""LASER from pairs to a saved model (Artetxe & Schwenk 2019): an encoder that was never told what a good vector is.

    read → clean → vocabulary → tokenize → train encoder and decoder → measure → save the encoder

Only what is written of translations teaches it: no teacher, no model to start from. `training/tasks/translate.py` says which
sentence is translated into what, and has the decoder, `models/bilstm.py` the encoder, `models/vocabulary/learn.py` the
vocabulary. Every stage keeps its result in the run's folder: the same command after an interruption goes on from there.
`pipeline` is the same road for a student that follows a teacher.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from isogloss import recipes
from isogloss.amounts import amount
from isogloss.config import Recipe, as_dict, setting
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.store import scan_in_words, scan_of, training_data
from isogloss.errors import DataError, RecipeError
from isogloss.evaluation.alignment import AlignmentEvaluator, Rows
from isogloss.export.folder import save
from isogloss.models.bilstm import BiLstmStudent, EncoderSizes, bilstm_student
from isogloss.models.loading import choose_device
from isogloss.models.vocabulary.learn import KINDS, learn_vocabulary, open_vocabulary, save_vocabulary
from isogloss.progress import OnProgress, Step, silent
from isogloss.recipes import refuse_out_of_range
from isogloss.runs.gathering import gather_source
from isogloss.runs.models import text_blocks
from isogloss.runs.pipeline import RunResult, measured_pairs, pair_counts
from isogloss.runs.record import Metrics, Record, peak_memory_gib
from isogloss.runs.run_folder import METRICS, MODEL, PAIRS, RESULTS, run_folder
from isogloss.storage import WORK, canonical_json, content_hash, make_folder, weights_hash, write_json
from isogloss.training.batches import PairRows
from isogloss.training.dev_split import split_dev
from isogloss.training.pair_dataset import PairDataset
from isogloss.training.schedules import SHAPES
from isogloss.training.tasks.base import TaskSettings, run_tasks
from isogloss.training.tasks.translate import SECOND, Decoder, DecoderSizes, Translation, TranslationDev, examples_of
from isogloss.training.trainer import TrainingSummary
from isogloss.types import PairSource, Report

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

STAGE = "laser"
# What fits a laptop, or minutes on one GPU; `LaserSettings` itself is the paper's.
LAB: dict[str, Any] = {
    "vocabulary": 8_000,
    "embedding": 128,
    "hidden": 256,
    "layers": 2,
    "decoder": 512,
    "epochs": 10,
    "batch": 64,
}
SCALES: dict[str, dict[str, Any]] = {"paper": {}, "lab": LAB}
NOT_HERE = ("balance", "teacher", "student", "bridge", "losses", "training")  # tables of a recipe that say nothing here


@dataclass(frozen=True, slots=True, kw_only=True)
class LaserSettings:
    """What is trained, and how. The defaults are the paper's; where it says nothing, ours (see the sentences)."""

    targets: tuple[str, ...] = setting(
        ("en", "es"), "the two languages that are translated into; one is the pairs' source side"
    )
    vocabulary: int = setting(50_000, "pieces of the vocabulary that all languages share", at_least=16)
    vocabulary_kind: str = setting("bpe", "how it is learnt", one_of=KINDS)
    vocabulary_sentences: int = setting(1_000_000, "sentences of each language it is learnt from (ours)", at_least=1)
    embedding: int = setting(320, "numbers of a piece, in the encoder and in the decoder", at_least=1)
    hidden: int = setting(512, "numbers of the encoder's states each way; vectors have twice as many", at_least=1)
    layers: int = setting(5, "layers of the encoder", at_least=1)
    decoder: int = setting(2048, "numbers of the decoder's state", at_least=1)
    decoder_layers: int = setting(1, "layers of the decoder", at_least=1)
    language: int = setting(32, "numbers that stand for a target language", at_least=1)
    dropout: float = setting(0.1, "share of numbers dropped in training", at_least=0.0, at_most=0.9)
    smoothing: float = setting(
        0.0, "share of probability that words other than the right one should have", at_least=0.0, at_most=0.9
    )
    max_tokens: int = setting(128, "longest sentence, in pieces (ours)", at_least=1)
    epochs: int = setting(17, "times each example is seen", at_least=1)
    steps: int = setting(0, "steps instead of epochs; 0 counts epochs", at_least=0)
    batch: int = setting(4096, "examples in a batch (the paper has 128,000 tokens)", at_least=1)
    learning_rate: float = setting(1e-3, "peak learning rate of Adam", at_least=0.0)
    schedule: str = setting("constant", "how it falls", one_of=SHAPES)
    warmup: float = setting(0.0, "share of the steps over which it rises; 1 or more is a number of steps", at_least=0.0)
    weight_decay: float = setting(0.0, "decay of matrices", at_least=0.0)
    clip_norm: float = setting(5.0, "largest gradient norm (ours); 0 turns clipping off", at_least=0.0)
    precision: str = setting("float32", "what is computed in (ours)", one_of=("float32", "bf16", "auto"))
    dev_pairs: int = setting(
        500, "pairs of each language kept out to choose the best weights by (ours); 0 keeps the last", at_least=0
    )
    dev_share: float = setting(0.05, "largest share of a language's pairs kept out so", at_least=0.0, at_most=0.5)
    dev_checks: int = setting(10, "how often they are measured", at_least=1)
    select: str = setting(
        "retrieval", "what makes weights the best: finding translations, or writing them", one_of=("retrieval", "loss")
    )
    patience: int = setting(0, "stop after this many measurements without a gain; 0 goes on to the end", at_least=0)
    checkpoint_seconds: float = setting(20.0, "time between checkpoints", at_least=0.0)

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_out_of_range(self)
        if len({canonical(one) for one in self.targets}) != 2 or len(self.targets) != 2:
            raise RecipeError(
                f"targets are {', '.join(self.targets) or 'not given'}: there must be two languages",
                hint="with one alone its own sentences would have nothing to be translated into; for example en,es",
            )

    @classmethod
    def at(cls, scale: str = "paper", **given: Any) -> Self:  # noqa: ANN401 - any of its fields
        """The settings of a scale, "paper" or "lab", with those that are given instead."""
        if scale not in SCALES:
            raise RecipeError(f"scale = {scale!r} is not known", hint=f"choose from: {', '.join(SCALES)}")
        return cls(**(SCALES[scale] | given))

    @property
    def encoder_sizes(self) -> EncoderSizes:
        """How large the encoder is."""
        return EncoderSizes(embedding=self.embedding, hidden=self.hidden, layers=self.layers, dropout=self.dropout)

    @property
    def decoder_sizes(self) -> DecoderSizes:
        """How large the decoder is."""
        return DecoderSizes(
            embedding=self.embedding,
            hidden=self.decoder,
            layers=self.decoder_layers,
            language=self.language,
            dropout=self.dropout,
        )

    def for_tasks(self, seed: int) -> TaskSettings:
        """What `run_tasks` is told. Dropout is on in any case: what is dropped is for the sizes to say."""
        shared = ["epochs", "steps", "batch", "learning_rate", "schedule", "warmup", "weight_decay", "clip_norm", "precision"]
        shared += ["dev_checks", "select", "patience", "checkpoint_seconds"]
        return TaskSettings(seed=seed, dropout=True, **{name: getattr(self, name) for name in shared})


def train_laser(
    pairs: Sequence[str],
    out: Path | str,
    settings: LaserSettings | None = None,
    overrides: Sequence[str] = (),
    on_progress: OnProgress = silent,
    fresh: bool = False,
    replace: bool = False,
) -> RunResult:
    """Train LASER on pairs, measure it on held-out ones, and save its encoder to `out`/model.

    `overrides` are `key=value` for the recipe's seed, device, threads, languages, [pairs], [cleaning], [leaks] and
    [evaluation]. Interrupted, the same call continues; `fresh` forgets unfinished work first. A finished model
    of other settings is replaced only with `replace`.
    """
    data = {"name": Path(out).name or "laser", "pairs": {"files": list(pairs)}, "output": {"folder": str(out)}}
    recipe, settings = recipes.parse(data, overrides, "train-laser"), settings or LaserSettings()
    for table in NOT_HERE:
        if getattr(recipe, table) != type(getattr(recipe, table))():
            raise RecipeError(
                f"[{table}] says nothing about LASER", hint="sizes and training are settings of their own: --help"
            )
    choose_device(recipe.device)  # before the text is read, not after
    folder = Path(out)
    with run_folder(folder, {"recipe": as_dict(recipe), "laser": as_dict(settings)}, fresh, replace):
        return _run(recipe, settings, folder, on_progress)


def _run(recipe: Recipe, settings: LaserSettings, folder: Path, on_progress: OnProgress) -> RunResult:
    began, work = time.monotonic(), folder / WORK
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    record = Record(folder, {"recipe": as_dict(recipe), "laser": as_dict(settings)})
    tell = Metrics(folder / METRICS, on_progress)
    with record.timed("pairs"):
        pairs, store = gather_source(recipe, folder / PAIRS, tell)
    pivot, second = _targets(pairs, settings)
    questions = AlignmentEvaluator(measured_pairs(pairs, recipe.evaluation), recipe.evaluation.max_candidates)
    with record.timed("vocabulary"):
        tokenizer = _vocabulary(pairs, settings, work, tell)
    student = bilstm_student(tokenizer, settings.encoder_sizes, recipe.name, settings.max_tokens, recipe.seed)
    with record.timed("tokens"):
        data = PairDataset.build(pairs, student.text_tokenizer, work, tell)
    session = _Session(recipe, settings, student, data, pivot, second)
    record.note(hashes={"pairs": store.hash, "data": data.key}, pairs=training_data(store.manifest))
    with record.timed("train"):
        summary = session.train(work, tell)
    with record.timed("measure"):
        report = _measured(questions, student, tell)
    details: dict[str, Any] = {"store": str(store.folder), "leak_scan": scan_of(store.manifest), "pairs": pair_counts(pairs)}
    details |= {"laser": as_dict(settings), "student": session.told(), "training": asdict(summary)}
    with record.timed("save"):
        student.model.to("cpu")
        card = _card(recipe.name, settings, details, (pivot, second), sorted({*pairs.languages, pivot}), report)
        save(student, folder / MODEL, card, training_data(store.manifest))
    details |= {"peak_memory_gib": peak_memory_gib(), "recipe": recipe.name}
    result = RunResult(folder, (report,), time.monotonic() - began, summary, details)
    write_json(folder / RESULTS, result.as_dict())
    record.note(hashes={"weights": weights_hash(folder / MODEL)})
    record.finish()
    return result


def _targets(pairs: PairSource, settings: LaserSettings) -> tuple[str, str]:
    """The language of the pairs' source side, and the other one that is translated into."""
    named, pivot = [canonical(one) for one in settings.targets], pairs.source_language
    if pivot not in named:
        raise RecipeError(
            f"the target languages are {' and '.join(named)}, but the pairs' source side is {pivot}",
            hint=f"one of them must be {pivot}: --targets {pivot},{named[1]}",
        )
    second = named[1 - named.index(pivot)]
    if second not in pairs.languages:
        raise DataError(
            f"there are no pairs of {pivot} and {second}, the second target language; there are: {', '.join(pairs.languages)}",
            hint=f"add some, or name another one: --targets {pivot},{next(iter(pairs.languages), 'XX')}",
        )
    return pivot, second


def _vocabulary(pairs: PairSource, settings: LaserSettings, work: Path, on_progress: OnProgress) -> "PreTrainedTokenizerFast":
    """The vocabulary of the training text: learnt once, then found."""
    wanted = (settings.vocabulary, settings.vocabulary_sentences)
    make_folder(work)
    path = work / f"vocabulary-{content_hash(pairs.hash, settings.vocabulary_kind, *map(str, wanted))[:16]}.json"
    found, note = open_vocabulary(path), "reused"
    if found is None:
        on_progress(Step("vocabulary", 0, settings.vocabulary, "pieces", "learning"))
        found = learn_vocabulary(
            lambda: _texts(pairs, settings.vocabulary_sentences), settings.vocabulary, settings.vocabulary_kind
        )
        save_vocabulary(found, path)
        note = ""
    on_progress(Step("vocabulary", len(found), len(found), "pieces", note))
    return found


def _texts(pairs: PairSource, most: int) -> Iterator[Sequence[str]]:
    """Training text block by block, of each language at most so many sentences."""
    taken: Counter[str] = Counter()
    for language, texts in text_blocks(pairs):
        some = texts[: most - taken[language]]
        taken[language] += len(some)
        yield some


class _Session:
    """The encoder and the decoder over one set of examples."""

    def __init__(
        self, recipe: Recipe, settings: LaserSettings, student: BiLstmStudent, data: PairDataset, pivot: str, second: str
    ) -> None:
        self.settings, self.seed, self.student, self.data = settings, recipe.seed, student, data
        self.languages = pivot, second
        trained, held = self._without_dev()
        examples = examples_of(trained, data.languages, pivot, second)
        if not (examples.language == SECOND).any():
            raise DataError(
                f"no pair of {pivot} and {second} is left to train on",
                hint="add pairs, or lower pairs.held_out and --dev-pairs",
            )
        device = choose_device(recipe.device)
        student.model.to(device)
        padding, end = data.tokens.pad_id, int(student.tokenizer.eos_token_id)
        self.decoder = Decoder(len(student.table), student.dimension, 2, padding, settings.decoder_sizes, recipe.seed + 1).to(
            device
        )
        self.task = Translation(student, self.decoder, data.tokens, examples, end, settings.smoothing)
        self.dev = None
        if held is not None:
            self.dev = TranslationDev(self.task, held, examples_of(held, data.languages, pivot, second))

    def _without_dev(self) -> tuple[PairRows, PairRows | None]:
        """The pairs to train on, and those that the best weights are chosen by."""
        pairs, settings = self.data.pairs, self.settings
        keys = self.data.source_keys
        trained, _, held = split_dev(pairs, keys, settings.dev_pairs, settings.dev_share, self.seed)
        if settings.dev_pairs and held is None:
            logger.warning(
                "no language has pairs enough to give %g of them away as dev pairs: the last weights are kept, not the best",
                settings.dev_share,
            )
        return trained, held

    def train(self, work: Path, on_progress: OnProgress) -> TrainingSummary:
        """Train both, going on from a checkpoint if there is one."""
        settings = self.settings
        sizes = [asdict(settings.decoder_sizes), asdict(settings.encoder_sizes), settings.smoothing, *self.languages]
        key = content_hash(self.data.key, canonical_json([*sizes, settings.dev_pairs, settings.dev_share]))
        summary = run_tasks(self.student, [self.task], settings.for_tasks(self.seed), self.dev, work, on_progress, STAGE, key)
        if self.dev is None or summary.best_step:
            return summary
        told = (
            "no step of the training did better on the dev pairs than the untrained encoder, which was kept: train for longer"
        )
        logger.warning("%s", told)
        return replace(summary, setback=told)

    def told(self) -> dict[str, Any]:
        """What there is to know of it."""
        counts = np.bincount(self.task.examples.language, minlength=2).tolist()
        sizes = {
            name: sum(one.numel() for one in module.parameters())
            for name, module in (("encoder", self.student.model), ("decoder", self.decoder))
        }
        return {
            "dimension": self.student.dimension,
            "vocabulary": len(self.student.table),
            "parameters": sizes,
            "examples": dict(zip(self.languages, counts, strict=True)),
            "dev_pairs": 0 if self.dev is None else len(self.dev),
        }


def _measured(questions: AlignmentEvaluator, student: BiLstmStudent, on_progress: OnProgress) -> Report:
    texts = questions.texts()
    vectors = student.encode(texts, on_progress, "trained student")
    return questions.ask("laser", Rows({text: row for row, text in enumerate(texts)}, vectors), None)


def _card(
    title: str,
    settings: LaserSettings,
    details: dict[str, Any],
    targets: tuple[str, str],
    languages: Sequence[str],
    report: Report,
) -> str:
    """What it is, how it came about, and what was measured."""
    examples, average = details["student"]["examples"], report.average()
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "language:",
        *(f'- "{language}"' for language in languages),
        "tags: [sentence-transformers, multilingual, laser, isogloss]",
        "---",
        "",
        f"# {title}",
        "",
        f"An encoder as in LASER (Artetxe & Schwenk 2019), trained with isogloss from nothing: {settings.layers} BiLSTM"
        f" layers of {settings.hidden} each way, max-pooled to dimension {details['student']['dimension']}, over"
        f" {details['student']['vocabulary']:,} {settings.vocabulary_kind} pieces, for {', '.join(languages)}.",
        f"It learnt by translating: {amount(examples[targets[0]], 'example')} into {targets[0]}, {examples[targets[1]]:,} into"
        f" {targets[1]} ({scan_in_words(details['leak_scan'])}). The decoder is not part of it.",
        "",
        f"Held-out sentences, searched among {report.candidates}: {100 * average.to_source:.1f} % of translations find their"
        f" source, {100 * average.from_source:.1f} % of sources their translation, as a mean over languages.",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        'model = SentenceTransformer("path/to/this/folder")',
        "```",
    ]
    return "\n".join(lines) + "\n"
