"""The tables of a recipe: every setting with its type, range, default and sentence."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from isogloss.config.settings import Settings, setting, share
from isogloss.errors import RecipeError

Precision = Literal["auto", "bf16", "float32"]
Optimizer = Literal["adamw", "lars"]
Schedule = Literal["linear", "cosine", "constant"]
Engine = Literal["auto", "eager", "graphs"]


class PairsSettings(Settings):
    """Where the parallel sentences come from."""

    table = "pairs"
    files: tuple[str, ...] = setting(
        ("phrasebook",), 'Files, folders or globs of pairs, prepared stores, or "phrasebook" for the bundled pairs.'
    )
    corpora: tuple[str, ...] = setting((), "Corpora of the catalogue to download for `languages`, such as TED2020.")
    source_text: tuple[str, ...] = setting(
        (), 'Text files with one source-language sentence per line, or "reader" for the bundled ones: extra training text.'
    )
    source_language: str = setting("en", "Language of the source side, which the teacher knows.")
    language: str = setting("", "Target language of two-column files, if not in their names.")
    dictionaries: tuple[str, ...] = setting(
        ("dict_*", "muse*", "freedict*", "wikititles*"),
        "Names of corpora with dictionary entries: rules that only make sense for sentences skip them.",
    )
    format: str = setting("", "File format, if file names do not tell: tsv, csv, jsonl, moses, tmx, po, …")
    columns: str = setting("", 'Columns of a table without a header: "source=1,target=3,score=5".')
    licenses: tuple[str, ...] = setting((), 'Licenses of corpora that state none, as NAME=LICENSE: "tatoeba=CC BY 2.0 FR".')
    held_out: float = setting(
        0.1, "Share of source sentences held out for testing if a file has no split column.", at_least=0.0, at_most=0.5
    )
    max_per_language: int = setting(
        0, "Maximum training pairs per language; the others are not even embedded by the teacher. 0: no limit.", at_least=0
    )
    max_per_corpus: int = setting(0, "The same for each corpus in each language; 0: no limit.", at_least=0)
    on_error: str = setting("fail", 'What to do with malformed lines: "fail", "skip" (counted) or "stop-after N".')


class CleaningSettings(Settings):
    """Which pairs are dropped before training. Held-out rows are cleaned by the same rules."""

    table = "cleaning"
    normalize: Literal["nfc", "nfkc", "ham-kim"] = setting(
        "nfc", "Unicode form of all text; ham-kim is NFKC with one form of each quote, hyphen and dash."
    )
    max_characters: int = setting(1000, "Maximum characters per side.", at_least=1)
    max_tokens: int = setting(128, "Maximum tokens per side, as in both papers; 0 turns the rule off.", at_least=0)
    tokenizer: str = setting("", "tokenizer.json or model folder to count tokens with; empty: words and unspaced characters.")
    max_length_ratio: float = setting(9.0, "Maximum ratio between the lengths of the two sides, in UTF-8 bytes.", at_least=1.0)
    drop_identical: bool = setting(True, "Drop pairs whose two sides are the same text.")
    min_script: float = share(0.5, "Minimum share of a side's letters in the script of its language.")
    min_language: float = share(0.2, "Drop a side if language identification prefers another one by more than 1 minus this.")
    min_numbers: float = share(0.5, "Minimum share of digits that both sides have in common.")
    min_addresses: float = share(0.5, "Web and mail addresses: 1 requires the same ones on both sides, 0.5 the same number.")
    max_repetition: float = share(0.6, "Maximum share of a side that repeats itself; 1 turns the rule off.")
    min_scores: tuple[str, ...] = setting(
        ("WikiMatrix*=1.05",), "Minimum score for corpora that have scores, as NAME=NUMBER (1.05 for WikiMatrix in the paper)."
    )
    similarity_model: str = setting("", "A model that knows both languages, to drop pairs with a low similarity; empty: none.")
    similarity: Literal["cosine", "margin"] = setting("cosine", "How that model scores a pair.")
    min_similarity: float = setting(0.5, "Minimum similarity by that model (about 1.05 for margin).", at_least=-1.0)
    duplicates: Literal["exact", "normalized", "near", "keep"] = setting(
        "normalized",
        "Which duplicates to drop: the same text, the same letters and digits in any case, also near-duplicates, or none.",
    )
    near: float = setting(0.8, "Share of word triples that near-duplicates have in common.", at_least=0.5, at_most=1.0)
    auto: bool = setting(False, "Choose thresholds per language from the distribution of the data's own scores.")


class LeakSettings(Settings):
    """Which evaluation text must not be trained on."""

    table = "leaks"
    against: tuple[str, ...] = setting(
        ("phrasebook", "questions"),
        "Evaluation sets: files, folders or globs of text or tables; the held-out split is always checked.",
    )
    level: Literal["exact", "normalized", "near", "off"] = setting(
        "near", "What counts as a leak: the same text, the same letters and digits, or also eight words in a row."
    )


class BalanceSettings(Settings):
    """How much of each corpus and language an epoch has. docs/balance.md says when to use which scheme."""

    table = "balance"
    scheme: Literal["everything", "corpora", "languages", "datasets", "proportional"] = setting(
        "everything",
        "What an epoch samples: every pair once; equally from each corpus; languages by temperature; "
        "equally from each corpus of each language; by size.",
    )
    temperature: float = setting(
        5.0, 'For scheme "languages": share ∝ size^(1/temperature); 1 keeps sizes, 1000 makes all equal.', at_least=1.0
    )
    group: Literal["pair", "source"] = setting(
        "pair", "What is sampled: single pairs, or a source sentence with its translations (faster, less varied batches)."
    )
    max_languages_per_group: int = setting(0, "Maximum translations of a source sampled together; 0 takes all.", at_least=0)
    max_translations: int = setting(
        0,
        "Maximum translations of a source to distill on, the same in every epoch; the bridge uses all. 0: all.",
        at_least=0,
    )
    cap_corpus: int = setting(0, "Maximum pairs per corpus in an epoch; others come in later epochs. 0: no limit.", at_least=0)
    cap_language: int = setting(0, "Maximum pairs per language in an epoch; 0: no limit.", at_least=0)
    cap_corpus_language: int = setting(0, "Maximum pairs per corpus and language in an epoch; 0: no limit.", at_least=0)
    pairs_per_epoch: int = setting(0, "Pairs in an epoch; 0 takes all pairs under the caps.", at_least=0)

    @model_validator(mode="after")
    def _refuse_ignored(self) -> Self:
        if self.scheme == "everything" and self.pairs_per_epoch:
            raise RecipeError(
                'balance.pairs_per_epoch is set, but scheme "everything" takes every pair once per epoch',
                hint='set balance.scheme = "proportional", or use a cap',
            )
        if self.group == "pair" and self.max_languages_per_group:
            raise RecipeError(
                'balance.max_languages_per_group is set, but group "pair" samples single pairs',
                hint='set balance.group = "source"',
            )
        return self


class TeacherSettings(Settings):
    """The model whose embedding space the student learns, if there is one."""

    table = "teacher"
    model: str = setting("all-MiniLM-L6-v2", "Hub name or local folder of a sentence-transformers model; empty: no teacher.")
    prompt: str = setting("", "Text to prepend to every sentence for the teacher, if it was trained with one.")
    query_prompt: str = setting(
        "", "Its prompt for queries when retrieval is measured; empty: prompt, else the model's own for queries."
    )
    document_prompt: str = setting("", "The same for documents; empty: prompt, else the model's own for documents.")
    batch_size: int = setting(32, "Sentences encoded at a time.", at_least=1)
    precision: Literal["auto", "float32"] = setting(
        "auto", "Precision for encoding training text: auto is bf16 or float16 where that is fast."
    )


class StudentSettings(Settings):
    """The model that is trained."""

    table = "student"
    model: str = setting("multilingual-e5-small", "Hub name or local folder of a multilingual encoder.")
    kind: Literal["encoder", "teacher-body", "static", "bilstm"] = setting(
        "encoder",
        "What is trained: the model, the teacher's body with the model's vocabulary, a static table of its token embeddings, "
        "or a new BiLSTM (LASER).",
    )
    layers: int = setting(0, "Keep this many of its layers, evenly spread; 0 keeps all.", at_least=0)
    dimension: int = setting(0, "Embedding size of a static table; 0 takes the model's.", at_least=0)
    prompt: str = setting("", "Text to prepend to every sentence for the student; saved with the model.")
    query_prompt: str = setting("", "Saved as the prompt of encode_query, for retrieval; empty: prompt.")
    document_prompt: str = setting("", "Saved as the prompt of encode_document, for retrieval; empty: prompt.")
    max_tokens: int = setting(
        128,
        "Longer text is truncated to this many tokens.",
        at_least=2,
        at_most=8192,
    )
    trim: Literal["alphabet", "corpus", "off"] = setting(
        "alphabet",
        "Which vocabulary pieces to keep: all that the run's alphabets can spell, those its text uses, or every piece.",
    )
    pooling: Literal["", "mean", "cls", "max"] = setting("", "Pooling of token states; empty keeps the model's.")
    normalize: bool = setting(False, "Scale embeddings to length 1; false keeps what the model does.")
    vocabulary: int = setting(50_000, "bilstm: size of the vocabulary that all languages share.", at_least=16)
    vocabulary_kind: Literal["bpe", "unigram"] = setting("bpe", "bilstm: how the vocabulary is learned.")
    vocabulary_sentences: int = setting(1_000_000, "bilstm: sentences per language to learn the vocabulary from.", at_least=1)
    embedding: int = setting(320, "bilstm: token embedding size, in the encoder and the decoder.", at_least=1)
    hidden: int = setting(512, "bilstm: LSTM hidden size per direction; embeddings have twice this size.", at_least=1)
    lstm_layers: int = setting(5, "bilstm: layers of the encoder.", at_least=1)
    lstm_dropout: float = setting(0.1, "bilstm: dropout probability.", at_least=0.0, at_most=0.9)


class BridgeSettings(Settings):
    """The linear layer from the student's embeddings to the teacher's, solved in closed form."""

    table = "bridge"
    enabled: bool = setting(True, "Solve it before training (needed if the dimensions differ).")
    strengths: tuple[Annotated[float, Field(gt=0.0)], ...] = setting(
        (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4, 1.0, 3.0),
        "Ridge strengths to try, relative to the mean variance; the best in cross-validation is used.",
        min_length=1,
    )
    folds: int = setting(5, "Folds of source sentences for that cross-validation.", at_least=2, at_most=50)
    max_pairs: int = setting(200_000, "Maximum pairs to solve it from, sampled at random.", at_least=100)


LOSSES = ("mse", "moving_teacher", "soft_similarity", "bank_similarity", "ranking", "spread")
FIXED_TEACHER_LOSSES = (
    "mse",
    "soft_similarity",
    "bank_similarity",
)  # compare with the embeddings of a teacher that does not change
SAME_SPACE_LOSSES = ("mse", "bank_similarity")  # compare the student's embeddings with the teacher's, coordinate by coordinate
TEACHER_LOSSES = (*FIXED_TEACHER_LOSSES, "moving_teacher")
BATCH_LOSSES = ("soft_similarity", "ranking", "spread")  # compare a pair with the other pairs of its batch


class LossSettings(Settings):
    """The training loss: a weighted sum. docs/losses.md has the formulas."""

    table = "losses"
    mse: float = setting(
        1.0, "Weight of the squared distance to the teacher's source embedding (Reimers & Gurevych 2020).", at_least=0.0
    )
    moving_teacher: float = setting(0.0, "Weight of the distance to a slowly moving teacher (Ham & Kim 2021).", at_least=0.0)
    soft_similarity: float = setting(0.0, "Weight of matching the teacher's similarities within the batch.", at_least=0.0)
    bank_similarity: float = setting(
        0.0, "Weight of matching the teacher's similarities to a fixed bank of its embeddings.", at_least=0.0
    )
    ranking: float = setting(0.0, "Weight of ranking the right translation first in the batch (mUSE, LaBSE).", at_least=0.0)
    spread: float = setting(0.0, "Weight of keeping unrelated sentences orthogonal.", at_least=0.0)
    normalized: bool = setting(False, "Compute mse between embeddings of length 1.")
    soft_temperature: float = setting(0.1, "Temperature of soft_similarity; lower values stress near neighbors.", at_least=1e-3)
    bank_size: int = setting(16_384, "Maximum number of embeddings in the bank of bank_similarity.", at_least=2)
    bank_temperature: float = setting(
        0.07, "Temperature of bank_similarity; lower values stress near neighbors.", at_least=1e-3
    )
    ranking_temperature: float = setting(0.05, "Temperature of the ranking loss.", at_least=1e-3)
    margin: float = setting(0.0, "Margin of ranking, as a cosine (LaBSE: 0.3).", at_least=0.0, at_most=2.0)
    hard_negatives: int = setting(0, "Hard negatives per pair for ranking, mined with the student.", at_least=0)
    teacher_decay: float = share(0.99999, "Decay of moving_teacher: the share of its weights that it keeps in the first step.")
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = setting(
        (), "Sizes to which embeddings can be truncated (Matryoshka), for example [64, 128, 256]."
    )

    @model_validator(mode="after")
    def _refuse_useless(self) -> Self:
        if self.partial:
            return self
        if not self.weights.keys() - {"spread"}:
            alone = "[losses] has spread alone, which keeps sentences apart but learns nothing about their meaning"
            raise RecipeError(
                alone if self.spread else "[losses] has no weight above 0",
                hint=f"for example mse = 1.0{f' beside spread = {self.spread:g}' if self.spread else ''}",
            )
        if self.hard_negatives and not self.ranking:
            raise RecipeError("losses.hard_negatives is set, but losses.ranking is 0", hint="set losses.ranking")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The losses that are computed, with their weights."""
        return {name: weight for name in LOSSES if (weight := getattr(self, name))}


