"""`isogloss init`: a commented recipe to start from."""

from pathlib import Path
from typing import Annotated

from typer import Option

from isogloss.cli.options import STUDENT_HELP, TEACHER_HELP, LanguagesOption, option_for
from isogloss.config import StudentSettings, TeacherSettings
from isogloss.runs.purposes import BALANCED, PURPOSES


def init(
    languages: LanguagesOption = "",
    pairs: Annotated[list[str] | None, Option("--pairs", metavar="FILE", help="File with sentence pairs; repeatable.")] = None,
    teacher: str = option_for(TeacherSettings, "model", metavar="MODEL", help=TEACHER_HELP),
    student: str = option_for(StudentSettings, "model", metavar="MODEL", help=STUDENT_HELP),
    purpose: Annotated[
        str, Option("--for", metavar="|".join(PURPOSES), help="What the student is for; docs/presets.md has the evidence.")
    ] = BALANCED,
    name: Annotated[str, Option(metavar="NAME", help="Name of the run; its folder is runs/NAME.")] = "my-run",
    out: Annotated[Path, Option("--out", metavar="FILE", help="Path of the recipe.")] = Path("recipe.toml"),
    force: Annotated[bool, Option("--force", help="Overwrite an existing recipe.")] = False,
    schema: Annotated[bool, Option("--schema", help="Print the JSON schema of recipes (for editors) and exit.")] = False,
) -> None:
    """Write a recipe with every setting explained.

    isogloss init --languages de,fr --pairs en-de.tsv --pairs en-fr.tsv

    isogloss init --for mining --languages sw --pairs en-sw.tsv

    isogloss init --schema > recipe.schema.json
    """
    from isogloss import recipes
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.progress import say, show_json
    from isogloss.errors import IsoglossError
    from isogloss.runs.purposes import chosen, recipe_for
    from isogloss.storage import write_text

    if schema:
        show_json(recipes.json_schema())
        return
    best_for = chosen(purpose).best_for
    if out.exists() and not force:
        raise IsoglossError(f"{out}: file exists", hint="choose another --out, or --force to replace it")
    data = {
        "name": name,
        "languages": list(as_languages(languages)),
        "pairs": {"files": pairs} if pairs else {},
        "teacher": {"model": teacher},
        "student": {"model": student},
        "output": {"folder": f"runs/{name}"},
    }
    header = f"# For {purpose}. {best_for} The evidence (one seed) is in docs/presets.md.\n"
    header += f"# A recipe for isogloss. Check it: isogloss doctor {out}   Run it: isogloss run {out}\n\n"
    write_text(out, header + recipes.dump(recipes.parse(recipe_for(purpose, data), where="init")))
    say(f"{out} written. Look it over, then:\n\n    isogloss doctor {out}\n    isogloss run {out}")
