"""What `isogloss train-dual` may be told, and what the two papers chose: `settings_of("muse", {...})`.

    labse   translations alone, margin 0.3, the first token's state at length 1        Feng et al. 2022
    muse    translations with hard negatives, inference, answers; mean of states       Chidambaram et al. 2019, Yang et al. 2020

What is given beside a paper's name replaces its choice, but for the tasks: those are what the name means. `with_recipe` also
takes `--set`, for settings and for the tables of a recipe by which text is read, cleaned and asked about.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import model_validator

from isogloss.amounts import amount
from isogloss.config import Device, Pooling, Recipe, Settings, Trim, setting
from isogloss.errors import RecipeError
from isogloss.recipes import apply_override, parse
from isogloss.training.tasks.rank import TEMPERATURE

HARD_NEGATIVES, ROUNDS = 5, 2
TABLES = ("pairs", "cleaning", "leaks", "evaluation")  # of a recipe: those that say something here
LIKE: dict[str, dict[str, Any]] = {
    "labse": {"margin": 0.3, "pooling": "cls", "normalize": True},
    "muse": {"hard_negatives": HARD_NEGATIVES, "rounds": ROUNDS, "pooling": "mean", "normalize": True},
}


class DualSettings(Settings):
    """One dual encoder: what it learns from, by which tasks, and how long."""

    pairs: tuple[str, ...] = setting(..., "Files, folders or globs of pairs, or prepared stores.")
    like: Literal["", "labse", "muse"] = setting("", "The paper whose choices these are.")
    student: str = setting("multilingual-e5-small", "Hub name or local folder of a multilingual encoder.")
    out: str = setting("runs/dual", "Folder of the run.")
    nli: tuple[str, ...] = setting((), "Files with premise, hypothesis and label: trains NLI beside translations.")
    qa: tuple[str, ...] = setting((), "Files with question and answer: ranks answers beside translations.")
    mlm: tuple[str, ...] = setting((), "Text files with one sentence per line: masked language modeling first.")
    tlm: bool = setting(False, "Translation language modeling on the pairs first.")
    margin: float = setting(0.0, "Cosine by which the right translation must win (LaBSE: 0.3).", at_least=0.0, at_most=2.0)
    temperature: float = setting(TEMPERATURE, "Temperature of ranking translations and answers.", at_least=1e-3)
    hard_negatives: int = setting(0, "Near but wrong translations per pair, found by the round before.", at_least=0)
    rounds: int = setting(1, "Trainings from the same start, each with hard negatives found by the one before.", at_least=1)
    shares: tuple[float, ...] = setting(
        (),
        "Relative numbers of steps for translations, NLI and answers, as far as they are trained; empty: equal.",
    )
    pooling: Pooling = setting("", "How token states become an embedding; empty keeps the student's pooling.")
    normalize: bool = setting(True, "Scale embeddings to length 1.")
    prompt: str = setting("", "Text put before every sentence; saved with the model.")
    max_tokens: int = setting(128, "Longer sentences are truncated.", at_least=4, at_most=8192)
    trim: Trim = setting("off", "Which vocabulary pieces to keep: those the alphabets can spell, those the text uses, or all.")
    languages: tuple[str, ...] = setting((), "Target languages to keep; empty keeps all that the pairs have.")
    language: str = setting("", "Target language of two-column files whose name does not say it.")
    source_language: str = setting("en", "Language of the source side.")
    held_out: float = setting(0.1, "Share of source sentences held out for testing.", at_least=0.0, at_most=0.5)
    max_candidates: int = setting(10_000, "Sentences to search after each stage.", at_least=1)
    on_error: str = setting("fail", 'What to do with malformed lines: "fail", "skip" (counted) or "stop-after N".')
    epochs: int = setting(1, "Epochs of a round.", at_least=1)
    steps: int = setting(0, "Steps of a round (and of mlm, tlm) instead of epochs; 0 counts epochs.", at_least=0)
    batch: int = setting(64, "Examples per batch; the others are the negatives.", at_least=2)
    learning_rate: float = setting(5e-5, "Peak learning rate.", at_least=0.0)
    warmup: float = setting(0.1, "Warmup as a share of the steps; 1 or more is a number of steps.", at_least=0.0)
    dropout: bool = setting(True, "Use the model's dropout in training.")
    pretrain_epochs: int = setting(1, "Epochs of masked language modeling.", at_least=1)
    pretrain_learning_rate: float = setting(5e-5, "Peak learning rate of masked language modeling.", at_least=0.0)
    dev_pairs: int = setting(500, "Pairs per language held out to choose the best weights; 0 keeps the last.", at_least=0)
    dev_share: float = setting(0.05, "Maximum share of a language's pairs held out for that.", at_least=0.0, at_most=0.5)
    dev_checks: int = setting(10, "Number of dev measurements per round.", at_least=1)
    checkpoint_seconds: float = setting(20.0, "Seconds between checkpoints.", at_least=0.0)
    seed: int = setting(17, "The same seed on the same machine gives the same weights.", at_least=0, at_most=2**32 - 1)
    device: Device = setting("auto", "Where it is trained.")

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if not self.pairs:
            raise RecipeError("there are no pairs to train on", hint="isogloss train-dual en-de.tsv --out runs/dual")
        if self.hard_negatives and self.rounds == 1:
            raise RecipeError(
                f"hard_negatives = {self.hard_negatives}, but in one round there is no model before it to find them",
                hint="set rounds = 2 (--rounds 2)",
            )
        if self.rounds > 1 and not self.hard_negatives:
            raise RecipeError(
                f"rounds = {self.rounds}, but without hard negatives each would be the first again",
                hint="set hard_negatives = 5 (--hard-negatives 5)",
            )
        if self.shares and len(self.shares) != len(self.tasks):
            raise RecipeError(
                f"shares has {amount(len(self.shares), 'number')} for {amount(len(self.tasks), 'task')}"
                f" ({', '.join(self.tasks)})",
                hint="one number above 0 for each",
            )
        if self.shares and not all(0 < share < float("inf") for share in self.shares):
            raise RecipeError(f"shares = {list(self.shares)} is out of range", hint="one number above 0 for each task")
        self._refuse_other_tasks()
        return self

    def _refuse_other_tasks(self) -> None:
        if self.like == "labse" and (self.nli or self.qa):
            raise RecipeError(
                "LaBSE has no task beside translations, but files of others are given",
                hint="leave --nli and --qa out, or leave --like out and set margin = 0.3",
            )
        missing = [f"--{name}" for name in ("nli", "qa") if not getattr(self, name)]
        are = "are" if len(missing) > 1 else "is"
        if self.like == "muse" and missing:
            raise RecipeError(
                f"mUSE trains inference and answers beside translations, but {' and '.join(missing)} {are} missing",
                hint="name files for it, or leave --like out and give --hard-negatives 5",
            )

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of a round, by name, in the order of `shares`."""
        return ("translation", *(["nli"] if self.nli else []), *(["answers"] if self.qa else []))


