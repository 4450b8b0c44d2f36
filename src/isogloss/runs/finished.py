"""A finished student: its model, the recipe it came from, and the pairs it was trained on.

The folder of a run has all of these (`run.json`, `results.json`, its store). For a saved model alone, the user has to name the
teacher and the pairs.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from isogloss.corpora.leaks.scan import scanned_before, scanned_sets
from isogloss.corpora.preparation.manifest_schema import TRAINING as KNOWN_TRAINING
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.store import Store, open_store, read_manifest
from isogloss.errors import DataError, ModelError, RecipeError
from isogloss.models.loading import FINISH_A_RUN
from isogloss.models.saving import TRAINING
from isogloss.runs.record import RECORD
from isogloss.runs.run_folder import MODEL, PAIRS, RESULTS
from isogloss.shapes import OBJECT, TEXT, Each, Misfit, check
from isogloss.storage import WORK, content_hash, read_json

logger = logging.getLogger(__name__)

FINISHED_RUN = {
    "recipe": {"languages": [TEXT]},
    "hashes": {"pairs": TEXT, "teacher": TEXT},
    "stores?": [{"folder": TEXT, "hash": TEXT, "languages": [TEXT]}],
}
NAME_PAIRS = "name pairs of its languages: --replay-from PAIRS"
StorePart = tuple[Store, tuple[str, ...]]  # a store, and which of its languages


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished student. `recipe` and `stores` are plain data, as in run.json; what is unknown is empty."""

    folder: Path
    model: Path
    recipe: dict[str, Any]
    stores: Sequence[Mapping[str, Any]] = ()
    languages: tuple[str, ...] = ()
    teacher: str = ""  # its fingerprint

    @property
    def training(self) -> dict[str, Any] | None:
        """What the model's folder says about its training data; None if it says nothing."""
        try:
            known = check(read_json(self.model / TRAINING), {"added?": [OBJECT]})
            return dict(check(known, KNOWN_TRAINING) if "leak_scan" in known else known)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be read (%s), so the model's training data is unknown", self.model / TRAINING, error)
            return None

    def old_pairs(self) -> list[StorePart]:
        """The stores that it was trained on, unchanged: in another store, other pairs may be held out."""
        if not self.stores:
            raise DataError(
                f"{self.folder}: it is not known which pairs this model was trained on, so none can be replayed",
                hint=NAME_PAIRS,
            )
        return [target_languages(self._store(known), tuple(known["languages"])) for known in self.stores]

    def _store(self, known: Mapping[str, Any]) -> Store:
        for place in (self.folder / known["folder"], Path(known["folder"]), self.folder / PAIRS):
            manifest = read_manifest(place)
            if manifest is not None and manifest.get("hash") == known["hash"]:
                return open_store(place)
        raise DataError(
            f"{self.folder}: the pairs it was trained on are gone or have changed; they were in {known['folder']}",
            hint=NAME_PAIRS,
        )


def target_languages(store: Store, languages: tuple[str, ...]) -> StorePart:
    """A store with these languages; if there are none, with all but the source language (text without translations)."""
    return store, languages or tuple(language for language in store.languages if language != store.source_language)


def open_finished(name: str, teacher: str = "", original: str = "") -> Finished:
    """Open the folder of a run, or that of a saved model, which needs `teacher` and may need `original`."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ModelError(f"{name}: no such folder", hint="name a finished run, or a folder with a saved model")
    if (folder / RECORD).is_file():
        if teacher or original:
            raise RecipeError(
                f"{name}: the record of this run names its teacher and its student", hint="leave --teacher and --original out"
            )
        return _run(folder)
    if folder.name == MODEL and (folder.parent / RECORD).is_file() and not teacher:
        return _run(folder.parent)
    if not (folder / "modules.json").is_file():
        if (folder / WORK).is_dir():
            raise _unfinished(folder)
        raise ModelError(
            f"{name}: neither a finished run nor a saved model",
            hint="a run has run.json and model/, a saved model has modules.json",
        )
    if not teacher:
        raise RecipeError(f"{name}: a model without a run.json, so its teacher is unknown", hint="name it: --teacher NAME")
    student = {"model": original} if original else {"model": str(folder), "trim": "off"}
    return Finished(folder, folder, {"teacher": {"model": teacher}, "student": student})


def _unfinished(folder: Path) -> ModelError:
    return ModelError(f"{folder}: the run has not finished", hint=FINISH_A_RUN)


def _run(folder: Path) -> Finished:
    record = _read(folder / RECORD)
    if record.get("status") == "refused":
        raise ModelError(f"{folder}: the gate refused this run", hint="accept it with --gate off, or add to another run")
    if record.get("status") != "finished":
        raise _unfinished(folder)
    if not (folder / RESULTS).is_file() or not (folder / MODEL / "modules.json").is_file():
        raise ModelError(f"{folder}: the run is finished, but {RESULTS} or {MODEL} is missing", hint=FINISH_A_RUN)
    results = _read(folder / RESULTS)
    try:
        check(record, FINISHED_RUN)
        check(results, {"store": TEXT, "stages": Each(TEXT, {"languages": OBJECT})})
    except Misfit as error:
        raise ModelError(
            f"{folder}: its record is not that of a finished run ({error})",
            hint="name its model folder instead, with --teacher and --replay-from",
        ) from error
    recipe, hashes = record["recipe"], record["hashes"]
    wanted = tuple(map(canonical, recipe["languages"]))
    stores = record.get("stores") or [{"folder": results["store"], "hash": hashes["pairs"], "languages": wanted}]
    measured = [tuple(stage["languages"]) for stage in results["stages"].values()]
    return Finished(folder, folder / MODEL, recipe, stores, wanted or (measured or [()])[-1], hashes["teacher"])


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = check(read_json(path), OBJECT)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error})", hint="run it again to write it") from error
    return found


def combined_training(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """The training data of a model that was trained before and is trained again.

    An evaluation set counts as scanned only if all text was scanned for it; if the earlier text is unknown, none does.
    """
    if before is None or "leak_scan" not in before:
        return {key: value for key, value in now.items() if key != "leak_scan"}
    scans = [training["leak_scan"] for training in (before, now)]
    removed = Counter(scans[0]["removed"]) + Counter(scans[1]["removed"])
    return {
        "hash": content_hash(before["hash"], now["hash"]),
        "source_language": now["source_language"],
        "rows_in": before["rows_in"] + now["rows_in"],
        "rows_out": before["rows_out"] + now["rows_out"],
        "languages": {**before["languages"], **now["languages"]},
        "corpora": {**before["corpora"], **now["corpora"]},
        "leak_scan": {
            "level": now["leak_scan"]["level"],
            "sets": [asdict(one) for one in scanned_before(map(scanned_sets, scans), [])],
            "removed": dict(removed),
        },
        "dropped": dict(Counter(before["dropped"]) + Counter(now["dropped"])),
    }
