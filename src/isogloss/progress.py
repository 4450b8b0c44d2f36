"""How long work says how far it is: one callback, so the library never prints and any front end can show it.

    def on_progress(step: Step) -> None: ...

`cli/screens/progress.py` draws bars from it; a test collects it in a list; the default does nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of one stage: `done` of `total` `unit`s. `note` is a line worth showing (a loss, a cache hit)."""

    stage: str
    done: int = 0
    total: int = 0
    unit: str = ""
    note: str = ""
    values: dict[str, float] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the stage has nothing left to do."""
        return self.done >= self.total


OnProgress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Show nothing."""
