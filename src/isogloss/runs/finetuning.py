"""The monolingual stage: an encoder becomes a sentence encoder, from pairs that people judged.

    read → NLI → (cross-encoder → near pairs labelled) → STS → save

SBERT (Reimers & Gurevych 2019) from an English body, "XLM-R-nli-stsb" (Ham & Kim 2021, §5.1) from a multilingual one: the
teacher of a distillation, or both of its ends. Each stage is trained by `training.tasks` and kept under a name made from
its inputs, so the same command goes on after an interruption. With a dev set, each stage ends with the weights that were
best on it. `augmenting` finds and labels more pairs; `finetune_settings` is what may be asked for.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.config import as_dict
from isogloss.corpora.reading.labelled import Labelled, read_nli, read_sts
from isogloss.errors import IsoglossError
from isogloss.evaluation.metrics import spearman
from isogloss.evaluation.sts_dev import STSDev
from isogloss.export.card import CardInfo, DataRow, StageScore, model_card
from isogloss.models.encoder import Encoder, load
from isogloss.models.loading import choose_device, open_model
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.augmenting import label, union
from isogloss.runs.finetune_settings import FinetuneSettings
from isogloss.runs.labelled_files import labelled_files
from isogloss.runs.record import Metrics, Record
from isogloss.runs.run_folder import MODEL, RESULTS, run_folder
from isogloss.storage import WORK, content_hash, weights_hash, write_json
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.training.tasks.base import Task, run_tasks
from isogloss.training.tasks.sentence_pairs import NLITask, SentencePairs, STSTask
from isogloss.training.trainer import TrainingSummary

logger = logging.getLogger(__name__)

NLI, STS, CROSS = "NLI", "STS", "cross-encoder"
SPEARMAN = "dev_spearman"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did. Spearman is that on the dev set, before it and with the weights that were kept; None without one."""

    name: str
    examples: int
    training: TrainingSummary
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class FinetuneResult:
    """A fine-tuned model: where it is, what each stage did, and what it was made from."""

    folder: Path
    stages: tuple[Stage, ...]
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        """The saved model: plain `SentenceTransformer(path)` loads it."""
        return self.folder / MODEL

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        stages = [asdict(stage) for stage in self.stages]
        return {"model": str(self.model), "stages": stages, "seconds": round(self.seconds, 2), **self.details}


def finetune(
    settings: FinetuneSettings, on_progress: OnProgress = silent, fresh: bool = False, replace: bool = False
) -> FinetuneResult:
    """Train an encoder on NLI, on STS, or on one after the other, and save it.

    The same call goes on where an earlier one was interrupted; `fresh` forgets unfinished work in the folder first. A
    finished model of other settings is replaced only with `replace`.
    """
    folder = Path(settings.out)
    _refuse_own_folder(folder, settings)
    with run_folder(folder, {"finetuning": as_dict(settings)}, fresh, replace):
        return _Finetuning(settings, folder, on_progress).walk()


def _refuse_own_folder(out: Path, settings: FinetuneSettings) -> None:
    """What it starts from is only read: trained again from its own result, the same command would not be the same."""
    for name in filter(None, (settings.model, settings.cross_encoder, settings.search_by)):
        place = Path(name).expanduser()
        if place.is_dir() and (place.resolve().is_relative_to(out.resolve()) or out.resolve().is_relative_to(place.resolve())):
            raise IsoglossError(f"{out}: {name} is read here, and is never changed", hint="name another --out")


