"""Tables of two result files: the speed of the tasks beside distillation, and hand-written parts beside libraries."""

from typing import Any

Result = dict[str, Any]
TASKS = {"nli": "NLI (SoftmaxLoss)", "rank": "translation ranking (MultipleNegativesRankingLoss, both directions)"}


def task_table(speed: Result) -> str:
    """Fine-tuning and ranking beside sentence-transformers' trainer, and LASER's step."""
    lines = [
        f"XLM-R-base's shape, bf16, dropout, one {speed['hardware']['accelerator']}; both sides of a row ran in one call:",
        "",
        "| task | pairs per batch | isogloss, pairs/s | sentence-transformers, pairs/s | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, words in TASKS.items():
        lines += [
            f"| {words} | {row['isogloss']['batch']:,} | {row['isogloss']['examples_per_second']:,.0f}"
            f" | {row['peer']['examples_per_second']:,.0f} | **{row['times_faster']:.1f} ×** |"
            for row in speed[name]
        ]
    peers = [run for name in TASKS for row in speed[name] for run in row["peer"]["runs"]]
    workers = " or ".join(str(count) for count in sorted({run["loader_workers"] for run in peers}))
    laser = speed["laser"][0]
    half, single = laser["bf16"], laser["float32"]["ms_per_step"]
    return "\n".join(
        [
            *lines,
            "",
            f"sentence-transformers was run with {workers} loader processes, and the faster run counts. A step of LASER's"
            f" training (2 layers of 256 per direction, {half['batch']} sentence pairs) takes {half['ms_per_step']:.1f} ms in"
            f" bf16 and {single:.1f} ms in single precision."
            " ([script](../benchmarks/task_speed.py), [result](../benchmarks/results/task_speed.json))",
        ]
    )


def library_table(result: Result) -> str:
    """What libraries do with the same input."""
    own, torchrun = result["failing_process"]
    lines = [
        "| part | library | isogloss | library's speed | ratio |",
        "|---|---|---|---|---|",
        *(
            f"| {row['what']} | {row['library']} | {row['ours_per_second']:,} {row['unit']}"
            f" | {row['theirs_per_second']:,} | {row['times']:.1f} × |"
            for row in result["speed"]
        ),
        "",
        "| damaged entry in a gettext catalog of three | isogloss | polib |",
        "|---|---|---|",
        *(f"| {row['what']} | {row['ours']} | {row['theirs']} |" for row in result["damaged_catalogs"]),
        "",
        f"One of two processes fails, and needs a second to report it ({own['trials']} trials): `isogloss launch` shows its"
        f" error in {own['cause_shown']} of them and prints {own['lines_printed']} lines; torchrun in"
        f" {torchrun['cause_shown']}, and prints {torchrun['lines_printed']}. ([script](../benchmarks/hand_written.py),"
        " [result](../benchmarks/results/hand_written.json))",
    ]
    return "\n".join(lines)


def task_rows(speed: Result) -> list[str]:
    """The README's rows: the largest batch of each task."""
    card = speed["hardware"]["accelerator"]
    rows = []
    for name, words in (("nli", "fine-tune on NLI"), ("rank", "rank translations")):
        row = max(speed[name], key=lambda one: one["isogloss"]["batch"])
        rates = [row[side]["examples_per_second"] for side in ("isogloss", "peer")]
        rows.append(
            f"| {words}, batch {row['isogloss']['batch']:,} | {card} | {rates[0]:,.0f} pairs/s"
            f" | sentence-transformers {rates[1]:,.0f} | **{row['times_faster']:.1f} ×** |"
        )
    return rows
