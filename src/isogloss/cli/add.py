"""`isogloss add`: add a language to a finished student, unless old languages get worse."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import (
    FreshFlag,
    JsonFlag,
    PairFiles,
    PrintRecipeFlag,
    ReplaceFlag,
    SetOption,
    recipe_options,
    settings_as_options,
)
from isogloss.config import AddSettings

if TYPE_CHECKING:
    from isogloss.runs.run import RunResult


@settings_as_options(AddSettings, skip=["run", "replay_from", "gate"])
@recipe_options({"--on-error": "pairs.on_error"})
def add(
    run: Annotated[str, Argument(metavar="RUN", help="A finished run, or the folder of a saved model.")],
    languages: Annotated[str, Argument(metavar="LANGUAGE", help="Language to add; several with commas: sw,yo.")],
    pairs: PairFiles,
    values: dict[str, Any],
    out: Annotated[
        Path | None, Option("--out", metavar="FOLDER", help="Folder for the results.  [default: runs/with-…]")
    ] = None,
    replay_from: Annotated[
        list[str] | None,
        Option("--replay-from", metavar="PAIRS", help="Pairs of the old languages, if RUN's own are gone; repeatable."),
    ] = None,
    gate: Annotated[str, Option(metavar="POINTS|off", help="Maximum loss of an old language, in percentage points.")] = "1.0",
    given: list[str] | None = None,
    set_: SetOption = None,
    print_recipe: PrintRecipeFlag = False,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Add a language to a trained model without losing the others.

    isogloss add runs/mine sw en-sw.tsv --out runs/with-sw
    """
    from isogloss import recipes
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.progress import progress
    from isogloss.config import AddingSettings
    from isogloss.runs import adding
    from isogloss.runs.finished import open_finished

    new = as_languages(languages)
    folder = str(out or Path("runs") / f"with-{'-'.join(new)}")
    values |= {"gate": _points(gate), "replay_from": tuple(replay_from or ())}
    settings = AddingSettings(run=run, languages=new, pairs=tuple(pairs), out=folder, **values)
    overrides = [*(given or []), *(set_ or [])]
    if print_recipe:
        finished = open_finished(settings.run, settings.teacher, settings.original)
        recipe = adding.recipe_of(finished, settings, overrides)
        sys.stdout.write(recipes.dump(recipe, comments=False, defaults=False))
        return
    try:
        with progress() as bars:
            result = adding.add(settings, overrides, bars, fresh, replace)
    except adding.Refused as refused:
        _show_refused(refused.result, json)
        raise
    _show(result, json)


def _points(gate: str) -> float:
    from isogloss.errors import RecipeError

    try:
        return 100.0 if gate.strip().lower() == "off" else float(gate)
    except ValueError as error:
        raise RecipeError(f"--gate {gate}: expected a number of percentage points, or off", hint="--gate 1.0") from error


def _show_refused(result: "RunResult", as_json: bool) -> None:
    from isogloss.cli.screens.progress import output, score_table, show_json

    if as_json:
        show_json(result.as_dict())
        return
    output.print(score_table(result.reports, f"searched among {result.reports[-1].candidates} (accuracy at 1, %)"))


def _show(result: "RunResult", as_json: bool) -> None:
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import output

    show_run(result, as_json)
    if not as_json:
        output.print("\n".join(_summary(result.details)))


def _summary(details: dict[str, Any]) -> list[str]:
    """What was added, and what the old languages lost."""
    from isogloss.runs.gate import IN_WORDS
    from isogloss.runs.vocabulary import growth_in_words

    gate, lines = details["gate"], ["", _outcome(details)]
    if growth := details["student"].get("growth"):
        lines.append(f"Its {growth_in_words(growth)}.")
    if gate["lost"]:
        worst, points = max(gate["lost"].items(), key=lambda item: item[1])
        loss = "No old language lost anything"
        if points > 0:
            loss = f"The largest loss of an old language is {points:.1f} points ({worst})"
        allowed = "the gate was off" if gate["most"] is None else f"the gate is at {gate['most']:g}"
        lines.append(f"{loss} {IN_WORDS[gate['measure']]}; {allowed}.")
    return lines


def _outcome(details: dict[str, Any]) -> str:
    """Whether the language was learned: if no training step was an improvement, the student's weights are unchanged."""
    from isogloss.amounts import amount

    languages, before = ", ".join(details["added"]), details["added_to"]
    if "weights" in details["changed"]:
        replayed = sum(details["pairs"]["replayed"].values())
        return f"Added {languages} to {before}, with {amount(replayed, 'old pair')} seen again."
    none = f"nothing was learned for {languages}: no checkpoint was better on the dev pairs than {before}"
    if details["changed"]:
        return f"{none}, so only its vocabulary has grown."
    return f"{none}, and its vocabulary lacked nothing, so the model is unchanged."
