"""The table of models within a size, from its result file."""

from typing import Any

VOCABULARY = {"off": "whole", "alphabet": "its alphabets", "corpus": "words of its text"}


def budget_table(found: dict[str, Any]) -> str:
    """One row per budget: the chosen form, its size, speed and score, and what it loses."""
    lines = [
        "| budget | MB | sentences/s | index | translations | points lost | vocabulary | layers | precision |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found["budgets"]:
        if "refused" in row:
            lines.append(f"| {row['budget']} | {row['refused']} | | | | | | | |")
            continue
        best = row["best"]
        index, retrieval = (best["shown"][name] for name in ("teacher_index", "retrieval"))
        worst = max((code for code in row["lost"] if code != "average"), key=lambda code: row["lost"][code])
        lost = f"{row['lost']['average']:.1f} ({worst} {row['lost'][worst]:.1f})"
        scores = f"{'–' if index is None else f'{100 * index:.1f}'} | {100 * retrieval:.1f}"
        form = (
            f"{VOCABULARY[best['trim']]} ({best['vocabulary']:,}) | {best['layers']} of {found['layers']} | {best['precision']}"
        )
        lines.append(
            f"| {row['budget']} | {row['megabytes']:.1f} | {best['sentences_per_second']:,.0f} | {scores} | {lost} | {form} |"
        )
    original, hardware = found["original"], found["hardware"]
    measured = [one for one in found["tried"] if one["chosen_by"] is not None]
    lines += [
        "",
        f"The best form of the quickstart's model within each size, of {len(measured)} that were measured. The model itself"
        f" has {original['megabytes']:.0f} MB and computes {original['sentences_per_second']:,.0f} sentences/s with torch;"
        f" the forms are run by onnxruntime ({hardware['cores']} cores, {hardware['processor']}). Accuracy at 1 (%) in the"
        " teacher's index and in translation retrieval, mean of both directions and of"
        f" {len(found['budgets'][0]['lost']) - 1} languages; points lost are those of the mean of both, on average and in the"
        " language that loses most. Forms were chosen on one half of the held-out sentences and are scored on the other"
        " ([script](../benchmarks/export_budget.py), [result](../benchmarks/results/export_budget.json)).",
    ]
    return "\n".join(lines)
