"""The mining tables of docs/benchmarks.md and docs/mining.md, from the result files; `tables` puts them in place."""

from statistics import median
from typing import Any


def speed_table(speed: dict[str, Any], gpu: dict[str, Any], growth: dict[str, Any]) -> str:
    """Exact mining beside the scripts of LASER and sentence-transformers, on a GPU, and approximate mining beside exact."""
    seconds, scoring = speed["seconds"], {name: _middle(name, speed) for name in speed["turns"]}
    memory, rows = speed["beyond_vectors_mib"], speed["rows"]
    same = min(one["same_share"] for one in speed["same_pairs"].values())
    lines = [
        f"{rows:,} × {rows:,} real sentences, {gpu['dimension']}-d, k = {speed['k']}, both directions, exact, on two cores:",
        "",
        "| | seconds | of which scoring | MiB beyond the embeddings |",
        "|---|---|---|---|",
        *(f"| {name} | {seconds[name]:,.0f} | {scoring[name]:.3g} | {memory[name]:,} |" for name in seconds),
        "",
        f"isogloss is **{speed['times_faster']:.1f} ×** as fast as the faster of the two ({speed['scoring_times_faster']:,.0f}"
        f" × in scoring). At least {100 * same:.3f} % of the pairs are the same (the others compute cosines in single"
        f" precision). One {gpu['hardware']['accelerator']} takes **{gpu['seconds']:.1f} s** for {gpu['rows'][0]:,} ×"
        f" {gpu['rows'][1]:,}, exact. With `--search approximate --recall {growth['recall_wanted']:g}` (of nearest neighbors),"
        " on two cores, with each language's mean subtracted first (without that, little is saved on files with many languages;"
        " see the [log](../LOG.md)):",
        "",
        "| sentences per side | exact, s | approximate, s | ratio | share of the exact pairs found"
        f" | share of those with a score of {growth['threshold']:g} or more | index, MiB |",
        "|---|---|---|---|---|---|---|",
        *(_growth_row(row) for row in growth["sizes"]),
        "",
        "![seconds over the number of sentences](../benchmarks/results/mining_growth.svg)",
        "",
        "([scripts](../benchmarks/mining_speed.py) [in](../benchmarks/mining_gpu.py) [order](../benchmarks/mining_growth.py),"
        " [results](../benchmarks/results))",
    ]
    return "\n".join(lines)


def _middle(name: str, speed: dict[str, Any]) -> float:
    return float(median(turn["seconds"]["scoring"] for turn in speed["turns"][name]))


def _growth_row(row: dict[str, Any]) -> str:
    one = row["approximate"]
    exact = f"{row['exact']['total']:,.0f}" if "exact" in row else "–"
    ratio = f"**{one['times_faster_than_exact']:.1f} ×**" if "exact" in row else "–"
    shares = f"– (recall {100 * one['recall']:.1f} %) | –"
    if "exact" in row:
        shares = f"**{100 * one['share_without_threshold']:.1f} %** | {100 * one['share_of_exact_pairs']:.1f} %"
    return f"| {row['rows']:,} | {exact} | {one['total']:,.0f} | {ratio} | {shares} | {one['index_bytes'] / 2**20:,.0f} |"


def f1_table(results: dict[str, Any]) -> str:
    """F1 of models side by side, and what their estimates of precision were worth."""
    sets, models = results["sets"], results["models"]
    names = list(sets)
    lines = [
        "| | " + " | ".join(f"{name}: F1 (95 % interval)" for name in names) + " |",
        "|---|" + "---|" * len(names),
        *(f"| {model} | {' | '.join(_f1_cell(one['sets'][name]) for name in names)} |" for model, one in models.items()),
        "",
        f"F1 × 100, with precision and recall below. A star marks a significant difference from {next(iter(models))} (paired"
        " bootstrap). Sentences per side and gold pairs: "
        + "; ".join(f"{name} {max(one['sentences']):,} and {one['gold']:,}" for name, one in sets.items())
        + f". Threshold from {', '.join(dict.fromkeys(one['threshold_from'] for one in sets.values()))}."
        + "".join(f" {model} uses the prompt {one['prompt']!r}." for model, one in models.items() if one["prompt"]),
        "",
        "The precision asked of `--threshold auto`, which uses no gold pairs, and the precision and recall it reached:",
        "",
        "| | asked for | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for model, one in models.items():
        curves = [one["sets"][name]["calibration"] for name in names]
        for asked in curves[0]["asked"]:
            cells = [_kept_cell(curve["asked"][asked]) for curve in curves]
            lines.append(f"| {model} | {100 * float(asked):g} % | {' | '.join(cells)} |")
        gaps = [f"{100 * curve['mean_gap']:.1f}" if curve["mean_gap"] is not None else "–" for curve in curves]
        lines.append(f"| {model} | mean gap over all thresholds, points | {' | '.join(gaps)} |")
        absent = [curve["without_translation"] for curve in curves]
        cells = [f"{100 * share['estimated']:.0f} %, {100 * share['by_gold']:.0f} %" for share in absent]
        lines.append(f"| {model} | share without a translation: estimated, by gold | {' | '.join(cells)} |")
    lines += [
        "",
        "A pair counts as wrong if it is not in the gold file, even if it is a correct translation. The news sets were used"
        " while the estimator was developed."
        " ([script](../benchmarks/mining_f1.py), [result](../benchmarks/results/mining_f1.json))",
    ]
    return "\n".join(lines)


def _f1_cell(one: dict[str, Any]) -> str:
    low, high = one["interval"]
    star = "\\*" if one.get("difference", {}).get("significant") else ""
    return (
        f"{100 * one['f1']:.1f}{star} ({100 * low:.1f} to {100 * high:.1f})"
        f"<br>{100 * one['precision']:.1f}, {100 * one['recall']:.1f}"
    )


def _kept_cell(one: dict[str, Any]) -> str:
    return "no pairs" if one["precision"] is None else f"{100 * one['precision']:.1f} %, {100 * one['recall']:.1f} %"
