"""How a finished run is shown: the scores, where the model is, how to use it, what to do next."""

from rich.table import Table

from isogloss.amounts import amount, duration, size
from isogloss.cli.screens.progress import held_out_title, output, percent, plain_table, score_table, show_json, tell
from isogloss.corpora.store import leaks_in_words
from isogloss.evaluation.compare import AVERAGE, Comparison
from isogloss.evaluation.sts_dev import SPEARMAN
from isogloss.evaluation.tasks.retrieval import MAIN, TEACHER, kept_in_words, kept_shares
from isogloss.runs.clean import size_of
from isogloss.runs.run import RunResult
from isogloss.storage import WORK
from isogloss.training.distributed import Distributed

LARGE = 100 * 2**20  # bytes of a work folder worth mentioning


def show_run(result: RunResult, as_json: bool) -> None:
    """Show a run's result as tables, or as JSON."""
    if not Distributed.here().is_main_process:
        return
    if as_json:
        show_json(result.as_dict())
        return
    output.print()
    if result.reports:
        output.print(score_table(result.reports, held_out_title(result.reports[-1])))
    if result.retrieval is not None:
        _show_retrieval(result.retrieval)
    if any(SPEARMAN in stage.summary.dev for stage in result.stages) or not result.reports:
        output.print(_training_table(result))
    for setback in dict.fromkeys(stage.summary.setback for stage in result.stages if stage.summary.setback):
        tell(f"\n! {setback}")
    _tell_data(result)
    memory = result.details.get("peak_memory_gib")
    held_memory = f", at most {memory} GiB of memory" if memory else ""
    tell(f"\nDone in {duration(result.seconds)}{held_memory}. Model: {result.model}")
    if "leak_scan" in result.details:
        tell(leaks_in_words(result.details["leak_scan"]))
    if (kept := size_of(result.folder / WORK)) > LARGE:
        kept_for = f"{result.folder / WORK} has {size(kept)} for the next run of this recipe"
        tell(f"{kept_for}; isogloss clean {result.folder} removes it.")
    say_next(result)


def _show_retrieval(comparison: Comparison) -> None:
    """The recall of each stage per language, and how much of the teacher's the last one keeps."""
    table, kept = comparison.tables[0], f"kept {MAIN}"
    shares = kept_shares(comparison)
    title = f"\n{table.title}: {table.columns[0].rows} queries per language, {MAIN} in %"
    shown = plain_table("", *(f">{name}" for name in comparison.models), *([">kept"] if shares else []), title=title)
    for column in table.columns:
        share = [percent(column.cells[-1].further[kept].value)] if shares and column.name != TEACHER else []
        bold = "bold" if column.name == AVERAGE else ""
        shown.add_row(column.name, *(percent(cell.value) for cell in column.cells), *share, style=bold)
    output.print(shown)
    if shares:
        tell(kept_in_words(shares))


def _training_table(result: RunResult) -> Table:
    """Stage by stage: examples, steps, and the dev set's Spearman correlation before and after."""
    measured = any(SPEARMAN in stage.summary.dev for stage in result.stages)
    further = (">before", ">after", ">best step") if measured else (">loss",)
    title = "Spearman × 100 on the STS dev set" if measured else ""
    table = plain_table("stage", ">examples", ">steps", *further, title=title)
    for stage in result.stages:
        summary = stage.summary
        before, after = (_hundredfold(scores.get(SPEARMAN)) for scores in (summary.dev_before, summary.dev))
        last = [before, after, f"{summary.best_step:,}"] if measured else [f"{summary.loss:.4f}"]
        table.add_row(stage.name, f"{sum(stage.examples.values()):,}", f"{summary.steps:,}", *last)
    return table


def _hundredfold(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _tell_data(result: RunResult) -> None:
    if augmented := result.details.get("augmented"):
        pairs = amount(augmented["pairs"], "near pair")
        tell(f"\nA cross-encoder from {augmented['cross_encoder']} labelled {pairs}.")
    if without := result.details.get("rows_without_label"):
        tell(f"{amount(without, 'row')} without a label {'was' if without == 1 else 'were'} skipped.")


def say_next(result: RunResult) -> None:
    """Three lines of Python that use the model, and what to run next."""
    commands = {"embed a file, one vector per line": f"isogloss embed sentences.txt --model {result.folder}"}
    if "store" in result.details:
        alone = ' --teacher ""' if not result.reports or result.reports[-1].average().teacher_index is None else ""
        command = f"isogloss evaluate {result.folder} --pairs {result.details['store']}{alone}"
        commands = {"measure models like this": command} | commands
    else:
        commands = {"measure it": f"isogloss evaluate {result.folder} --suite stsb --data FOLDER"} | commands
    output.print(
        "\nUse it:\n\n"
        "    from sentence_transformers import SentenceTransformer\n"
        f'    model = SentenceTransformer("{result.model}")\n'
        '    vectors = model.encode(["Where is the station?", "Wo ist der Bahnhof?"])\n'
        "    print(model.similarity(vectors[0], vectors[1]))\n\n"
        "Next:\n\n" + "".join(f"    # {what}\n    {command}\n" for what, command in commands.items()) + "\n"
        f"Scores and settings: results.json, run.json and metrics.jsonl in {result.folder}",
    )
