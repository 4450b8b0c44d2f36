"""Options that several verbs share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Override one value of the recipe, e.g. training.epochs=2; repeatable."),
]
JsonFlag = Annotated[bool, Option("--json", help="Print the result as JSON on standard output.")]
ReplaceFlag = Annotated[bool, Option("--replace", help="Replace a finished model of other settings.")]
FreshFlag = Annotated[bool, Option("--fresh", help="Start again instead of continuing.")]
PairFiles = Annotated[
    list[str], Argument(metavar="PAIRS...", help='Files, folders or globs of pairs, prepared stores, or "phrasebook".')
]
LanguagesOption = Annotated[
    str, Option("--languages", metavar="de,fr,…", help="Keep only these target languages; all of them if not given.")
]
LanguageOption = Annotated[
    str | None, Option("--language", metavar="XX", help="Target language of two-column files whose name does not tell.")
]
OnErrorOption = Annotated[
    str | None,
    Option(
        "--on-error",
        metavar="fail|skip|stop-after N",
        help="A line that does not fit stops the reading, is left out and counted, or is borne with N times.  [default: fail]",
    ),
]
OutFolder = Annotated[Path, Option("--out", help="Folder for the result.")]


def as_languages(text: str) -> tuple[str, ...]:
    """`de, fr` as a tuple."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
