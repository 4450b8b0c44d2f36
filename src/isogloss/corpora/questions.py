"""The shipped question set, CC0: short paragraphs, and questions that each have their answer in one of them, translated.

It measures how much of a teacher's retrieval a student keeps (`evaluation.retrieval = "questions"`, `retrieval:questions`).
`evaluation.data.retrieval_sets` reads it like any other folder with the same layout. It is never trained on: the leak scan
knows it by the same name.
"""

from importlib.resources import files
from pathlib import Path

NAME = "questions"


def folder() -> Path:
    """The folder with `paragraphs.tsv` (id, topic, en, ar, …) and `questions.tsv` (id, paragraph, en, ar, …)."""
    return Path(str(files("isogloss.corpora") / NAME))


def located(place: str) -> Path:
    """The folder that a name stands for: `questions` is the shipped set, `./questions` the user's own folder."""
    return folder() if place == NAME else Path(place).expanduser()
