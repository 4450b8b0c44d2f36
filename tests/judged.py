"""Judged pairs in the words of `tiny`: alike where the verb is the same, a little where the subject is."""

from itertools import product
from pathlib import Path

import numpy as np

from isogloss.corpora.reading.labelled import Labelled
from tiny import SUBJECTS, VERBS

SENTENCES = [(subject, verb) for subject in SUBJECTS for verb in VERBS]


def judged(first: int, count: int) -> list[tuple[str, str, float, str]]:
    """Some pairs of sentences with a score and a label."""
    rows = []
    for (subject, verb), (other, done) in list(product(SENTENCES, SENTENCES))[first::13][:count]:
        score = 5.0 * (subject == other) * (verb == done) or 3.5 * (verb == done) + 1.25 * (subject == other)
        label = "entailment" if verb == done else "neutral" if subject == other else "contradiction"
        rows.append((f"{subject} {verb}.", f"{other} {done}.", score, label))
    return rows


def rated(first: int = 0, count: int = 40) -> Labelled:
    """The same as read from a file of scores."""
    rows = judged(first, count)
    return Labelled([row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows], dtype=np.float32))


def write_judged(folder: Path) -> None:
    """`nli.tsv`, `sts.tsv` and `dev.tsv` in a folder."""
    (folder / "nli.tsv").write_text("".join(f"{a}\t{b}\t{label}\n" for a, b, _, label in judged(0, 48)), encoding="utf-8")
    (folder / "sts.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score, _ in judged(1, 40)), encoding="utf-8")
    (folder / "dev.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score, _ in judged(5, 30)), encoding="utf-8")
