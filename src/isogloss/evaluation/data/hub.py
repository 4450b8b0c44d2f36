"""Test sets from the Hugging Face hub, through the package `datasets`.

Names of repositories and columns come from the data set cards and MTEB's code. A set that has moved is an error that names
what was looked for, never a shorter average.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from isogloss.errors import DataError
from isogloss.evaluation.data.files import Columns
from isogloss.evaluation.leak_report import Origin

HUB = "hub"


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Where a set is on the hub, and which of its columns are used, in which order.

    `configurations` are tried in turn, with `{a}` and `{b}` (languages) filled in; `codes` has the hub's spelling of languages.
    `nested`: one row whose cells are lists, as in MTEB's BUCC.
    """

    repository: str
    configurations: tuple[str, ...]
    columns: tuple[str, ...]
    splits: dict[str, str]
    codes: dict[str, str]
    nested: bool = False

    def asked(self, a: str, b: str, split: str) -> tuple[list[str], str]:
        """The configurations to try, and the hub's name of the split."""
        a, b = self.codes.get(a, a), self.codes.get(b, b)
        return [one.format(a=a, b=b) for one in self.configurations], self.splits.get(split, split)


class Hub:
    """The hub as a source of test sets."""

    name = HUB

    def __init__(self) -> None:
        try:
            self._datasets: Any = import_module("datasets")
        except ImportError as error:
            raise DataError(
                "the package datasets is needed to read test sets from the hub",
                hint="pip install datasets, or name a folder of test sets with --data or ISOGLOSS_DATA",
            ) from error

    def read(self, place: HubPlace, a: str, b: str, split: str) -> Columns:
        """The columns of one set."""
        configurations, own_split = place.asked(a, b, split)
        problem: Exception | None = None
        for configuration in configurations:
            try:
                found = self._datasets.load_dataset(place.repository, configuration or None, split=own_split)
                return Columns(_columns(found, place), Origin(f"{HUB}:{place.repository}/{configuration}/{own_split}"))
            except Exception as error:  # noqa: BLE001 - many classes, all meaning: not available
                problem = error
        reason = str(problem).strip().split("\n")[0][:160]
        raise DataError(
            f"{place.repository} ({' or '.join(configurations)}, {own_split}) cannot be read from the hub ({reason})",
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
