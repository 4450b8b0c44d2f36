"""The task that docs/engine.md shows: executed as it stands there, and learnt on both engines."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isogloss.models.student import Student
from isogloss.training.engines.graphs import GraphEngine
from tiny import PAIRS
from training.by_hand import an_optimizer, task_loss

DOCS = Path(__file__).parents[3] / "docs" / "engine.md"


def example(heading: str) -> str:
    """The first block of Python below a heading."""
    section = DOCS.read_text(encoding="utf-8").split(f"### {heading}\n")[1].split("\n### ")[0]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return block.group(1)


@pytest.fixture
def given(models: Path) -> dict[str, Any]:
    german = [pair for pair in PAIRS if pair.language == "de"]
    texts, count = [pair.source for pair in german] + [pair.target for pair in german], len(german)
    triplets = [(row, count + row, count + (row + 5) % count) for row in range(count)]
    return {"student": Student.from_pretrained(str(models / "student"), device="cpu"), "texts": texts, "triplets": triplets}


def test_it_is_short_and_trains(given: dict[str, Any], models: Path) -> None:
    code = example("A task of your own")
    own = code.split("class TripletTask")[1].split("summary =")[0]
    assert len([line for line in own.splitlines() if line.strip()]) <= 20
    exec(code, given)
    assert given["summary"].steps == given["summary"].steps_now > 5
    untouched = Student.from_pretrained(str(models / "student"), device="cpu")
    task, everything = given["TripletTask"](untouched, given["texts"], given["triplets"]), np.arange(len(given["triplets"]))
    with torch.no_grad():
        before, after = (task_loss(student, task, everything) for student in (untouched, given["student"]))
    assert after < before


def test_it_can_be_recorded(given: dict[str, Any]) -> None:
    exec(example("A task of your own"), given)
    student, task = given["student"], given["TripletTask"](given["student"], given["texts"], given["triplets"])
    engine = GraphEngine(student, [task], an_optimizer(3), [8], torch.float32, record=False, compiled=False)
    engine.step(engine.prepare(np.arange(5)))
    assert engine.losses()[0].keys() == {"triplet", "loss", "gradient_norm"}
    engine.close()


def test_the_callback_that_is_shown_hears_everything(
    given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(example("A task of your own"), given)
    exec(example("Callbacks"), given)
    student, settings = given["student"], given["TaskSettings"](steps=3, batch_pairs=4, checkpoint_seconds=0.0)
    task = given["TripletTask"](student, given["texts"], given["triplets"])
    given["ig"].train(student, [task], settings, None, tmp_path, callbacks=[given["Print"]()])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "1", "2", "2", "3", "3"] and lines[1].endswith("step-00000001.pt")
