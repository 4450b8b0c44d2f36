"""Progress of long work, reported through one callback: the library never prints.

    def on_progress(step: Step) -> None: ...

`cli/screens/progress.py` draws progress bars from it; the default does nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of a stage: `done` of `total` `unit`s. `note` is a line worth showing (a loss, a cache hit)."""

    stage: str
    done: int = 0
    total: int = 0
    unit: str = ""
    note: str = ""
    values: dict[str, float] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the stage is complete."""
        return self.done >= self.total


OnProgress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Ignore progress."""
