"""The text of a recipe's stages: labelled pairs, questions and plain text. It is read before a model is loaded."""

import logging
from dataclasses import dataclass
from itertools import chain
from typing import Any

from isogloss.config import Recipe
from isogloss.corpora.reading.labelled import Labelled, read_nli, read_sts
from isogloss.corpora.reading.question_answers import Questions, read_questions
from isogloss.corpora.reading.readers import read_lines
from isogloss.runs.labelled_files import labelled_files
from isogloss.storage import content_hash

logger = logging.getLogger(__name__)

Content = Labelled | Questions | list[str]


@dataclass(frozen=True, slots=True)
class StageData:
    """What each stage reads, by the stage's name (for a task beside it STAGE/TASK), and the STS dev set."""

    content: dict[str, Content]
    files: dict[str, tuple[str, ...]]
    sts_dev: Labelled | None = None

    @classmethod
    def read(cls, recipe: Recipe) -> "StageData":
        """Read every file that the stages name."""
        content: dict[str, Content] = {}
        files: dict[str, tuple[str, ...]] = {}
        for stage in recipe.stages:
            tasks = {stage.name: stage, **{f"{stage.name}/{beside.task}": beside for beside in getattr(stage, "beside", ())}}
            for name, task in tasks.items():
                if getattr(task, "files", ()):
                    files[name], content[name] = _read(task.task, task.files, f"files of stage {name}")
        dev_files = labelled_files(recipe.evaluation.sts_dev, "evaluation.sts_dev")
        dev = read_sts(dev_files) if dev_files else None
        return cls(content, files | ({"sts_dev": dev_files} if dev_files else {}), dev)

    def sentences(self) -> list[str]:
        """Every sentence of the stages."""
        return [text for part in self.content.values() for text in (part if isinstance(part, list) else part.sentences())]

    @property
    def hash(self) -> str:
        """A hash of the content."""
        hashes = [content_hash(*part) if isinstance(part, list) else part.hash for part in self.content.values()]
        return content_hash(*self.content, *hashes)

    def counts(self) -> dict[str, int]:
        """Rows per stage."""
        return {name: len(part) for name, part in self.content.items()}

    def as_dict(self) -> dict[str, Any]:
        """For run.json. Dev rows that share a sentence with training are counted, with a warning."""
        parts: dict[str, Content] = dict(self.content) | ({} if self.sts_dev is None else {"sts_dev": self.sts_dev})
        facts: dict[str, Any] = {name: {"files": list(self.files[name]), "rows": len(part)} for name, part in parts.items()}
        for name, part in parts.items():
            facts[name] |= {} if isinstance(part, list) else {"hash": part.hash}
            facts[name] |= {"without_label": part.left_out} if isinstance(part, Labelled) else {}
        if self.sts_dev is not None:
            trained = [part for part in self.content.values() if isinstance(part, Labelled)]
            facts["sts_dev"]["shared_with_training"] = shared = shared_rows(self.sts_dev, trained)
            if shared:
                counts = f"{shared:,} of the {len(self.sts_dev):,}"
                logger.warning("%s dev rows share a sentence with training, so dev scores may be too high", counts)
        return facts


def _read(task: str, names: tuple[str, ...], where: str) -> tuple[tuple[str, ...], Content]:
    if task in ("nli", "sts"):
        files = labelled_files(names, where)
        return files, read_nli(files) if task == "nli" else read_sts(files)
    if task == "answers":
        return names, read_questions(names)
    lines = chain.from_iterable(map(read_lines, names))
    return names, list(dict.fromkeys(text for line in lines if (text := line.strip())))


def shared_rows(dev: Labelled, trained: list[Labelled]) -> int:
    """How many rows of a dev set have a sentence of the training data, regardless of case and spacing."""
    seen = {_plain(text) for pairs in trained for text in (*pairs.first, *pairs.second)}
    return sum(_plain(one) in seen or _plain(other) in seen for one, other in zip(dev.first, dev.second, strict=True))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
