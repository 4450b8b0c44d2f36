"""What happens to a line that does not fit: stop there, leave it out and count it, or bear with a number of them.

Faults("fail")             the first one stops the reading, with the file and the line
Faults("skip")             each is left out and counted
Faults("stop-after 100")   a hundred are left out, the next one stops the reading
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
    """The policy of one reading, and the account of what it left out."""

    def __init__(self, policy: str = "fail") -> None:
        told = _STOP_AFTER.fullmatch(policy.strip())
        if policy not in ("fail", "skip") and not told:
            raise DataError(f"on_error {policy!r} is not known", hint=CHOICES)
        self.policy = policy
        self._allowed = int(told[1]) if told else (0 if policy == "fail" else None)
        self.count = 0
        self.first = ""
        self.passed_over: Counter[str] = Counter()  # what is no fault and no pair either, by its kind: "fuzzy", "untranslated"

    def replay(self, count: int, first: str) -> None:
        """SimilarityModel what an earlier reading left out by the policy of this one."""
        if self._allowed is not None and count > self._allowed:
            others = f" (and {amount(count - 1, 'more bad line')})" if count > 1 else ""
            raise DataError(f"{first}{others}", hint=f"they were left out before; {SKIPPING}")
        self.count, self.first = count, first

    def add(self, error: DataError) -> None:
        """Take note of one bad line, or raise it if the policy has no patience left."""
        if self._allowed is not None and self.count >= self._allowed:
            if not self.count:
                raise error
            raise DataError(f"{error.message} (and {amount(self.count, 'bad line')} before it)", hint=error.hint) from error
        self.count += 1
        self.first = self.first or error.message


def unread_in_words(count: int, first: str, passed_over: Mapping[str, int]) -> str:
    """What a reading left out, for a person; empty where that is nothing.

    "2 bad lines left out, the first: x.tsv line 3: 1 column; 4 entries passed over: 1 fuzzy, 3 untranslated"
    """
    parts = []
    if count:
        parts.append(f"{amount(count, 'bad line')} left out" + (f", the first: {first}" if first else ""))
    if passed_over:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(passed_over.items()))
        parts.append(f"{amount(sum(passed_over.values()), 'entry', 'entries')} passed over: {kinds}")
    return "; ".join(parts)