class TrainingSettings(Settings):
    """How the student is trained."""

    table = "training"
    epochs: int = setting(4, "Passes over the data (epochs as long as [balance] says); 0 keeps the bridge alone.", at_least=0)
    steps: int = setting(0, "Train for this many steps; 0: for the given epochs.", at_least=0)
    batch_pairs: int = setting(64, "Batch size in pairs (or examples), over all processes.", at_least=1)
    batch_tokens: int = setting(0, "Tokens per batch instead: as many pairs as fit; 0 counts pairs.", at_least=0)
    chunk_pairs: int = setting(
        0, "Encode a batch in chunks of this many pairs: less memory, same gradient; 0: off.", at_least=0
    )
    accumulate: int = setting(
        1, "Gradient accumulation: parts of a batch. In-batch negatives come from a part only.", at_least=1
    )
    optimizer: Optimizer = setting("adamw", "AdamW, or LARS as in Ham & Kim.")
    learning_rate: float = setting(2e-4, "Peak learning rate (0.02 with LARS in the paper).", at_least=0.0)
    schedule: Schedule = setting("linear", "How the learning rate falls after the warmup.")
    warmup: float = setting(0.1, "Warmup: a share of all steps; from 1 on, a number of steps.", at_least=0.0)
    weight_decay: float = setting(0.01, "Weight decay of matrices (not of biases and norms).", at_least=0.0)
    clip_norm: float = setting(1.0, "Maximum gradient norm; 0 turns clipping off.", at_least=0.0)
    precision: Precision = setting("auto", "Training precision: auto is bf16 where that is fast, else float32.")
    engine: Engine = setting("auto", "How steps run: as recorded CUDA graphs if possible, or eagerly.")
    dev_pairs: int = setting(500, "Dev pairs per language to choose the best checkpoint by; 0 keeps the last.", at_least=0)
    dev_share: float = setting(0.05, "Maximum share of a language's pairs used as dev pairs.", at_least=0.0, at_most=0.5)
    dev_checks: int = setting(10, "Number of evaluations on the dev set during training.", at_least=1)
    select: Literal["both", "retrieval", "mse", "loss"] = setting(
        "both",
        "What the best checkpoint is chosen by: retrieval of translations and in the teacher's index (the nearest to the "
        "teacher of those within one standard error), retrieval alone, the distance alone, or (translate only) the dev loss.",
    )
    patience: int = setting(0, "Stop after this many dev measurements without a gain; 0 trains to the end.", at_least=0)
    trackers: tuple[str, ...] = setting((), 'Where metrics go besides metrics.jsonl: "tensorboard", "wandb".')
    dropout: bool = setting(False, "Use the model's dropout in training.")
    train_layers: int = setting(
        0, "Train only this many upper layers; the others are frozen and cached. 0 trains all.", at_least=0
    )
    checkpoint_seconds: float = setting(20.0, "Seconds between checkpoints.", at_least=0.0)


