"""The certificate of an index as a page: the verdict, scores per language with intervals, what was checked, and what is missed.

This module computes charts; `templates/index_check.html` has the words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from isogloss.report import charts
from isogloss.report.rendering import percent, render_page

BADGES = {
    "ship": ("kept", "✓ ship"),
    "ship with care": ("test", "! ship with care"),
    "do not ship": ("dropped", "✗ do not ship"),
}
# Scores that are shares, in the order of the columns, and their headings.
SHARES = {
    "kept_recall": "kept recall at {k}",
    "first_found": "teacher's first result in the first {k}",
    "overlap": "overlap at {k}",
    "same_first": "same first result",
    "rbo": "rank-biased overlap",
}
DRAWN = ("kept_recall", "first_found", "overlap")  # with a bar
OTHERS = {"recall": "recall at {k}", "mrr": "MRR at {k}", "cosine": "cosine to the teacher"}


def index_check_page(
    certificate: Mapping[str, Any], minimums: Mapping[str, float], misses: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """The whole file, from the content of certificate.json, the scores that decide with their minimums, and texts to read."""
    languages = dict(certificate["languages"])
    rows = [(language, own["scores"], own["verdict"], own) for language, own in languages.items()]
    if certificate["average"] is not None:
        rows.append(("average", certificate["average"]["scores"], None, certificate["average"]))
    known = set(rows[0][1])
    k = certificate["settings"]["k"]
    return render_page(
        "index_check.html",
        certificate=certificate,
        badge=BADGES[certificate["verdict"]["level"]],
        badges=BADGES,
        minimums=minimums,
        shares={name: heading.format(k=k) for name, heading in SHARES.items() if name in known},
        others={name: heading.format(k=k) for name, heading in OTHERS.items() if name in known},
        rows=rows,
        shaky=[row for row in rows if row[2] is not None and row[2]["level"] != "ship"],
        drawn=[name for name in DRAWN if name in known],
        bars={(language, name): _bar(language, name, scores, minimums) for language, scores, _, _ in rows for name in DRAWN},
        misses=misses,
        main=certificate["average"] or next(iter(languages.values())),
    )


def _bar(language: str, name: str, scores: Mapping[str, Sequence[float]], minimums: Mapping[str, float]) -> Markup | str:
    """A score with its interval and its minimum; empty if there is none."""
    if name not in scores:
        return ""
    value, low, high = (min(max(one, 0.0), 1.0) for one in scores[name])
    hover = f"{language}: {percent(value)} ({percent(low)} to {percent(high)})"
    limit = minimums.get(name)
    return charts.interval_bar(value, low, high, limit, hover + (f"; minimum {percent(limit)}" if limit is not None else ""))
