"""`isogloss evaluate`: models on the papers' test sets (`--suite`), or on held-out pairs next to their teacher."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from isogloss.cli.options import MODEL_HELP, JsonFlag, LanguageOption, LanguagesOption, OnErrorOption

if TYPE_CHECKING:
    from isogloss.evaluation.compare import Comparison
    from isogloss.types import Report

# Options for one of the two ways only, by the names of their parameters.
FOR_SUITES = ("data", "baseline", "mean_removal", "means_out", "cache", "resamples", "markdown", "latex")
FOR_PAIRS = ("pairs", "language", "source_language", "on_error", "held_out", "max_candidates")


def evaluate(
    context: Context,
    models: Annotated[
        list[str],
        Argument(metavar="MODEL", help=MODEL_HELP),
    ],
    suite: Annotated[
        str, Option("--suite", metavar="NAME,…", help="Test sets: sts, tatoeba-14, bucc:zh-en, retrieval:FOLDER, …")
    ] = "",
    data: Annotated[
        str, Option("--data", metavar="FOLDER|hub", help="Location of the test sets.  [default: $ISOGLOSS_DATA, or hub]")
    ] = "",
    baseline: Annotated[
        str | None, Option("--baseline", metavar="MODEL", help="Model to compare the others with.  [default: the first]")
    ] = None,
    mean_removal: Annotated[
        bool, Option("--mean-removal", help="Also evaluate with the mean embedding of each language subtracted.")
    ] = False,
    means_out: Annotated[
        Path | None, Option("--means-out", metavar="FOLDER", help="Save those means to this folder; for one model.")
    ] = None,
    cache: Annotated[
        str | None, Option("--cache", metavar="FOLDER", help="Cache for embeddings; '' for none.  [default: $ISOGLOSS_CACHE]")
    ] = None,
    resamples: Annotated[int, Option(metavar="N", min=0, help="Bootstrap resamples; 0: no intervals.")] = 10_000,
    pairs: Annotated[
        list[str] | None,
        Option("--pairs", metavar="FILE", help="Sentence pairs to evaluate on; repeatable.  [default: phrasebook]"),
    ] = None,
    teacher: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="Model whose index is searched; '' for none.  [default: all-MiniLM-L6-v2; retrieval suites: the run's]",
        ),
    ] = None,
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    source_language: Annotated[str, Option(metavar="XX", help="Source language (the teacher's).")] = "en",
    on_error: OnErrorOption = None,
    held_out: Annotated[
        float, Option(metavar="X", min=0.0, max=1.0, help="Share of pairs to use if files have no split column.")
    ] = 1.0,
    max_candidates: Annotated[int, Option(metavar="N", min=1, help="Maximum number of sentences to search.")] = 10_000,
    json: JsonFlag = False,
    markdown: Annotated[bool, Option("--markdown", help="Print the tables as Markdown.")] = False,
    latex: Annotated[bool, Option("--latex", help="Print the tables as LaTeX, in the layout of the papers.")] = False,
) -> None:
    """Compare models on test sets or on held-out pairs.

    With --suite: on test sets. Without: on held-out pairs, next to the teacher.

    isogloss evaluate runs/mine muse --suite sts2017,tatoeba-14 --data eval

    isogloss evaluate runs/mine multilingual-e5-small --pairs runs/mine/pairs
    """
    import isogloss
    from isogloss.cli.options import as_languages, given_options, one_of
    from isogloss.cli.screens.progress import progress, show_json
    from isogloss.errors import IsoglossError
    from isogloss.storage import cache_folder

    form = one_of("screen", {"--json": json, "--markdown": markdown, "--latex": latex})
    misplaced = given_options(context, FOR_PAIRS if suite else FOR_SUITES)
    if misplaced:
        where, hint = ("without", "leave it or --suite out") if suite else ("with", "name a suite with --suite")
        raise IsoglossError(f"{misplaced[0]} works only {where} --suite", hint=hint)
    chosen = as_languages(languages)
    if suite:
        from isogloss.evaluation.suites import SuiteSettings, evaluate_suite

        kept = cache_folder() if cache is None else Path(cache) if cache else None
        settings = SuiteSettings(data, chosen, baseline, mean_removal, means_out, kept, resamples, teacher)
        with progress() as bars:
            comparison = evaluate_suite(models, suite, settings, bars)
        if form == "json":
            show_json({"suite": suite, **comparison.as_dict()})
        else:
            _show_suite(comparison, form)
        return
    from isogloss.evaluation.alignment import evaluate_models
    from isogloss.models.encoders.open import refuse_missing
    from isogloss.models.loading import MINILM

    teacher = MINILM if teacher is None else teacher
    refuse_missing([*models, *([teacher] if teacher else [])])
    found = isogloss.read(pairs or ["phrasebook"], chosen, language, source_language, on_error or "fail")
    with progress() as bars:
        reports = evaluate_models(models, teacher, found, held_out, max_candidates, bars)
    _show_reports(models, reports, json)


def _show_suite(comparison: "Comparison", form: str) -> None:
    from isogloss.cli.screens.progress import output
    from isogloss.cli.screens.suites import show
    from isogloss.evaluation import tables

    if form == "screen":
        show(comparison)
    else:
        output.print(tables.markdown(comparison) if form == "markdown" else tables.latex(comparison), soft_wrap=True)


def _show_reports(models: list[str], reports: "list[Report]", json: bool) -> None:
    from dataclasses import asdict

    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import output, score_table, show_json

    if json:
        show_json([asdict(report) | {"average": asdict(report.average())} for report in reports])
        return
    queries, candidates = amount(reports[0].average().queries, "sentence"), amount(reports[0].candidates, "candidate")
    output.print(score_table(reports, f"{queries}, {candidates} (accuracy at 1, %)"))
    for name, report in zip(models, reports, strict=True):
        output.print(f"{name}: {_leak_scan(report.scanned)}")


def _leak_scan(scanned: "tuple[str, ...] | None") -> str:
    """Which test sets the training text of a model was scanned for."""
    if scanned is None:
        return "its training text is not known here, so it was not scanned for test sentences"
    if not scanned:
        return "its training text was scanned for its own held-out rows only"
    more = f" and {len(scanned) - 4} more" if len(scanned) > 4 else ""
    return f"its training text was scanned for {', '.join(scanned[:4])}{more}, and its own held-out rows"
