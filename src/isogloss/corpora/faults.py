"""What happens to a line that does not fit: stop there, leave it out and count it, or bear with a number of them.

Faults("fail")             the first one stops the reading, with the file and the line
Faults("skip")             each is left out and counted
Faults("stop-after 100")   a hundred are left out, the next one stops the reading
"""

import re

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

    def replay(self, count: int, first: str) -> None:
        """Judge what an earlier reading left out by the policy of this one."""
        if self._allowed is not None and count > self._allowed:
            others = f" (and {count - 1} more bad lines)" if count > 1 else ""
            raise DataError(f"{first}{others}", hint=f"they were left out before; {SKIPPING}")
        self.count, self.first = count, first

    def add(self, error: DataError) -> None:
        """Take note of one bad line, or raise it if the policy has no patience left."""
        if self._allowed is not None and self.count >= self._allowed:
            if not self.count:
                raise error
            raise DataError(f"{error.message} (and {self.count} bad lines before it)", hint=error.hint) from error
        self.count += 1
        self.first = self.first or error.message
