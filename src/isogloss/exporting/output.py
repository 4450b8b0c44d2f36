"""The folder of an export: written aside and renamed, with a record and checksums. It replaces only an earlier export."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from isogloss.checksums import write_sums
from isogloss.errors import IsoglossError
from isogloss.exporting.export import Artifact
from isogloss.exporting.source import ExportSource
from isogloss.models.hub import UNNAMED
from isogloss.models.saving import CARD
from isogloss.shown import without_folders
from isogloss.storage import atomic_write, remove_stale_files, write_json

RECORD = "export.json"
LOADED_BY_DEFAULT = ("onnx/model.onnx", "openvino/openvino_model.xml")  # by sentence-transformers


@contextmanager
def export_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` if the block succeeds."""
    refuse_other_content(folder)
    remove_stale_files(folder.parent, folder.name)
    with atomic_write(folder) as temporary:
        temporary.mkdir()
        yield temporary


def refuse_other_content(folder: Path) -> None:
    """An export replaces an export or an empty folder, never anything else."""
    if folder.is_file():
        raise IsoglossError(f"{folder}: is a file, not a folder", hint="name a folder; the file is untouched")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        message = f"{folder}: the folder contains files that are not an export"
        raise IsoglossError(message, hint="name a new folder with --out; nothing was changed")


def finish(
    temporary: Path,
    source: ExportSource,
    target: str,
    artifacts: Sequence[Artifact],
    refused: dict[str, str],
    packages: Sequence[str] = (),
) -> None:
    """Write the record and the checksums of a folder whose other files are there."""
    write_json(temporary / RECORD, record(temporary, source, target, artifacts, refused, packages))
    write_sums(temporary, but=(CARD,))


def record(
    temporary: Path,
    source: ExportSource,
    target: str,
    artifacts: Sequence[Artifact],
    refused: dict[str, str],
    packages: Sequence[str],
) -> dict[str, Any]:
    """What was exported, from what, how close it is, and what was refused. It may be uploaded: it names no local folders."""
    settings = source.settings.model_dump(mode="json")
    return {
        "target": target,
        "model": without_folders(source.name),
        "fingerprint": source.student.fingerprint,
        "dimension": source.student.dimension,
        "max_tokens": source.student.max_tokens,
        "teacher": None if source.teacher is None else without_folders(source.teacher.name),
        "settings": settings | {"data": without_folders(source.settings.data)},
        "measured_on": {"sentences": len(source.evaluator.texts), "languages": list(source.evaluator.languages)},
        "artifacts": [as_data(artifact, temporary) for artifact in artifacts],
        "refused": refused,
        "versions": {name: _version(name) for name in ("isogloss", *packages)},
    }


def with_backend(card: str, backend: str, graphs: Sequence[str]) -> str:
    """A card whose usage example loads a graph, by its path in the folder: the folder has no weights for torch."""
    loaded, first = f'SentenceTransformer("{UNNAMED}"', min(graphs, key=len)
    argument = f', backend="{backend}"'
    if first not in LOADED_BY_DEFAULT:
        argument += f', model_kwargs={{"file_name": "{first}"}}'
    return card.replace(f"{loaded})", f"{loaded}{argument})")


def as_data(artifact: Artifact, folder: Path) -> dict[str, Any]:
    """An artifact for JSON, with its path inside `folder`."""
    inside = artifact.path.relative_to(folder) if artifact.path.is_relative_to(folder) else artifact.path
    return {
        "name": artifact.name,
        "path": inside.as_posix(),
        "megabytes": round(artifact.megabytes, 3),
        "cosine": round(artifact.cosine, 6),
        "accuracy": round(artifact.accuracy, 4),
        "lost": round(artifact.lost, 3),
        "details": artifact.details,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
