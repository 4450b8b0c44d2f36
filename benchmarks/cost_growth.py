"""How cost grows with the number of pairs: microseconds a pair and memory, stage by stage, for 10k, 100k, 1M and 10M pairs.

    python benchmarks/cost_growth.py --data ../shared/data --work /tmp/growth

Each size is a real distillation in a process of its own, with a folder, as `isogloss run` does it: pairs are read and
tokenized in one pass, embedded by the teacher, dev pairs put aside, the bridge solved, and every pair is trained on once, with
checkpoints and dev measurements. Student and teacher are token tables (models/static.py; the teacher's comes from
all-MiniLM-L6-v2's vectors of its tokens), so that ten million pairs take two cores minutes and what is measured is the way
of the pairs, not a body's arithmetic, which depends on no number of pairs.

The pairs are made from real ones of twelve languages, two in a row, at every size: so text is alike at all of them, and
nearly every sentence is distinct, which is the hardest case. They are written to disk first, as parts of a store; that is
not counted. Memory is that of the process itself (RssAnon) and with pages of mapped files (VmRSS): the system drops those
when it needs room, so they may grow as far as there is any. Goes to benchmarks/results/cost_growth.json and .svg.
"""

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from growth_picture import draw
from measuring import Measured, measure, peaks
from provenance import provenance
from real_pairs import enough

from isogloss.corpora.store import PAIRS, Store
from isogloss.storage import file_hash, write_json, write_text
from isogloss.types import SCHEMA, TEST, TRAIN

LANGUAGES = ("de", "es", "fr", "it", "nl", "pl", "pt", "tr", "vi", "fi", "cs", "sw")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
STAGES = ("tokens", "teacher", "dev pairs", "bridge", "training")
WIDTH, BATCH, SEED, ROWS_A_PART = 64, 512, 17, 16_384
RESULTS = Path(__file__).with_name("results")


# ── pairs on disk ───────────────────────────────────────────────────────────────────────────────────────────────────────


