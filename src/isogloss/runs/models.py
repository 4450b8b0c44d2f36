"""Open the models of a recipe: the teacher, if there is one, and the student with the layers and vocabulary it needs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from isogloss.config import Recipe
from isogloss.errors import RecipeError
from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.encoder import Encoder, SentenceEncoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.encoders.roles import DOCUMENT, QUERY
from isogloss.models.loading import choose_device, open_model
from isogloss.models.shrinking.layer_dropping import drop_layers
from isogloss.models.static import StaticStudent, static_student
from isogloss.models.student import Student
from isogloss.models.teacher_body import with_vocabulary
from isogloss.models.token_store import TextTokenizer
from isogloss.models.vocabulary.coverage import Survey, in_chunks, survey
from isogloss.models.vocabulary.learn import learn_vocabulary, open_vocabulary, save_vocabulary
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.run import vector_folder
from isogloss.runs.stages.data import StageData
from isogloss.storage import content_hash, make_folder
from isogloss.training.data.pair_dataset import PairDataset
from isogloss.training.distributed import Distributed
from isogloss.training.tasks.mlm import with_mask_token
from isogloss.types import TRAIN, PairSource

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Texts = tuple[str, Sequence[str]]
Used = Callable[[TextTokenizer], Survey]  # what a run's text uses of a vocabulary


def open_models(
    recipe: Recipe,
    pairs: PairSource | None,
    data: StageData | None = None,
    work: Path | None = None,
    on_progress: OnProgress = silent,
) -> tuple[Encoder | None, Student, dict[str, Any]]:
    """Load teacher and student, and trim the student's vocabulary; the dictionary has what was done to the student.

    A learned vocabulary is stored in `work`.
    """
    teacher, settings = open_teacher(recipe, on_progress), recipe.student
    count, done = 1 if teacher is None else 2, dict[str, Any]()
    if settings.kind == "bilstm":
        assert pairs is not None
        student = _bilstm(recipe, pairs, work, on_progress)
        student.set_prompts(settings.query_prompt, settings.document_prompt)
    else:
        on_progress(Step("models", count - 1, count, "models", f"loading {settings.model}"))
        source_language = recipe.pairs.source_language if pairs is None else pairs.source_language
        other = source_language, [] if data is None else data.sentences()
        used = partial(_survey, pairs, other, work, on_progress)
        student, done = open_student(recipe, teacher, used, on_progress)
        student.set_prompts(settings.query_prompt, settings.document_prompt)  # trimming keeps their pieces
        if settings.trim != "off" and student.trimming is None:
            student.trim(used(student.text_tokenizer), settings.trim)
    note, trimming = "", student.trimming
    if trimming is not None:
        done["trimming"] = trimming.as_dict()
        note = f"vocabulary {trimming.rows_before:,} → {trimming.rows_after:,} rows"
    if any(stage.task in ("mlm", "tlm") for stage in recipe.stages):
        with_mask_token(student)
    set_pooling(student, settings.pooling)
    if settings.normalize:
        student.add_normalization()
    on_progress(Step("models", count, count, "models", note))
    return teacher, student, done


def open_teacher(recipe: Recipe, on_progress: OnProgress = silent) -> Encoder | None:
    """The teacher of a recipe, if there is one: any encoder that can be opened."""
    settings = recipe.teacher
    if not settings.model:
        return None
    on_progress(Step("models", 0, 2, "models", f"loading {settings.model}"))
    by_role = {QUERY: settings.query_prompt, DOCUMENT: settings.document_prompt}
    return open_encoder(settings.model, recipe.device, settings.prompt, settings.batch_size, settings.precision, by_role)


def set_pooling(student: Student, mode: str) -> None:
    """Replace the pooling layer; "" keeps it."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    if mode and mode != student.pooling:
        student.model[1] = Pooling(int(student.body.config.hidden_size), mode).to(student.model.device)


def _survey(
    pairs: PairSource | None,
    other: Texts,
    work: Path | None,
    on_progress: OnProgress,
    text_tokenizer: TextTokenizer,
) -> Survey:
    """What the text of pairs, and other text, use of a vocabulary.

    In `work`, pairs are read and tokenized as training needs them, so that it does not do that again.
    """
    if pairs is None:
        seen = Survey(text_tokenizer.tokenizer)
    elif work is None or not pairs.pair_counts().total(split=TRAIN):
        seen = survey(text_tokenizer.tokenizer, training_text_blocks(pairs))
    else:
        with Distributed.here().main_process_first():
            seen = PairDataset.build(pairs, text_tokenizer, work, on_progress).survey(text_tokenizer)
    for language, texts in in_chunks([other] if other[1] else []):
        seen.add(language, texts)
    return seen


