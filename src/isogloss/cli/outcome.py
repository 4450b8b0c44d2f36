"""How a finished run is shown: the table, where the model is, how to use it, what to do next."""

from isogloss.cli.screen import output, score_table, show_json, what_was_asked
from isogloss.corpora.amounts import size
from isogloss.corpora.store import scan_in_words
from isogloss.runs.clean import size_of
from isogloss.runs.pipeline import RunResult
from isogloss.storage import WORK

WORTH_SAYING = 100 * 2**20  # bytes


def show_run(result: RunResult, as_json: bool) -> None:
    """Show a run's result as tables, or as JSON."""
    if not result.reports:  # of a process that trained along: the first one measures and tells
        return
    if as_json:
        show_json(result.as_dict())
        return
    output.print()
    output.print(score_table(result.reports, what_was_asked(result.reports[-1])))
    if result.training is not None and result.training.setback:
        output.print(f"\n! {result.training.setback}", highlight=False, markup=False)
    minutes, seconds = divmod(round(result.seconds), 60)
    memory = result.details.get("peak_memory_gib")
    held_memory = f", at most {memory} GiB of memory" if memory else ""
    output.print(f"\nDone in {minutes} min {seconds} s{held_memory}. Model: {result.model}", highlight=False, markup=False)
    output.print(f"The training text was {scan_in_words(result.details['leak_scan'])}.", highlight=False, markup=False)
    if (kept := size_of(result.folder / WORK)) > WORTH_SAYING:
        kept_for = f"{result.folder / WORK} has {size(kept)} for the next run of this recipe"
        output.print(f"{kept_for}; isogloss clean {result.folder} removes it.", highlight=False, markup=False)
    say_next(result)


def say_next(result: RunResult) -> None:
    """Three lines of Python that use the model, and what to run next."""
    alone = ' --teacher ""' if result.reports[-1].average().teacher_index is None else ""  # whose index nobody can search
    commands = {
        "isogloss init --languages de,fr --pairs en-de.tsv --pairs en-fr.tsv": "a recipe for your own pairs",
        f"isogloss evaluate {result.folder} --pairs {result.details['store']}{alone}": "measure models like this",
        f"isogloss embed sentences.txt --model {result.folder}": "vectors of a file, one a line",
    }
    width = max(map(len, commands))
    output.print(
        "\nUse it:\n\n"
        "    from sentence_transformers import SentenceTransformer\n"
        f'    model = SentenceTransformer("{result.model}")\n'
        '    model.similarity(model.encode("Where is the station?"), model.encode("Wo ist der Bahnhof?"))\n\n'
        "Next:\n\n" + "".join(f"    {command:<{width}}   {what}\n" for command, what in commands.items()) + "\n"
        f"The numbers and how they came about: {result.folder}/results.json, run.json, metrics.jsonl",
        highlight=False,
        markup=False,
    )
