"""Translation from one vector (LASER): a decoder writes the translation, and the encoder learns what it needs for that."""

import numpy as np

from isogloss.config.stages import TranslateStage
from isogloss.corpora.reading.languages import canonical
from isogloss.errors import DataError, RecipeError
from isogloss.models.bilstm import BiLstmStudent
from isogloss.models.loading import choose_device
from isogloss.runs.stages.session import StageSession
from isogloss.storage import canonical_json
from isogloss.training.tasks.translate import SECOND, Decoder, DecoderSizes, Translation, TranslationDev, examples_of
from isogloss.types import PairSource


def train(stage: TranslateStage, session: StageSession, number: int) -> None:
    """Train encoder and decoder together; the decoder is not part of the saved model."""
    student, data = session.student, session.pair_data()
    assert isinstance(student, BiLstmStudent)
    assert session.pairs is not None
    pivot, second = target_languages(stage, session.pairs)
    pairs, dev_pairs = session.dev_split(stage)
    examples = examples_of(pairs, data.languages, pivot, second)
    if not (examples.language == SECOND).any():
        raise DataError(
            f"no pair of {pivot} and {second} is left to train on", hint="add pairs, or lower pairs.held_out and dev_pairs"
        )
    device = choose_device(session.recipe.device)
    sizes = DecoderSizes(
        embedding=session.recipe.student.embedding,
        hidden=stage.decoder,
        layers=stage.decoder_layers,
        language=stage.language,
        dropout=stage.dropout,
    )
    decoder = Decoder(len(student.table), student.dimension, 2, data.tokens.pad_id, sizes, session.recipe.seed + 1).to(device)
    end = int(student.tokenizer.eos_token_id)
    task = Translation(student, decoder, data.tokens, examples, end, stage.smoothing)
    dev = None
    if dev_pairs is not None:
        dev = TranslationDev(task, dev_pairs, examples_of(dev_pairs, data.languages, pivot, second))
    training = session.recipe.training_of(stage)
    settings = [stage.decoder, stage.decoder_layers, stage.language, stage.dropout, stage.smoothing, pivot, second]
    key = session.key(data.key, canonical_json([*settings, training.dev_pairs, training.dev_share]))
    session.train_tasks(stage, [task], dev, key)
    counts = np.bincount(examples.language, minlength=2).tolist()
    session.details["translate"] = {
        "examples": dict(zip((pivot, second), counts, strict=True)),
        "decoder_parameters": sum(parameter.numel() for parameter in decoder.parameters()),
        "dev_pairs": 0 if dev is None else len(dev),
    }


def target_languages(stage: TranslateStage, pairs: PairSource) -> tuple[str, str]:
    """The language of the pairs' source side, and the other one that is translated into."""
    named, pivot = [canonical(one) for one in stage.targets], pairs.source_language
    if pivot not in named:
        raise RecipeError(
            f"the target languages are {' and '.join(named)}, but the source side of the pairs is {pivot}",
            hint=f"one of them must be {pivot}: targets = {pivot},{named[1]}",
        )
    second = named[1 - named.index(pivot)]
    if second not in pairs.languages:
        raise DataError(
            f"there are no pairs of {pivot} and {second}, the second target language; there are: {', '.join(pairs.languages)}",
            hint=f"add some, or name another target language: {next(iter(pairs.languages), 'XX')}",
        )
    return pivot, second
