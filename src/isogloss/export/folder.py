"""The saved model: a sentence-transformers folder, written whole, with a card that says where it came from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isogloss.checksums import write_sums
from isogloss.errors import IsoglossError
from isogloss.evaluation.leak_report import TRAINING
from isogloss.evaluation.regressions import IN_WORDS
from isogloss.export.readable import make_readable, share_modes
from isogloss.models.loading import quiet_transformers
from isogloss.models.student import Student
from isogloss.shown import masked
from isogloss.storage import atomic_write, write_json
from isogloss.types import Report

CARD = "README.md"


def save(student: Student, path: Path | str, card: str = "", training: dict[str, Any] | None = None) -> None:
    """Write the student to `path` so that `SentenceTransformer(path)` loads it; an older model there is replaced whole."""
    path = Path(path)
    refuse_other_things(path)
    # It was trained with one prompt: encode_query() and encode_document() put that before a text, as encode() does.
    student.model.prompts |= {"query": student.prompt, "document": student.prompt}
    with atomic_write(path) as temporary, quiet_transformers():
        student.model.save(str(temporary), create_model_card=False)
        make_readable(temporary, student.model.max_seq_length)
        (temporary / CARD).write_text(card or f"# {student.name}\n", encoding="utf-8")
        if training is not None:
            write_json(temporary / TRAINING, training)
        write_sums(temporary, but=(CARD,))
        share_modes(temporary, temporary / CARD)


def refuse_other_things(path: Path) -> None:
    """A model replaces a model or an empty folder, never anything else."""
    if path.is_dir() and any(path.iterdir()) and not (path / "modules.json").is_file():
        raise IsoglossError(
            f"{path}: the folder has other things in it than a model", hint="name a new folder; nothing was changed"
        )


def model_card(title: str, teacher: str, student: str, languages: tuple[str, ...], learnt: str, report: Report | None) -> str:
    """A short model card: what it is, how to use it, and what was measured. `teacher` is empty where there was none."""
    student, teacher = masked(student), masked(teacher)
    taught = [
        f"`{student}` taught by `{teacher}` with isogloss from {learnt}, for {', '.join(languages)}.",
        f"Its vectors live in the space of `{teacher}`: indexes built with the teacher can be searched with it.",
    ]
    ranked = [
        f"`{student}` trained as a dual encoder with isogloss on {learnt}, for {', '.join(languages)}: translations are near",
        "each other, and the space is its own.",
    ]
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "language:",
        *(f'- "{language}"' for language in languages),  # quoted: Norwegian is not false
        f"tags: [sentence-transformers, multilingual, {'distillation' if teacher else 'dual-encoder'}, isogloss]",
        "---",
        "",
        f"# {title}",
        "",
        *(taught if teacher else ranked),
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        'model = SentenceTransformer("path/to/this/folder")',
        "```",
    ]
    if report is not None:
        lines += ["", *_score_table(report, bool(teacher))]
    return "\n".join(lines) + "\n"


def lost_table(regressions: Sequence[Mapping[str, Any]]) -> str:
    """What the model does worse than an earlier stage of it (`evaluation.regressions`), to be put under its scores."""
    if not regressions:
        return ""
    rows = ["| language | score | worse than | before | after | standard errors | |", "|---|---|---|---|---|---|---|"]
    for one in regressions:
        before, after = (
            f"{one[name]:.2f}" if one["score"] == "cosine" else f"{100 * one[name]:.1f}" for name in ("before", "after")
        )
        noise = "beyond noise" if one["clear"] else "within noise"
        facts = one["language"], IN_WORDS[one["score"]], one["stage"], before, after, f"{one['standard_errors']:.1f}", noise
        rows.append(f"| {' | '.join(facts)} |")
    return "\n".join(["", "On the same sentences these scores are lower than at an earlier stage:", "", *rows]) + "\n"


def _score_table(report: Report, taught: bool) -> list[str]:
    def share(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.1f}"

    names = ["language", "teacher's index", "to source", "from source", "cosine to teacher"]
    rows = [["---"] * len(names)]
    for score in (*report.scores, report.average()):
        cosine = "–" if score.cosine is None else f"{score.cosine:.3f}"
        shares = share(score.teacher_index), share(score.to_source), share(score.from_source)
        rows.append([score.language, *shares, cosine])
    shown = [place for place, name in enumerate(names) if taught or "teacher" not in name]
    table = [f"| {' | '.join(row[place] for place in shown)} |" for row in (names, *rows)]
    return [f"Held-out sentences, searched among {report.candidates} (accuracy at 1, %):", "", *table]
