"""Options that several verbs share, and options made of settings: each has the setting's type, default, range and sentence."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic.fields import FieldInfo
from typer import Argument, Context, Option

from isogloss.config import PairsSettings, Recipe, Settings
from isogloss.config.problems import bounds_of
from isogloss.config.settings import choices_of
from isogloss.config.stages import TASK_DEFAULTS, TASK_LOSSES

Command = Callable[..., None]
METAVARS = {
    "languages": "de,fr,…",
    "pairs.language": "XX",
    "pairs.on_error": "fail|skip|stop-after N",
    "training.select": "retrieval|loss",
    "student.prompt": "TEXT",
    "pairs.source_language": "XX",
    "pairs.format": "NAME",
    "pairs.columns": "NAME=N,…",
    **dict.fromkeys(("source_language", "target_language"), "XX"),
    **dict.fromkeys(("teacher", "original"), "MODEL"),
    "device": "DEVICE",
}
PAIRS = {"--languages": "languages", "--language": "pairs.language", "--on-error": "pairs.on_error"}
SHORTER_HELP = {  # where the schema's sentence is about other tasks, too, or long
    "pairs.on_error": "What to do with malformed lines.",
    "evaluation.max_candidates": "Sentences to search in evaluations.",
    "losses.margin": "Cosine margin of the correct translation.",
    "losses.hard_negatives": "Hard negatives per pair.",
    "student.trim": "Which part of the vocabulary to keep.",
    "training.epochs": "Passes over the data.",
    "training.learning_rate": "Peak learning rate.",
    "training.select": "How to choose the best checkpoint.",
}

SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Override a setting of the recipe, such as training.epochs=2; repeatable."),
]
JsonFlag = Annotated[bool, Option("--json", help="Print the result as JSON.")]
ReplaceFlag = Annotated[bool, Option("--replace", help="Overwrite a finished model of other settings.")]
FreshFlag = Annotated[bool, Option("--fresh", help="Start over: discard unfinished work.")]
PairFiles = Annotated[
    list[str], Argument(metavar="PAIRS", help='Sentence pairs: files, folders, globs, prepared stores, or "phrasebook".')
]
LanguagesOption = Annotated[str, Option("--languages", metavar="de,fr,…", help="Target languages to train on.  [default: all]")]
LanguageOption = Annotated[
    str | None, Option("--language", metavar="XX", help=PairsSettings.model_fields["language"].description)
]
OnErrorOption = Annotated[
    str | None,
    Option(
        "--on-error",
        metavar=METAVARS["pairs.on_error"],
        help="What to do with malformed lines.  [default: fail]",
    ),
]
PrintRecipeFlag = Annotated[bool, Option("--print-recipe", help="Print the recipe and exit.")]
MODEL_HELP = (
    "Hub name, folder or finished run; or another kind (docs/verbs/evaluate.md): onnx:FOLDER, openvino:FOLDER,"
    " cmd:COMMAND (a program), an http://… service, muse (Google's mUSE), laser (Meta's LASER)."
)
TEACHER_HELP = "The model to learn from: hub name or folder."
STUDENT_HELP = "The model to train: hub name or folder."
IndexOption = Annotated[
    str, Option("--index", "-i", metavar="ADDRESS", help="File (docs.npy, docs.faiss, …) or database (qdrant:URL#NAME, …).")
]
IndexModelOption = Annotated[str, Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)]
OutFolder = Annotated[Path, Option("--out", metavar="FOLDER", help="Folder for the results.")]


def option_for(settings: type[Settings], name: str, *flags: str, **changes: Any) -> Any:  # noqa: ANN401
    """An option with the default, range, choices and sentence of a setting.

        k: int = option_for(MiningSettings, "k")

    `changes` are arguments of typer's Option that differ, such as `metavar` or a shorter `help`. With `default=None` the help
    says what the setting's default is, and that of `presets`.
    """
    field = settings.model_fields[name]
    low, high = bounds_of(field)
    for limit in field.metadata:  # typer's limits are inclusive; the settings check the others
        low, high = (None if hasattr(limit, "gt") else low), (None if hasattr(limit, "lt") else high)
    values = {"help": field.description, "min": low, "max": high, "metavar": _metavar(name, field), **changes}
    default, presets = values.pop("default", field.default), values.pop("presets", {})
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    if default is None and field.default not in (None, ""):
        also = [f"; {preset}: {data['stage'][name]}" for preset, data in presets.items() if name in data.get("stage", {})]
        values["help"] += f"  [default: {field.default}{''.join(also)}]"
    return Option(default, *flags, **values)


def settings_as_options(kind: type[Settings], skip: Sequence[str], **changes: dict[str, Any]) -> Callable[[Command], Command]:
    """Give a command an option for each setting; its parameter `values` takes them, by the settings' names.

        @settings_as_options(MiningSettings, skip=["folder"], with_ids={"flag": "--ids"})
        def mine(source: str, values: dict[str, Any], json: bool = False) -> None: ...

    `changes` are those of `option_for` for some settings, and `flag` if an option is not called like its setting.
    """
    options = {}
    for name in (name for name in kind.model_fields if name not in skip):
        own = {"flag": f"--{name.replace('_', '-')}", **changes.get(name, {})}
        options[name] = option_type(kind.model_fields[name]), option_for(kind, name, own.pop("flag"), **own)

    def decorate(function: Command) -> Command:
        def command(**given: Any) -> None:  # noqa: ANN401
            function(values={name: as_setting(kind, name, given.pop(name)) for name in options}, **given)

        return with_options(command, function, options, place="values")

    return decorate


def with_options(command: Command, like: Callable[..., Any], options: Mapping[str, Any], place: str = "") -> Command:
    """`command` as typer sees it: called and described like `like`, with its parameters and further options.

    `options` are types and defaults by name; they come last, or instead of the parameter `place`.
    """
    further = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=own) for name, (kind, own) in options.items()]
    parameters: list[Parameter] = []
    for one in signature(like).parameters.values():
        parameters += further if one.name == place else [one.replace(kind=Parameter.KEYWORD_ONLY)]
    parameters += [] if place else further
    command.__signature__ = signature(like).replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__name__, command.__doc__, command.__annotations__ = like.__name__, like.__doc__, {}
    return command


def _metavar(key: str, field: FieldInfo) -> str | None:
    """What the help shows for a value: the choices of a setting, or a word for it."""
    choices = "|".join(choice for choice in choices_of(field) if choice)
    return choices or METAVARS.get(key) or ("N" if field.annotation is int else "X" if field.annotation is float else None)


def recipe_option(
    key: str, *flags: str, task: str = "", presets: Mapping[str, Mapping[str, Any]] | None = None, help: str = ""
) -> Any:  # noqa: ANN401
    """An option for a key of the recipe, None unless it is given: `recipe_option("training.epochs", task="rank")`.

    Choices and help are those of the schema. The default in the help is that of `task` where it has its own, or of the
    preset "", and then those of other `presets` (recipes as plain data) by their names.
    """
    table, _, name = key.rpartition(".")
    field = recipe_field(key)
    defaults = {"": {"training": TASK_DEFAULTS, "losses": TASK_LOSSES}.get(table, {}).get(task, {}).get(name, field.default)}
    defaults |= {preset: data[table][name] for preset, data in (presets or {}).items() if name in data.get(table, {})}
    shown = "; ".join(f"{preset}: {value}" if preset else f"{value}" for preset, value in defaults.items())
    text = (help or SHORTER_HELP.get(key) or str(field.description)).removeprefix("bilstm: ")
    text = text[:1].upper() + text[1:] + (f"  [default: {shown}]" if shown and defaults[""] not in ((), "") else "")
    return Option(None, *flags, help=text, metavar=_metavar(key, field))


def recipe_options(
    keys: Mapping[str, str], task: str = "", presets: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[Command], Command]:
    """Give a command options that set keys of the recipe (by flag); its parameter `given` takes them as overrides.

        @recipe_options({"--seed": "seed"})
        def train(pairs: list[str], given: list[FromOption]) -> None: ...

    `task` and `presets` say which defaults the help has, as in `recipe_option`.
    """
    options = {
        flag.removeprefix("--").replace("-", "_"): (
            option_type(recipe_field(key)) | None,
            recipe_option(key, flag, task=task, presets=presets),
        )
        for flag, key in keys.items()
    }

    def decorate(function: Command) -> Command:
        def command(**given: Any) -> None:  # noqa: ANN401
            from isogloss.recipes import FromOption

            values = {flag: given.pop(name) for flag, name in zip(keys, options, strict=True)}
            if values.get("--languages"):
                values["--languages"] = list(as_languages(values["--languages"]))
            overrides = [FromOption(flag, keys[flag], value) for flag, value in values.items() if value not in (None, "")]
            function(given=overrides, **given)

        return with_options(command, function, options, place="given")

    return decorate


def option_type(field: FieldInfo) -> Any:  # noqa: ANN401
    """The type of an option for a setting; choices and lists are text."""
    return field.annotation if field.annotation in (int, float, bool) else str


def recipe_field(key: str) -> FieldInfo:
    """The setting that a key of the recipe names."""
    table, _, name = key.rpartition(".")
    owner: Any = Recipe.model_fields[table].annotation if table else Recipe
    found: FieldInfo = owner.model_fields[name]
    return found


def as_setting(settings: type[Settings], name: str, value: Any) -> Any:  # noqa: ANN401
    """The value of an option as its setting takes it: the text "8, 6" of a list as (8, 6)."""
    field = settings.model_fields[name]
    if get_origin(field.annotation) is not tuple or not isinstance(value, str):
        return value
    parts, kind = as_languages(value), get_args(field.annotation)[0]
    whole = int in (kind, *get_args(kind))
    try:
        return tuple(map(int, parts)) if whole else parts
    except ValueError as error:
        from isogloss.errors import RecipeError

        message = f"--{name.replace('_', '-')} {value!r} is not a list of whole numbers"
        raise RecipeError(message, hint="separate them with commas, such as 8,6,4") from error


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
