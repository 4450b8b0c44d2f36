"""Write the tables of the README and of docs/mining.md from the result files: `python benchmarks/tables.py`."""

import json
import re
from pathlib import Path
from typing import Any

from mining_tables import f1_table, speed_table
from robustness_table import robustness_table

from isogloss.amounts import duration

RESULTS = Path(__file__).with_name("results")
README = Path(__file__).parent.parent / "README.md"
MINING = README.parent / "docs" / "mining.md"
ROBUSTNESS = MINING.with_name("robustness.md")
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
    lines += [
        "",
        "Untouched student → after the closed-form bridge → after distillation; accuracy at 1 (%) of 100 held-out sentences"
        f" a language among {results['candidates']}. {duration(results['seconds'])} and {results['peak_memory_gib']} GiB on"
        f" {hardware['cores']} cores ({hardware['processor']}), from cold caches, with"
        f" {counts['train'] - counts['source_only']:,} pairs and {counts['source_only']:,} English sentences to learn from"
        " ([script](benchmarks/quickstart.py), [result](benchmarks/results/quickstart.json))."
        " The held-out rows were never trained on, but they were seen while the recipe was being made: see the [log](LOG.md).",
    ]
    if lost := results["training"].get("setback"):
        lines += ["", f"What training lost, as the run itself says: {lost}."]
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
        " the trimmed vocabulary and a normalization layer; the better of the two learning rates tried is shown"
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


def engine_table(speeds: list[dict[str, Any]], quality: dict[str, Any]) -> str:
    """Training on one GPU beside the peer's trainer: pairs a second, memory, and what the pairs and the seconds gave."""
    lines = [
        f"Training, XLM-R-base's shape, real pairs, one {speeds[0]['hardware']['accelerator']}. The peer has bf16 and four"
        " loader processes, its best settings of those tried. Machines are not all alike, so here are two; both sides of a row"
        " were measured in one call:",
        "",
        "| pairs in a batch | isogloss, pairs/s | all translations of a source together | sentence-transformers, pairs/s |"
        " ratio | memory, GiB |",
        "|---|---|---|---|---|---|",
    ]
    for machine, speed in zip("AB", speeds, strict=True):
        lines += [_speed_row(speed, size, machine) for size in sorted({one["batch"] for one in speed["peer"]})]
    best = max((one["tflops"] / speed["matrix_tflops"] for speed in speeds for one in speed["isogloss"]), default=0.0)
    lines += [
        "",
        f"At its best batch isogloss reaches {100 * best:.0f} % of what the card does in one large bf16 product (useful tokens,"
        " layers' products alone). Ratios are of pairs drawn one by one. Random weights, which take as long as others."
        " ([script](benchmarks/engine_speed.py), results [A](benchmarks/results/engine_speed.json)"
        " [B](benchmarks/results/engine_speed_other_machine.json))",
        "",
        "What that is worth, multilingual-e5-small ← all-MiniLM-L6-v2, fourteen languages, on such a card:",
        "",
        "| | learning rate | pairs seen | seconds | dev MSE | Tatoeba, 14 languages |",
        "|---|---|---|---|---|---|",
    ]
    rates = sorted(float(key.split()[-1]) for key in quality if key.startswith("peer, rate"))
    for rate in rates:
        for key, name in ((f"peer, rate {rate:g}", "sentence-transformers' recipe"), _same_recipe(rate)):
            lines.append(_quality_row(quality[key], f"{name} (MSE, batch 64)", f"{rate:g}"))
    lines.append(_quality_row(quality["isogloss, bridge, same pairs"], "isogloss with bridge and soft similarity", "0.0004"))
    lines.append(_quality_row(quality["isogloss, same clock"], "the same, batch 256", "0.0004"))
    lines += [
        "",
        f"The student starts from {quality['untouched']['dev_mse']:.2f} and {quality['untouched']['tatoeba_14']:.1f}: it is"
        f" aligned across languages already, and is moved into the teacher's space. The first rows are averages of"
        f" {len(quality.get('seeds', [0]))} seeds, which decide what pairs are drawn. At the smallest rate neither side arrives"
        " in these 300 steps; ours has the lower MSE there, and not the better Tatoeba ([log](LOG.md))."
        " ([script](benchmarks/engine_quality.py), [result](benchmarks/results/engine_quality.json))",
    ]
    return "\n".join(lines)


