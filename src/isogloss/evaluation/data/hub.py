"""Test sets from the Hugging Face hub, through the package `datasets`.

Names of repositories and columns come from the data set cards and MTEB's code. A set that has moved is an error that names
what was looked for, never a shorter average.
"""

from typing import Any

from isogloss.errors import DataError, optional_package
from isogloss.evaluation.data.files import Columns
from isogloss.evaluation.data.known_sets import HubPlace, KnownSet
from isogloss.evaluation.leak_report import SetFile

HUB = "hub"
SPLITS = {"dev": "validation"}  # the hub's names, where they differ


class Hub:
    """The hub as a source of test sets."""

    name = HUB

    def __init__(self) -> None:
        self._datasets = optional_package(
            "datasets",
            DataError(
                "the package datasets is needed to read test sets from the hub",
                hint="pip install datasets, or name a folder of test sets with --data or ISOGLOSS_DATA",
            ),
        )

    def read(self, known: KnownSet, a: str, b: str, split: str) -> Columns | None:
        """The columns of one set; None if the hub does not have it."""
        if (place := known.hub) is None:
            return None
        a, b, split = known.codes.get(a, a), known.codes.get(b, b), SPLITS.get(split, split)
        configurations = [one.format(a=a, b=b) for one in place.configurations]
        problem: Exception | None = None
        for configuration in configurations:
            try:
                found = self._datasets.load_dataset(place.repository, configuration or None, split=split)
                return Columns(_columns(found, place), SetFile(f"{HUB}:{place.repository}/{configuration}/{split}"))
            except Exception as error:  # noqa: BLE001 - many classes, all meaning: not available
                problem = error
        reason = str(problem).strip().split("\n")[0][:160]
        raise DataError(
            f"{place.repository} ({' or '.join(configurations)}, {split}) cannot be read from the hub ({reason})",
            hint="is the hub reachable? a folder of test sets can be named with --data instead",
        ) from problem


def _columns(found: Any, place: HubPlace) -> tuple[list[str], ...]:  # noqa: ANN401 - a datasets.Dataset, if it is installed
    """Cells as text; numeric class labels become names."""
    columns = []
    for name in place.columns:
        values = list(found[name])
        if place.nested:
            if len(values) != 1 or not isinstance(values[0], list):
                raise ValueError(f"the column {name} is not one list")
            values = values[0]
        names = getattr(found.features.get(name), "names", None)
        if names:
            values = [names[value] for value in values]
        columns.append(["\t".join(map(str, one)) if isinstance(one, list | tuple) else str(one).strip() for one in values])
    return tuple(columns)
