"""The original and its copies on the test sets of a suite, such as tatoeba-14 or sts."""

from pathlib import Path
from typing import Any

from isogloss.checksums import write_sums
from isogloss.evaluation.suites import SuiteSettings, evaluate_suite
from isogloss.exporting.export import Exported
from isogloss.exporting.source import ExportSource
from isogloss.models.saving import CARD
from isogloss.storage import cache_folder, write_json

FILE = "suite.json"


def measure_suite(source: ExportSource, exported: Exported) -> dict[str, Any]:
    """Measure what was exported beside the original; the scores are kept in the folder too."""
    settings = source.settings
    models = [source.name, *(model_name(artefact.path) for artefact in exported.artefacts)]
    searched = source.teacher_name if "retrieval:" in settings.suite else None
    how = SuiteSettings(settings.data, baseline=source.name, cache=cache_folder(), teacher=searched)
    found: dict[str, Any] = evaluate_suite(models, settings.suite, how, source.on_progress).as_dict()
    written = {"suite": settings.suite, **found}
    write_json(exported.folder / FILE, written)
    write_sums(exported.folder, but=(CARD,))
    return written


def model_name(path: Path) -> str:
    """The name by which an artefact is opened."""
    return f"onnx:{path}" if path.suffix == ".onnx" else str(path)
