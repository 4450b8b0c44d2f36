"""Build an index of documents: read, embed, store, batch by batch; the same call continues after an interruption."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isogloss.amounts import amount
from isogloss.config.indexing import BuildSettings, Existing
from isogloss.errors import DataError
from isogloss.index.address import parse_address
from isogloss.index.build_record import BuildRecord
from isogloss.index.building.documents import DocumentSurvey, batches, read_documents, survey_documents
from isogloss.index.building.writer import Batch, IndexWriter, open_writer
from isogloss.index.fit import ModelFacts, model_facts
from isogloss.index.vector_index import Metric
from isogloss.models.encoder import Encoder, refuse_broken
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash

logger = logging.getLogger(__name__)
STAGE = "index"


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """What was built."""

    address: str
    model: str
    documents: int
    skipped: int  # without text
    continued_at: int  # documents that an interrupted build had stored
    dimension: int
    metric: Metric


def build_index(
    model: "Encoder | str",
    documents: "str | Path | Sequence[str | Path]",
    address: str,
    settings: BuildSettings | None = None,
    on_progress: OnProgress = silent,
) -> BuiltIndex:
    """Embed documents with a model and store them in an index.

        ig.build_index("all-MiniLM-L6-v2", "docs.jsonl", "index/docs.npy")

    `documents` are files with an id and a text per document (`documents` has the formats), `address` is that of any index
    (`isogloss.index.address`). What is there already is checked before the model is loaded.
    """
    settings = settings or BuildSettings()
    paths = [documents] if isinstance(documents, str | Path) else list(documents)
    parsed = parse_address(address)
    known = survey_documents(paths)
    with open_writer(parsed, [str(path) for path in paths]) as writer:
        _refuse_what_is_there(writer, parsed.shown, settings.existing)
        encoder = _opened(model, settings.prompt)
        record = _record(encoder, known, settings)
        begun = _begin(writer, parsed.shown, record, settings.existing)
        _warn(model_facts(encoder), settings.metric)
        done = begun.done
        on_progress(Step(STAGE, done, known.count, "documents", f"{done:,} already stored" if done else ""))
        for batch in batches(read_documents(paths), settings.batch_size, done):
            texts = [document.text for document in batch]
            vectors = encoder.encode(texts)
            refuse_broken(vectors, texts, encoder.name)
            done += len(batch)
            writer.write(Batch([document.id for document in batch], vectors, texts), replace(begun, done=done))
            on_progress(Step(STAGE, done, known.count, "documents", "finishing" if done == known.count else ""))
        writer.finish(begun.finished())
    counts = {"documents": known.count, "skipped": known.skipped, "continued_at": begun.done}
    return BuiltIndex(parsed.shown, encoder.name, dimension=encoder.dimension, metric=settings.metric, **counts)


def _opened(model: "Encoder | str", prompt: str) -> Encoder:
    if isinstance(model, str):
        return open_encoder(model, prompt=prompt)
    if prompt:
        raise DataError("a loaded model has its own prompt", hint="give it to ig.load, or give the name of the model")
    return model


def _refuse_what_is_there(writer: IndexWriter, shown: str, existing: Existing) -> None:
    """Raise for an index that is not to be changed, before the model is loaded."""
    there, found = writer.existing()
    if there and found is None:
        raise DataError(f"{shown}: exists and was not built by isogloss, so it is left alone", hint="name another index")
    if found is not None and found.complete and existing == "refuse":
        raise DataError(f"{shown}: already exists", hint="use --replace, or --append (documents with equal ids are replaced)")


def _record(encoder: Encoder, known: DocumentSurvey, settings: BuildSettings) -> BuildRecord:
    job = content_hash(known.hash, encoder.fingerprint, settings.metric, settings.precision)
    return BuildRecord(encoder.name, encoder.fingerprint, encoder.dimension, settings.metric, settings.precision, job)


def _begin(writer: IndexWriter, shown: str, record: BuildRecord, existing: Existing) -> BuildRecord:
    """Create the index, continue an interrupted build, or add to a finished one."""
    found = writer.existing()[1]
    if found is not None and found.job == record.job:
        return writer.resume(record)
    if found is None or existing == "replace" or (not found.complete and not found.done):
        writer.create(record)
        return record
    if not found.complete:
        raise DataError(
            f"{shown}: has an unfinished build of other documents, or with another model or settings",
            hint="run the same command as before to finish it, or --replace it",
        )
    _refuse_other(shown, found, record)
    return writer.resume(record)


def _refuse_other(shown: str, found: BuildRecord, record: BuildRecord) -> None:
    """Raise if vectors of another model, or of another form, would be added."""
    if found.fingerprint != record.fingerprint:
        raise DataError(
            f"{shown}: was built with {found.model}, and {record.model} is another model",
            hint="add documents with the model that the index was built with, or --replace the index",
        )
    for name, one, other in (
        ("metric", found.metric, record.metric),
        ("precision", found.precision, record.precision),
    ):
        if one != other:
            raise DataError(f"{shown}: its {name} is {one}, not {other}", hint=f"add --{name} {one}, or --replace the index")


def _warn(model: ModelFacts, metric: Metric) -> None:
    if metric != "cosine" and model.unit_norm is False:
        logger.warning(
            "the vectors of %s do not have length 1, so %s depends on their lengths; use --metric cosine unless the model is "
            "made for that",
            model.name,
            "the dot product" if metric == "dot" else "the Euclidean distance",
        )


def summary(built: BuiltIndex) -> str:
    """The result in a sentence."""
    parts = [f"{built.address}: {amount(built.documents, 'document')}, {built.dimension} dimensions, {built.metric}"]
    if built.skipped:
        parts.append(f"{built.skipped:,} without text left out")
    return "; ".join(parts)