class _Finetuning:
    """One way from an encoder to a sentence encoder."""

    def __init__(self, settings: FinetuneSettings, folder: Path, on_progress: OnProgress) -> None:
        self.settings, self.folder, self.work, self.tell = settings, folder, folder / WORK, on_progress
        self.began = time.monotonic()
        self.stages: list[Stage] = []
        self.record = Record(folder, {"finetuning": as_dict(settings)})

    def walk(self) -> FinetuneResult:
        """Go all the way."""
        settings = self.settings
        with self.record.timed("reading"):
            names = {"nli": settings.nli, "sts": settings.sts, "sts_dev": settings.sts_dev}
            files = {name: labelled_files(some, f"--{name.replace('_', '-')}") for name, some in names.items()}
            nli = read_nli(files["nli"]) if files["nli"] else None
            rated = read_sts(files["sts"]) if files["sts"] else None
            held = read_sts(files["sts_dev"]) if files["sts_dev"] else None
            self.record.note(data=self._data(files, nli, rated, held))
        with self.record.timed("models"):
            self.tell(Step("models", 0, 1, "models", f"loading {settings.model}"))
            model = open_model(settings.model).to(choose_device(settings.device))
            self.student = Student(model, settings.model, settings.prompt, settings.max_tokens)
            self.tell(Step("models", 1, 1, "models"))
        self.dev, self.dev_hash, self.held = None, "", held
        if held is not None:
            pairs = SentencePairs.of(self.student, held.first, held.second)
            self.dev, self.dev_hash = STSDev(self.student, pairs, held.gold), held.hash
        if nli is not None:
            pairs = SentencePairs.of(self.student, nli.first, nli.second)
            self._train(NLI, NLITask(self.student, pairs, nli.labels, settings.seed), nli.hash, settings.nli_epochs)
        if rated is not None:
            trained_on = self._augmented(rated) if settings.augment else rated
            pairs = SentencePairs.of(self.student, trained_on.first, trained_on.second)
            self._train(STS, STSTask(self.student, pairs, trained_on.gold), trained_on.hash, settings.sts_epochs)
        return self._save()

    def _data(
        self, files: Mapping[str, Sequence[str]], nli: Labelled | None, rated: Labelled | None, held: Labelled | None
    ) -> dict[str, Any]:
        """What was read, for the record; dev rows that training shows are counted, and said."""
        told: dict[str, Any] = {
            name: {"files": list(files[name]), "pairs": len(pairs), "without_judgement": pairs.left_out, "hash": pairs.hash}
            for name, pairs in (("nli", nli), ("sts", rated), ("sts_dev", held))
            if pairs is not None
        }
        if held is not None:
            shared = shared_rows(held, [one for one in (nli, rated) if one is not None])
            told["sts_dev"]["shared_with_training"] = shared
            if shared:
                logger.warning(
                    "%s of the %s dev rows share a sentence with training, so dev scores may be too high",
                    f"{shared:,}",
                    f"{len(held):,}",
                )
        return told

    # ── stages ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _train(self, name: str, task: Task, key: str, epochs: int) -> None:
        """One stage, from the weights as they are now."""
        with self.record.timed(name):
            settings = self.settings.training(epochs)
            key = content_hash(name, key, self.dev_hash)
            summary = run_tasks(self.student, [task], settings, self.dev, self.work, self._metrics(name), name, key)
            if self.dev is not None and not summary.best_step:
                logger.warning("%s: no step did better on the dev set than the model before it, which is kept as it was", name)
        before, after = summary.dev_before.get(SPEARMAN), summary.dev.get(SPEARMAN)
        self.stages.append(Stage(name, len(task), summary, before, after))

    def _augmented(self, rated: Labelled) -> Labelled:
        """The rated pairs, and near ones that a cross-encoder rated."""
        settings, name = self.settings, self.settings.cross_encoder or self.settings.model
        with self.record.timed(CROSS):
            scorer = CrossEncoder.open(name, 2 * settings.max_tokens, settings.device, settings.seed)
            summary = None
            if not scorer.trained:
                training = settings.training(settings.cross_epochs or settings.sts_epochs)
                summary = scorer.train(rated.first, rated.second, rated.gold, training, self.work, self._metrics(CROSS))
            correlation = self._agreement(scorer)
            if summary is not None:
                self.stages.append(Stage(CROSS, 2 * len(rated), summary, after=correlation))
        with self.record.timed("labelling"):
            encoder: Encoder = load(settings.search_by, device=settings.device) if settings.search_by else self.student
            silver = label(rated, encoder, scorer, settings.neighbours, self.work, settings.device, self.tell)
        labelled = {
            "pairs": len(silver),
            "neighbours": settings.neighbours,
            "cross_encoder": name,
            "searched_by": settings.search_by or "the model after the stages before",
            "dev_spearman": correlation,
        }
        self.record.note(data={"augmented": labelled})
        return union(rated, silver)

    def _agreement(self, scorer: CrossEncoder) -> float | None:
        """Spearman's correlation of the cross-encoder on the dev set; a warning where its labels can teach nothing new."""
        if self.held is None or self.dev is None:
            return None
        reached = spearman(scorer.score(self.held.first, self.held.second), self.held.gold)
        before = self.dev.score().values()[SPEARMAN]
        if reached <= before:
            logger.warning(
                "the cross-encoder agrees with the dev set less than the model that it is to teach (%.1f and %.1f): give it "
                "--cross-epochs, or a better --cross-encoder",
                100 * reached,
                100 * before,
            )
        return reached

    def _metrics(self, name: str) -> OnProgress:
        """A file of losses for each stage: each counts its own steps."""
        return Metrics(self.folder / f"metrics-{name.lower()}.jsonl", self.tell)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _save(self) -> FinetuneResult:
        details = {"data": self.record.data["data"], "seed": self.settings.seed, "started_from": self.settings.model}
        result = FinetuneResult(self.folder, tuple(self.stages), time.monotonic() - self.began, details)
        with self.record.timed("save"):
            self.student.save_pretrained(result.model, model_card(card_info(self.settings, result), self.student.model))
        write_json(self.folder / RESULTS, result.as_dict())
        self.record.note(hashes={"weights": weights_hash(result.model)}, stages=result.as_dict()["stages"])
        self.record.finish()
        return result


def shared_rows(held: Labelled, trained: list[Labelled]) -> int:
    """Rows of a dev set of which a sentence is trained on, however it is spaced and cased."""
    seen = {_plain(text) for pairs in trained for text in (*pairs.first, *pairs.second)}
    return sum(_plain(one) in seen or _plain(other) in seen for one, other in zip(held.first, held.second, strict=True))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def card_info(settings: FinetuneSettings, result: FinetuneResult) -> CardInfo:
    """What the model card says: what it was trained on, and the dev scores of each stage."""
    data, names = (
        result.details["data"],
        {"nli": "NLI pair", "sts": "rated STS pair", "augmented": "pair rated by a cross-encoder"},
    )
    many = {"augmented": "pairs rated by a cross-encoder"}
    trained_on = [amount(data[key]["pairs"], name, many.get(key, "")) for key, name in names.items() if key in data]
    shared = data.get("sts_dev", {}).get("shared_with_training")
    rows = amount(data["sts_dev"]["pairs"], "dev row") if shared else ""
    return CardInfo(
        name=Path(settings.out).name,
        description=f"`{settings.model}` fine-tuned with isogloss on {', then on '.join(trained_on)} (seed {settings.seed}).",
        base_model=settings.model,
        stages=[
            StageScore(stage.name, stage.examples, stage.before, stage.after)
            for stage in result.stages
            if stage.before is not None and stage.after is not None
        ],
        data=[DataRow(name, data[key]["pairs"]) for key, name in (("nli", "NLI"), ("sts", "STS")) if key in data],
        notes=[f"{shared:,} of {rows} share a sentence with training."] if shared else [],
    )
