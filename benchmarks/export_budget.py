"""The best form of the quickstart's model within several sizes, and everything that was tried for them.

    python benchmarks/export_budget.py --run runs/quickstart --work /tmp/export-budget

The largest budget comes first: the smaller ones reuse what it measured and trained. Takes about forty minutes on two quiet
cores; the same command continues after an interruption. Results go to benchmarks/results/export_budget.json. A trial:
`--budgets 40MB --layers 12,4 --trims corpus --precisions int8 --out trial.json`.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from provenance import provenance

from isogloss.cli.screens.progress import progress
from isogloss.config.exporting import BudgetSettings
from isogloss.errors import IsoglossError
from isogloss.exporting.budget.result import Budgeted
from isogloss.exporting.budget.retraining import SEED
from isogloss.exporting.budget.search import export_within_budget
from isogloss.storage import write_json

RESULTS = Path(__file__).with_name("results") / "export_budget.json"
BUDGETS = "200MB,100MB,60MB,40MB,25MB"


def facts_of(found: Budgeted, budget: str, seconds: float) -> dict[str, Any]:
    """What one budget gives: the chosen form, how large and fast it is, and what it loses."""
    best, shown = found.best, found.best.shown
    assert shown is not None, "the best was measured"
    return {
        "budget": budget,
        "seconds": round(seconds, 1),
        "best": best.as_dict(),
        "megabytes": round(found.size / 1e6, 2),
        "lost": {one.language: round(one.points, 2) for one in found.lost},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="the folder of a finished run")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the exports and for what is reused")
    parser.add_argument("--budgets", default=BUDGETS, help="sizes, the largest first")
    parser.add_argument("--layers", default="", help="numbers of layers; empty: the defaults")
    parser.add_argument("--trims", default="", help="vocabularies; empty: the defaults")
    parser.add_argument("--precisions", default="", help="precisions; empty: all")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    given: dict[str, Any] = {
        name: tuple(getattr(args, name).split(",")) for name in ("trims", "precisions") if getattr(args, name)
    }
    if args.layers:
        given["layers"] = tuple(int(number) for number in args.layers.split(","))
    settings, rows, largest = BudgetSettings(**given), [], None
    for budget in args.budgets.split(","):
        began = time.perf_counter()
        with progress() as bars:
            try:
                found = export_within_budget(args.run, budget, args.work, settings=settings, on_progress=bars)
            except IsoglossError as error:
                if largest is None:
                    raise
                rows.append({"budget": budget, "refused": error.message.removeprefix(f"{args.run}: ")})
                continue
        rows.append(facts_of(found, budget, time.perf_counter() - began))
        largest = found if largest is None else largest
    assert largest is not None, "there is at least one budget"
    whole = largest.as_dict()
    facts = {"run": Path(args.run).name, "original": whole["original"], "halves": largest.halves, "layers": largest.all_layers}
    write_json(args.out, provenance(SEED) | facts | {"budgets": rows, "tried": whole["tried"]})


if __name__ == "__main__":
    main()
