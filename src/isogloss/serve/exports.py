"""The int8 graphs that the service computes with on a CPU: found if they are of this very model, made if there are none.

They are in the run's `export/onnx`, or in the cache folder for other models. Whether an export is of the model says its
fingerprint in export.json. To know that of the model, its weights have to be loaded; so a file beside the export notes from
which files (by their hash) it was made, or why none could be, and the next start reads only that.
"""

import logging
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.checksums import SUMS, check_sums
from isogloss.config.exporting import Cpu, ExportSettings, Precision
from isogloss.errors import IsoglossError, ModelError
from isogloss.models.loading import local_model_folder
from isogloss.progress import OnProgress, Step, silent
from isogloss.shapes import TEXT, Each, check
from isogloss.storage import cache_folder, content_hash, file_hash, folder_lock, make_folder, read_json, write_json
from isogloss.web import user_agent

logger = logging.getLogger(__name__)

EXPORT_RECORD = "export.json"
RECORD_SHAPE = {"fingerprint": TEXT, "artifacts": [{"name": TEXT, "path": TEXT}], "refused": Each(TEXT, TEXT)}
KNOWN = ".known.json"  # after the name of an export's folder
KNOWN_SHAPE = {"files": TEXT, "export": TEXT, "refused": TEXT}
CPU_FLAGS = Path("/proc/cpuinfo")
IN_CACHE = "served"
MEASURED = 100  # sentences per language on which the int8 graph is compared with the model
MAKING, WAITING = "ONNX export, once", "waiting for export"
BUSY = "another isogloss is exporting the model", "wait for it"
INT8: Precision = "int8"
FP32: Precision = "fp32"
GRAPHS: dict[str, str] = {INT8: "*int8*.onnx", FP32: "model.onnx"}  # of folders that other programs wrote


@dataclass(frozen=True)
class Export:
    """A graph, and its precision."""

    graph: Path
    precision: str


class DamagedExport(ModelError):
    """An export of which a file is not as it was written."""


class NoInt8(ModelError):
    """A model that cannot be computed in int8: the graph differs too much from it, or cannot be made."""


def existing_export(place: str, precision: str) -> Export:
    """The graph of `onnx:PLACE`, a folder or a graph; of a folder with "auto" the int8 one if there is one."""
    path = Path(place).expanduser()
    if path.suffix == ".onnx" and path.is_file():
        return Export(path, INT8 if INT8 in path.name else FP32)
    for wanted in (INT8, FP32) if precision == "auto" else (precision,):
        recorded = [path / one for one in _recorded(path, wanted)]
        others = [
            one for folder in (path / "onnx", path) for one in sorted(folder.glob(GRAPHS[wanted])) if _is_right_here(one.name)
        ]
        if found := next((graph for graph in (*recorded, *others) if graph.is_file()), None):
            if (path / SUMS).is_file():
                check_sums(path, lambda name: DamagedExport(f"{path}: {name} is damaged", hint="export the model again"))
            return Export(found, wanted)
    what = "ONNX export" if precision == "auto" else f"{precision} graph"
    raise ModelError(f"{path}: no {what} in this folder", hint="isogloss export MODEL --to onnx writes one")


def int8_export(model: str, on_progress: OnProgress = silent) -> Export:
    """The int8 graph of a model: found, or made. Raises `NoInt8` if the model loses too much in int8."""
    files = _files_key(model)
    return _noted(model, files) or _checked_or_made(model, files, on_progress)


def _noted(model: str, files: str) -> Export | None:
    """The export that is known to be of these files."""
    for folder in _places(model, files) if files else ():
        if _is_noted(folder, files) and (found := _int8_in(folder)):
            return found
    return None


def _checked_or_made(model: str, files: str, on_progress: OnProgress) -> Export:
    from isogloss.exporting.export import default_folder
    from isogloss.exporting.source import ExportSource

    source = ExportSource(model, _settings(), on_progress=on_progress)
    fingerprint = source.student.fingerprint
    in_cache, own = _in_cache(files or fingerprint), default_folder(source, "onnx") if source.run is not None else None

    def found() -> Export | None:
        for folder in _places(model, files or fingerprint):
            if _fingerprint(folder) == fingerprint and (export := _int8_in(folder)):
                _note(folder, files)
                return export
        return None

    def made(folder: Path) -> Export:
        with folder_lock(folder.parent, *BUSY, on_wait=lambda: on_progress(Step(WAITING, 0, 1))):
            # another process may have made it meanwhile, or found that it cannot be made
            return _noted(model, files) or found() or _made(model, files, folder, on_progress)

    if existing := found():
        return existing
    if own is not None and not own.exists():
        try:
            return made(own)
        except ModelError:
            raise
        except IsoglossError as error:
            logger.info("%s; the int8 export is in %s", error.message, in_cache)
    return made(in_cache)