def settings_of(like: str, given: Mapping[str, Any]) -> DualSettings:
    """The settings that are given, over a paper's where one is named; a name that is not known is refused."""
    if like and like not in LIKE:
        raise RecipeError(f"like = {like!r} is not known", hint=f"choose from: {', '.join(LIKE)}")
    known = [name for name in DualSettings.model_fields if name != "like"]
    for name in given:
        if name not in known:
            raise RecipeError(f"train-dual: unknown setting {name}", hint=f"settings are: {', '.join(known)}")
    chosen = {**LIKE.get(like, {}), **given}
    if chosen.get("hard_negatives") and "rounds" not in chosen:
        chosen["rounds"] = ROUNDS
    if isinstance(chosen.get("rounds"), int) and chosen["rounds"] > 1 and "hard_negatives" not in chosen:
        chosen["hard_negatives"] = HARD_NEGATIVES
    return DualSettings(**chosen | {"like": like})


def with_recipe(like: str, given: Mapping[str, Any], overrides: Sequence[str] = ()) -> tuple[DualSettings, Recipe]:
    """The settings, and a recipe of the tables that say something here; `overrides` are `key=value` for either."""
    own, of_tables = dict(given), []
    for override in overrides:
        table, dot, _ = override.partition("=")[0].strip().partition(".")
        if not dot:
            apply_override(own, override)
        elif table in TABLES:
            of_tables.append(override)
        else:
            raise RecipeError(
                f"--set {override}: [{table}] says nothing about a dual encoder",
                hint=f"tables here are {', '.join(f'[{one}]' for one in TABLES)}; all else is set by its name alone",
            )
    settings = settings_of(like, own)
    pairs = {name: getattr(settings, name) for name in ("source_language", "language", "held_out", "on_error")}
    data = {
        "seed": settings.seed,
        "device": settings.device,
        "languages": list(settings.languages),
        "pairs": {"files": list(settings.pairs), **pairs},
        "evaluation": {"max_candidates": settings.max_candidates},
        "output": {"folder": settings.out},
    }
    recipe = parse(data, of_tables, "train-dual")
    same = {name: getattr(recipe.pairs, name) for name in pairs}  # what was set in a table is the setting of that name, too
    return settings.replace(pairs=recipe.pairs.files, max_candidates=recipe.evaluation.max_candidates, **same), recipe
