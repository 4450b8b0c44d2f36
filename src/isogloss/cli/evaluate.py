"""`isogloss evaluate`: models on the papers' test sets (`--suite`), or on held-out pairs beside their teacher."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from isogloss.cli.options import JsonFlag, LanguageOption, LanguagesOption, OnErrorOption

# What belongs to one way of measuring alone, by the names of the parameters.
OF_SUITES = ("data", "baseline", "mean_removal", "means_out", "cache", "resamples", "markdown", "latex")
OF_PAIRS = ("pairs", "teacher", "language", "source_language", "on_error", "held_out", "max_candidates")


def evaluate(
    context: Context,
    models: Annotated[
        list[str],
        Argument(metavar="MODEL", help="Hub names, folders, runs, muse, laser, onnx:FOLDER, cmd:COMMAND, http://…"),
    ],
    suite: Annotated[
        str, Option("--suite", help="Test sets: sts, sts2017, tatoeba-14, bucc:zh-en, bias, …; several with commas.")
    ] = "",
    data: Annotated[
        str, Option("--data", metavar="FOLDER|hub", help="Where the test sets are.  [default: $ISOGLOSS_DATA, or hub]")
    ] = "",
    baseline: Annotated[
        str | None, Option("--baseline", metavar="MODEL", help="What the others are compared with.  [default: the first]")
    ] = None,
    mean_removal: Annotated[
        bool, Option("--mean-removal", help="Also measure with each language's mean vector subtracted.")
    ] = False,
    means_out: Annotated[Path | None, Option("--means-out", help="Folder for those means; for one model.")] = None,
    cache: Annotated[
        str | None, Option("--cache", help="Folder that keeps vectors; '' keeps none.  [default: $ISOGLOSS_CACHE]")
    ] = None,
    resamples: Annotated[int, Option(min=0, help="Bootstrap resamples; 0: no intervals.")] = 10_000,
    pairs: Annotated[
        list[str] | None, Option("--pairs", metavar="FILE", help="Held-out pairs; repeatable.  [default: phrasebook]")
    ] = None,
    teacher: Annotated[str, Option(help="Whose index is searched; '' leaves that measure out.")] = "all-MiniLM-L6-v2",
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    source_language: Annotated[str, Option(help="The language the teacher knows.")] = "en",
    on_error: OnErrorOption = None,
    held_out: Annotated[float, Option(min=0.0, max=1.0, help="Share held out where a file has no split column.")] = 1.0,
    max_candidates: Annotated[int, Option(min=1, help="Sentences to search among.")] = 10_000,
    json: JsonFlag = False,
    markdown: Annotated[bool, Option("--markdown", help="Print the tables in Markdown.")] = False,
    latex: Annotated[bool, Option("--latex", help="Print the tables in LaTeX, as the papers set them.")] = False,
) -> None:
    """Measure models side by side, on test sets or held-out pairs.

    With --suite on test sets, otherwise on held-out pairs beside their teacher.

    isogloss evaluate runs/mine muse --suite sts2017,tatoeba-14 --data eval

    isogloss evaluate runs/mine multilingual-e5-small --pairs runs/mine/pairs
    """
    from isogloss.cli.options import as_languages, given_options, one_of
    from isogloss.errors import IsoglossError

    spoken = as_languages(languages)
    form = one_of("screen", {"--json": json, "--markdown": markdown, "--latex": latex})
    others = given_options(context, OF_PAIRS if suite else OF_SUITES)
    if others and suite:
        raise IsoglossError(f"{others[0]} says nothing about suites", hint=f"leave {others[0]} out, or --suite")
    if others:
        raise IsoglossError(f"{others[0]} is for suites", hint="name one with --suite")
    if suite:
        if means_out and (len(models) > 1 or not mean_removal):
            raise IsoglossError("--means-out is for one model and --mean-removal", hint="name one model, and --mean-removal")
        _refuse_other_baseline(baseline, models, mean_removal)
        return _by_suite(models, suite, data, spoken, baseline, mean_removal, means_out, cache, resamples, form)
    settings = (spoken, language, source_language, on_error or "fail", held_out)
    return _by_pairs(models, pairs or ["phrasebook"], teacher, settings, max_candidates, json)


def _refuse_other_baseline(baseline: str | None, models: list[str], mean_removal: bool) -> None:
    """Before anything is embedded."""
    from isogloss.errors import IsoglossError

    known = _names(models, mean_removal)
    if baseline is not None and baseline not in known:
        raise IsoglossError(f"--baseline {baseline}: not among the models", hint=f"name one of {', '.join(known)}")


def _names(models: list[str], mean_removal: bool) -> list[str]:
    """What is measured, in order: each model, and each again without its languages' means."""
    from isogloss.evaluation.compare import MEAN_REMOVED

    return [name for model in models for name in (model, f"{model}{MEAN_REMOVED}")[: 1 + mean_removal]]


