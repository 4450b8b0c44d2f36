"""What `isogloss index check` prints: a table of languages, what was found out about the index, and the verdict."""

from pathlib import Path

from isogloss.amounts import amount
from isogloss.cli.screens.progress import output, percent, plain_table, tell, two_places
from isogloss.index.checking.agreement import AVERAGE, LanguageAgreement
from isogloss.index.checking.certificate import IndexCheck
from isogloss.index.checking.verdict import criteria

HEADINGS = {
    "kept_recall": "kept\nrecall",
    "first_found": "first\nresult found",
    "overlap": "overlap",
    "rbo": "RBO",
    "cosine": "cosine",
}
MARKS = {"ship": "✓", "ship with care": "!", "do not ship": "✗"}
SHORT = {"ship with care": "with care"}


def show(result: IndexCheck, page: Path) -> None:
    """The result of a check, on 80 columns."""
    first = next(iter(result.languages.values()))
    deciding = criteria(first, result.settings)
    shown = [name for name in HEADINGS if name in first.scores]
    facts, k = result.facts, result.settings.k
    models = f"{result.student.name} searches {result.address}, made by {result.teacher.name}"
    tell(f"{models}: {amount(facts.size, 'document')}; first {k} results, in %, with 95 % intervals\n")
    table = plain_table("", "", *(f">{HEADINGS[name]}" for name in shown), ">\nqueries", gap=1)
    for language, own in result.languages.items():
        level = "" if language == AVERAGE else result.verdicts[language].level
        mark = f"{MARKS[level]} {SHORT.get(level, level)}" if level else ""
        table.add_row(language, mark, *(_cell(own, name, name in deciding) for name in shown), f"{own.queries:,}")
    output.print(table)
    if result.teacher_scores:
        recall = percent(result.teacher_scores["recall"].value)
        tell(f"\nThe teacher's own recall at {k} with English queries: {recall} %")
    tell("\n" + "\n".join(_notes(result)))
    advice = f". {_sentence(result.verdict.advice)}" if result.verdict.advice else ""
    tell(f"\n{MARKS[result.verdict.level]} {_sentence(result.verdict.level)}: {result.verdict.why}{advice}.")
    output.print(f"certificate: {page}")


def _notes(result: IndexCheck) -> list[str]:
    """What was found out about the index and the models, and why languages do not simply ship."""
    notes = [_joined(_sentence(result.match.text), result.match.advice)]
    notes += [_joined(one.message, one.hint) for one in result.findings]
    for language, verdict in result.verdicts.items():
        if verdict.level != "ship":
            notes.append(_joined(f"{language}: {verdict.why}", verdict.advice))
    return notes


def _joined(text: str, advice: str) -> str:
    return f"{text}. → {advice}" if advice else f"{text}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cell(own: LanguageAgreement, name: str, with_interval: bool) -> str:
    if name not in own.scores:
        return ""
    score = own.scores[name]
    if name in ("cosine", "rbo"):
        return two_places(score.value)
    span = f" ({percent(score.low)}–{percent(score.high)})" if with_interval else ""
    return f"{percent(score.value)}{span}"
