"""The saved model: a sentence-transformers folder, written whole, with a card that says where it came from."""

from pathlib import Path
from typing import Any

from isogloss.encode.models import quiet_transformers
from isogloss.errors import IsoglossError
from isogloss.evaluation.leaks import TRAINING
from isogloss.storage import replacing, write_json
from isogloss.students.student import Student
from isogloss.types import Report


def save(student: Student, path: Path | str, card: str = "", training: dict[str, Any] | None = None) -> None:
    """Write the student to `path` so that `SentenceTransformer(path)` loads it; an older model there is replaced whole."""
    path = Path(path)
    refuse_other_things(path)
    with replacing(path) as temporary, quiet_transformers():
        student.model.save(str(temporary), create_model_card=False)
        (temporary / "README.md").write_text(card or f"# {student.name}\n", encoding="utf-8")
        if training is not None:
            write_json(temporary / TRAINING, training)


def refuse_other_things(path: Path) -> None:
    """A model replaces a model or an empty folder, never anything else."""
    if path.is_dir() and any(path.iterdir()) and not (path / "modules.json").is_file():
        raise IsoglossError(
            f"{path}: the folder has other things in it than a model", hint="name a new folder; nothing was changed"
        )


def model_card(title: str, teacher: str, student: str, languages: tuple[str, ...], learnt: str, report: Report | None) -> str:
    """A short model card: what it is, how to use it, and what was measured."""
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "language:",
        *(f'- "{language}"' for language in languages),  # quoted: Norwegian is not false
        "tags: [sentence-transformers, multilingual, distillation, isogloss]",
        "---",
        "",
        f"# {title}",
        "",
        f"`{student}` taught by `{teacher}` with isogloss from {learnt}, for {', '.join(languages)}.",
        f"Its vectors live in the space of `{teacher}`: indexes built with the teacher can be searched with it.",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        'model = SentenceTransformer("path/to/this/folder")',
        "```",
    ]
    if report is not None:
        lines += ["", *_score_table(report)]
    return "\n".join(lines) + "\n"


def _score_table(report: Report) -> list[str]:
    def share(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.1f}"

    lines = [
        f"Held-out sentences, searched among {report.candidates} (accuracy at 1, %):",
        "",
        "| language | teacher's index | to source | from source | cosine to teacher |",
        "|---|---|---|---|---|",
    ]
    for score in (*report.scores, report.average()):
        cosine = "–" if score.cosine is None else f"{score.cosine:.3f}"
        cells = (score.language, share(score.teacher_index), share(score.to_source), share(score.from_source), cosine)
        lines.append(f"| {' | '.join(cells)} |")
    return lines
