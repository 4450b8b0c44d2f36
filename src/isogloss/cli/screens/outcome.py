"""How a finished run is shown: the table, where the model is, how to use it, what to do next."""

from isogloss.amounts import duration, size
from isogloss.cli.screens.progress import output, score_table, show_json, tell, what_was_asked
from isogloss.corpora.store import leaks_in_words
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
        tell(f"\n! {result.training.setback}")
    memory = result.details.get("peak_memory_gib")
    held_memory = f", at most {memory} GiB of memory" if memory else ""
    tell(f"\nDone in {duration(result.seconds)}{held_memory}. Model: {result.model}")
    tell(leaks_in_words(result.details["leak_scan"]))
    if (kept := size_of(result.folder / WORK)) > WORTH_SAYING:
        kept_for = f"{result.folder / WORK} has {size(kept)} for the next run of this recipe"
        tell(f"{kept_for}; isogloss clean {result.folder} removes it.")
    say_next(result)


def say_next(result: RunResult) -> None:
    """Three lines of Python that use the model, and what to run next."""
    alone = ' --teacher ""' if result.reports[-1].average().teacher_index is None else ""  # whose index nobody can search
    commands = {
        "a recipe for your own pairs": "isogloss init --languages de,fr --pairs en-de.tsv --pairs en-fr.tsv",
        "measure models like this": f"isogloss evaluate {result.folder} --pairs {result.details['store']}{alone}",
        "embed a file, one vector per line": f"isogloss embed sentences.txt --model {result.folder}",
    }
    output.print(
        "\nUse it:\n\n"
        "    from sentence_transformers import SentenceTransformer\n"
        f'    model = SentenceTransformer("{result.model}")\n'
        '    vectors = model.encode(["Where is the station?", "Wo ist der Bahnhof?"])\n'
        "    print(model.similarity(vectors[0], vectors[1]))\n\n"
        "Next:\n\n" + "".join(f"    # {what}\n    {command}\n" for what, command in commands.items()) + "\n"
        f"Scores and settings: results.json, run.json and metrics.jsonl in {result.folder}",
    )
