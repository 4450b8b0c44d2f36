"""What is fuzzed: every place where something from outside is taken in, each with good input to begin with.

A target is given a `Random` and tries one case. It may give a result or raise an `IsoglossError` with a sentence that holds no
control characters; everything else is a finding (`attempt`).
"""

import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from fuzz_notes import Notes
from fuzz_readers import Readers, Written
from fuzz_servers import Answers
from isogloss.errors import IsoglossError
from isogloss.shown import printable

LONGEST_MESSAGE = 2000
Try = Callable[[Random], object]


def attempt(name: str, target: Try, number: int) -> str:
    """Try case `number` of a target; what is wrong, in words, or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target(Random(f"{name} {number}"))
    except IsoglossError as error:
        return _complaint(error)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return traceback.format_exc(limit=-6)
    return ""


def _complaint(error: IsoglossError) -> str:
    for text in (error.message, error.hint):
        if printable(text) != text or len(text) > LONGEST_MESSAGE:
            return f"a message with control characters, or too long: {text[:200]!r}"
    return "" if error.message.strip() else "an error without a message"


def targets(folder: Path, set_variable: Callable[[str, str], object]) -> dict[str, Try]:
    """Every target by its name, in folders of their own."""
    set_variable("ISOGLOSS_CACHE", str(folder / "cache"))
    readers, notes, answers, written = (kind(_made(folder / kind.__name__)) for kind in (Readers, Notes, Answers, Written))
    assert isinstance(readers, Readers) and isinstance(notes, Notes)
    assert isinstance(answers, Answers) and isinstance(written, Written)
    found: dict[str, Try] = {f"reader {name}": partial(readers.pairs, name) for name in readers.files}
    found |= {"other readers": readers.others, "test sets": readers.test_sets, "manifests": notes.manifests}
    found |= {
        "scored indexes": notes.scored_indexes,
        "finished runs": notes.finished_runs,
        "training notes": notes.training_notes,
    }
    found |= {"model folders": notes.model_folders, "download notes": notes.downloads, "mean files": notes.mean_files}
    found |= {"services": answers.services, "wikipedia": answers.wikipedia, "odd layouts": answers.odd_layouts}
    found |= {"programs": answers.programs, "recipes": written.recipes, "overrides": written.overrides}
    return found | {"languages": written.languages, "addresses": written.addresses, "json": written.json_texts}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
