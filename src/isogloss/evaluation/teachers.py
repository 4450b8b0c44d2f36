"""Whose index a model searches: the teacher of the run that trained it, by its `run.json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from isogloss.errors import DataError
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.encoders.roles import DOCUMENT, QUERY
from isogloss.shapes import TEXT, check
from isogloss.storage import read_json

RECORD = {"recipe": {"teacher": {"model?": TEXT, "prompt?": TEXT, "query_prompt?": TEXT, "document_prompt?": TEXT}}}


class NamedTeacher(NamedTuple):
    """The name of a teacher, and its prompts for all text, for queries and for documents."""

    name: str = ""
    prompt: str = ""
    query_prompt: str = ""
    document_prompt: str = ""

    def __str__(self) -> str:
        prompts = zip(("prompt", "query prompt", "document prompt"), self[1:], strict=True)
        shown = ", ".join(f"{what} {prompt!r}" for what, prompt in prompts if prompt)
        return f"{self.name} ({shown})" if shown else self.name


def teacher_of(model: str) -> NamedTeacher:
    """The teacher of a run's model; without a name for other models."""
    folder = Path(model).expanduser()
    for place in (folder, folder.parent) if folder.is_dir() else ():
        try:
            settings = check(read_json(place / "run.json"), RECORD)["recipe"]["teacher"]
        except (OSError, ValueError):
            continue
        return NamedTeacher(settings.get("model", ""), *(settings.get(key, "") for key in NamedTeacher._fields[1:]))
    return NamedTeacher()


def open_teacher_of(models: Sequence[str], named: str | None = None) -> Encoder | None:
    """The teacher that is `named`, or else that of the runs among the models; None if there is none."""
    found = {teacher_of(model) for model in models} - {NamedTeacher()} if named is None else {NamedTeacher(named)}
    if len(found) > 1:
        names = " and ".join(sorted(map(str, found)))
        raise DataError(f"these models have different teachers: {names}", hint='name one with --teacher, or none: --teacher ""')
    teacher = next(iter(found), NamedTeacher())
    if not teacher.name:
        return None
    by_role = {QUERY: teacher.query_prompt, DOCUMENT: teacher.document_prompt}
    return open_encoder(teacher.name, prompt=teacher.prompt, role_prompts=by_role)