def _by_suite(
    models: list[str],
    suite: str,
    data: str,
    languages: tuple[str, ...],
    baseline: str | None,
    mean_removal: bool,
    means_out: Path | None,
    cache: str | None,
    resamples: int,
    form: str,
) -> None:
    from dataclasses import replace

    from isogloss.cli.screens.progress import output, progress, show_json
    from isogloss.cli.screens.suites import show
    from isogloss.evaluation import tables
    from isogloss.evaluation.compare import compare
    from isogloss.evaluation.data.test_sets import open_data
    from isogloss.evaluation.leak_report import scan_of
    from isogloss.evaluation.suites import measure, open_suite
    from isogloss.models.encoders.open import refuse_missing
    from isogloss.models.vector_cache import refuse_useless
    from isogloss.storage import cache_folder, make_folder

    kept = cache_folder() if cache is None else Path(cache) if cache else None
    refuse_missing(models)
    if kept is not None:
        refuse_useless(kept)
    if means_out is not None:
        make_folder(means_out)
    opened = open_suite(suite, lambda: open_data(data), languages)
    outcomes = []
    for name in models:
        with progress() as bars:
            measured = measure(name, opened, kept, mean_removal, on_progress=bars, means_to=means_out)
        outcomes += [replace(one, scan=scan_of(name)) for one in measured]
    if baseline is not None:  # a model may have another name for itself than the user has for it
        baseline = outcomes[_names(models, mean_removal).index(baseline)].model
    comparison = compare(outcomes, baseline, resamples)
    if form == "json":
        show_json({"suite": suite, **comparison.as_dict()})
    elif form == "screen":
        show(comparison)
    else:
        text = tables.markdown(comparison) if form == "markdown" else tables.latex(comparison)
        output.print(text, soft_wrap=True)


def _by_pairs(
    models: list[str],
    pairs: list[str],
    teacher: str,
    settings: tuple[tuple[str, ...], str | None, str, str, float],
    max_candidates: int,
    json: bool,
) -> None:
    from dataclasses import asdict, replace

    import isogloss
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import output, progress, score_table, show_json
    from isogloss.config import CleaningSettings, LeakSettings
    from isogloss.evaluation.alignment import evaluate_each
    from isogloss.evaluation.leak_report import scan_of
    from isogloss.models.encoders.open import open_encoder, refuse_missing

    refuse_missing([*models, *([teacher] if teacher else [])])
    languages, language, source_language, on_error, held_out = settings
    found = isogloss.read(pairs, languages, language, source_language, on_error)
    as_given = CleaningSettings(min_script=0, min_language=0, min_numbers=0, min_addresses=0, max_repetition=1)
    bitext = isogloss.prepare(found, as_given, held_out, leaks=LeakSettings(level="off")).bitext
    judge = open_encoder(teacher) if teacher else None
    with progress() as bars:
        measured = list(evaluate_each(map(open_encoder, models), judge, bitext, max_candidates, bars))
    scans = [scan_of(name) for name in models]
    reports = [
        replace(report, scanned=None if scan is None else scan.names) for report, scan in zip(measured, scans, strict=True)
    ]
    if json:
        show_json([asdict(report) | {"average": asdict(report.average())} for report in reports])
        return
    average = reports[0].average()
    title = f"{amount(average.queries, 'sentence')}, searched among {reports[0].candidates} (accuracy at 1, %)"
    output.print(score_table(reports, title))
    for name, report in zip(models, reports, strict=True):
        output.print(f"{name}: {_scan(report.scanned)}")


def _scan(scanned: "tuple[str, ...] | None") -> str:
    """Whether anyone looked for these test sets in what the model was trained on."""
    if scanned is None:
        return "what it was trained on is not known here, so it could not be scanned for leaks"
    if not scanned:
        return "trained on text that was scanned for its own held-out rows only"
    named = ", ".join(scanned[:4]) + (f" and {len(scanned) - 4} more" if len(scanned) > 4 else "")
    return f"trained on text that was scanned for {named}, and its own held-out rows"
