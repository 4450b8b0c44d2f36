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
    on_error: OnErrorOption = "fail",
    held_out: Annotated[float, Option(min=0.0, max=1.0, help="Share held out where a file has no split column.")] = 1.0,
    max_candidates: Annotated[int, Option(min=1, help="Sentences to search among.")] = 10_000,
    json: JsonFlag = False,
) -> None:
    """Measure models on held-out pairs, side by side.

    isogloss evaluate runs/quickstart multilingual-e5-small --teacher all-MiniLM-L6-v2
    """
    from dataclasses import asdict

    import isogloss
    from isogloss.cli.options import as_languages
    from isogloss.cli.screen import output, progress, score_table, show_json

    found = isogloss.read(pairs or ["phrasebook"], as_languages(languages), language, source_language, on_error)
    bitext = isogloss.prepare(found, held_out=held_out).bitext
    judge = isogloss.load(teacher) if teacher else None
    reports = []
    for name in models:
        with progress() as bars:
            reports.append(isogloss.evaluate(isogloss.load(name), judge, bitext, max_candidates, bars))
    if json:
        show_json([asdict(report) | {"average": asdict(report.average())} for report in reports])
        return
    average = reports[0].average()
    title = f"{average.queries} sentences, searched among {reports[0].candidates} (accuracy at 1, %)"
    output.print(score_table(reports, title))
