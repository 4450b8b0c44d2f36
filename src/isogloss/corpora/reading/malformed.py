"""What to do with malformed lines: fail, skip and count them, or stop after a number of them.

Faults("fail")             the first one raises, with the file and the line
Faults("skip")             all are skipped and counted
Faults("stop-after 100")   a hundred are skipped, the next one raises
"""

import re
from collections import Counter
from collections.abc import Mapping

from isogloss.amounts import amount
from isogloss.errors import DataError

_STOP_AFTER = re.compile(r"stop-after[ :=](\d+)")
CHOICES = 'choose fail, skip or "stop-after N"'
SKIPPING = 'leave such lines out and count them with --on-error skip, in a recipe pairs.on_error = "skip"'


class Faults:
    """The policy for malformed lines, and the count of those that were skipped."""

    def __init__(self, policy: str = "fail") -> None:
        stop_after = _STOP_AFTER.fullmatch(policy.strip())
        if policy not in ("fail", "skip") and not stop_after:
            raise DataError(f"on_error {policy!r} is not known", hint=CHOICES)
        self.policy = policy
        self._allowed = int(stop_after[1]) if stop_after else (0 if policy == "fail" else None)
        self.count = 0
        self.first = ""
        self.passed_over: Counter[str] = Counter()  # entries that are no pairs and no faults, by kind: "fuzzy"

    def replay(self, count: int, first: str) -> None:
        """Apply this policy to what an earlier reading skipped."""
        if self._allowed is not None and count > self._allowed:
            others = f" (and {amount(count - 1, 'more bad line')})" if count > 1 else ""
            raise DataError(f"{first}{others}", hint=f"an earlier preparation skipped them; {SKIPPING}")
        self.count, self.first = count, first

    def add(self, error: DataError) -> None:
        """Count one bad line, or raise it if the policy says so."""
        if self._allowed is not None and self.count >= self._allowed:
            if not self.count:
                raise error
            raise DataError(f"{error.message} (and {amount(self.count, 'bad line')} before it)", hint=error.hint) from error
        self.count += 1
        self.first = self.first or error.message


def unread_in_words(count: int, first: str, passed_over: Mapping[str, int]) -> str:
    """What was skipped, in words; empty if nothing was.

    "2 bad lines skipped, the first: x.tsv line 3: 1 column; 4 entries skipped: 1 fuzzy, 3 untranslated"
    """
    parts = []
    if count:
        parts.append(f"{amount(count, 'bad line')} skipped" + (f", the first: {first}" if first else ""))
    if passed_over:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(passed_over.items()))
        parts.append(f"{amount(sum(passed_over.values()), 'entry', 'entries')} skipped: {kinds}")
    return "; ".join(parts)
