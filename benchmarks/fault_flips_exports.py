"""Exports, indexes and the service for `fault_flips`: the folders that they leave, and who reads them next."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fault_flips import TEXTS, World, stopped

from isogloss.config.exporting import BudgetSettings, ExportSettings
from isogloss.config.indexing import BuildSettings
from isogloss.exporting.budget.search import export_within_budget
from isogloss.exporting.export import export
from isogloss.index.building.build import build_index
from isogloss.index.open import open_index
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, silent
from isogloss.serve.exports import int8_export

KINDS = ("npy", "safetensors", "faiss", "parquet")
ANY: dict[str, Any] = {"min_cosine": 0.0, "max_loss": 100.0, "max_queries": 8, "calibration": 8}
OPENED = {"onnx": ("onnx:{}/onnx/model.onnx", "onnx:{}/onnx/model_qint8_avx512_vnni.onnx"), "openvino": ("openvino:{}",)}
Work = Callable[..., object]


class ExportWorlds:
    """The folders, over the tiny models and the text in `place`."""

    def __init__(self, place: Path, teacher: Encoder) -> None:
        self.place, self.teacher = place, teacher
        self.student, self.pairs = str(place / "models" / "student"), [str(place / "pairs.tsv")]
        lines = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(dict.fromkeys(TEXTS))]
        (place / "docs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def all(self) -> list[World]:
        """Each of them."""
        found = [World(f"index {kind}, read", self.indexed(kind), self.read(kind)) for kind in KINDS]
        for kind in ("npy", "parquet"):
            found.append(World(f"index {kind}, build stopped", stopped(self.indexed(kind), "index", 3), self.built(kind)))
        found += [World(f"export {to}, opened", self.exported(to), self.opened(to)) for to in OPENED]
        found.append(
            World("export static, opened", self.exported("static"), lambda folder: self.vectors(str(folder / "static")))
        )
        found.append(World("serve, started again", self.served, self.served))
        found.append(World("export --budget, stopped", stopped(self.budget, "measuring what fits", 1), self.budget))
        return found

    def indexed(self, kind: str) -> Work:
        """Build an index in a file; a metric that is not the default has to be known to whoever reads it."""

        def build(folder: Path, listen: OnProgress = silent) -> object:
            settings = BuildSettings(batch_size=16, metric="dot")
            return build_index(self.teacher, self.place / "docs.jsonl", str(folder / f"docs.{kind}"), settings, listen)

        return build

    def read(self, kind: str) -> Work:
        """All rows, and what some vectors find."""

        def rows(folder: Path, listen: OnProgress = silent) -> object:
            with open_index(str(folder / f"docs.{kind}")) as index:
                stored, facts = index.sample(10**6), index.facts()
                hits = index.search(self.teacher.encode(TEXTS[:4]), 5)
            found = [(one.ids, one.scores.tobytes()) for one in hits]
            return facts.metric, stored.ids, stored.texts, np.asarray(stored.vectors).tobytes(), found

        return rows

    def built(self, kind: str) -> Work:
        """The build goes on, and its index is read."""

        def again(folder: Path, listen: OnProgress = silent) -> object:
            self.indexed(kind)(folder, listen)
            return self.read(kind)(folder)

        return again

    def exported(self, to: str) -> Work:
        """Export the student."""

        def write(folder: Path, listen: OnProgress = silent) -> object:
            settings = ExportSettings(precisions=("fp32", "int8"), **ANY)
            return export(self.student, to, folder / to, pairs=self.pairs, settings=settings, on_progress=listen)

        return write

    def opened(self, to: str) -> Work:
        """Vectors of the graphs of an export."""
        return lambda folder, listen=silent: [self.vectors(name.format(folder / to)) for name in OPENED[to]]

    def vectors(self, name: str) -> bytes:
        """Vectors of some texts."""
        return open_encoder(name).encode(TEXTS[:8]).tobytes()

    def served(self, folder: Path, listen: OnProgress = silent) -> object:
        """Find or make the int8 graph that the service computes with."""
        before, os.environ["ISOGLOSS_CACHE"] = os.environ.get("ISOGLOSS_CACHE", ""), str(folder)
        try:
            return self.vectors(f"onnx:{int8_export(self.student, listen).graph}")
        finally:
            os.environ["ISOGLOSS_CACHE"] = before
            if not before:
                del os.environ["ISOGLOSS_CACHE"]

    def budget(self, folder: Path, listen: OnProgress = silent) -> object:
        """Search for the best form that fits."""
        settings = BudgetSettings(precisions=("fp32",), layers=(2,), trims=("off",), retrain_epochs=1, speed_sentences=8, **ANY)
        found = export_within_budget(self.student, "5MB", folder, pairs=self.pairs, settings=settings, on_progress=listen)
        return self.vectors(f"onnx:{found.model}")


def export_worlds(place: Path, teacher: Encoder) -> list[World]:
    """The worlds over the models and the text in a folder."""
    return ExportWorlds(place, teacher).all()
