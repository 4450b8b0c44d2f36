"""Write every table that comes from result files into the pages: `python benchmarks/tables.py`.

README.md and some pages of docs/ mark where: a block from `<!-- name -->` to the next
heading, or a few words between `<!-- name -->` and `<!-- /name -->`.
"""

import json
import re
from pathlib import Path
from typing import Any

from budget_tables import budget_table
from choice_table import choice_table
from export_tables import export_table
from forecast_table import forecast_table
from index_tables import check_table, diagnosis_table
from mining_tables import f1_table, speed_table
from readme_tables import aligned, expectations, mined, overview_table, results_table, unseen
from retrieval_tables import kept_table
from robustness_table import robustness_table
from runtime_tables import exports_table
from serving_tables import designs_table, serving_table
from task_tables import library_table, task_table

from isogloss.amounts import duration

RESULTS = Path(__file__).with_name("results")
ROOT = Path(__file__).parent.parent
README, DOCS = ROOT / "README.md", ROOT / "docs"


def quickstart_table(results: dict[str, Any]) -> str:
    """Accuracy and cosine per language at each stage."""
    lines = [
        "| | search the teacher's index | translation → English | English → translation | cosine to the teacher |",
        "|---|---|---|---|---|",
    ]
    stages = list(results["stages"].values())
    for language in [*stages[-1]["languages"], "average"]:
        scores = [stage["average"] if language == "average" else stage["languages"][language] for stage in stages]
        cells = [
            " → ".join(f"{100 * score[name]:.1f}" for score in scores) for name in ("teacher_index", "to_source", "from_source")
        ]
        cells.append(" → ".join(f"{score['cosine']:.2f}" for score in scores))
        name = f"**{language}**" if language == "average" else language
        lines.append(f"| {name} | {' | '.join(cells)} |")
    hardware, counts = results["hardware"], results["pairs"]
    queries = next(iter(stages[-1]["languages"].values()))["queries"]
    lines += [
        "",
        f"Untouched student → after the closed-form bridge → after distillation. Accuracy at 1 (%): {queries} test sentences"
        f" per language, {results['candidates']} candidates. The run took {duration(results['seconds'])} and"
        f" {results['peak_memory_gib']} GiB on {hardware['cores']} cores ({hardware['processor']}) with cold caches, and"
        f" trained on {counts['train'] - counts['source_only']:,} pairs and {counts['source_only']:,} English sentences"
        " ([script](../benchmarks/quickstart.py), [result](../benchmarks/results/quickstart.json)). The test sentences were"
        " never trained on, but their scores were seen while the recipe was developed (see the [log](../LOG.md)).",
    ]
    if setback := _setback(results["training"]):
        lines += ["", f"The run itself reports what training made worse: {setback}."]
    return "\n".join(lines)


def _setback(training: dict[str, Any]) -> str:
    """The sentence of the last training stage; results.json has a summary per stage, older files one for all."""
    last = training if "steps" in training else next(reversed(training.values()), {})
    return str(last.get("setback") or "")


def versus_table(results: dict[str, Any]) -> str:
    """Both recipes with the same time budget."""
    ours, peer = results["isogloss"], results["peer"]
    tried = ", ".join(f"{one['learning_rate']:g}: {100 * one['teacher_index']:.1f}" for one in results["peer_tried"])

    def row(name: str, scores: dict[str, Any]) -> str:
        shares = " | ".join(f"{100 * scores[key]:.1f}" for key in ("teacher_index", "to_source", "from_source"))
        return f"| {name} | {shares} | {scores['cosine']:.2f} |"

    return "\n".join(
        [
            f"Same teacher, student, text and time ({results['budget_seconds']:.0f} seconds on the same two cores):",
            "",
            "| | search the teacher's index | translation → English | English → translation | cosine to the teacher |",
            "|---|---|---|---|---|",
            row("isogloss quickstart", ours),
            row(f"sentence-transformers {results['versions']['sentence-transformers']}, MSELoss", peer),
            "",
            f"sentence-transformers trains at {peer['pairs_per_second']:.0f} pairs/s here and saw {peer['pairs_seen']:,} pairs."
            " It was given the trimmed vocabulary and a normalization layer. The table shows the better of two learning rates"
            f" (index accuracy by rate: {tried}). It says what these minutes give on two cores, not where either would end with"
            " a GPU and a day. ([script](../benchmarks/versus_sentence_transformers.py),"
            " [result](../benchmarks/results/versus_sentence_transformers.json))",
        ]
    )


