"""The two tables of the README, and the numbers in its prose, from the result files; `tables` puts them in place."""

from typing import Any

from task_tables import task_rows

from isogloss.amounts import duration

Result = dict[str, Any]


def results_table(quickstart: Result, versus: Result) -> str:
    """Averages over the quickstart's languages: before, sentence-transformers' recipe, the bridge, the final student."""
    averages = {stage: scores["average"] for stage, scores in quickstart["stages"].items()}
    before, bridge, after = averages.values()
    languages, hardware = quickstart["stages"]["untouched"]["languages"], quickstart["hardware"]
    queries = next(iter(languages.values()))["queries"]
    rows = [
        ("multilingual-e5-small, untouched", before),
        (f"sentence-transformers' recipe, same pairs, {versus['budget_seconds']:.0f} s", versus["peer"]),
        ("isogloss, closed-form bridge only", bridge),
        ("**isogloss**", after),
    ]
    return "\n".join(
        [
            "| | search the teacher's index | translation → English | English → translation | cosine to teacher |",
            "|---|---|---|---|---|",
            *(_scores_row(name, scores) for name, scores in rows),
            "",
            f"Accuracy at 1 (%), averaged over {len(languages)} languages; {queries} test sentences per language,"
            f" {quickstart['candidates']} candidates. The whole run took {duration(quickstart['seconds'])} and"
            f" {quickstart['peak_memory_gib']:.1f} GiB on {hardware['cores']} CPU cores."
            " [Each language, and how this was measured](docs/benchmarks.md#quickstart).",
        ]
    )


def _scores_row(name: str, scores: Result) -> str:
    shares = " | ".join(f"{100 * scores[key]:.1f}" for key in ("teacher_index", "to_source", "from_source"))
    return f"| {name} | {shares} | {scores['cosine']:.2f} |"


def overview_table(
    training: list[Result],
    tasks: Result,
    encode_gpu: Result,
    train_cpu: Result,
    encode_cpu: Result,
    mining: Result,
    prepare: Result,
) -> str:
    """Speed beside the usual tools, one row per kind of work."""
    ours, theirs, ratios = [], [], []
    for speed in training:  # one file per machine
        own = next(one for one in speed["isogloss"] if one["batch"] == 256 and not one["grouped"])["pairs_per_second"]
        peer = max(one["pairs_per_second"] for one in speed["peer"] if one["batch"] == 256)
        ours.append(own)
        theirs.append(peer)
        ratios.append(own / peer)
    half, many = encode_gpu["peer_half_on_all"], encode_cpu["results"]["16 languages"]
    card, rates, seconds = encode_gpu["hardware"]["accelerator"], train_cpu["pairs_per_second"], mining["seconds"]
    fastest = min((name for name in seconds if name != "isogloss"), key=seconds.__getitem__)
    size = f"{mining['rows'] // 1000}k × {mining['rows'] // 1000}k"
    st = "sentence-transformers"
    return "\n".join(
        [
            "| | on | isogloss | others | speedup |",
            "|---|---|---|---|---|",
            f"| distill, XLM-R-base size, batch 256 | {card} | {_range(ours)} pairs/s | {st} {_range(theirs)}"
            f" | **{min(ratios):.1f}–{max(ratios):.1f} ×** |",
            *task_rows(tasks),
            f"| encode, BERT-base size | {card} | {encode_gpu['isogloss']['sentences_per_second']:,} sentences/s"
            f" | {st} (fp16) {half['sentences_per_second']:,} | **{encode_gpu['times_faster']['half_at_its_best']:.1f} ×** |",
            f"| train, multilingual-e5-small, float32 | 2 cores | {rates['isogloss']:.1f} pairs/s | {st} {rates['peer']:.1f}"
            f" | **{train_cpu['times_faster']:.1f} ×** |",
            f"| encode, multilingual-e5-small, float32 | 2 cores | {many['sentences_per_second']['isogloss']:.0f} sentences/s"
            f" | {st} {many['sentences_per_second'][many['best']]:.0f} | **{many['times_faster_than_best']:.1f} ×** |",
            f"| mine {size} sentences | 2 cores | {seconds['isogloss']:.0f} s | {fastest} {seconds[fastest]:.0f} s"
            f" | **{mining['times_faster']:.1f} ×** |",
            f"| clean pairs | 2 cores | {prepare['isogloss']['pairs_per_second']:,} pairs/s"
            f" | OpusFilter {prepare['opusfilter']['pairs_per_second']:,} | **{prepare['times_as_fast']:.1f} ×** |",
            "",
            "The best settings tried of each tool; ranges are of two machines. [Details](docs/benchmarks.md).",
        ]
    )


def _range(values: list[float]) -> str:
    return f"{min(values):,.0f}–{max(values):,.0f}"


def expectations(quickstart: Result, sizes: Result, quality: Result) -> str:
    """What to expect per language: pairs, minutes, megabytes."""
    counts, trimming = quickstart["pairs"], quickstart["student"]["trimming"]
    languages = len(quickstart["stages"]["untouched"]["languages"])
    pairs = round((counts["train"] - counts["source_only"]) / languages)
    arabic = {row["system"]: row["ours"][sizes["table"]["columns"].index("EN-AR")]["value"] for row in sizes["table"]["rows"]}
    used = [row["rows"] for name, row in trimming["languages"].items() if name != "en"]
    rows = sum(used) / len(used)
    bytes_per_row = 1e6 * trimming["megabytes_saved"] / (trimming["rows_before"] - trimming["rows_after"])
    fast = quality["isogloss, same clock"]
    return "\n".join(
        [
            f"- **Pairs:** the results above need {pairs} per language (and {counts['source_only']:,} English sentences without"
            " translation). More helps: for English–Arabic STS (Spearman × 100), fine-tuning on English alone gives"
            f" {arabic['xlm-r-nli-stsb']:.1f}; 1,000 pairs give {arabic['size-1k']:.1f}, 5,000 {arabic['size-5k']:.1f}, 25,000"
            f" {arabic['size-25k']:.1f}. Plan for 5,000 to 25,000.",
            f"- **Time:** {quickstart['seconds'] / languages:.0f} s per language in the quickstart on two cores; on an H200,"
            f" {fast['pairs_seen']:,} pairs in 14 languages took {fast['seconds']:.0f} s.",
            f"- **Size:** unused vocabulary is removed ({trimming['megabytes_saved']:.0f} MB in the quickstart). The text of"
            f" one quickstart language uses about {rows:,.0f} vocabulary rows, {rows * bytes_per_row / 1e6:.1f} MB. Cached"
            " teacher embeddings take 0.8 MB per 1,000 sentences (384 dimensions).",
        ]
    )


def aligned(quickstart: Result) -> str:
    """How many translations the untouched student finds."""
    return f"{100 * quickstart['stages']['untouched']['average']['to_source']:.0f} %"


def unseen(table: Result) -> str:
    """Tatoeba over all languages before and after distilling into fourteen."""
    return f"{_last(table, 'control-undistilled'):.1f} to {_last(table, 'xlm-r-from-sbert-paraphrases'):.1f} %"


def mined(table: Result) -> str:
    """Bitext mining: trained by ranking, and distilled."""
    return f"{_last(table, 'labse'):.1f} against {_last(table, 'xlm-r-from-sbert-nli-stsb'):.1f} F1"


def _last(table: Result, system: str) -> float:
    return float(next(row["ours"][-1]["value"] for row in table["table"]["rows"] if row["system"] == system))