def _same_recipe(rate: float) -> tuple[str, str]:
    return f"isogloss, same pairs, rate {rate:g}", "isogloss, the same recipe"


def _speed_row(speed: dict[str, Any], size: int, machine: str) -> str:
    alone, together = (
        next((one for one in speed["isogloss"] if one["batch"] == size and one["grouped"] is grouped), None)
        for grouped in (False, True)
    )
    peer = max((one for one in speed["peer"] if one["batch"] == size), key=lambda one: one["pairs_per_second"])
    if alone is None:
        raise SystemExit(f"batch {size} was measured for the peer only")
    grouped = f"{together['pairs_per_second']:,.0f}" if together else ""
    ratio = alone["pairs_per_second"] / peer["pairs_per_second"]
    return (
        f"| {size} ({machine}) | {alone['pairs_per_second']:,.0f} | {grouped} | {peer['pairs_per_second']:,.0f} |"
        f" **{ratio:.1f} ×** | {alone['peak_gib']:.1f} / {peer['peak_gib']:.1f} |"
    )


def _quality_row(one: dict[str, Any], name: str, rate: str) -> str:
    return (
        f"| {name} | {rate} | {one['pairs_seen']:,} | {one['seconds']:.0f} | {one['dev_mse']:.3f} | {one['tatoeba_14']:.1f} |"
    )


def encode_table(gpu: dict[str, Any], cpu: dict[str, Any], train: dict[str, Any], growth: dict[str, Any]) -> str:
    """Vectors on a GPU and on two cores, and training on two cores."""
    english, many = cpu["results"]["English"], cpu["results"]["16 languages"]
    faster, half = gpu["times_faster"], gpu["peer_half_on_all"]
    held = {one["pairs"]: one["peak_mib"] for one in growth["sizes"]}
    single = max(one["sentences_per_second"] for one in gpu["peer_single"])
    both = zip(train["rounds"]["isogloss"], train["rounds"]["peer"], strict=True)
    turns = ", ".join(f"{one['pairs_per_second'] / other['pairs_per_second']:.1f}" for one, other in both)
    half_rates = train["bf16_pairs_per_second"]
    rates, card = train["pairs_per_second"], gpu["hardware"]["accelerator"]
    lines = [
        "| | isogloss | sentence-transformers | ratio |",
        "|---|---|---|---|",
        f"| encode, BERT-base's shape, one {card}, sentences/s | {gpu['isogloss']['sentences_per_second']:,}"
        f" | as it comes {single:,}; fp16 at its best batch ({half['batch']}) {half['sentences_per_second']:,}"
        f" | **{faster['as_it_comes']:.1f} ×**, {faster['half_at_its_best']:.1f} × |",
        *(
            f"| encode, multilingual-e5-small, 2 cores, {name}, sentences/s | {one['sentences_per_second']['isogloss']:.0f}"
            f" | {one['sentences_per_second'][one['best']]:.0f} ({one['best']}, its best)"
            f" | **{one['times_faster_than_best']:.1f} ×** |"
            for name, one in (("English", english), ("16 languages", many))
        ),
        f"| train, multilingual-e5-small, 2 cores, batch 64, pairs/s | {rates['isogloss']:.1f} | {rates['peer']:.1f}"
        f" | **{train['times_faster']:.1f} ×** |",
        "",
        "The same numbers come out: encoded on a CPU, vectors differ by"
        f" {max(english['largest_difference'], many['largest_difference']):.0e} at most, and trained ones by"
        f" {train['largest_difference']:.0e} after the same steps; in half precision their cosine is"
        f" {gpu['cosine']['least']:.6f} at least."
        f" Training on two cores is in single precision, and turn by turn it was {turns} times the peer; in bfloat16 the peer"
        f" gets {half_rates['peer']:.1f} and isogloss {half_rates['isogloss']:.1f}. On short, even sentences (Tatoeba's) it was"
        " 2.1 to 2.6 times in trials ([log](LOG.md)). Ten million pairs take no longer each than a hundred thousand, in"
        f" {held[10_000_000]:.0f} instead of {held[100_000]:.0f} MiB ([engine](docs/engine.md#any-number-of-pairs))."
        " ([scripts](benchmarks/encode_gpu.py) [in](benchmarks/encode_cpu.py) [order](benchmarks/train_cpu.py),"
        " [results](benchmarks/results))",
    ]
    return "\n".join(lines)