def prepare_table(versus: dict[str, Any], large: dict[str, Any]) -> str:
    """Cleaning beside OpusFilter, and what ten million pairs take."""
    seconds = zip(versus["isogloss"]["seconds"], versus["opusfilter"]["seconds"], strict=True)
    turns = ", ".join(f"{theirs / ours:.1f}" for ours, theirs in seconds)
    rows = [("isogloss prepare", versus["isogloss"]), (f"OpusFilter {versus['opusfilter']['version']}", versus["opusfilter"])]
    lines = [
        f"The same {versus['pairs']:,} real pairs and the same kinds of rules (white space, length, ratio, script, language"
        " identification, exact duplicates), both with two processes, taking turns:",
        "",
        "| | pairs/s | peak memory |",
        "|---|---|---|",
        *(f"| {name} | {one['pairs_per_second']:,} | {one['peak_mib']:,.0f} MiB |" for name, one in rows),
        f"| ratio | **{versus['times_as_fast']:.1f} ×** | |",
        "",
        "The rules are not identical: isogloss does not judge the language of texts under 16 letters, and drops a text if"
        f" another language is clearly ahead rather than by a probability (it keeps {versus['isogloss']['kept']:,} pairs,"
        f" OpusFilter {versus['opusfilter']['kept']:,}). The ratio is of the medians of three turns; single"
        f" turns gave {turns}.",
        "",
        "With every rule on and the leak scan against all evaluation files of the [lab's data](lab-data.md),"
        " on the same two cores: "
        + "; ".join(
            f"{one['pairs']:,} pairs in {one['seconds'] / 60:.1f} min with {one['peak_mib'] / 1024:.2f} GiB"
            for one in large["sizes"]
        )
        + ". ([scripts](../benchmarks/prepare_versus_opusfilter.py) [and](../benchmarks/prepare_ten_million.py)"
        " [results](../benchmarks/results))",
    ]
    return "\n".join(lines)


def engine_table(speeds: list[dict[str, Any]], quality: dict[str, Any]) -> str:
    """Training on one GPU beside the peer's trainer: pairs per second, memory, and the quality they buy."""
    lines = [
        f"Training, XLM-R-base's shape, real pairs, one {speeds[0]['hardware']['accelerator']}. sentence-transformers uses bf16"
        " and four loader processes, its best settings of those tried. Machines differ, so there are two (A and B); both sides"
        " of a row were measured in one call:",
        "",
        "| pairs per batch | isogloss, pairs/s | with all translations of a source grouped | sentence-transformers, pairs/s |"
        " ratio | memory, GiB |",
        "|---|---|---|---|---|---|",
    ]
    for machine, speed in zip("AB", speeds, strict=True):
        lines += [_speed_row(speed, size, machine) for size in sorted({one["batch"] for one in speed["peer"]})]
    best = max((one["tflops"] / speed["matrix_tflops"] for speed in speeds for one in speed["isogloss"]), default=0.0)
    lines += [
        "",
        f"At its best batch size isogloss reaches {100 * best:.0f} % of the throughput of one large bf16 matrix product on this"
        " card (counting useful tokens and the products of the layers only). Ratios are for pairs sampled one by one. Weights"
        " are random; speed does not depend on them. ([script](../benchmarks/engine_speed.py), results"
        " [A](../benchmarks/results/engine_speed.json) [B](../benchmarks/results/engine_speed_other_machine.json))",
        "",
        "What that buys: multilingual-e5-small distilled from all-MiniLM-L6-v2 in fourteen languages, on the"
        " same kind of card:",
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
        f"The student starts at {quality['untouched']['dev_mse']:.2f} and {quality['untouched']['tatoeba_14']:.1f}: it is"
        " aligned across languages already, and distillation moves it into the teacher's space. The MSE rows are averages of"
        f" {len(quality.get('seeds', [0]))} seeds (which pairs are sampled). At the smallest rate neither side converges in"
        " these 300 steps; isogloss has the lower MSE there but not the better Tatoeba score ([log](../LOG.md))."
        " ([script](../benchmarks/engine_quality.py), [result](../benchmarks/results/engine_quality.json))",
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
    """Encoding on a GPU and on two cores, and training on two cores."""
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
        f" | default {single:,}; fp16 at its best batch size ({half['batch']}) {half['sentences_per_second']:,}"
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
        "The results are the same: embeddings computed on a CPU differ by"
        f" {max(english['largest_difference'], many['largest_difference']):.0e} at most, those of a student after the same"
        f" training steps by {train['largest_difference']:.0e}; in half precision the cosine is at least"
        f" {gpu['cosine']['least']:.6f}. Training on two cores uses single precision; single rounds gave ratios of {turns}. In"
        f" bfloat16 sentence-transformers reaches {half_rates['peer']:.1f} pairs/s and isogloss {half_rates['isogloss']:.1f}."
        " On short sentences of even length (Tatoeba) the ratio was 2.1 to 2.6 in trials ([log](../LOG.md)). Time per pair does"
        f" not grow with the number of pairs: ten million pairs need {held[10_000_000]:.0f} MiB, a hundred thousand"
        f" {held[100_000]:.0f} MiB ([engine](engine.md#any-number-of-pairs))."
        " ([scripts](../benchmarks/encode_gpu.py) [in](../benchmarks/encode_cpu.py) [order](../benchmarks/train_cpu.py),"
        " [results](../benchmarks/results))",
    ]
    return "\n".join(lines)


