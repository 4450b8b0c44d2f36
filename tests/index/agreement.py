"""What every kind of index has to do alike: build, resume, search, sample, texts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.brute_force import best, score
from isogloss.config.indexing import BuildSettings
from isogloss.errors import IsoglossError
from isogloss.index.building.build import BuiltIndex, build_index
from isogloss.index.open import open_index
from isogloss.index.vector_index import Metric
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray

WIDTH = 5


class Vectors:
    """An encoder whose vectors follow from the text: "7" is row 7 of `ROWS`. It counts what it embeds."""

    def __init__(self, name: str = "teacher", rows: FloatArray | None = None) -> None:
        self.name = self.fingerprint = name
        self.rows = ROWS if rows is None else rows
        self.dimension, self.embedded = self.rows.shape[1], 0

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        self.embedded += len(texts)
        numbers = [int(text.split()[-1]) if text.split()[-1].isdigit() else 0 for text in texts]
        return self.rows[[number % len(self.rows) for number in numbers]]


ROWS = np.random.default_rng(3).normal(size=(70, WIDTH)).astype(np.float32)
QUERIES = np.random.default_rng(4).normal(size=(4, WIDTH)).astype(np.float32)


class Interrupted(Exception):
    pass


def interrupt(step: Step) -> None:
    """Stop a build after 32 documents."""
    if step.done == 32:
        raise Interrupted


def write_documents(path: Path, numbers: Sequence[int]) -> Path:
    """Documents "a7" with the text "text 7"; their vectors are the rows of those numbers."""
    path.write_text("".join(json.dumps({"id": f"a{n}", "text": f"größter text {n}"}) + "\n" for n in numbers), encoding="utf-8")
    return path


def build(documents: Path, address: str, metric: Metric = "cosine", existing: str = "refuse", **others: object) -> BuiltIndex:
    values: dict[str, Any] = {"metric": metric, "existing": existing, "batch_size": 16, **others}
    return build_index(Vectors(), documents, address, BuildSettings(**values))


def agrees(address: str, numbers: Sequence[int], metric: str, tolerance: float = 2e-5) -> None:
    """Hits and scores are those of brute force, and the facts are true."""
    rows = ROWS[list(numbers)]
    with open_index(address) as index:
        facts = index.facts()
        assert (facts.size, facts.dimension, facts.metric, facts.has_texts) == (len(rows), WIDTH, metric, True)
        for k in (1, 6, len(rows) + 5):
            for query, hits in zip(QUERIES, index.search(QUERIES, k), strict=True):
                expected = best(query, rows, k, metric)
                assert len(hits.ids) == len(hits.scores) == len(expected)
                assert hits.scores == pytest.approx([value for _, value in expected], abs=tolerance)
                for name, value in zip(hits.ids, hits.scores, strict=True):
                    assert value == pytest.approx(score(query, ROWS[int(name[1:])], metric), abs=tolerance)
        asked = [f"a{numbers[0]}", "none", f"a{numbers[-1]}"]
        assert index.texts(asked) == {name: f"größter text {name[1:]}" for name in asked if name != "none"}
        sample = index.sample(9)
        assert len(set(sample.ids)) == 9 and sample.texts == [f"größter text {name[1:]}" for name in sample.ids]
        assert index.sample(9).ids == sample.ids
        for name, vector in zip(sample.ids, sample.vectors, strict=True):
            row = ROWS[int(name[1:])]
            stored = row / np.linalg.norm(row) if np.linalg.norm(vector) == pytest.approx(1, abs=1e-3) else row
            assert vector == pytest.approx(stored, abs=max(tolerance, 1e-4))


def lifecycle(folder: Path, address: str) -> None:
    """An index is built, continued after an interruption, refused, extended and replaced; another's is left alone."""
    first, second = write_documents(folder / "first.jsonl", range(50)), write_documents(folder / "second.jsonl", range(40, 60))
    settings = BuildSettings(batch_size=16)
    with pytest.raises(Interrupted):
        build_index(Vectors(), first, address, settings, interrupt)
    refuses(lambda: build(second, address), "unfinished build of other documents")
    again = Vectors()
    built = build_index(again, first, address, BuildSettings(batch_size=7))
    assert (built.documents, built.continued_at) == (50, 32) and again.embedded - 4 == 18  # and four probes of the norm
    agrees(address, range(50), "cosine")
    with open_index(address) as index:
        known = index.facts().built
        assert known is not None and known.complete and (known.model, known.fingerprint) == ("teacher", "teacher")

    refuses(lambda: build(first, address), "exists")
    refuses(lambda: build_index(Vectors("other"), second, address, BuildSettings(existing="append")), "other is another model")
    refuses(lambda: build(second, address, "l2", "append"), "its metric is cosine, not l2")
    agrees(address, range(50), "cosine")
    build(second, address, existing="append")
    agrees(address, range(60), "cosine")
    build(second, address, "l2", "replace")
    agrees(address, range(40, 60), "l2")


def killed_build(documents: Path, address: str, reports: int) -> int:
    """The exit code of a process that builds and is ended by kill -9 at a report of its progress; a batch is 8 documents."""
    code = "import sys; from index.agreement import _build_until; _build_until(*sys.argv[1:])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code, str(documents), address, str(reports)], env=environment, check=False
    ).returncode


def _build_until(documents: str, address: str, reports: str) -> None:
    seen: list[Step] = []

    def die(step: Step) -> None:
        seen.append(step)
        if len(seen) == int(reports):
            os.kill(os.getpid(), signal.SIGKILL)

    build_index(Vectors(), documents, address, BuildSettings(batch_size=8), die)


def continues_after_a_kill(folder: Path, address: str) -> None:
    """A build that was ended by kill -9 continues: two of five batches are embedded again at most."""
    documents = write_documents(folder / "all.jsonl", range(40))
    assert killed_build(documents, address, 4) == -9
    model = Vectors()
    built = build_index(model, documents, address, BuildSettings(batch_size=8))
    assert built.continued_at == 24 and model.embedded - 4 == 16
    agrees(address, range(40), "cosine")


def refuses(act: object, said: str) -> None:
    with pytest.raises(IsoglossError) as caught:
        act()  # type: ignore[operator]
    assert said in caught.value.message and caught.value.hint, caught.value.message
