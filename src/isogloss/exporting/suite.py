"""The original and its copies on the test sets of a suite, such as tatoeba-14 or sts."""

from dataclasses import replace
from pathlib import Path

from isogloss.checksums import write_sums
from isogloss.evaluation.compare import Comparison, compare
from isogloss.evaluation.data.test_sets import open_data
from isogloss.evaluation.leak_report import scan_of
from isogloss.evaluation.suites import RETRIEVAL, Suite, measure, open_suite
from isogloss.exporting.export import Exported
from isogloss.exporting.source import ExportSource
from isogloss.models.saving import CARD
from isogloss.progress import OnProgress
from isogloss.storage import cache_folder, write_json

FILE = "suite.json"
ORIGINAL = "original"


def suite_of(source: ExportSource) -> Suite:
    """The test sets that the settings name; raises `DataError` if one is missing."""
    settings = source.settings
    teacher = source.teacher if RETRIEVAL in settings.suite else None
    return open_suite(settings.suite, lambda: open_data(settings.data), teacher=teacher, on_progress=source.on_progress)


def measure_suite(source: ExportSource, exported: Exported, suite: Suite) -> Comparison:
    """Measure what was exported beside the original; the scores are kept in the folder too.

    Copies were made from the original and its text, so what that text was scanned for holds for them as well.
    """
    copies = {artifact.name: artifact.path for artifact in exported.artifacts}
    models = {ORIGINAL: source.name, **{name: model_name(path) for name, path in copies.items()}}
    scan, outcomes = scan_of(source.name), []
    for name, model in models.items():
        (found,) = measure(model, suite, cache_folder(), on_progress=_titled(source.on_progress, name))
        where = {"path": copies[name].relative_to(exported.folder).as_posix()} if name in copies else {}
        outcomes.append(replace(found, model=name, facts=found.facts | where, scan=scan))
    comparison = compare(outcomes, ORIGINAL)
    write_json(exported.folder / FILE, {"suite": source.settings.suite, **comparison.as_dict()})
    write_sums(exported.folder, but=(CARD,))
    return comparison


def model_name(path: Path) -> str:
    """The name by which an artifact is opened."""
    prefix = {".onnx": "onnx:", ".xml": "openvino:"}.get(path.suffix, "")
    return f"{prefix}{path}"


def _titled(on_progress: OnProgress, name: str) -> OnProgress:
    """Progress under a model's short name."""
    return lambda step: on_progress(replace(step, stage=f"test sets, {name}"))
