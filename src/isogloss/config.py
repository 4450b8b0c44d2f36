"""The recipe: everything a run depends on, as frozen values with a type, a range and a sentence each.

A recipe is a TOML file; `--set training.epochs=3` overrides one value. Whatever does not fit is refused by name, with
the nearest key that exists. The sentences written here are also the comments that `isogloss init` writes.
"""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from isogloss.contradictions import refuse_contradictions
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

    files: tuple[str, ...] = setting(
        ("phrasebook",), 'files, folders or globs of pairs, prepared stores, or "phrasebook" for the shipped pairs'
    )
    corpora: tuple[str, ...] = setting(
        (), "corpora of the catalogue to fetch for `languages`, for example TED2020 (see isogloss corpora list)"
    )
    source_text: tuple[str, ...] = setting(
        (), 'text files with one source-language sentence a line, or "reader" for the shipped ones: more places to learn'
    )
    source_language: str = setting("en", "the language the teacher knows")
    language: str = setting("", "target language of two-column files whose name does not tell")
    dictionaries: tuple[str, ...] = setting(
        ("dict_*", "muse*", "freedict*", "wikititles*"),
        "names of corpora that hold dictionary entries: rules that only make sense for sentences leave them alone",
    )
    format: str = setting("", "how the files are written where their names do not tell: tsv, csv, jsonl, moses, tmx, po, …")
    columns: str = setting("", 'which column holds what where a table has no header: "source=1,target=3,score=5"')
    licences: tuple[str, ...] = setting(
        (), 'what you know of licences, as NAME=LICENCE, for corpora that do not say: "tatoeba=CC BY 2.0 FR"'
    )
    held_out: float = setting(
        0.1, "share of source sentences kept for testing where a file has no split column", at_least=0.0, at_most=0.5
    )
    on_error: str = setting("fail", 'what a line that does not fit does: "fail", "skip" (counted) or "stop-after N"')


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningSettings:
    """Which pairs are left out of training. Held-out rows are cleaned by the same rules."""

    normalize: str = setting(
        "nfc",
        "form of all text: composed characters, also compatibility forms, or also one kind of quote, hyphen and dash",
        one_of=("nfc", "nfkc", "ham-kim"),
    )
    max_characters: int = setting(1000, "longest side, in characters", at_least=1)
    max_tokens: int = setting(128, "longest side, in tokens, as in both papers; 0 turns the rule off", at_least=0)
    tokenizer: str = setting(
        "",
        "tokenizer.json (or a model folder with one) to count tokens with; empty counts words, marks and unspaced characters",
    )
    max_length_ratio: float = setting(
        9.0, "how many times longer (in UTF-8 bytes) one side may be than the other", at_least=1.0
    )
    drop_identical: bool = setting(True, "leave out pairs whose two sides are the same text")
    min_script: float = setting(0.5, "least share of a side's letters in the script of its language", at_least=0.0, at_most=1.0)
    min_language: float = setting(
        0.2,
        "1 less the lead another language may have by the language model: 0.2 drops what it is sure of",
        at_least=0.0,
        at_most=1.0,
    )
    min_numbers: float = setting(0.5, "least share of digits the sides have in common", at_least=0.0, at_most=1.0)
    min_addresses: float = setting(
        0.5, "web and mail addresses: 1 demands the same ones on both sides, 0.5 as many", at_least=0.0, at_most=1.0
    )
    max_repetition: float = setting(
        0.6, "largest share of a side that repeats itself; 1 turns the rule off", at_least=0.0, at_most=1.0
    )
    min_scores: tuple[str, ...] = setting(
        ("WikiMatrix*=1.05",), "what a corpus' own scores must reach, as NAME=NUMBER (the paper takes 1.05 for WikiMatrix)"
    )
    similarity_model: str = setting("", "a model that knows both languages, to drop pairs it puts far apart; empty: none")
    similarity: str = setting("cosine", "what that model is asked for", one_of=("cosine", "margin"))
    min_similarity: float = setting(0.5, "least similarity by that model (about 1.05 for margin)", at_least=-1.0)
    duplicates: str = setting(
        "normalized",
        "which copies are left out: the same text, the same letters and digits whatever the case, also near copies, or none",
        one_of=("exact", "normalized", "near", "keep"),
    )
    near: float = setting(0.8, "how alike near copies are: estimated share of common word triples", at_least=0.5, at_most=1.0)
    auto: bool = setting(False, "set thresholds from the data's own score distribution, language by language")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakSettings:
    """Which evaluation text must not be trained on."""

    against: tuple[str, ...] = setting(
        ("phrasebook",), "evaluation sets: files, folders or globs of any text or table; the held-out split is always guarded"
    )
    level: str = setting(
        "near",
        "what counts as the same: equal text, equal letters and digits, or also eight words in a row in common",
        one_of=("exact", "normalized", "near", "off"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSettings:
    """How much of each corpus and language an epoch holds. docs/balance.md says which scheme is for what."""

    scheme: str = setting(
        "everything",
        "what an epoch draws: every pair once; as many from each corpus; languages by temperature; "
        "as many from each corpus of each language; by size",
        one_of=("everything", "corpora", "languages", "datasets", "proportional"),
    )
    temperature: float = setting(
        5.0, 'for scheme "languages": share ∝ size^(1/temperature); 1 keeps sizes, 1000 makes all equal', at_least=1.0
    )
    group: str = setting(
        "pair",
        "what is drawn: each pair alone, or a source sentence with its translations (faster, but batches are less varied)",
        one_of=("pair", "source"),
    )
    max_languages_per_group: int = setting(
        0, "translations of a source that are drawn together, the others at another time; 0 draws all", at_least=0
    )
    cap_corpus: int = setting(0, "most pairs of one corpus in an epoch, other ones each epoch; 0 sets no limit", at_least=0)
    cap_language: int = setting(0, "most pairs of one language in an epoch; 0 sets no limit", at_least=0)
    cap_corpus_language: int = setting(0, "most pairs of one corpus in one language in an epoch; 0 sets no limit", at_least=0)
    pairs_per_epoch: int = setting(0, "length of an epoch; 0 means as many pairs as there are under the caps", at_least=0)

    def __post_init__(self) -> None:
        """Refuse settings that would be ignored."""
        for one in fields(self):
            if one.metadata["one_of"] and getattr(self, one.name) not in one.metadata["one_of"]:
                raise RecipeError(
                    f"balance.{one.name} = {getattr(self, one.name)!r} is not known",
                    hint=f"choose from: {', '.join(one.metadata['one_of'])}",
                )
        if self.scheme == "everything" and self.pairs_per_epoch:
            raise RecipeError(
                'balance.pairs_per_epoch is set, but scheme "everything" sees every pair once an epoch',
                hint='set balance.scheme = "proportional", or use a cap',
            )
        if self.group == "pair" and self.max_languages_per_group:
            raise RecipeError(
                'balance.max_languages_per_group is set, but group "pair" draws each pair alone',
                hint='set balance.group = "source"',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherSettings:
    """The model whose space is kept, if there is one."""

    model: str = setting(
        "all-MiniLM-L6-v2", "hub name or local folder of a sentence-transformers model; empty where nothing follows a teacher"
    )
    prompt: str = setting("", "text put before every sentence the teacher sees, if it was trained with one")
    batch_size: int = setting(32, "sentences at a time", at_least=1)
    precision: str = setting(
        "auto", "what it computes in: half on CUDA and single elsewhere, or always single", one_of=("auto", "float32")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentSettings:
    """The model that learns."""

    model: str = setting("multilingual-e5-small", "hub name or local folder of a multilingual encoder")
    kind: str = setting(
        "encoder",
        "what is trained: the model, the teacher's own body with the model's vocabulary, or a static table of its tokens",
        one_of=("encoder", "teacher-body", "static"),
    )
    layers: int = setting(0, "keep this many of its layers, evenly spread; 0 keeps all", at_least=0)
    dimension: int = setting(0, "of a static table's vectors; 0 takes the model's", at_least=0)
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
    max_pairs: int = setting(200_000, "pairs to solve it from, drawn at random where there are more", at_least=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """What the student is trained for: weights of losses that are added up. docs/losses.md has the formulas."""

    mse: float = setting(1.0, "land where the teacher puts the source sentence (Reimers & Gurevych 2020)", at_least=0.0)
    moving_teacher: float = setting(
        0.0, "land where a teacher that slowly follows the student puts the source (Ham & Kim 2021)", at_least=0.0
    )
    soft_similarity: float = setting(0.0, "be as similar to the batch's other sentences as the teacher is", at_least=0.0)
    ranking: float = setting(0.0, "be nearer to the own translation than to the batch's others (mUSE, LaBSE)", at_least=0.0)
    spread: float = setting(0.0, "use the whole space: unrelated sentences at right angles", at_least=0.0)
    normalized: bool = setting(False, "mse compares directions, not lengths")
    soft_temperature: float = setting(0.1, "of soft_similarity: smaller looks at near neighbours only", at_least=1e-3)
    ranking_temperature: float = setting(0.05, "of ranking", at_least=1e-3)
    margin: float = setting(0.0, "of ranking: how much nearer the own translation must be (LaBSE takes 0.3)", at_least=0.0)
    hard_negatives: int = setting(
        0, "of ranking: near but wrong translations for each pair, mined with the student", at_least=0
    )
    teacher_decay: float = setting(
        0.99999, "of moving_teacher: share of itself it keeps in the first step", at_least=0.0, at_most=1.0
    )
    dimensions: tuple[int, ...] = setting((), "lengths at which vectors should also be useful when cut (Matryoshka)")

    def __post_init__(self) -> None:
        """Refuse what trains nothing."""
        if not any((self.mse, self.moving_teacher, self.soft_similarity, self.ranking)):
            alone = "[losses] has spread alone, which keeps sentences apart and knows nothing of what they mean"
            raise RecipeError(
                alone if self.spread else "[losses] has no weight above 0",
                hint=f"for example mse = 1.0{f' beside spread = {self.spread:g}' if self.spread else ''}",
            )
        if self.hard_negatives and not self.ranking:
            raise RecipeError("losses.hard_negatives is set, but losses.ranking is 0", hint="set losses.ranking")
        if any(dimension < 1 for dimension in self.dimensions):
            raise RecipeError("losses.dimensions: every length must be 1 or more", hint="for example [64, 128, 256]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How the student is distilled."""

    epochs: int = setting(
        4, "times every pair is seen (epochs of the length that [balance] gives); 0 keeps the bridge alone", at_least=0
    )
    batch_pairs: int = setting(64, "pairs in a batch, over all processes, as in the papers", at_least=1)
    batch_tokens: int = setting(0, "tokens in a batch instead: as many pairs as fit; 0 counts pairs", at_least=0)
    chunk_pairs: int = setting(
        0,
        "encode a batch in chunks of this many pairs, if it is larger than memory: same gradient, more time; 0: whole",
        at_least=0,
    )
    accumulate: int = setting(
        1,
        "parts that a batch is worked through in, one after another, before the weights move: less memory; in-batch negatives"
        " are those of a part (chunk_pairs keeps the whole batch's)",
        at_least=1,
    )
    optimizer: str = setting("adamw", "what moves the weights: AdamW, or LARS as Ham & Kim", one_of=("adamw", "lars"))
    learning_rate: float = setting(2e-4, "peak learning rate (0.02 in the LARS paper's setting)", at_least=0.0)
    schedule: str = setting("linear", "how the learning rate falls after the warm-up", one_of=("linear", "cosine", "constant"))
    warmup: float = setting(
        0.1, "share of the steps over which the learning rate rises; 1 or more is a number of steps", at_least=0.0
    )
    weight_decay: float = setting(0.01, "decay of matrices (not of biases or norms)", at_least=0.0)
    clip_norm: float = setting(1.0, "largest gradient norm; 0 turns clipping off", at_least=0.0)
    precision: str = setting(
        "auto",
        "what the body computes in: bf16 on CUDA and single precision elsewhere, or always one",
        one_of=("auto", "bf16", "float32"),
    )
    engine: str = setting(
        "auto",
        "how steps are run: recorded as CUDA graphs where that is possible, or one operation after another",
        one_of=("auto", "eager", "graphs"),
    )
    dev_pairs: int = setting(
        500, "pairs of each language kept out of training to choose the best checkpoint by; 0 keeps the last", at_least=0
    )
    dev_share: float = setting(0.05, "largest share of a language's pairs kept out so", at_least=0.0, at_most=0.5)
    dev_checks: int = setting(10, "how often the dev pairs are measured, spread over the training", at_least=1)
    select: str = setting(
        "both",
        "what the best checkpoint is chosen by: translations found and the teacher's index searched (within noise, the distance"
        " to the teacher), translations alone, or the distance alone",
        one_of=("both", "retrieval", "mse"),
    )
    patience: int = setting(0, "stop after this many dev measurements without a gain; 0 goes on to the end", at_least=0)
    trackers: tuple[str, ...] = setting((), 'where metrics go beside metrics.jsonl: "tensorboard", "wandb"')
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

    max_queries: int = setting(2_000, "held-out pairs of each language that are measured", at_least=1)
    max_candidates: int = setting(10_000, "sentences to search: all held-out ones, then others up to this many", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingSettings:
    """What `isogloss add` is asked for. All else is as in the recipe of the run that is added to."""

    run: str  # a finished run, or the folder of a saved model
    languages: tuple[str, ...]
    pairs: tuple[str, ...]  # files, folders, globs or stores that have the new languages
    out: str = setting("runs/added", "the folder of the new run")
    replay: float = setting(1.0, "pairs of the old languages to train on again, for each new pair", at_least=0.0)
    replay_from: tuple[str, ...] = setting((), "pairs of the old languages, where the run does not have them any more")
    gate: float | None = setting(1.0, "percentage points that an old language may lose; none accepts any loss", at_least=0.0)
    gate_on: str = setting("teacher_index", "by which score", one_of=("teacher_index", "to_source", "from_source"))
    teacher: str = setting("", "of a saved model without a record: the model it was taught by")
    original: str = setting("", "of a saved model without a record: the model that its vocabulary was trimmed from")

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.languages or not self.pairs:
            raise RecipeError("there is no language to add, or there are no pairs of it", hint="isogloss add RUN sw en-sw.tsv")
        for name, value in (("replay", self.replay), ("gate", self.gate)):
            if value is not None and not 0 <= value < float("inf"):
                raise RecipeError(f"{name} = {value!r} is impossible", hint="it must be a number, and at least 0")
        known = type(self).__dataclass_fields__["gate_on"].metadata["one_of"]
        if self.gate_on not in known:
            raise RecipeError(f"gate_on = {self.gate_on!r} is not known", hint=f"choose from: {', '.join(known)}")


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
    leaks: LeakSettings = section(LeakSettings, "which evaluation text must not be trained on")
    balance: BalanceSettings = section(BalanceSettings, "how much of each corpus and language an epoch holds")
    teacher: TeacherSettings = section(TeacherSettings, "the model whose space is kept")
    student: StudentSettings = section(StudentSettings, "the model that learns")
    bridge: BridgeSettings = section(BridgeSettings, "the closed-form layer solved before training")
    losses: LossSettings = section(LossSettings, "what the student is trained for")
    training: TrainingSettings = section(TrainingSettings, "how the student is distilled")
    evaluation: EvaluationSettings = section(EvaluationSettings, "how the result is measured")
    output: OutputSettings = section(OutputSettings, "where things go")

    def __post_init__(self) -> None:
        """Refuse what no single field can see."""
        refuse_contradictions(self)


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
