"""Ten million pairs through `isogloss prepare` on two cores, and one million beside it: memory must not grow with the corpus.

    python benchmarks/prepare_ten_million.py --data ../shared/data

The ten million are made from the shared data: real pairs, and where they do not suffice two real pairs in a row, so the text
of ten million is not only more but also longer. All rules are on, language identification and the leak scan against the
shared evaluation sets included.
"""

import argparse
import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

from measuring import measure
from provenance import provenance
from real_pairs import enough, tsv

from isogloss.storage import write_json

LANGUAGES = (
    *("de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru"),
    *("sw", "tl", "tr", "zh", "ka", "ar", "vi", "fi", "cs", "hi"),
)
SIZES = (1_000_000, 10_000_000)


def make(data: Path, folder: Path, pairs: int) -> None:
    """Write `pairs` pairs, the same number for each language, as en-XX.tsv.gz."""
    folder.mkdir()
    for language in LANGUAGES:
        with gzip.open(folder / f"en-{language}.tsv.gz", "wb", compresslevel=1) as handle:
            for table in enough(data, language, pairs // len(LANGUAGES), seed=17):
                handle.write(tsv(table))


def main() -> None:
    """Prepare both sizes and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "prepare_ten_million.json")
    given = parser.parse_args()
    rows = []
    for pairs in given.sizes:
        with tempfile.TemporaryDirectory(prefix="isogloss-bench-") as temporary:
            folder = Path(temporary)
            make(given.data, folder / "text", pairs)
            command = [sys.executable, "-m", "isogloss", "prepare", str(folder / "text"), "--out", str(folder / "store")]
            command += ["--workers", "2", "--held-out", "0.001", "--on-error", "skip", "--against", str(given.data / "eval")]
            cost = measure(command, folder / "log")
            manifest = json.loads((folder / "store" / "manifest.json").read_text())
            rows.append(
                {
                    "pairs": manifest["rows_in"],
                    "kept": manifest["rows_out"],
                    "seconds": cost.seconds,
                    "pairs_per_second": round(manifest["rows_in"] / cost.seconds),
                    "peak_mib": cost.peak_mib,
                    "dropped": {drop["rule"]: drop["count"] for drop in manifest["dropped"]},
                }
            )
            print(json.dumps(rows[-1]), flush=True)
            shutil.rmtree(folder / "text")
    write_json(given.out, provenance(17) | {"languages": list(LANGUAGES), "sizes": rows})


if __name__ == "__main__":
    main()
