"""Time and measure the quickstart from cold caches: `python benchmarks/quickstart.py [--keep FOLDER]`.

Writes benchmarks/results/quickstart.json: the scores of every stage, seconds, memory, commit, versions, machine, seed.
"""

import argparse
import json
import tempfile
from pathlib import Path

from provenance import provenance

from isogloss import recipes
from isogloss.cli.screens.progress import progress
from isogloss.runs.pipeline import quickstart_recipe, run

RESULT = Path(__file__).with_name("results") / "quickstart.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--keep", type=Path, help="keep the run in this folder, for other benchmarks")
    options = parser.parse_args()
    out: Path = options.out
    origin = provenance(seed=recipes.load(quickstart_recipe()).seed)
    with tempfile.TemporaryDirectory() as folder, progress() as bars:
        places = [f"output.folder={options.keep or f'{folder}/run'}", f"output.cache={folder}/cache"]
        recipe = recipes.load(quickstart_recipe(), places)
        result = run(recipe, bars)
        seconds = json.loads((result.folder / "run.json").read_text())["seconds"]
    measured = result.as_dict() | {"seconds_by_stage": seconds}
    for place in ("model", "store"):  # folders of this machine
        measured.pop(place)
    out.write_text(json.dumps(origin | measured, indent=2) + "\n")
    print(f"{out}: {measured['seconds']} s, {measured['peak_memory_gib']} GiB")


if __name__ == "__main__":
    main()
