"""`isogloss index check`: whether a student can search an index that its teacher made."""

from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from isogloss.cli.options import MODEL_HELP, JsonFlag, settings_as_options
from isogloss.config.index_check import IndexCheckSettings

REFUSED = 3  # the exit code of "do not ship"


@settings_as_options(IndexCheckSettings, skip=["languages"], k={"flag": "-k"})
def check(
    index: Annotated[
        str, Option("--index", "-i", metavar="ADDRESS", help="File (docs.npy, docs.faiss, …) or database (qdrant:URL#NAME, …).")
    ],
    student: Annotated[str, Option("--student", "-s", metavar="MODEL", help=MODEL_HELP)],
    values: dict[str, Any],
    teacher: Annotated[
        str | None, Option("--teacher", metavar="MODEL", help="The model that made the index.  [default: the run's teacher]")
    ] = None,
    teacher_prompt: Annotated[
        str, Option("--teacher-prompt", metavar="TEXT", help="Prompt that the teacher needs for queries.")
    ] = "",
    queries: Annotated[
        str,
        Option("--queries", metavar="FILE", help="English queries with translations.  [default: the run's test pairs]"),
    ] = "",
    pairs: Annotated[
        list[str] | None,
        Option("--pairs", metavar="FILE", help="Sentence pairs as queries; the source is English. Repeatable."),
    ] = None,
    languages: Annotated[str, Option("--languages", metavar="de,fr,…", help="Languages to check.  [default: all]")] = "",
    out: Annotated[Path, Option("--out", metavar="FOLDER", help="Folder for the certificate.")] = Path("index-check"),
    json: JsonFlag = False,
) -> None:
    """Check whether a student can search an index that its teacher made.

    Compares what its queries find with what the teacher's English ones find.

    isogloss index check --index docs.npy --student runs/mine

    isogloss index check -i docs.npy -s runs/mine --queries queries.tsv

    Exit code 3: do not ship.
    """
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.index_check import show
    from isogloss.cli.screens.progress import progress, show_json
    from isogloss.errors import IsoglossError
    from isogloss.index.checking.check import check_index
    from isogloss.index.checking.query_sets import queries_of_pairs
    from isogloss.models.encoders.open import open_encoder, refuse_missing
    from isogloss.storage import make_folder

    if queries and pairs:
        raise IsoglossError("--queries and --pairs exclude each other", hint="name one of them")
    if teacher_prompt and not teacher:
        raise IsoglossError("--teacher-prompt needs --teacher", hint="a run knows the prompt of its own teacher")
    refuse_missing([student, *([teacher] if teacher else [])])
    make_folder(out)
    options = tuple(word for name in pairs or () for word in ("--pairs", name))
    asked = queries_of_pairs(pairs, ", ".join(pairs), options) if pairs else queries or None
    settings = IndexCheckSettings(**values, languages=as_languages(languages))
    named = open_encoder(teacher, prompt=teacher_prompt) if teacher else None
    with progress() as bars:
        result = check_index(student, index, asked, named, settings, bars)
    page = result.write(out)
    if json:
        show_json(result.as_dict() | {"page": str(page)})
    else:
        show(result, page)
    if not result.ships:
        raise Exit(REFUSED)
