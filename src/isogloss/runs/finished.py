"""A finished student: its model, the recipe it came from, and the pairs it was trained on.

The folder of a run has all of that (`run.json`, `results.json`, its store); for a saved model alone the user has to name the
teacher and the pairs. `adding` starts from here; nothing here writes.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.corpora.preparation.manifest_schema import TRAINING as KNOWN_TRAINING
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.store import Store, open_store, read_manifest
from isogloss.errors import DataError, ModelError, RecipeError
from isogloss.models.loading import FINISH_A_RUN
from isogloss.models.saving import TRAINING
from isogloss.runs.gathering import LanguageSubset
from isogloss.runs.record import RECORD
from isogloss.runs.run_folder import MODEL, PAIRS, RESULTS
from isogloss.shapes import OBJECT, TEXT, Each, Misfit, check
from isogloss.storage import WORK, read_json

logger = logging.getLogger(__name__)

FINISHED_RUN = {
    "recipe": {"languages": [TEXT]},
    "hashes": {"pairs": TEXT, "teacher": TEXT},
    "stores?": [{"folder": TEXT, "hash": TEXT, "languages": [TEXT]}],
}


@dataclass(frozen=True, slots=True)
class LearntFrom:
    """A store that a student learnt from: where it was, its hash, and which of its languages (none named: all)."""

    folder: str
    hash: str
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished student. `recipe` is plain data, as run.json has it; what is not known is empty."""

    folder: Path
    model: Path
    recipe: dict[str, Any]
    stores: tuple[LearntFrom, ...] = ()
    languages: tuple[str, ...] = ()
    teacher: str = ""  # its fingerprint

    @property
    def training(self) -> dict[str, Any] | None:
        """What the model says about the text it learnt from; None where it says nothing."""
        try:
            known = check(read_json(self.model / TRAINING), {"added?": [OBJECT]})
            return dict(check(known, KNOWN_TRAINING) if "leak_scan" in known else known)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning(
                "%s cannot be read (%s): nothing is known of what the model learnt from", self.model / TRAINING, error
            )
            return None

    def old_pairs(self) -> list[LanguageSubset]:
        """The pairs it learnt from, store by store."""
        if not self.stores:
            raise DataError(
                f"{self.folder}: nobody knows which pairs this model learnt from, so none can be replayed",
                hint="name pairs of its languages: --replay-from PAIRS",
            )
        return [translations(self._store(one), one.languages) for one in self.stores]

    def _store(self, known: LearntFrom) -> Store:
        """The store as it was: a changed one may hold out what was trained on."""
        for place in (self.folder / known.folder, Path(known.folder), self.folder / PAIRS):
            manifest = read_manifest(place)
            if manifest is not None and manifest.get("hash") == known.hash:
                return open_store(place)
        raise DataError(
            f"{self.folder}: the pairs it learnt from are gone or have changed; they were in {known.folder}",
            hint="name pairs of its languages: --replay-from PAIRS",
        )


def translations(store: Store, languages: Sequence[str] = ()) -> LanguageSubset:
    """The pairs of some languages of a store, or of all: source text without translations is not among them."""
    return LanguageSubset(store, languages or [one for one in store.languages if one != store.source_language])


def open_finished(name: str, teacher: str = "", original: str = "") -> Finished:
    """Open the folder of a run, or that of a saved model, which needs `teacher` and may need `original`."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ModelError(f"{name}: no such folder", hint="name a finished run, or a folder with a saved model")
    if (folder / RECORD).is_file():
        if teacher or original:
            raise RecipeError(f"{name}: a run knows its teacher and its student", hint="leave --teacher and --original out")
        return _run(folder)
    if folder.name == MODEL and (folder.parent / RECORD).is_file() and not teacher:
        return _run(folder.parent)
    if not (folder / "modules.json").is_file():
        if (folder / WORK).is_dir():
            raise _unfinished(folder)
        raise ModelError(
            f"{name}: neither a finished run nor a saved model", hint="it needs run.json and model, or modules.json"
        )
    if not teacher:
        raise RecipeError(
            f"{name}: a model without a record: nobody knows by whom it was taught", hint="tell it: --teacher NAME"
        )
    student = {"model": original} if original else {"model": str(folder), "trim": "off"}
    return Finished(folder, folder, {"teacher": {"model": teacher}, "student": student})


def _unfinished(folder: Path) -> ModelError:
    return ModelError(f"{folder}: the run has not finished", hint=FINISH_A_RUN)


def _run(folder: Path) -> Finished:
    record = _read(folder / RECORD)
    if record.get("status") == "refused":
        raise ModelError(f"{folder}: was refused by its gate", hint="accept it first, with --gate off, or add to another run")
    if record.get("status") != "finished":
        raise _unfinished(folder)
    if not (folder / RESULTS).is_file() or not (folder / MODEL / "modules.json").is_file():
        raise ModelError(f"{folder}: the run is finished, but its {RESULTS} or its {MODEL} is gone", hint=FINISH_A_RUN)
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
    known = tuple(LearntFrom(one["folder"], one["hash"], tuple(one["languages"])) for one in stores)
    measured = [tuple(stage["languages"]) for stage in results["stages"].values()]
    return Finished(folder, folder / MODEL, recipe, known, wanted or (measured or [()])[-1], hashes["teacher"])


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error})", hint="run it again to write it") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a record of a run", hint="run it again to write it")
    return found
