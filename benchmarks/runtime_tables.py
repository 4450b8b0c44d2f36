"""The table of exported models in the programs that run them, from its result file."""

from typing import Any


def exports_table(found: dict[str, Any]) -> str:
    """One line per file and program: megabytes, cosine, accuracy, sentences per second."""
    lines = [
        "| program | precision | MB | cosine to the original | accuracy, % | sentences/s, one by one | in batches of 32 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        speeds = " | ".join(f"{row['sentences_per_second'][size]:,.0f}" for size in ("1", "32"))
        numbers = f"{row['megabytes']:,.0f} | {row['cosine']:.4f} | {row['accuracy']:.1f} | {speeds}"
        lines.append(f"| {row['program']} | {row['precision']} | {numbers} |")
    where = "in the teacher's index" if found["measured_by"] == "teacher_index" else "searching sources by their translations"
    hardware, versions = found["hardware"], found["versions"]
    lines += [
        "",
        f"The quickstart's model ({found['original']:.1f} % as isogloss runs it). Accuracy at 1 {where}, and the mean cosine,"
        f" on {found['measured_on']:,} held-out sentences in {found['languages']} languages; speed on"
        f" {found['sentences']:,} of them ({found['characters']:.0f} characters on average) as they come, on"
        f" {found['cores']} cores ({hardware['processor']}), the median of {found['rounds']} rounds. MB is what is loaded,"
        f" without the tokenizer. OpenVINO computes in bf16 where the CPU has it.{_static(found['rows'])} torch"
        f" {versions['torch']}.{_left_out(found['left_out'])}"
        " ([script](../benchmarks/exports.py), [result](../benchmarks/results/exports.json))",
    ]
    return "\n".join(lines)


def _static(rows: list[dict[str, Any]]) -> str:
    measured = any(row["precision"].startswith("static") for row in rows)
    return (
        " A static model is a table of tokens without layers; the trimmed one has those of the run's text." if measured else ""
    )


def _left_out(names: list[str]) -> str:
    return f" Not installed, so not measured: {', '.join(names)}." if names else ""
