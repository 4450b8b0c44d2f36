"""The tables of `isogloss index check`, from its result file."""

from typing import Any

MARKS = {"ship": "✓ ship", "ship with care": "! with care", "do not ship": "✗ do not ship"}


def check_table(result: dict[str, Any]) -> str:
    """Scores and verdicts per language, with gold documents and without."""
    k, gold, without = result["k"], result["gold"], result["without_gold"]
    lines = [
        f"| queries in | kept recall at {k} | teacher's first result in the first {k} | overlap at {k} | RBO |"
        " verdict with gold | without |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = {**gold["languages"], "**average**": gold["average"]}
    for language, own in rows.items():
        scores = own["scores"]
        cells = [_with_interval(scores[name]) for name in ("kept_recall", "first_found", "overlap")]
        verdicts = [MARKS[one["verdict"]["level"]] for one in (own, without["languages"].get(language, {})) if "verdict" in one]
        cells += [f"{scores['rbo'][0]:.2f}", *verdicts, *[""] * (2 - len(verdicts))]
        known = language in ("en", "**average**", *result["trained_on"])
        lines.append(f"| {language}{'' if known else ' (not trained on)'} | {' | '.join(cells)} |")
    questions = next(iter(gold["languages"].values()))["queries"]
    lines += [
        "",
        f"{result['data']}: {questions} questions per language, {result['documents']} English paragraphs that"
        f" {result['teacher']} embedded, and the student of the {result['recipe']} ({result['student']});"
        f" in %, with 95 % intervals. The teacher's own recall at {k} with English questions is"
        f" {100 * gold['teacher']['recall'][0]:.1f} %."
        " ([script](../benchmarks/index_check.py), [result](../benchmarks/results/index_check.json))",
    ]
    return "\n".join(lines)


def diagnosis_table(result: dict[str, Any]) -> str:
    """What the check says about indexes that were spoiled on purpose."""
    lines = ["| the stored vectors are | what the check says |", "|---|---|"]
    for case, one in result["diagnoses"].items():
        mark = {"same": "✓", "close": "✓", "partly": "!", "different": "✗"}[one["match"]]
        lines.append(f"| {case} | {mark} {one['text']}{'. → ' + one['advice'] if one['advice'] else ''} |")
    return "\n".join(lines)


def _with_interval(score: list[float]) -> str:
    return "{:.1f} ({:.1f}–{:.1f})".format(*(100 * one for one in score))
