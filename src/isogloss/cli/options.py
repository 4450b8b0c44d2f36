"""Options that several verbs share, so that they read the same everywhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Override one value of the recipe, such as training.epochs=2; repeatable."),
]
JsonFlag = Annotated[bool, Option("--json", help="Print the result as JSON on standard output.")]
ReplaceFlag = Annotated[bool, Option("--replace", help="Replace a finished model of other settings.")]
FreshFlag = Annotated[bool, Option("--fresh", help="Start again: forget unfinished work in the output folder.")]
PairFiles = Annotated[
    list[str], Argument(metavar="PAIRS", help='Files, folders or globs of pairs, prepared stores, or "phrasebook".')
]
LanguagesOption = Annotated[
    str, Option("--languages", metavar="de,fr,…", help="Keep only these target languages; all of them if not given.")
]
LanguageOption = Annotated[
    str | None, Option("--language", metavar="XX", help="Target language of two-column files whose name does not say it.")
]
OnErrorOption = Annotated[
    str | None,
    Option(
        "--on-error",
        metavar="fail|skip|stop-after N",
        help="What to do with malformed lines: fail, skip (counted), or stop after N of them.  [default: fail]",
    ),
]
PrintRecipeFlag = Annotated[bool, Option("--print-recipe", help="Print the recipe and stop.")]
OutFolder = Annotated[Path, Option("--out", help="Folder for the result.")]


def given_options(context: Context, names: Sequence[str]) -> list[str]:
    """Which of these parameters stand on the command line, as they are written there."""
    options = {one.name: max(one.opts, key=len) for one in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return [options[name] for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def one_of(otherwise: str, flags: Mapping[str, bool]) -> str:
    """The one form of output that is asked for, without its dashes; several exclude each other."""
    from isogloss.errors import IsoglossError

    asked = [name for name, given in flags.items() if given]
    if len(asked) > 1:
        raise IsoglossError(f"{' and '.join(asked)} exclude each other", hint="choose one of them")
    return asked[0].removeprefix("--") if asked else otherwise


def as_languages(text: str) -> tuple[str, ...]:
    """`de, fr` as a tuple."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
