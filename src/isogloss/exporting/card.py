"""The cards of exports: metadata and training data are those of the original, scores are the export's own beside them.

ONNX and OpenVINO exports are the same model, so their card is the original's with a section (`report.export_card`). Static
models and those of a size budget are other models: they get a card of their own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.amounts import amount
from isogloss.corpora.preparation.manifest_schema import CORPORA
from isogloss.corpora.preparation.manifest_schema import TRAINING as KNOWN_TRAINING
from isogloss.corpora.store import leak_scan_of, leaks_in_words
from isogloss.exporting.comparison import IN_TEACHER_INDEX
from isogloss.exporting.export import Artifact
from isogloss.exporting.source import ExportSource
from isogloss.models.loading import BUNDLED
from isogloss.models.saving import CARD, TRAINING
from isogloss.report.card import SERVER_TAG, CardInfo, example_sentences, hub_name, model_card
from isogloss.report.export_card import Copy, ExportInfo, export_card
from isogloss.shapes import OBJECT, check
from isogloss.shown import without_folders
from isogloss.storage import read_json

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def graph_card(source: ExportSource, what: str, artifacts: Sequence[Artifact], folder: Path, for_servers: bool) -> str:
    """The original's card for a folder with graphs of it; `what` they are."""
    text = _original_text(source)
    if "\n" not in text.strip():  # at most a title
        text = new_card(source, source.title, f"{what} of `{_name(source)}`.", source.student.model)
    return measured_card(text, source, source.title, f"{what} of `{_name(source)}`", artifacts, folder, for_servers)


def measured_card(
    text: str,
    source: ExportSource,
    name: str,
    what: str,
    artifacts: Sequence[Artifact],
    folder: Path,
    for_servers: bool = False,
) -> str:
    """A card with the measurements of files in `folder`."""
    first, teacher = artifacts[0].details, source.teacher
    in_index = first["measured_by"] == IN_TEACHER_INDEX and teacher is not None
    where = f"the index of `{without_folders(teacher.name)}`" if in_index and teacher else "the source sentences"
    candidates = amount(len(source.evaluator.sources), "candidate")
    info = ExportInfo(
        name=name,
        what=what,
        measure=f"Accuracy at 1 in percent on held-out sentences, searching {where} ({candidates})",
        metric=first["measured_by"],
        original=first["original"],
        copies=[
            Copy(one.name, _inside(one.path, folder), one.megabytes, one.cosine, one.details["accuracy"]) for one in artifacts
        ],
        base_model=hub_name(source.name),
        for_servers=for_servers,
    )
    return export_card(text, info)


def new_card(source: ExportSource, name: str, description: str, model: "SentenceTransformer") -> str:
    """A card without scores: languages, license, base model, data sets and tags are those of the original."""
    from huggingface_hub import ModelCard

    known, training = _metadata(source), _training(source)
    pairs = source.pairs
    info = CardInfo(
        name=name,
        description=description,
        languages=_listed(known.language) or sorted({*pairs.languages, pairs.source_language}),
        tags=[tag for tag in _listed(known.tags) if tag != SERVER_TAG],
        license=known.license or "",
        corpora=training.get("corpora", {}),
        leak_scan=leaks_in_words(leak_scan_of(training)) if "leak_scan" in training else "",
        examples=example_sentences(pairs),
    )
    card = ModelCard(model_card(info, model))
    data: Any = card.data
    data.base_model = hub_name(source.name) or known.base_model
    data.datasets = data.datasets or known.datasets
    return str(card).rstrip("\n") + "\n"


def _name(source: ExportSource) -> str:
    """What the original is called in a card: its name on the hub, or its title."""
    return hub_name(source.name) or source.title


def _inside(path: Path, folder: Path) -> str:
    return "" if path == folder else path.relative_to(folder).as_posix()


def _original_text(source: ExportSource) -> str:
    """The card of the original; empty if there is none here."""
    from huggingface_hub import try_to_load_from_cache

    folder = source.student.origin
    place: Any = folder / CARD if folder is not None else try_to_load_from_cache(BUNDLED.get(source.name, source.name), CARD)
    try:
        return Path(place).read_text(encoding="utf-8") if isinstance(place, str | Path) else ""
    except (OSError, ValueError):
        return ""


def _metadata(source: ExportSource) -> Any:  # noqa: ANN401 - of which fields is up to the card
    from huggingface_hub import ModelCard

    return ModelCard(_original_text(source), ignore_metadata_errors=True).data


def _training(source: ExportSource) -> dict[str, Any]:
    """What the original's folder says about its training text; nothing if that is not of the known form."""
    folder = source.student.origin
    try:
        known: dict[str, Any] = {} if folder is None else check(read_json(folder / TRAINING), OBJECT)
        return dict(check(known, KNOWN_TRAINING if "leak_scan" in known else {"corpora?": CORPORA}))
    except (OSError, ValueError):
        return {}


def _listed(value: Any) -> list[str]:  # noqa: ANN401 - metadata of others: a text or a list
    return [value] if isinstance(value, str) else list(value or [])
