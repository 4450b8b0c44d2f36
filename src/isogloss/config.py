"""The recipe: everything a run depends on, as frozen values with a type, a range and a sentence each.

A recipe is a TOML file; `--set training.epochs=3` overrides one value. Whatever does not fit is refused by name, with
the nearest key that exists. The sentences written here are also the comments that `isogloss init` writes.
"""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from isogloss.errors import RecipeError


def setting(
    default: Any,  # noqa: ANN401 - each field says its own type
    help: str,
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: tuple[str, ...] = (),
) -> Any:  # noqa: ANN401
    """A field that knows its sentence and its range, so both are written once."""
    return field(default=default, metadata={"help": help, "at_least": at_least, "at_most": at_most, "one_of": one_of})


def section(kind: type[Any], help: str) -> Any:  # noqa: ANN401
    """A field that is a table of its own."""
    return field(default_factory=kind, metadata={"help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsSettings:
    """Where the parallel sentences come from."""

    files: tuple[str, ...] = setting(("phrasebook",), 'TSV files (plain or .gz), or "phrasebook" for the shipped pairs')
    source_text: tuple[str, ...] = setting(
        (), 'text files with one source-language sentence a line, or "reader" for the shipped ones: more places to learn'
    )
    source_language: str = setting("en", "the language the teacher knows")
    language: str = setting("", "target language of two-column files whose name does not tell")
    held_out: float = setting(
        0.1, "share of source sentences kept for testing where a file has no split column", at_least=0.0, at_most=0.5
    )
    on_error: str = setting(
        "fail", "what a line that does not fit does: stop the run, or be left out and counted", one_of=("fail", "skip")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningSettings:
    """Which pairs are left out of training. Held-out rows are cleaned by the same rules."""

    max_characters: int = setting(1000, "longest side, in characters", at_least=1)
    max_length_ratio: float = setting(
        9.0, "how many times longer (in UTF-8 bytes) one side may be than the other", at_least=1.0
    )
    drop_identical: bool = setting(True, "leave out pairs whose two sides are the same text")
    drop_duplicates: bool = setting(True, "leave out pairs that were already seen")


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherSettings:
    """The model whose space is kept."""

    model: str = setting("all-MiniLM-L6-v2", "hub name or local folder of a sentence-transformers model")
    prompt: str = setting("", "text put before every sentence the teacher sees, if it was trained with one")
    batch_size: int = setting(32, "sentences at a time", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentSettings:
    """The model that learns."""

    model: str = setting("multilingual-e5-small", "hub name or local folder of a multilingual encoder")
    prompt: str = setting("", "text put before every sentence the student sees; it becomes part of the saved model")
    max_tokens: int = setting(128, "longer sentences are cut here, as in the paper", at_least=2, at_most=8192)
    trim: str = setting(
        "alphabet",
        "vocabulary: keep every piece the run's alphabets can spell, only the pieces its text uses, or all",
        one_of=("alphabet", "corpus", "off"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """The closed-form layer from the student's vectors to the teacher's."""

    enabled: bool = setting(True, "solve it before training (needed when the dimensions differ)")
    strengths: tuple[float, ...] = setting(
        (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4, 1.0, 3.0),
        "ridge strengths to try, relative to the mean variance; the best on held-out folds is used",
    )
    folds: int = setting(5, "folds of source sentences for that choice", at_least=2, at_most=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How the student is distilled."""

    epochs: int = setting(4, "times every pair is seen; 0 keeps the bridge alone", at_least=0)
    batch_pairs: int = setting(64, "pairs in a batch, as in the paper", at_least=1)
    learning_rate: float = setting(2e-4, "peak learning rate", at_least=0.0)
    warmup: float = setting(0.1, "share of the steps over which the learning rate rises", at_least=0.0, at_most=1.0)
    weight_decay: float = setting(0.01, "AdamW's decay of matrices (not of biases or norms)", at_least=0.0)
    clip_norm: float = setting(1.0, "largest gradient norm; 0 turns clipping off", at_least=0.0)
    dropout: bool = setting(False, "use the body's dropout while training")
    train_layers: int = setting(
        0,
        "train only this many upper layers, over cached activations of the frozen lower ones; 0 trains everything",
        at_least=0,
    )
    checkpoint_seconds: float = setting(20.0, "time between checkpoints", at_least=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """What the held-out rows are searched in."""

    max_candidates: int = setting(10_000, "sentences to search: all held-out ones, then others up to this many", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """Where things go."""

    folder: str = setting("runs/run", "the run's folder: model, results, record and unfinished work")
    cache: str = setting("", "folder of cached teacher vectors; empty means the user's cache folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One run: which model learns which languages from which pairs, and how."""

    name: str = setting("run", "what the run is called")
    seed: int = setting(17, "the same seed on the same machine gives the same weights", at_least=0, at_most=2**32 - 1)
    device: str = setting("auto", "where the models run", one_of=("auto", "cpu", "cuda", "mps"))
    threads: int = setting(0, "CPU threads; 0 leaves it to torch", at_least=0, at_most=1024)
    languages: tuple[str, ...] = setting((), "target languages to keep; empty keeps all that the files have")
    pairs: PairsSettings = section(PairsSettings, "where the parallel sentences come from")
    cleaning: CleaningSettings = section(CleaningSettings, "which pairs are left out")
    teacher: TeacherSettings = section(TeacherSettings, "the model whose space is kept")
    student: StudentSettings = section(StudentSettings, "the model that learns")
    bridge: BridgeSettings = section(BridgeSettings, "the closed-form layer solved before training")
    training: TrainingSettings = section(TrainingSettings, "how the student is distilled")
    evaluation: EvaluationSettings = section(EvaluationSettings, "how the result is measured")
    output: OutputSettings = section(OutputSettings, "where things go")

    def __post_init__(self) -> None:
        """Refuse what no single field can see."""
        if not self.bridge.enabled and not self.training.epochs:
            raise RecipeError(
                "bridge.enabled is false and training.epochs is 0: there is nothing to do",
                hint="turn the bridge on or train for at least one epoch",
            )
        if any(strength <= 0 for strength in self.bridge.strengths) or not self.bridge.strengths:
            raise RecipeError("bridge.strengths: every ridge strength must be above 0", hint="for example [1e-4, 1e-2]")
        if not self.output.folder.strip() or "\0" in self.output.folder:
            raise RecipeError("output.folder is empty or not a path", hint='for example "runs/mine"')
        if not self.pairs.files:
            raise RecipeError("pairs.files is empty", hint='name TSV files, or "phrasebook" for the shipped pairs')


def default_of(one: Any) -> Any:  # noqa: ANN401 - a dataclass field of any type
    """The default of a dataclass field, however it was given."""
    return one.default_factory() if one.default is MISSING else one.default


def as_dict(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any settings class above
    """Plain nested dictionaries with lists for tuples, as TOML and JSON have them."""
    result: dict[str, Any] = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if hasattr(value, "__dataclass_fields__"):
            value = as_dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        result[one.name] = value
    return result
