"""isogloss: the sentence-embedding model you trust in one language, in every language you need.

    import isogloss as ig

    pairs = ig.prepare(ig.read("en-de.tsv")).bitext                  # parallel sentences, cleaned and split
    teacher = ig.load("all-MiniLM-L6-v2")                            # the model you trust
    student = ig.Student.from_pretrained("multilingual-e5-small")    # the model that learns
    ig.distill(student, teacher, pairs)                              # or ig.train(student, tasks) for any other task
    print(ig.evaluate(student, teacher, pairs).average())
    student.encode(["Guten Morgen", "good morning"])
    student.save_pretrained("my-model")                              # loads in plain sentence-transformers

    ig.embed("my-model", ["Guten Morgen"])                           # any model by name, with a cache if you like
    ig.score("my-model", "en-de.tsv")                                # which pairs are translations
    ig.mine("my-model", "news.en.txt", "news.de.txt")                # parallel sentences in two files
    ig.build_index("all-MiniLM-L6-v2", "docs.jsonl", "index/docs.npy")     # an index, in files or in a database
    ig.search_index("my-model", ["Wo ist der Bahnhof?"], "index/docs.npy")
    ig.check_index("my-model", "index/docs.npy", pairs, teacher).verdict   # does it find what the teacher finds?
    ig.run(ig.Recipe(...))                                           # everything at once, resumable

The model comes first, then the data: a path, a list of paths, a `Bitext`, or a prepared store. Settings are in
`isogloss.config`; everything else is imported from its own module. Importing isogloss loads nothing heavy: names are imported
when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from isogloss.config import Recipe as Recipe
    from isogloss.corpora.prepare import prepare as prepare
    from isogloss.corpora.reading.readers import read as read
    from isogloss.errors import IsoglossError as IsoglossError
    from isogloss.evaluation.alignment import evaluate as evaluate
    from isogloss.exporting.export import export as export
    from isogloss.index.building.build import build_index as build_index
    from isogloss.index.checking.check import check_index as check_index
    from isogloss.index.open import open_index as open_index
    from isogloss.index.search_index import search_index as search_index
    from isogloss.mining.mine import mine as mine
    from isogloss.mining.score import score as score
    from isogloss.models.cached_encoder import embed as embed
    from isogloss.models.encoders.open import open_encoder
    from isogloss.models.student import Student as Student
    from isogloss.runs.adding import add as add
    from isogloss.runs.clean import clean as clean
    from isogloss.runs.pipeline import run as run
    from isogloss.training.distillation import distill as distill
    from isogloss.training.train import train as train

    load = open_encoder

_HOMES = {
    "IsoglossError": "isogloss.errors:IsoglossError",
    "Recipe": "isogloss.config:Recipe",
    "Student": "isogloss.models.student:Student",
    "add": "isogloss.runs.adding:add",
    "build_index": "isogloss.index.building.build:build_index",
    "check_index": "isogloss.index.checking.check:check_index",
    "clean": "isogloss.runs.clean:clean",
    "distill": "isogloss.training.distillation:distill",
    "embed": "isogloss.models.cached_encoder:embed",
    "evaluate": "isogloss.evaluation.alignment:evaluate",
    "export": "isogloss.exporting.export:export",
    "load": "isogloss.models.encoders.open:open_encoder",
    "mine": "isogloss.mining.mine:mine",
    "open_index": "isogloss.index.open:open_index",
    "prepare": "isogloss.corpora.prepare:prepare",
    "read": "isogloss.corpora.reading.readers:read",
    "run": "isogloss.runs.pipeline:run",
    "score": "isogloss.mining.score:score",
    "search_index": "isogloss.index.search_index:search_index",
    "train": "isogloss.training.train:train",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'isogloss' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    globals()[name] = value = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