def papers_text(across: dict[str, Any], mined_by: dict[str, Any]) -> str:
    """What is reproduced, and the papers' two main claims in our numbers: averages of tables 2 and 3."""

    def average(kept: dict[str, Any], system: str, words: str = "") -> str:
        one = next(row["ours"][-1] for row in kept["table"]["rows"] if row["system"] == system)
        return f"{one['value']:.1f}, {words}{one['low']:.1f} to {one['high']:.1f}"

    distilled = average(across, "xlm-r-from-sbert-nli-stsb", "95 % interval ")
    return (
        "Reimers & Gurevych 2020 and Ham & Kim 2021 with everything they compare against: mean pooling, SBERT, XLM-R-nli-stsb,"
        " LASER, mUSE, LaBSE, distilled students and the [moving teacher](losses.md#moving_teacher)."
        " [`isogloss reproduce`](verbs/reproduce.md) trains and measures every system of a table, at the papers' scale or at a"
        " scale of minutes on one GPU. Each row says what it was trained on and what differs from the paper."
        f" [Our tables beside theirs](papers.md) confirm the two main claims: across languages, distillation ({distilled})"
        f" beats fine-tuning on English alone ({average(across, 'xlm-r-nli-stsb')}), which beats mean pooling"
        f" ({average(across, 'xlm-r-mean')}); for bitext mining, translation ranking (LaBSE {average(mined_by, 'labse')}) beats"
        f" distillation ({average(mined_by, 'xlm-r-from-sbert-nli-stsb')}). The page also lists what does not reproduce."
    )


def tatoeba_text(encoder: dict[str, Any], static: dict[str, Any]) -> str:
    """How long all of Tatoeba takes."""
    return (
        "All 112 languages of Tatoeba with 95 % intervals, one command, two cores:"
        f" {duration(encoder['seconds'])} for multilingual-e5-small, {duration(static['seconds'])} for a static table"
        " ([evaluation](evaluation.md), [script](../benchmarks/tatoeba_112.py), results"
        " [encoder](../benchmarks/results/tatoeba_112.json), [static table](../benchmarks/results/tatoeba_112_static.json))."
    )


def put(text: str, mark: str, table: str) -> str:
    """Replace what stands between a mark and the next heading."""
    return re.sub(rf"(<!-- {mark} -->\n).*?(?=\n## )", lambda found: f"{found[1]}{table}\n", text, flags=re.DOTALL)


