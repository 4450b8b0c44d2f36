"""The table of ONNX exports in docs/benchmarks.md, from benchmarks/results/export_onnx.json."""

from typing import Any

PEER = "peer int8"


def export_table(results: dict[str, Any]) -> str:
    """Each file with its best speed, size and closeness, beside torch and the peer's own int8 export."""
    lines = [
        "| | sentences/s | times torch | MB | cosine | teacher's index, % | points lost |",
        "|---|---|---|---|---|---|---|",
        f"| sentence-transformers, torch fp32, at its best batch | {results['torch']['sentences_per_second']:,.0f} | 1 | | 1 |"
        f" {100 * results['original_accuracy']:.1f} | 0 |",
    ]
    for name, file in results["files"].items():
        ways = ("sentence-transformers int8",) if name == PEER else (f"isogloss {name}", f"onnxruntime {name}")
        for way in ways:
            best = results["best"][way]
            label = {"isogloss": "isogloss' encoder", "onnxruntime": "plain onnxruntime"}.get(way.split()[0], "")
            label = f"{name}, {label}" if label else "sentence-transformers' own onnx-int8 export"
            lines.append(
                f"| {label} | {best['sentences_per_second']:,.0f} | {best['times_torch']:.1f} | {file['megabytes']:,.0f} |"
                f" {file['cosine']:.4f} | {100 * file['accuracy']:.1f} | {file['lost']:.2f} |"
            )
    hardware = results["hardware"]
    cores = f"{results['threads']} cores ({hardware['processor']})"
    lines += [
        "",
        f"{results['sentences']:,} sentences in 16 languages on {cores}, the fastest of {results['rounds']} rounds that were run in"
        " turn, each at its best batch size; other sizes are in the result file."
        " ([script](../benchmarks/export_onnx.py), [result](../benchmarks/results/export_onnx.json))",
    ]
    return "\n".join(lines)