def open_student(
    recipe: Recipe, teacher: Encoder | None, used: Used | None = None, on_progress: OnProgress = silent
) -> tuple[Student, dict[str, Any]]:
    """The student by its kind: an encoder, the teacher's body with another vocabulary, or a static table.

    With `used`, a static table is made only of the rows that trimming would leave.
    """
    settings = recipe.student
    device, done = choose_device(recipe.device), dict[str, Any]()
    if settings.kind == "static":
        student: Student = _static(recipe, device, used, on_progress)
    elif settings.kind == "teacher-body":
        if not isinstance(teacher, SentenceEncoder):
            raise RecipeError(
                f'student.kind = "teacher-body" needs the weights of the teacher, which {recipe.teacher.model} does not give',
                hint="name a sentence-transformers model as teacher.model, or choose another student.kind",
            )
        tokenizer = open_model(settings.model).tokenizer
        model, done["new_rows"] = with_vocabulary(teacher.model, tokenizer, recipe.teacher.model, recipe.seed)
        name = f"{recipe.teacher.model} with the vocabulary of {settings.model}"
        student = Student(model, name, settings.prompt, settings.max_tokens)
    else:
        student = Student(open_model(settings.model), settings.model, settings.prompt, settings.max_tokens)
    if settings.layers:
        done["layers"] = drop_layers(student.body, settings.layers)
    student.model.to(device)
    return student, done


def _static(recipe: Recipe, device: str, used: Used | None, on_progress: OnProgress) -> StaticStudent:
    """A static table: the model itself, or one made from the tokens of an encoder after its vocabulary was trimmed."""
    settings = recipe.student
    if settings.layers or recipe.training.train_layers:
        raise RecipeError(
            "a static student has no layers, but student.layers or training.train_layers is set", hint="set them to 0"
        )
    encoder = Student.from_pretrained(settings.model, settings.prompt, settings.max_tokens, device)
    if isinstance(encoder, StaticStudent):
        if settings.dimension not in (0, encoder.dimension):
            raise RecipeError(
                f"student.dimension = {settings.dimension}, but {settings.model} is a static table of dimension"
                f" {encoder.dimension}",
                hint="leave student.dimension out, or name an encoder to make a new table from",
            )
        return encoder
    encoder.set_prompts(settings.query_prompt, settings.document_prompt)
    full = TextTokenizer(encoder.tokenizer, settings.max_tokens, settings.prompt, StaticStudent.tokenizer_module)
    if used is not None and settings.trim != "off":
        encoder.trim(used(full), settings.trim)
    student = static_student(
        encoder.tokenizer,
        settings.dimension or encoder.dimension,
        encoder.model,
        name=f"static {settings.model}",
        prompt=settings.prompt,
        max_tokens=settings.max_tokens,
        seed=recipe.seed,
        on_progress=on_progress,
        cache=vector_folder(recipe),
    )
    student.trimming = encoder.trimming
    if encoder.trimmed_tokenizer is not None and encoder.trimmed_tokenizer.trimmed_from is not None:
        _, kept = encoder.trimmed_tokenizer.trimmed_from
        student.trimmed_tokenizer = replace(student.text_tokenizer, trimmed_from=(full.key, kept))
    return student


def _bilstm(recipe: Recipe, pairs: PairSource, work: Path | None, on_progress: OnProgress) -> Student:
    """LASER's encoder with random weights, over a vocabulary learned from the training text."""
    settings = recipe.student
    with Distributed.here().main_process_first():
        tokenizer = _vocabulary(recipe, pairs, work, on_progress)
    sizes = EncoderSizes(
        embedding=settings.embedding, hidden=settings.hidden, layers=settings.lstm_layers, dropout=settings.lstm_dropout
    )
    student = bilstm_student(tokenizer, sizes, recipe.name, settings.max_tokens, recipe.seed)
    student.model.to(choose_device(recipe.device))
    return student


def _vocabulary(recipe: Recipe, pairs: PairSource, work: Path | None, on_progress: OnProgress) -> "PreTrainedTokenizerFast":
    """A vocabulary learned from the training text, or the one that an earlier run stored in `work`."""
    settings = recipe.student
    size, kind, most = settings.vocabulary, settings.vocabulary_kind, settings.vocabulary_sentences
    path = None if work is None else work / f"vocabulary-{content_hash(pairs.hash, kind, str(size), str(most))[:16]}.json"
    found = None if path is None else open_vocabulary(path)
    note = "" if found is None else "reused"
    if found is None:
        on_progress(Step("vocabulary", 0, size, "pieces", "learning"))
        found = learn_vocabulary(lambda: _first_of_each_language(pairs, most), size, kind)
        if path is not None:
            make_folder(path.parent)
            save_vocabulary(found, path)
    on_progress(Step("vocabulary", len(found), len(found), "pieces", note))
    return found


def _first_of_each_language(pairs: PairSource, most: int) -> Iterator[Sequence[str]]:
    """Training text in blocks, at most `most` sentences of each language."""
    taken: Counter[str] = Counter()
    for language, texts in training_text_blocks(pairs):
        some = texts[: most - taken[language]]
        taken[language] += len(some)
        yield some


def training_text_blocks(pairs: PairSource) -> Iterator[Texts]:
    """The training text of pairs in blocks, with the language of each."""
    for block in pairs.in_blocks(TRAIN):
        yield pairs.source_language, block.column("source").unique().to_pylist()
        for language in block.column("language").unique().to_pylist():
            if language != pairs.source_language:
                pairs_of_language = block.filter(pc.equal(block.column("language"), language))
                yield language, pairs_of_language.column("target").to_pylist()