def put_words(text: str, mark: str, words: str) -> str:
    """Replace what stands between a mark and its end mark."""
    return re.sub(rf"(<!-- {mark} -->).*?(<!-- /{mark} -->)", lambda found: f"{found[1]}{words}{found[2]}", text)


def read(*names: str) -> list[dict[str, Any]]:
    """The result files of these names."""
    return [json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in names]


def readme(text: str) -> str:
    """The README with everything that comes from result files."""
    text = put(text, "results-table", results_table(*read("quickstart", "versus_sentence_transformers")))
    training, rest = read("engine_speed", "engine_speed_other_machine"), ("encode_gpu", "train_cpu", "encode_cpu")
    table = overview_table(training, *read("task_speed", *rest, "mining_speed", "prepare_versus_opusfilter"))
    text = put(text, "speed-table", table)
    text = put(text, "expectations", expectations(*read("quickstart", "papers/rg-table-6", "engine_quality")))
    text = put_words(text, "aligned", aligned(*read("quickstart")))
    text = put_words(text, "unseen", unseen(*read("papers/hk-table-3")))
    return put_words(text, "mined", mined(*read("papers/rg-table-3")))


def benchmarks(page: str) -> str:
    """docs/benchmarks.md with the tables of the result files."""
    page = put(page, "quickstart-table", quickstart_table(*read("quickstart")))
    page = put(page, "versus-table", versus_table(*read("versus_sentence_transformers")))
    page = put(page, "retrieval-table", kept_table(*read("retrieval_kept")))
    if (RESULTS / "export_budget.json").is_file():
        page = put(page, "budget-table", budget_table(*read("export_budget")))
    speeds = read("engine_speed", "engine_speed_other_machine")
    page = put(page, "engine-table", engine_table(speeds, *read("engine_quality")))
    page = put(page, "choice-table", choice_table(*read("checkpoint_choice")))
    if (RESULTS / "forecast.json").is_file():
        page = put(page, "forecast-table", forecast_table(*read("forecast")))
    page = put(page, "task-table", task_table(*read("task_speed")))
    page = put(page, "encode-table", encode_table(*read("encode_gpu", "encode_cpu", "train_cpu", "cost_growth")))
    if (RESULTS / "export_onnx.json").is_file():
        page = put(page, "export-table", export_table(*read("export_onnx")))
    if (RESULTS / "exports.json").is_file():
        page = put(page, "runtimes-table", exports_table(*read("exports")))
    page = put(page, "prepare-table", prepare_table(*read("prepare_versus_opusfilter", "prepare_ten_million")))
    page = put(page, "mining-table", speed_table(*read("mining_speed", "mining_gpu", "mining_growth")))
    if (RESULTS / "serve_load.json").is_file():
        table = serving_table(*read("serve_load"))
        if (RESULTS / "serve_designs.json").is_file():
            table += "\n\n" + designs_table(*read("serve_designs"))
        page = put(page, "serving-table", table)
    page = put(page, "tatoeba-text", tatoeba_text(*read("tatoeba_112", "tatoeba_112_static")))
    return put(page, "papers-text", papers_text(*read("papers/rg-table-2", "papers/rg-table-3")))


def mining(page: str) -> str:
    """docs/mining.md with the table of the result file."""
    return put(page, "mining-table", f1_table(*read("mining_f1")))


def keep_your_index(page: str) -> str:
    """docs/keep-your-index.md with the tables of the result file."""
    page = put(page, "index-check-table", check_table(*read("index_check")))
    return put(page, "index-diagnosis-table", diagnosis_table(*read("index_check")))


def robustness(page: str) -> str:
    """docs/robustness.md with the table of the result files."""
    return put(page, "robustness-table", robustness_table())


def dependencies(page: str) -> str:
    """docs/dependencies.md with the table of the result file."""
    return put(page, "library-table", library_table(*read("hand_written")))


PAGES = {
    README: readme,
    DOCS / "benchmarks.md": benchmarks,
    DOCS / "dependencies.md": dependencies,
    DOCS / "keep-your-index.md": keep_your_index,
    DOCS / "mining.md": mining,
    DOCS / "robustness.md": robustness,
}


def main() -> None:
    for path, fill in PAGES.items():
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
