"""What `isogloss train-dual` may be told, and what the two papers chose: `settings_of("muse", {...})`.

    labse   translations alone, margin 0.3, the first token's state at length 1        Feng et al. 2022
    muse    translations with hard negatives, inference, answers; mean of states       Chidambaram et al. 2019, Yang et al. 2020

What is given beside a paper's name replaces its choice, but for the tasks: those are what the name means. `with_recipe` also
takes `--set`, for settings and for the tables of a recipe by which text is read, cleaned and asked about.
"""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from isogloss.amounts import amount
from isogloss.config import Recipe, setting
from isogloss.errors import RecipeError
from isogloss.recipes import apply_override, parse, refuse_out_of_range
from isogloss.training.tasks.rank import TEMPERATURE

HARD_NEGATIVES, ROUNDS = 5, 2
TABLES = ("pairs", "cleaning", "leaks", "evaluation")  # of a recipe: those that say something here
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
LIKE: dict[str, dict[str, Any]] = {
    "labse": {"margin": 0.3, "pooling": "cls", "normalize": True},
    "muse": {"hard_negatives": HARD_NEGATIVES, "rounds": ROUNDS, "pooling": "mean", "normalize": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DualSettings:
    """One dual encoder: what it learns from, by which tasks, and how long."""

    pairs: tuple[str, ...]  # files, folders, globs of translations, prepared stores
    like: str = setting("", "whose choices these are", one_of=("", *LIKE))
    student: str = setting("multilingual-e5-small", "hub name or local folder of a multilingual encoder")
    out: str = setting("runs/dual", "the folder of the result")
    nli: tuple[str, ...] = setting((), "files of premise, hypothesis and label: an inference task beside translations")
    qa: tuple[str, ...] = setting((), "files of question and answer: a task that ranks answers")
    mlm: tuple[str, ...] = setting((), "text files, one sentence a line: masked language modelling before all else")
    tlm: bool = setting(False, "the same over the pairs, a sentence with its translation: translation language modelling")
    margin: float = setting(0.0, "cosine by which a translation must win (LaBSE takes 0.3)", at_least=0.0, at_most=2.0)
    temperature: float = setting(TEMPERATURE, "of both rankings", at_least=1e-3)
    hard_negatives: int = setting(0, "near but wrong translations for each pair, by the model of the round before", at_least=0)
    rounds: int = setting(1, "trainings from the same start, each with the negatives that the one before found", at_least=1)
    shares: tuple[float, ...] = setting(
        (),
        "of the steps, for translations, inference and answers as far as they are there; empty: all as often as the first",
    )
    pooling: str = setting(
        "", "how token states become a vector; empty: as the student has it", one_of=("", "mean", "cls", "max")
    )
    normalize: bool = setting(True, "vectors of length 1")
    prompt: str = setting("", "text put before every sentence; it becomes part of the saved model")
    max_tokens: int = setting(128, "longer sentences are cut here", at_least=4, at_most=8192)
    trim: str = setting(
        "off", "vocabulary: all pieces, those the text can spell, or those it uses", one_of=("off", "alphabet", "corpus")
    )
    languages: tuple[str, ...] = setting((), "target languages to keep; empty keeps all that the pairs have")
    language: str = setting("", "target language of two-column files whose name does not tell")
    source_language: str = setting("en", "language of the source side")
    held_out: float = setting(0.1, "share of source sentences kept for testing", at_least=0.0, at_most=0.5)
    max_candidates: int = setting(10_000, "sentences that held-out ones are searched among, after each stage", at_least=1)
    on_error: str = setting("fail", 'what a line of pairs that does not fit does: "fail", "skip" or "stop-after N"')
    epochs: int = setting(1, "times that the pairs are gone through in each round", at_least=1)
    steps: int = setting(0, "steps of a round, and of the stage before them, instead of epochs; 0 counts epochs", at_least=0)
    batch: int = setting(64, "examples in a batch; a translation is told from the others of its batch", at_least=2)
    learning_rate: float = setting(5e-5, "peak learning rate", at_least=0.0)
    warmup: float = setting(0.1, "share of the steps over which it rises; 1 or more is a number of steps", at_least=0.0)
    dropout: bool = setting(True, "use the body's dropout while training")
    pretrain_epochs: int = setting(1, "times that text (or pairs) are gone through in masked language modelling", at_least=1)
    pretrain_learning_rate: float = setting(5e-5, "peak learning rate of that stage", at_least=0.0)
    dev_pairs: int = setting(500, "pairs of each language kept out of training to choose the best weights by", at_least=0)
    dev_share: float = setting(0.05, "largest share of a language's pairs kept out so", at_least=0.0, at_most=0.5)
    dev_checks: int = setting(10, "how often they are measured in a round", at_least=1)
    checkpoint_seconds: float = setting(20.0, "time between checkpoints", at_least=0.0)
    seed: int = setting(17, "the same seed on the same machine gives the same weights", at_least=0, at_most=2**32 - 1)
    device: str = setting("auto", "where it is trained", one_of=("auto", "cpu", "cuda", "mps"))

    def __post_init__(self) -> None:
        """Refuse what is out of range, and what cannot be meant together."""
        refuse_out_of_range(self)
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
            raise RecipeError(f"shares = {list(self.shares)} is impossible", hint="one number above 0 for each task")
        self._refuse_other_tasks()

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
    known, hints = [one.name for one in fields(DualSettings) if one.name != "like"], typing.get_type_hints(DualSettings)
    for name in given:
        if name not in known:
            raise RecipeError(f"train-dual: unknown setting {name}", hint=f"settings are: {', '.join(known)}")
    chosen = {**LIKE.get(like, {}), **{name: _fitting(name, value, hints[name]) for name, value in given.items()}}
    if chosen.get("hard_negatives") and "rounds" not in chosen:
        chosen["rounds"] = ROUNDS
    if chosen.get("rounds", 1) > 1 and "hard_negatives" not in chosen:
        chosen["hard_negatives"] = HARD_NEGATIVES
    return DualSettings(like=like, **chosen)


def _fitting(name: str, value: Any, hint: Any) -> Any:  # noqa: ANN401 - as TOML, `--set` and Python have them
    """A value of its field's type: one thing where there may be several is a list of one, whole numbers are numbers."""
    if typing.get_origin(hint) is tuple:
        several = value if isinstance(value, list | tuple) else [value]
        return tuple(_fitting(name, one, typing.get_args(hint)[0]) for one in several)
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise RecipeError(f"{name} must be {WORDS[hint]}, not {value!r}", hint="isogloss train-dual --help has the settings")


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
    return replace(settings, pairs=recipe.pairs.files, max_candidates=recipe.evaluation.max_candidates, **same), recipe