def put(text: str, mark: str, table: str) -> str:
    """Replace what stands between a mark and the next heading."""
    return re.sub(rf"(<!-- {mark} -->\n).*?(?=\n## )", lambda found: f"{found[1]}{table}\n", text, flags=re.DOTALL)


def papers_text(across: dict[str, Any], mined: dict[str, Any]) -> str:
    """What the papers' systems are here, and their two main claims in our figures: averages of tables 2 and 3."""

    def average(kept: dict[str, Any], system: str, words: str = "") -> str:
        one = next(row["ours"][-1] for row in kept["table"]["rows"] if row["system"] == system)
        return f"{one['value']:.1f}, {words}{one['low']:.1f} to {one['high']:.1f}"

    distilled = average(across, "xlm-r-from-sbert-nli-stsb", "95 % interval ")
    return (
        "Reimers & Gurevych 2020 and Ham & Kim 2021, with all they compare with: mean pooling, SBERT, XLM-R-nli-stsb, LASER,"
        " mUSE, LaBSE, distilled students, a teacher that [moves](docs/losses.md)."
        " [`isogloss reproduce`](docs/verbs/reproduce.md) makes every system of a table and measures it, at the"
        " papers' scale or at that of one GPU and some minutes;"
        " each row says what it is made of, and what differs from the paper. [Ours, beside the papers'](docs/papers.md):"
        " across languages,"
        f" distilled ({distilled}) is ahead of fine-tuned in English alone ({average(across, 'xlm-r-nli-stsb')}), and that of"
        f" mean pooling ({average(across, 'xlm-r-mean')}), as they say; for mining, trained to rank translations (LaBSE's way"
        f" {average(mined, 'labse')}) is ahead of distilled ({average(mined, 'xlm-r-from-sbert-nli-stsb')}), as they say,"
        " too. What does not reproduce stands there as well."
    )


def readme(text: str) -> str:
    """The README with all that comes from result files in its place."""
    text = put(text, "quickstart-table", quickstart_table(json.loads((RESULTS / "quickstart.json").read_text())))
    versus = RESULTS / "versus_sentence_transformers.json"
    if versus.exists():
        text = put(text, "versus-table", versus_table(json.loads(versus.read_text())))
    prepared = [RESULTS / f"prepare_{name}.json" for name in ("versus_opusfilter", "ten_million")]
    if all(path.exists() for path in prepared):
        text = put(text, "prepare-table", prepare_table(*(json.loads(path.read_text()) for path in prepared)))
    speed, other, quality = (RESULTS / f"engine_{name}.json" for name in ("speed", "speed_other_machine", "quality"))
    table = engine_table([json.loads(path.read_text()) for path in (speed, other)], json.loads(quality.read_text()))
    text = put(text, "engine-table", table)
    vectors = [RESULTS / f"{name}.json" for name in ("encode_gpu", "encode_cpu", "train_cpu", "cost_growth")]
    text = put(text, "encode-table", encode_table(*(json.loads(path.read_text()) for path in vectors)))
    mining = [RESULTS / f"mining_{name}.json" for name in ("speed", "gpu", "growth")]
    if all(path.exists() for path in mining):
        text = put(text, "mining-table", speed_table(*(json.loads(path.read_text()) for path in mining)))
    across, mined_by = (json.loads((RESULTS / "papers" / f"rg-table-{number}.json").read_text()) for number in (2, 3))
    return put(text, "papers-table", papers_text(across, mined_by))


def robustness(page: str) -> str:
    """docs/robustness.md with the table of the result files."""
    return put(page, "robustness-table", robustness_table())


def main() -> None:
    ROBUSTNESS.write_text(robustness(ROBUSTNESS.read_text(encoding="utf-8")), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    mined = RESULTS / "mining_f1.json"
    if mined.exists():
        text = put(MINING.read_text(encoding="utf-8"), "mining-table", f1_table(json.loads(mined.read_text(encoding="utf-8"))))
        MINING.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
