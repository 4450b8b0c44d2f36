"""The table of retrieval in a teacher's index, from its result file."""

from typing import Any


def kept_table(kept: dict[str, Any]) -> str:
    """Recall of each stage per language, and the share of the teacher's that the student keeps."""
    title, scores = next(iter(kept["scores"].items()))
    lines = [
        "| questions in | untouched | bridge | student | kept at 1 | student, at 10 | kept at 10 |",
        "|---|---|---|---|---|---|---|",
    ]
    for language, models in scores.items():
        if language in ("en", "teacher"):
            continue
        first = [f"{models[name]['recall@1'][0]:.1f}" for name in ("untouched", "bridge", "student")]
        student = models["student"]
        shares = [_with_interval(student[f"kept recall@{k}"]) for k in (1, 10)]
        name = "**average**" if language == "Avg." else language
        lines.append(f"| {name} | {' | '.join(first)} | {shares[0]} | {student['recall@10'][0]:.1f} | {shares[1]} |")
    teacher, documents = scores["teacher"]["teacher"], title.partition("(")[2].split()[0]
    lines += [
        "",
        f"{kept['data']}, {kept['questions']} questions per language, searched among {documents} English paragraphs that"
        f" {kept['teacher']} embedded: recall at 1 and at 10 (%), and the recall divided by that of {kept['teacher']} with the"
        f" same questions in English ({teacher['recall@1'][0]:.1f} at 1, {teacher['recall@10'][0]:.1f} at 10), with 95 %"
        f" intervals. The student is that of the {kept['recipe']} ({kept['student']}), before training, after the closed-form"
        " bridge, and after distillation. ([script](../benchmarks/retrieval_kept.py),"
        " [result](../benchmarks/results/retrieval_kept.json))",
    ]
    return "\n".join(lines)


def _with_interval(score: list[float]) -> str:
    return "{:.1f} ({:.1f} to {:.1f})".format(*score)
