"""Whose index a model searches: the teacher of the run that trained it, by its `run.json`."""

from collections.abc import Sequence
from pathlib import Path

from isogloss.errors import DataError
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.shapes import TEXT, check
from isogloss.storage import read_json

RECORD = {"recipe": {"teacher": {"model?": TEXT, "prompt?": TEXT}}}


def teacher_of(model: str) -> tuple[str, str]:
    """The name and the prompt of the teacher of a run's model; empty for other models."""
    folder = Path(model).expanduser()
    for place in (folder, folder.parent) if folder.is_dir() else ():
        try:
            settings = check(read_json(place / "run.json"), RECORD)["recipe"]["teacher"]
        except (OSError, ValueError):
            continue
        return settings.get("model", ""), settings.get("prompt", "")
    return "", ""


def open_teacher_of(models: Sequence[str], named: str | None = None) -> Encoder | None:
    """The teacher that is `named`, or else that of the runs among the models; None if there is none."""
    found = {teacher_of(model) for model in models} - {("", "")} if named is None else {(named, "")}
    if len(found) > 1:
        names = " and ".join(sorted(f"{name} (prompt {prompt!r})" if prompt else name for name, prompt in found))
        raise DataError(f"these models have different teachers: {names}", hint='name one with --teacher, or none: --teacher ""')
    name, prompt = next(iter(found), ("", ""))
    return open_encoder(name, prompt=prompt) if name else None
