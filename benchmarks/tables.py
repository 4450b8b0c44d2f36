"""Write the README's tables from the result files: `python benchmarks/tables.py`."""

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
README = Path(__file__).parent.parent / "README.md"
STAGES = ("untouched", "bridge", "distilled")


def quickstart_table(results: dict[str, Any]) -> str:
    """Accuracy and cosine, language by language, at each stage."""
    lines = [
        "| | search the teacher's index | translation → English | English → translation | cosine to the teacher |",
        "|---|---|---|---|---|",
    ]
    languages = list(results["stages"]["distilled"]["languages"])
    for language in [*languages, "average"]:
        rows = [results["stages"][stage]["average" if language == "average" else "languages"] for stage in STAGES]
        scores = rows if language == "average" else [row[language] for row in rows]
        cells = [
            " → ".join(f"{100 * score[name]:.1f}" for score in scores) for name in ("teacher_index", "to_source", "from_source")
        ]
        cells.append(" → ".join(f"{score['cosine']:.2f}" for score in scores))
        name = f"**{language}**" if language == "average" else language
        lines.append(f"| {name} | {' | '.join(cells)} |")
    hardware, counts = results["hardware"], results["pairs"]
    minutes, seconds = divmod(round(results["seconds"]), 60)
    lines += [
        "",
        "Untouched student → after the closed-form bridge → after distillation; accuracy at 1 (%) of 100 held-out sentences"
        f" a language among {results['candidates']}. {minutes} min {seconds} s and {results['peak_memory_gib']} GiB on"
        f" {hardware['cores']} cores ({hardware['processor']}), from cold caches, with"
        f" {counts['train'] - counts['source_only']:,} pairs and {counts['source_only']:,} English sentences to learn from"
        " ([script](benchmarks/quickstart.py), [result](benchmarks/results/quickstart.json))."
        " The held-out rows were never trained on, but they were seen while the recipe was being made: see the [log](LOG.md).",
    ]
    return "\n".join(lines)


def versus_table(results: dict[str, Any]) -> str:
    """The same seconds for both."""
    ours, peer = results["isogloss"], results["peer"]
    tried = ", ".join(f"{one['learning_rate']:g}: {100 * one['teacher_index']:.1f}" for one in results["peer_tried"])

    def row(name: str, one: dict[str, Any]) -> str:
        shares = " | ".join(f"{100 * one[key]:.1f}" for key in ("teacher_index", "to_source", "from_source"))
        return f"| {name} | {shares} | {one['cosine']:.2f} |"

    lines = [
        f"The same teacher, student, text and {results['budget_seconds']:.0f} seconds on the same two cores:",
        "",
        "| | search the teacher's index | translation → English | English → translation | cosine to the teacher |",
        "|---|---|---|---|---|",
        row("isogloss quickstart", ours),
        row(f"sentence-transformers {results['versions']['sentence-transformers']}, MSELoss", peer),
        "",
        f"The peer trains at {peer['pairs_per_second']:.0f} pairs/s here and saw {peer['pairs_seen']:,} pairs. It was given"
        " the trimmed vocabulary and a normalisation layer; the better of the two learning rates tried is shown"
        f" (index accuracy by rate: {tried}). The table says what these minutes give on two cores, not where either would end"
        " with an accelerator and a day."
        " ([script](benchmarks/versus_sentence_transformers.py),"
        " [result](benchmarks/results/versus_sentence_transformers.json))",
    ]
    return "\n".join(lines)


def prepare_table(versus: dict[str, Any], large: dict[str, Any]) -> str:
    """Cleaning beside OpusFilter, and what ten million pairs take."""
    seconds = zip(versus["isogloss"]["seconds"], versus["opusfilter"]["seconds"], strict=True)
    turns = ", ".join(f"{theirs / ours:.1f}" for ours, theirs in seconds)
    rows = [("isogloss prepare", versus["isogloss"]), (f"OpusFilter {versus['opusfilter']['version']}", versus["opusfilter"])]
    lines = [
        f"The same {versus['pairs']:,} real pairs and kinds of rules (white space, length, ratio, script, language model,"
        " exact copies), both with two processes, taking turns:",
        "",
        "| | pairs/s | memory at most |",
        "|---|---|---|",
        *(f"| {name} | {one['pairs_per_second']:,} | {one['peak_mib']:,.0f} MiB |" for name, one in rows),
        f"| ratio | **{versus['times_as_fast']:.1f} ×** | |",
        "",
        "The rules are not the same to the letter: isogloss leaves the language of texts under 16 letters unjudged, and drops"
        f" where another language leads, not by probability (it keeps {versus['isogloss']['kept']:,} pairs, OpusFilter"
        f" {versus['opusfilter']['kept']:,}). Ratio of the medians of three turns; the turns gave"
        f" {turns}.",
        "",
        "With every rule on and the leak scan against all the lab's evaluation files, on the same two cores: "
        + "; ".join(
            f"{one['pairs']:,} pairs in {one['seconds'] / 60:.1f} min within {one['peak_mib'] / 1024:.2f} GiB"
            for one in large["sizes"]
        )
        + ". ([scripts](benchmarks/prepare_versus_opusfilter.py) [and](benchmarks/prepare_ten_million.py)"
        " [results](benchmarks/results))",
    ]
    return "\n".join(lines)


