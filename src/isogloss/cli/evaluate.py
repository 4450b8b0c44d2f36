"""`isogloss evaluate`: how well models stand in for a teacher on held-out pairs."""

from typing import Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag, LanguageOption, LanguagesOption, OnErrorOption


def evaluate(
    models: Annotated[list[str], Argument(metavar="MODEL...", help="Hub names, local folders or finished runs.")],
    pairs: Annotated[list[str] | None, Option("--pairs", help='Files of pairs; repeatable. Default: "phrasebook".')] = None,
    teacher: Annotated[str, Option(help="Whose index is searched; empty leaves that measure out.")] = "all-MiniLM-L6-v2",
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    source_language: Annotated[str, Option(help="The language the teacher knows.")] = "en",
    on_error: OnErrorOption = None,
    held_out: Annotated[float, Option(min=0.0, max=1.0, help="Share held out where a file has no split column.")] = 1.0,
    max_candidates: Annotated[int, Option(min=1, help="Sentences to search among.")] = 10_000,
    json: JsonFlag = False,
) -> None:
    """Measure models on held-out pairs, side by side.

    isogloss evaluate runs/quickstart multilingual-e5-small --teacher all-MiniLM-L6-v2
    """
    from dataclasses import asdict, replace

    import isogloss
    from isogloss.cli.options import as_languages
    from isogloss.cli.screen import output, progress, score_table, show_json
    from isogloss.export.folder import scanned_for

    found = isogloss.read(pairs or ["phrasebook"], as_languages(languages), language, source_language, on_error or "fail")
    as_given = isogloss.CleaningSettings(min_script=0, min_language=0, min_numbers=0, min_addresses=0, max_repetition=1)
    bitext = isogloss.prepare(found, as_given, held_out, leaks=isogloss.LeakSettings(level="off")).bitext
    judge = isogloss.load(teacher) if teacher else None
    reports = []
    for name in models:
        with progress() as bars:
            report = isogloss.evaluate(isogloss.load(name), judge, bitext, max_candidates, bars)
            reports.append(replace(report, scanned=scanned_for(name)))
    if json:
        show_json([asdict(report) | {"average": asdict(report.average())} for report in reports])
        return
    average = reports[0].average()
    title = f"{average.queries} sentences, searched among {reports[0].candidates} (accuracy at 1, %)"
    output.print(score_table(reports, title))
    for name, report in zip(models, reports, strict=True):
        output.print(f"{name}: {_scan(report.scanned)}", highlight=False, markup=False)


def _scan(scanned: "tuple[str, ...] | None") -> str:
    """Whether anyone looked for these test sets in what the model was trained on."""
    if scanned is None:
        return "what it was trained on is not known here, so it could not be scanned for leaks"
    if not scanned:
        return "trained on text that was scanned for its own held-out rows only"
    named = ", ".join(scanned[:4]) + (f" and {len(scanned) - 4} more" if len(scanned) > 4 else "")
    return f"trained on text that was scanned for {named}, and its own held-out rows"
