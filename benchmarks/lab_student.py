"""Distil the lab's student for other benchmarks to measure: multilingual-e5-small from all-MiniLM-L6-v2, fourteen languages.

    python benchmarks/lab_student.py --data carry --out students/lab            # what engine_data.py wrote; needs a GPU
    python benchmarks/lab_student.py --data carry --out students/ranked --ranking 0.1

As one would use isogloss: bridge, MSE and a tenth of soft similarity, here also with translation ranking beside them. The
folder is a sentence-transformers model in half precision, with `training.json` beside its weights.
"""

import argparse
import json
import time
from pathlib import Path

from engine_quality import Bench, settings
from provenance import provenance

from isogloss.training.distillation import Distillation
from isogloss.types import Bitext, Pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs-seen", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--ranking", type=float, default=0.0)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    bench = Bench(options.data, options.device, 10**9)
    student = bench.student()
    untouched = bench.measure(student)
    bitext = Bitext.of(Pair(source, target, language, "lab", "train") for source, target, language in bench.train)
    recipe = settings(options.pairs_seen, options.batch, options.rate, True, 0.1)
    recipe = recipe.replace(losses=recipe.losses.replace(ranking=options.ranking))
    began = time.monotonic()
    session = Distillation(student, bench.teacher, bitext, recipe, options.out.with_suffix(".work"))
    session.build_bridge()
    bridged = bench.measure(student)
    session.train()
    told = provenance(17) | {
        "pairs": len(bench.train),
        "pairs_seen": options.pairs_seen,
        "ranking": options.ranking,
        "seconds": round(time.monotonic() - began, 1),
        "untouched": untouched,
        "bridged": bridged,
        "distilled": bench.measure(student),
    }
    student.model.half().save(str(options.out))
    (options.out / "training.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
