"""`isogloss embed`: embed a file, one vector per line."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from isogloss.cli.options import MODEL_HELP, JsonFlag


def embed(
    text: Annotated[
        str, Argument(metavar="TEXT", help="Text file, one sentence per line (plain or compressed), or - for standard input.")
    ],
    model: Annotated[str, Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)],
    out: Annotated[Path, Option("--out", metavar="FILE", help="The .npy file to write: one float32 row per line.")] = Path(
        "vectors.npy"
    ),
    prompt: Annotated[str, Option(metavar="TEXT", help="Text to prepend to every line.")] = "",
    means: Annotated[
        Path | None,
        Option("--means", metavar="FOLDER", help="Subtract the language means that evaluate --means-out wrote there."),
    ] = None,
    language: Annotated[str, Option(metavar="XX", help="Language of the lines (with --means).")] = "",
    json: JsonFlag = False,
) -> None:
    """Embed each line of a file.

    isogloss embed sentences.txt --model runs/quickstart --out vectors.npy

    isogloss embed fragen.txt -m runs/quickstart --means means --language de
    """
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import progress, say, show_json
    from isogloss.corpora.reading.readers import read_lines
    from isogloss.errors import IsoglossError
    from isogloss.evaluation.space import read_means
    from isogloss.models.cached_encoder import embed_file
    from isogloss.models.encoders.open import open_encoder, refuse_missing
    from isogloss.storage import refuse_folder, refuse_overwriting, refuse_unwritable

    if (means is None) != (not language):
        raise IsoglossError(
            "--means and --language go together", hint="the mean of that language is subtracted from every vector"
        )
    refuse_folder(out)
    refuse_overwriting(out, [text])
    refuse_unwritable(out)
    refuse_missing([model])
    known = None if means is None else read_means(means)
    lines = read_lines(text)
    encoder = open_encoder(model, prompt=prompt)
    if known is not None:
        known.refuse_other(encoder)
    finish = None if known is None else lambda vectors: known.removed(vectors, language)
    with progress() as bars:
        rows, dimension = embed_file(encoder, lines, out, finish, bars)
    if json:
        show_json({"path": str(out), "rows": rows, "dimension": dimension})
    else:
        say(f"{out}: {amount(rows, 'vector')} of {amount(dimension, 'dimension')}")
