"""The table of forecasts beside larger runs, from its result file."""

from typing import Any

from isogloss.amounts import listed


def forecast_table(found: dict[str, Any]) -> str:
    """Forecast and measured score per language and size, and how many intervals hold what was measured."""
    rows = found["rows"]
    shown = [row for row in rows if row["score"] == "index" and row["seed"] == found["seeds"][0]]
    lines = ["| language | largest small run | pairs | forecast | measured |", "|---|---|---|---|---|"]
    for row in shown:
        size, score = row["largest_small_run"]
        value, low, high = (100 * one for one in row["forecast"])
        reached, error = (100 * one for one in row["measured"])
        mark = "" if row["inside"] else ", outside"
        cells = [f"{100 * score:.1f} with {size:,}", f"{row['pairs']:,}", f"{value:.1f} ({low:.1f} to {high:.1f})"]
        lines.append(f"| {row['language']} | {' | '.join(cells)} | {reached:.1f} ± {error:.1f}{mark} |")
    inside = {
        score: [row["inside"] for row in rows if row["score"] == score] for score in dict.fromkeys(r["score"] for r in rows)
    }
    counts = listed([f"{sum(held)} of {len(held)} ({score})" for score, held in inside.items()])
    sizes = listed([f"{size:,}" for size in found["sizes"]])
    seeds = "one seed" if len(found["seeds"]) == 1 else f"{len(found['seeds'])} seeds"
    lines += [
        "",
        f"Accuracy in the teacher's index (%), forecast from runs with {sizes} pairs per language, with 95 % intervals;"
        f" measured by larger runs, with standard errors. {found['student']}, taught by {found['teacher']}, one epoch,"
        f" {seeds}. What was measured is within the interval (allowing for its own error) in {counts} cases."
        " ([script](../benchmarks/forecast.py), [result](../benchmarks/results/forecast.json))",
    ]
    return "\n".join(lines)
