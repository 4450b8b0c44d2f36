"""Whether an ordering that a paper claims is seen in figures: those of the paper, or ours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from isogloss_papers.published import Claim

SEEN, WITHIN, NOT_SEEN, UNKNOWN = "seen", "seen, within the error", "not seen", "not measured"
UNDECIDED = "not seen, within the error"  # nor is the contrary
Look = Callable[[str, str], tuple[float, float, float] | None]  # system, column → value and interval × 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, whether it holds, and the numbers it was judged by."""

    says: str
    verdict: str
    numbers: str


def judge(claim: Claim, look: Look, titles: Callable[[str], str]) -> Verdict:
    """A claim against figures. An order is seen if the values fall; within the error, if neighbors' intervals overlap.

    One that is not seen is within the error, too, if all that are in the wrong order have intervals that overlap.
    """
    return _gain(claim, look) if claim.gain else _order(claim, look, titles)


def _order(claim: Claim, look: Look, titles: Callable[[str], str]) -> Verdict:
    found = [look(system, claim.column) for system in claim.order]
    numbers = [f"{titles(system)} {_number(one)}" for system, one in zip(claim.order, found, strict=True)]
    known = [one for one in found if one is not None]
    told = f"{claim.column}: {' > '.join(numbers)}"
    if len(known) < len(found):
        return Verdict(claim.says, UNKNOWN, told.replace(" > ", ", "))
    if wrong := [(other, one) for one, other in pairwise(known) if one[0] <= other[0]]:
        clear = any(_apart(two) for two in wrong)
        return Verdict(claim.says, NOT_SEEN if clear else UNDECIDED, told.replace(" > ", ", "))
    return Verdict(claim.says, SEEN if _apart(known) else WITHIN, told)


def _number(found: tuple[float, float, float] | None) -> str:
    """A value with one digit, small ones (differences) with two."""
    if found is None:
        return "–"
    return f"{found[0]:.{1 if abs(found[0]) >= 10 else 2}f}".replace("-", "−")


def _apart(values: Sequence[tuple[float, float, float]]) -> bool:
    """Whether no interval reaches into its neighbor's; figures without intervals never do."""
    return all(one[1] > other[2] or (one[1] == one[2] and other[1] == other[2]) for one, other in pairwise(values))


def _gain(claim: Claim, look: Look) -> Verdict:
    wanted = claim.gain
    gains: list[tuple[float, float]] = []
    for column in (wanted["more"], wanted["less"]):
        start, end = look(wanted["from"], column), look(wanted["to"], column)
        if start is None or end is None:
            return Verdict(claim.says, UNKNOWN, f"{column} is not measured in both")
        reach = ((start[2] - start[1]) ** 2 + (end[2] - end[1]) ** 2) ** 0.5 / 2  # half widths, added as independent errors
        gains.append((end[0] - start[0], reach))
    (more, more_reach), (less, less_reach) = gains
    numbers = f"{wanted['more']} {more:+.1f}, {wanted['less']} {less:+.1f} from {wanted['from']} to {wanted['to']}"
    clear = abs(more - less) > (more_reach**2 + less_reach**2) ** 0.5
    if more <= less:
        return Verdict(claim.says, NOT_SEEN if clear else UNDECIDED, numbers)
    return Verdict(claim.says, SEEN if clear else WITHIN, numbers)