def engine_table(speed: dict[str, Any], quality: dict[str, Any]) -> str:
    """Training on one GPU beside the peer's trainer: pairs a second, memory, and what the pairs and the seconds gave."""
    peers = {one["batch"]: one for one in speed["peer"]}
    lines = [
        f"Training, XLM-R-base's shape, real pairs, one {speed['hardware']['accelerator']}, the same call, the peer in bf16:",
        "",
        "| pairs in a batch | isogloss, pairs/s | sentence-transformers, pairs/s | ratio | memory, GiB |",
        "|---|---|---|---|---|",
    ]
    for one in speed["isogloss"]:
        other = peers.get(one["batch"])
        if other is not None and not one["grouped"]:
            ratio = one["pairs_per_second"] / other["pairs_per_second"]
            lines.append(
                f"| {one['batch']} | {one['pairs_per_second']:,.0f} | {other['pairs_per_second']:,.0f} | **{ratio:.0f} ×** |"
                f" {one['peak_gib']:.1f} / {other['peak_gib']:.1f} |"
            )
    earlier = speed["earlier_call"]
    theirs = max(one["pairs_per_second"] for one in earlier["peer"] if one["batch"] == 64)
    own = max(one["pairs_per_second"] for one in earlier["isogloss"] if one["batch"] == 64 and not one["grouped"])
    lines += [
        "",
        f"The machines are not all alike: another one gave {own:,.0f} and {theirs:,.0f} pairs/s at batch 64. The peer has its"
        " default data loader; loader workers, which may help it, were not tried here. Random weights, which take as long as"
        " others. ([script](benchmarks/engine_speed.py), [result](benchmarks/results/engine_speed.json))",
        "",
        "What that is worth, multilingual-e5-small ← all-MiniLM-L6-v2, fourteen languages, on the same card:",
        "",
        "| | pairs seen | seconds | dev MSE | Tatoeba, 14 languages |",
        "|---|---|---|---|---|",
    ]
    named = {
        "peer, rate 0.0002": "sentence-transformers' recipe (MSE, batch 64, lr 2e-4)",
        "isogloss, same pairs, each pair alone, rate 0.0002": "isogloss, the same recipe",
        "isogloss, same clock": "isogloss with bridge and soft similarity, batch 256",
    }
    lines += [
        f"| {name} | {quality[key]['pairs_seen']:,} | {quality[key]['seconds']:.0f} | {quality[key]['dev_mse']:.3f} |"
        f" {quality[key]['tatoeba_14']:.1f} |"
        for key, name in named.items()
    ]
    lines += [
        "",
        f"The student starts from {quality['untouched']['dev_mse']:.2f} and {quality['untouched']['tatoeba_14']:.1f}: it is"
        " aligned across languages already, and is moved into the teacher's space. One seed, one learning rate for the peer."
        " ([script](benchmarks/engine_quality.py), [result](benchmarks/results/engine_quality.json))",
    ]
    return "\n".join(lines)


def put(text: str, mark: str, table: str) -> str:
    """Replace what stands between a mark and the next heading."""
    return re.sub(rf"(<!-- {mark} -->\n).*?(?=\n## )", lambda found: f"{found[1]}{table}\n", text, flags=re.DOTALL)


def main() -> None:
    text = README.read_text(encoding="utf-8")
    text = put(text, "quickstart-table", quickstart_table(json.loads((RESULTS / "quickstart.json").read_text())))
    versus = RESULTS / "versus_sentence_transformers.json"
    if versus.exists():
        text = put(text, "versus-table", versus_table(json.loads(versus.read_text())))
    prepared = [RESULTS / f"prepare_{name}.json" for name in ("versus_opusfilter", "ten_million")]
    if all(path.exists() for path in prepared):
        text = put(text, "prepare-table", prepare_table(*(json.loads(path.read_text()) for path in prepared)))
    engine = [RESULTS / f"engine_{name}.json" for name in ("speed", "quality")]
    if all(path.exists() for path in engine):
        text = put(text, "engine-table", engine_table(*(json.loads(path.read_text()) for path in engine)))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
