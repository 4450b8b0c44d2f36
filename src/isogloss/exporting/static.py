"""A static model: a table of tokens without any layers, hundreds of times faster and weaker.

Its folder loads in `SentenceTransformer(folder)` and in model2vec's `StaticModel.from_pretrained(folder)`.

The table starts from the model's embeddings of single tokens, weighted by their rarity (`models.static`). A bridge maps it to
the model's embeddings of the run's text, both sides of the pairs, and then it is fitted to them in closed form
(`models.table_fit`). It is measured like other exports, but never refused: whoever asks for it knows that it is another model.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isogloss import recipes
from isogloss.checksums import write_sums
from isogloss.errors import ModelError
from isogloss.exporting.card import measured_card, new_card
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import Exported
from isogloss.exporting.output import export_folder, finish
from isogloss.exporting.source import ExportSource
from isogloss.models.encoder import load
from isogloss.models.saving import CARD
from isogloss.models.static import StaticStudent, static_student
from isogloss.models.table_fit import TableFit, fit_table
from isogloss.models.vocabulary.coverage import survey
from isogloss.runs.models import training_text_blocks
from isogloss.runs.replay import draw, held_out_text
from isogloss.storage import WORK, cache_folder, json_text, read_json, remove
from isogloss.training.distillation import Distillation
from isogloss.types import TRAIN, FloatArray, IntArray, PairSource

SEED = 17
NAME = "static"
CONFIG = "config_sentence_transformers.json"
DESCRIPTION = (
    "A static model: the embedding of a text is the mean of the vectors of its tokens. It is very fast, and clearly less"
    " accurate than the model that it was made from. It loads in sentence-transformers and in model2vec."
)
PACKAGES = ("torch", "sentence-transformers", "tokenizers")


def write(source: ExportSource, folder: Path) -> Exported:
    """Write a static model made from the model of `source`, measured beside it."""
    if source.student.kind == StaticStudent.kind:
        raise ModelError(f"{source.name} is a static model already", hint="write it with --to folder")
    with export_folder(folder) as temporary:
        student, fit = distilled(source, temporary / WORK)
        remove(temporary / WORK)
        name = f"{source.title}-static"
        student.save_pretrained(temporary, f"# {name}\n")
        _tell_model2vec(temporary)
        artifact = Comparison(source).measure(NAME, temporary, _megabytes(temporary), load(str(temporary), device="cpu"))
        details = artifact.details | {"rows": len(student.table), "strength": fit.strength}
        artifact = replace(artifact, details=details)
        text = new_card(source, name, DESCRIPTION, student.model)
        card = measured_card(text, source, name, f"Static model of `{source.title}`", [artifact], temporary)
        (temporary / CARD).write_text(card, encoding="utf-8")
        finish(temporary, source, NAME, [artifact], {}, PACKAGES)
    return Exported(folder, (replace(artifact, path=folder),))


def distilled(source: ExportSource, work: Path) -> tuple[StaticStudent, TableFit]:
    """The table, and how it was fitted; `work` is a folder for tokens and embeddings."""
    encoder, pairs, on_progress = source.student, training_pairs(source), source.on_progress
    if source.settings.static_trim != "off":
        encoder = encoder.copy()
        encoder.trim(survey(encoder.tokenizer, training_text_blocks(pairs)), source.settings.static_trim)
    cache = cache_folder()
    student = static_student(
        encoder.tokenizer,
        encoder.dimension,
        encoder.model,
        name=f"static {source.name}",
        prompt=encoder.prompt,
        max_tokens=encoder.max_tokens,
        on_progress=on_progress,
        cache=cache,
    )
    recipe = recipes.parse({"seed": SEED, "teacher": {"model": source.name}, "training": {"epochs": 0}})
    session = Distillation(student, source.student, pairs, recipe, work, cache, on_progress=on_progress)
    session.build_bridge()
    tokens = session.data.tokens
    ids, lengths = tokens.gather(np.arange(len(tokens)))
    start: FloatArray = student.table.detach().numpy()
    fit = fit_table(start, ids.astype(np.int64), lengths, *wanted_of(session), on_progress=on_progress)
    student.set_table(torch.from_numpy(fit.table))
    student.model.eval()
    return student, fit


def training_pairs(source: ExportSource) -> PairSource:
    """The pairs of the source; if there are more than the settings allow, as many of each language."""
    pairs, most = source.pairs, source.settings.static_pairs
    if pairs.pair_counts().total(split=TRAIN) <= most:
        return pairs
    return draw(pairs, most, held_out_text(pairs), SEED, source.on_progress) or pairs


def wanted_of(session: Distillation) -> tuple[FloatArray, IntArray]:
    """The embedding that each sentence should have, and its group.

    That of a source sentence is the model's own; that of a translation is the mean over the sentences that it translates.
    """
    pairs, sources = session.data.pairs, session.data.sources
    of_sources = np.asarray(session.teacher_rows[:], dtype=np.float32)
    wanted = np.zeros((len(session.data.tokens), of_sources.shape[1]), dtype=np.float32)
    counts = np.zeros(len(wanted), dtype=np.float32)
    groups = np.arange(len(wanted))
    np.add.at(wanted, pairs.target, of_sources[pairs.source])
    np.add.at(counts, pairs.target, 1)
    groups[pairs.target] = pairs.source
    wanted /= np.maximum(counts, 1)[:, None]
    wanted[:sources], groups[:sources] = of_sources, np.arange(sources)
    return wanted, groups


def _tell_model2vec(folder: Path) -> None:
    """Say in the folder whether vectors have length 1, in the word that model2vec reads."""
    normalized = any(module["type"].endswith(".Normalize") for module in read_json(folder / "modules.json"))
    config: dict[str, Any] = read_json(folder / CONFIG)
    (folder / CONFIG).write_text(json_text(config | {"normalize": normalized}), encoding="utf-8")
    write_sums(folder, but=(CARD,))


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