def write_pairs(data: Path, folder: Path, pairs: int) -> None:
    """Parts of a store, languages in turn part by part, and what of a manifest training reads."""
    (folder / PAIRS).mkdir(parents=True)
    shares = [pairs // len(LANGUAGES) + (place < pairs % len(LANGUAGES)) for place in range(len(LANGUAGES))]
    parts = []
    for language, share in zip(LANGUAGES, shares, strict=True):
        name = f"en-{language}.parquet"
        with pq.ParquetWriter(folder / PAIRS / name, SCHEMA, compression="zstd") as writer:
            for table in joined(data, language, share):
                told = {"language": language, "corpus": "joined", "split": TRAIN}
                for column, value in told.items():
                    table = table.append_column(column, pa.array([value] * table.num_rows, pa.string()))
                writer.write_table(table.select(SCHEMA.names).cast(SCHEMA), row_group_size=ROWS_A_PART)
        parts.append({"file": name, "sha256": file_hash(folder / PAIRS / name)})
    languages = dict(zip(LANGUAGES, shares, strict=True))
    counts = [{"corpus": "joined", "language": language, TRAIN: share, TEST: 0} for language, share in languages.items()]
    manifest = {"hash": f"cost-growth-{pairs}", "source_language": "en", "rows_out": pairs, "languages": languages}
    write_json(folder / "manifest.json", manifest | {"parts": parts, "waterfall": counts})


def joined(data: Path, language: str, rows: int) -> Iterator[pa.Table]:
    """Two real pairs in a row, `rows` times: what `enough` gives after the real ones."""
    single = next(enough(data, language, 10**9, SEED)).num_rows
    pieces = enough(data, language, single + rows, SEED)
    next(pieces)
    yield from pieces


# ── one size, in a process of its own ───────────────────────────────────────────────────────────────────────────────────


def make_models(folder: Path) -> None:
    """A teacher from all-MiniLM-L6-v2's tokens, and a student over the same tokens that knows nothing yet."""
    from isogloss.models.loading import open_model
    from isogloss.models.static import static_student

    encoder = open_model("all-MiniLM-L6-v2")
    tokenizer = encoder.tokenizer
    static_student(tokenizer, WIDTH, encoder, name="teacher").model.save(str(folder / "teacher"), create_model_card=False)
    static_student(tokenizer, WIDTH, seed=SEED).model.save(str(folder / "student"), create_model_card=False)


class Stages:
    """When each stage began and ended, by the clock and by the time that cores spent on it."""

    def __init__(self) -> None:
        self.spans: dict[str, tuple[float, float]] = {}
        self.busy: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time what is done in the block."""
        began = time.monotonic(), time.process_time()
        yield
        now = time.monotonic(), time.process_time()
        self.spans[name], self.busy[name] = (began[0], now[0]), now[1] - began[1]


def distil(work: Path, pairs: Path) -> dict[str, Any]:
    """All stages over the pairs in a folder."""
    from isogloss.config import Recipe, TrainingSettings
    from isogloss.models.encoder import load
    from isogloss.models.static import StaticStudent
    from isogloss.training.data.pair_dataset import PairDataset
    from isogloss.training.data.teacher_vectors import teacher_rows
    from isogloss.training.distillation import Distillation

    store = Store(pairs, json.loads((pairs / "manifest.json").read_text()))
    student = StaticStudent.from_pretrained(str(work / "student"))
    teacher = load(str(work / "teacher"), batch_size=1024, device="cpu")
    recipe = Recipe(seed=SEED, training=TrainingSettings(epochs=1, batch_pairs=BATCH, learning_rate=1e-2))
    folder, stages = pairs / "run", Stages()
    with stages.timed("tokens"):
        data = PairDataset.build(store, student.text_tokenizer, folder)
    with stages.timed("teacher"):
        teacher_rows(teacher, data, None, folder)
    with stages.timed("dev pairs"):  # finds the others done
        session = Distillation(student, teacher, store, recipe, folder)
    with stages.timed("bridge"):
        session.build_bridge()
    with stages.timed("training"):
        summary = session.train()
    dev = 0 if session.dev is None else len(session.dev)
    disk = sum(file.stat().st_size for file in pairs.rglob("*") if file.is_file())
    told: dict[str, Any] = {
        "sentences": len(data.tokens),
        "sources": data.sources,
        "tokens": int(data.tokens.offsets[-1]),
        "dev_pairs": dev,
    }
    told |= {"steps": summary.steps, "best_step": summary.best_step, "dev": summary.dev, "disk_gib": round(disk / 2**30, 2)}
    return {"spans": stages.spans, "busy": stages.busy, "told": told}


# ── all sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def row(pairs: int, cost: Measured, found: dict[str, Any]) -> dict[str, Any]:
    """What one size cost: a pair's microseconds and the most memory, of each stage and in all."""
    spans: dict[str, tuple[float, float]] = found["spans"]
    seconds = {stage: spans[stage][1] - spans[stage][0] for stage in STAGES}
    held = {stage: peaks([one for one in cost.samples if spans[stage][0] <= one.moment <= spans[stage][1]]) for stage in STAGES}
    return {
        "pairs": pairs,
        "seconds": {stage: round(one, 2) for stage, one in seconds.items()},
        "microseconds_a_pair": {stage: round(1e6 * one / pairs, 2) for stage, one in seconds.items()},
        "microseconds_a_pair_in_all": round(1e6 * sum(seconds.values()) / pairs, 2),
        "core_microseconds_a_pair": {stage: round(1e6 * found["busy"][stage] / pairs, 2) for stage in STAGES},
        "peak_mib": cost.peak_mib,
        "peak_resident_mib": cost.peak_resident_mib,
        "peak_mib_of_stage": {stage: own for stage, (own, _) in held.items()},
        **found["told"],
    }


def main() -> None:
    """Measure all sizes, or, as a process of its own, one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="a folder for pairs and runs; ten million take some 8 GB")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, default=RESULTS / "cost_growth.json")
    parser.add_argument("--threads", type=int, default=1, help="of torch: a table's steps are too short to be shared")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        torch.set_num_threads(given.threads)
        write_json(given.one / "found.json", distil(given.work, given.one))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that what is on disk is removed then, too
    given.work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="cost-growth-", dir=given.work) as temporary:
        measure_all(given, Path(temporary))


def measure_all(given: argparse.Namespace, work: Path) -> None:
    """Size by size; what is known so far is written after each."""
    make_models(work)
    rows = []
    for pairs in given.sizes:
        folder = work / f"pairs-{pairs}"
        write_pairs(given.data, folder, pairs)
        command = [sys.executable, __file__, "--work", str(work), "--one", str(folder), "--threads", str(given.threads)]
        cost = measure(command, work / "log")
        rows.append(row(pairs, cost, json.loads((folder / "found.json").read_text())))
        shutil.rmtree(folder)
        print(json.dumps(rows[-1]), flush=True)
        setting = {"languages": list(LANGUAGES), "width": WIDTH, "batch_pairs": BATCH, "threads": given.threads}
        write_json(given.out, provenance(SEED) | setting | {"sizes": rows})
        write_text(given.out.with_suffix(".svg"), draw(rows, STAGES))


if __name__ == "__main__":
    main()
