"""Options that several verbs share, so that they read the same everywhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from isogloss.config import Settings
from isogloss.config.problems import bounds_of
from isogloss.config.settings import choices_of

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


def option_for(settings: type[Settings], name: str, *flags: str, **changes: Any) -> Any:  # noqa: ANN401
    """An option with the default, range, choices and sentence of a setting.

        k: int = option_for(MiningSettings, "k")

    `changes` are arguments of typer's Option that differ, such as `metavar` or a shorter `help`.
    """
    field = settings.model_fields[name]
    low, high = bounds_of(field)
    if any(hasattr(limit, "gt") for limit in field.metadata):
        low = None  # typer's limits are inclusive; the settings check the others
    shown = "|".join(choice for choice in choices_of(field) if choice) or None
    values = {"help": field.description, "min": low, "max": high, "metavar": shown, **changes}
    default = values.pop("default", field.default)
    return Option(default, *flags, **values)


def given_options(context: Context, names: Sequence[str]) -> list[str]:
    """Which of these parameters were given on the command line, by their option names."""
    options = {param.name: max(param.opts, key=len) for param in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return [options[name] for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def one_of(otherwise: str, flags: Mapping[str, bool]) -> str:
    """The chosen form of output, without its dashes; only one can be chosen."""
    from isogloss.errors import IsoglossError

    asked = [name for name, given in flags.items() if given]
    if len(asked) > 1:
        raise IsoglossError(f"{' and '.join(asked)} exclude each other", hint="choose one of them")
    return asked[0].removeprefix("--") if asked else otherwise


def as_languages(text: str) -> tuple[str, ...]:
    """`de, fr` as a tuple."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
