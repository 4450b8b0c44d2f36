"""isogloss: the sentence-embedding model you trust in one language, in every language you need.

    import isogloss as ig

    pairs = ig.prepare(ig.read("en-de.tsv")).bitext          # parallel sentences, cleaned and split
    teacher = ig.load("all-MiniLM-L6-v2")                    # the model you trust
    student = ig.Student.from_pretrained("multilingual-e5-small")       # the model that learns
    ig.distill(student, teacher, pairs)
    ig.evaluate(student, teacher, pairs).average()
    ig.save(student, "my-model")                             # loads in plain sentence-transformers

Names are loaded when they are first used: importing isogloss costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from isogloss.config import AddingSettings as AddingSettings
    from isogloss.config import BalanceSettings as BalanceSettings
    from isogloss.config import BridgeSettings as BridgeSettings
    from isogloss.config import CleaningSettings as CleaningSettings
    from isogloss.config import LeakSettings as LeakSettings
    from isogloss.config import LossSettings as LossSettings
    from isogloss.config import Recipe as Recipe
    from isogloss.config import StudentSettings as StudentSettings
    from isogloss.config import TrainingSettings as TrainingSettings
    from isogloss.config.mining import MiningSettings as MiningSettings
    from isogloss.config.mining import ScoringSettings as ScoringSettings
    from isogloss.config.mining import SearchSettings as SearchSettings
    from isogloss.corpora.prepare import prepare as prepare
    from isogloss.corpora.reading.readers import read as read
    from isogloss.corpora.reading.readers import read_source_text as read_source_text
    from isogloss.corpora.store import open_store as open_store
    from isogloss.errors import IsoglossError as IsoglossError
    from isogloss.evaluation.alignment import evaluate as evaluate
    from isogloss.evaluation.compare import compare as compare
    from isogloss.evaluation.data.test_sets import open_data as open_data
    from isogloss.evaluation.space import LanguageMeans as LanguageMeans
    from isogloss.evaluation.space import read_means as read_means
    from isogloss.evaluation.suites import measure as measure
    from isogloss.evaluation.suites import open_suite as open_suite
    from isogloss.export.folder import save as save
    from isogloss.mining.mine import mine as mine
    from isogloss.mining.score import score_pairs as score_pairs
    from isogloss.models.cached_encoder import embed as embed
    from isogloss.models.encoder import load as load
    from isogloss.models.encoders.open import open_encoder as open_encoder
    from isogloss.models.static import StaticStudent as StaticStudent
    from isogloss.models.student import Student as Student
    from isogloss.runs.adding import add as add
    from isogloss.runs.clean import clean as clean
    from isogloss.runs.dual import train_dual as train_dual
    from isogloss.runs.finetune_settings import FinetuneSettings as FinetuneSettings
    from isogloss.runs.finetuning import finetune as finetune
    from isogloss.runs.laser import train_laser as train_laser
    from isogloss.runs.pipeline import run as run
    from isogloss.search.neighbours import both_ways as both_ways
    from isogloss.training.distill import distill as distill
    from isogloss.types import Bitext as Bitext
    from isogloss.types import Pair as Pair
    from isogloss_papers.reproduce import reproduce as reproduce

_HOMES = {
    "AddingSettings": "isogloss.config",
    "BalanceSettings": "isogloss.config",
    "Bitext": "isogloss.types",
    "BridgeSettings": "isogloss.config",
    "CleaningSettings": "isogloss.config",
    "FinetuneSettings": "isogloss.runs.finetune_settings",
    "IsoglossError": "isogloss.errors",
    "LanguageMeans": "isogloss.evaluation.space",
    "LeakSettings": "isogloss.config",
    "LossSettings": "isogloss.config",
    "MiningSettings": "isogloss.config.mining",
    "Pair": "isogloss.types",
    "Recipe": "isogloss.config",
    "ScoringSettings": "isogloss.config.mining",
    "SearchSettings": "isogloss.config.mining",
    "StaticStudent": "isogloss.models.static",
    "Student": "isogloss.models.student",
    "StudentSettings": "isogloss.config",
    "TrainingSettings": "isogloss.config",
    "add": "isogloss.runs.adding",
    "both_ways": "isogloss.search.neighbours",
    "clean": "isogloss.runs.clean",
    "compare": "isogloss.evaluation.compare",
    "distill": "isogloss.training.distill",
    "embed": "isogloss.models.cached_encoder",
    "evaluate": "isogloss.evaluation.alignment",
    "finetune": "isogloss.runs.finetuning",
    "load": "isogloss.models.encoder",
    "measure": "isogloss.evaluation.suites",
    "mine": "isogloss.mining.mine",
    "open_data": "isogloss.evaluation.data.test_sets",
    "open_encoder": "isogloss.models.encoders.open",
    "open_store": "isogloss.corpora.store",
    "open_suite": "isogloss.evaluation.suites",
    "prepare": "isogloss.corpora.prepare",
    "read": "isogloss.corpora.reading.readers",
    "read_means": "isogloss.evaluation.space",
    "read_source_text": "isogloss.corpora.reading.readers",
    "reproduce": "isogloss_papers.reproduce",
    "run": "isogloss.runs.pipeline",
    "save": "isogloss.export.folder",
    "score_pairs": "isogloss.mining.score",
    "train_dual": "isogloss.runs.dual",
    "train_laser": "isogloss.runs.laser",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'isogloss' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