class LossOverrides(LossSettings):
    """Some keys of [losses], for one stage."""

    partial: ClassVar[bool] = True


class TrainingOverrides(TrainingSettings):
    """Some keys of [training], for one stage."""

    partial: ClassVar[bool] = True


class EvaluationSettings(Settings):
    """How the result is measured."""

    table = "evaluation"
    max_queries: int = setting(2_000, "Maximum held-out pairs per language to evaluate.", at_least=1)
    max_candidates: int = setting(10_000, "Number of sentences to search: all held-out ones, then others.", at_least=1)
    sts_dev: tuple[str, ...] = setting((), "STS files to choose the best checkpoint of nli and sts stages by.")
    retrieval: str = setting(
        "", 'Folder of documents and queries to measure retrieval on, or "questions", the bundled set; empty: none.'
    )


class OutputSettings(Settings):
    """Where the results are written."""

    table = "output"
    folder: str = setting("runs/run", "Folder of the run: model, results, record and unfinished work.")
    cache: str = setting("", "Folder of cached teacher embeddings; empty: the user's cache folder.")
    license: str = setting("", "License of the model for its card, as the hub names it: apache-2.0, cc-by-nc-4.0, …")


class AddSettings(Settings):
    """Languages added to a finished student, and limits on what the old ones may lose."""

    table = "add"
    run: str = setting(..., "A finished run, or the folder of a saved model.")
    replay: float = setting(1.0, "Pairs of the old languages to train on again, per new pair.", at_least=0.0)
    replay_from: tuple[str, ...] = setting((), "Pairs of the old languages, if those of the run are gone.")
    gate: float = setting(
        1.0, "Maximum loss of an old language in percentage points; 100 accepts any loss.", at_least=0.0, at_most=100.0
    )
    gate_on: Literal["teacher_index", "to_source", "from_source"] = setting("teacher_index", "The score that the gate checks.")
    teacher: str = setting("", "Teacher of a saved model without a run.")
    original: str = setting("", "For a saved model without a run: the model whose vocabulary was trimmed.")


class AddingSettings(AddSettings):
    """What `isogloss add` takes. Everything else is as in the recipe of the run that is added to."""

    table = ""
    languages: tuple[str, ...] = setting(..., "Languages to add.", min_length=1)
    pairs: tuple[str, ...] = setting(..., "Files, folders, globs or stores with pairs of the new languages.", min_length=1)
    out: str = setting("runs/added", "Folder of the new run.")
