"""The table of the service under load, from its result file."""

from typing import Any

NAMES = {
    "int8": "`isogloss serve` (int8, the default)",
    "fp32": "`isogloss serve --precision fp32`",
    "plain loop": "FastAPI around `SentenceTransformer.encode`",
}


def serving_table(load: dict[str, Any]) -> str:
    """Requests per second, latencies and errors of the service and of a plain loop."""
    services, ratios = load["services"], load["times_as_many"]
    hardware = load["hardware"]
    lines = [
        f"{load['clients']} clients that ask for one sentence after another, on the same {hardware['cores']} cores"
        f" ({hardware['processor']}), which the clients use too; the same model ({load['model']}) and the same"
        f" {load['sentences']:,} sentences in 13 languages, in one run:",
        "",
        "| | requests/s | ratio | p50, ms | p99, ms | lost or wrong | memory, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, title in NAMES.items():
        one = services[name]
        ratio = f"**{ratios[name]:.1f} ×**" if name in ratios else ""
        lines.append(
            f"| {title} | {one['requests_per_second']:,.0f} | {ratio} | {one['p50_ms']:,.0f} | {one['p99_ms']:,.0f}"
            f" | {one['errors'] + one['wrong']} of {one['requests']:,} | {one['memory_mib']:,} |"
        )
    plain, int8, fp32 = services["plain loop"], services["int8"], services["fp32"]
    tried = ", ".join(f"{name}: {rate:.0f}" for name, rate in plain["tried"].items())
    lines += [
        "",
        f"The loop is the best of three variants (requests/s by how a request is computed: {tried}). It and the default ran for"
        f" {plain['seconds']:.0f} seconds each, fp32 for {fp32['seconds']:.0f}. Every answer was compared with the model's"
        f" vector for that sentence alone: the lowest cosine was {int8['lowest_cosine']:.3f} in int8, where activations are"
        f" scaled per batch, and {fp32['lowest_cosine']:.4f} in fp32. ([script](../benchmarks/serve_load.py),"
        " [result](../benchmarks/results/serve_load.json))",
    ]
    return "\n".join(lines)


def designs_table(found: dict[str, Any]) -> str:
    """Requests per second and latencies of the service as it is, and of other ways to share the cores."""
    counts = list(found["designs"][0]["clients"])
    titles = [f"{count} client{'s' if count != '1' else ''}" for count in counts]
    head = " | ".join(f"{title}: requests/s | p50, ms | p99, ms" for title in titles)
    lines = [
        f"Other ways to share the {found['cores']} cores, in the same service, for {found['seconds']:.0f} seconds each:",
        "",
        f"| design | {head} | memory, MiB | lost or wrong |",
        f"|---|{'---|' * (3 * len(counts) + 2)}",
    ]
    first, *_others = found["designs"]
    for place, row in enumerate(found["designs"]):
        loads = [row["clients"][count] for count in counts]
        cells = [f"{one['requests_per_second']:,.0f} | {one['p50_ms']:,.1f} | {one['p99_ms']:,.1f}" for one in loads]
        failed, asked = _failed(loads)
        name = f"{row['name']} (isogloss{', again' if place else ''})" if row["name"] == first["name"] else row["name"]
        memory = max(one["memory_mib"] for one in loads)
        lines.append(f"| {name} | {' | '.join(cells)} | {memory:,} | {failed} of {asked:,} |")
    lines += ["", "([script](../benchmarks/serve_designs.py), [result](../benchmarks/results/serve_designs.json))"]
    return "\n".join(lines)


def _failed(loads: list[dict[str, Any]]) -> tuple[int, int]:
    """Requests that had no answer or a wrong one, and all of them."""
    return sum(one["errors"] + one["wrong"] for one in loads), sum(one["requests"] for one in loads)
