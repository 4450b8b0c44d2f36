"""`isogloss distill`: train a student on pairs, without writing a recipe first."""

from pathlib import Path

from isogloss.cli.options import (
    FreshFlag,
    JsonFlag,
    LanguageOption,
    LanguagesOption,
    OnErrorOption,
    OutFolder,
    PairFiles,
    ReplaceFlag,
    SetOption,
    option_for,
)
from isogloss.config import StudentSettings, TeacherSettings


def distill(
    pairs: PairFiles,
    teacher: str = option_for(TeacherSettings, "model", help="The model you trust: hub name or folder."),
    student: str = option_for(StudentSettings, "model", help="The model that learns: hub name or folder."),
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    on_error: OnErrorOption = None,
    out: OutFolder = Path("runs/distilled"),
    set_: SetOption = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Teach a student from pairs, measure it, save it: no recipe.

    isogloss distill en-de.tsv --teacher all-MiniLM-L6-v2 --out runs/german
    """
    from isogloss import recipes
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import progress
    from isogloss.runs import pipeline

    data = {
        "name": out.name,
        "languages": list(as_languages(languages)),
        "pairs": {"files": pairs, "language": language or "", "on_error": on_error or "fail"},
        "teacher": {"model": teacher},
        "student": {"model": student},
        "output": {"folder": str(out)},
    }
    recipe = recipes.parse(data, set_ or [], "distill")
    with progress() as bars:
        result = pipeline.run(recipe, bars, fresh, replace)
    show_run(result, json)
