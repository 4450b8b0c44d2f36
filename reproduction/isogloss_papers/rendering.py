"""A reproduced table as text: lines for a screen, and Markdown. A row of the paper has two lines: theirs, and ours under it.

What our row is (backbone, data, pairs) and what differs from the paper stands in a second table; sentences that many rows share
are numbered notes. `pictures` draws what is better drawn.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from isogloss_papers.reproduce import CONTROL, EXTRA, Reproduction, Row
from isogloss_papers.scores import Figure

THEIRS, OURS = "paper", "ours"
NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Line:
    """A label, "paper" or "ours", and one cell per column; `why` says why our row has no figures."""

    label: str
    whose: str
    cells: tuple[str, ...]
    why: str = ""


def lines(table: Reproduction) -> list[Line]:
    """Every row as lines: the paper's figures, and ours with intervals."""
    found = []
    for row in table.rows:
        theirs = tuple(number(one, digits) for one, digits in zip(row.published, table.digits, strict=True))
        if any(one is not None for one in row.published):
            found.append(Line(row.label, THEIRS, theirs))
            label = ""
        else:
            label = row.label
        ours = tuple(figure(one, digits) for one, digits in zip(row.ours, table.digits, strict=True))
        found.append(Line(label, OURS, ours, "" if any(row.ours) else f"not made: {row.why}"))
    return found


def number(value: float | None, digits: int) -> str:
    """A figure as the papers print it; a dash if there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}".replace("-", "−")


def figure(one: Figure | None, digits: int, form: str = "{} ({} to {})") -> str:
    """A figure of ours with its interval."""
    if one is None:
        return NOTHING
    return form.format(*(number(value, digits) for value in (one.value, one.low, one.high)))


def notes_of(rows: Sequence[Row]) -> dict[str, int]:
    """Every sentence on what differs, with its number."""
    sentences = dict.fromkeys(sentence for row in rows if any(row.ours) for sentence in row.differs)
    return {sentence: place for place, sentence in enumerate(sentences, 1)}


def heading(table: Reproduction) -> str:
    """The paper, the measure and the scale, in one sentence."""
    return f"{table.paper}; {table.measure}. Ours: scale {table.scale}, 95 % intervals."


def markdown(table: Reproduction, pictures: Sequence[str] = (), comment: str = "") -> str:
    """The whole table: a comment, figures, what our rows are, notes, claims, and pictures that are named."""
    parts = [f"### {table.table}: {table.title}", "", heading(table)]
    parts += [f"Note: {_mark(table.differs)}."] if table.differs else []
    parts += ["", comment] if comment else []
    parts += ["", *_figures(table), "", *_rows(table), "", *_notes(table)]
    parts += [f"![{table.title}]({name})" for name in pictures]
    parts += ["", "The paper's claims in our numbers:", "", *claims(table), ""]
    return "\n".join(parts)


def page(tables: Sequence[Reproduction], texts: Sequence[str], lead: str) -> str:
    """Several tables on one page: the lead, the outcome of every claim, and the tables."""
    judged = [
        f"| {table.table} | {_mark(one.says)} | **{one.verdict}** | {_mark(one.numbers)} |"
        for table in tables
        for one in table.claims
    ]
    head = ["# The papers' tables", "", lead.strip(), "", "## The papers' claims", ""]
    head += ["| table | claim | outcome | numbers |", "|---|---|---|---|", *judged, "", "## Tables", ""]
    return "\n".join([*head, *texts])


def _figures(table: Reproduction) -> list[str]:
    parts = ["| | | " + " | ".join(map(_mark, table.columns)) + " |", "|---|---|" + "---:|" * len(table.columns)]
    for line in lines(table):
        cells = [_mark(line.why), *[""] * (len(table.columns) - 1)] if line.why else [_mark(cell) for cell in line.cells]
        parts.append(f"| {_mark(line.label)} | {line.whose} | {' | '.join(cells)} |")
    return parts


def _rows(table: Reproduction) -> list[str]:
    numbered = notes_of(table.rows)
    made = list({row.system: row for row in table.rows if any(row.ours)}.values())
    if not made:
        return []
    parts = ["| our row | backbone | trained on | pairs | the paper's pairs | differs |", "|---|---|---|---|---|---|"]
    for row in made:
        differs = " ".join(f"[{numbered[sentence]}]" for sentence in row.differs)
        kind = f" ({row.kind})" if row.kind in (EXTRA, CONTROL) and row.kind not in row.label else ""
        cells = (f"{row.label}{kind}", row.backbone, row.data, row.pairs, row.published_pairs)
        parts.append("| " + " | ".join(_mark(cell) or NOTHING for cell in cells) + f" | {differs or NOTHING} |")
    return parts


def _notes(table: Reproduction) -> list[str]:
    parts = [f"[{place}] {_mark(sentence)}.  " for sentence, place in notes_of(table.rows).items()]
    parts += [f"{_mark(row.label)}: {_mark(row.note)}.  " for row in table.rows if row.note]
    return [*parts, ""] if parts else []


def claims(table: Reproduction) -> list[str]:
    """One line per claim: whether it was seen, and the numbers."""
    return [f"- **{one.verdict}**: {_mark(one.says)} ({_mark(one.numbers)})" for one in table.claims]


def _mark(text: str) -> str:
    """Text with Markdown characters escaped."""
    return re.sub(r"([|*\\])", r"\\\1", text)