def _made(model: str, files: str, folder: Path, on_progress: OnProgress) -> Export:
    from isogloss.exporting.export import export

    on_progress(Step(MAKING, 0, 1))
    try:
        export(model, "onnx", folder, settings=_settings(), on_progress=on_progress)
    except ModelError as error:
        _note(folder, files, refused=error.message)
        raise NoInt8(error.message, error.hint) from error
    on_progress(Step(MAKING, 1, 1))
    _note(folder, files)
    found = _int8_in(folder)
    assert found is not None, "it was just exported"
    return found


def _settings() -> ExportSettings:
    return ExportSettings(precisions=(INT8,), cpu=this_cpu(), max_queries=MEASURED, max_candidates=MEASURED)


def _places(model: str, key: str) -> Iterator[Path]:
    """Where an export of a model may be."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        yield (folder if (folder / "model").is_dir() else folder.parent) / "export" / "onnx"
    yield _in_cache(key)


def _in_cache(key: str) -> Path:
    return cache_folder() / IN_CACHE / key / "onnx"


def _files_key(model: str) -> str:
    """A hash of a model's files and our version; empty for a name, whose files are not known before it is loaded."""
    folder = local_model_folder(model)
    if folder is None:
        return ""
    if (folder / SUMS).is_file():  # they were compared with the files just now
        return content_hash(user_agent(), (folder / SUMS).read_bytes())
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return content_hash(
        user_agent(), *(part for file in files for part in (file.relative_to(folder).as_posix(), file_hash(file)))
    )


def _int8_in(folder: Path) -> Export | None:
    """The int8 graph of an export; None if it has none or is damaged, and `NoInt8` if it was refused there."""
    record = _record(folder)
    if reason := record.get("refused", {}).get(INT8):
        raise NoInt8(f"int8 was refused: {reason}", hint="serve it with --precision fp32")
    if not any((folder / one).is_file() for one in _recorded(folder, INT8)):
        return None
    try:
        return existing_export(str(folder), INT8)
    except DamagedExport as error:
        logger.warning("%s; it is not used", error.message)
        return None


def _recorded(folder: Path, precision: str) -> list[str]:
    """The paths of graphs of a precision, in the record of an export."""
    artifacts = _record(folder).get("artifacts", ())
    return [one["path"] for one in artifacts if one["name"].startswith(precision) and _is_right_here(one["path"])]


def this_cpu() -> Cpu:
    """Which int8 graph is right on this CPU: sums of products overflow on x86 without VNNI, unless they have a bit less."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "arm64"
    try:
        return "avx512_vnni" if "vnni" in CPU_FLAGS.read_text(encoding="utf-8") else "avx2"
    except (OSError, ValueError):  # not Linux
        return "avx2"


def _is_right_here(graph: str) -> bool:
    return "vnni" not in graph or this_cpu() != "avx2"


def _fingerprint(folder: Path) -> str:
    return str(_record(folder).get("fingerprint", ""))


def _is_noted(folder: Path, files: str) -> bool:
    """Whether the export is known to be of these files; `NoInt8` if it is known that there can be none."""
    known = _read(_beside(folder), KNOWN_SHAPE)
    if not known or (known["files"], known["export"]) != (files, _record_hash(folder)):
        return False
    if known["refused"]:
        raise NoInt8(str(known["refused"]), hint="serve it with --precision fp32")
    return True


def _note(folder: Path, files: str, refused: str = "") -> None:
    """Note it for the next start; a folder that cannot be written is not a reason to stop."""
    if files:
        try:
            make_folder(folder.parent)
            write_json(_beside(folder), {"files": files, "export": _record_hash(folder), "refused": refused})
        except (OSError, IsoglossError):
            return


def _beside(folder: Path) -> Path:
    return folder.with_name(folder.name + KNOWN)


def _record_hash(folder: Path) -> str:
    path = folder / EXPORT_RECORD
    return file_hash(path) if path.is_file() else ""


def _record(folder: Path) -> dict[str, Any]:
    return _read(folder / EXPORT_RECORD, RECORD_SHAPE)


def _read(path: Path, shape: Any) -> dict[str, Any]:  # noqa: ANN401 - as `shapes` has it
    """A JSON file; {} if there is none of that shape."""
    try:
        return dict(check(read_json(path), shape))
    except (OSError, ValueError):
        return {}
