"""`isogloss embed`: lines in, vectors out."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag


def embed(
    text: Annotated[
        str, Argument(metavar="TEXT", help="A file with one sentence a line (plain or .gz), or - for standard input.")
    ],
    model: Annotated[str, Option("--model", "-m", help="Hub name, local folder or finished run.")],
    out: Annotated[Path, Option("--out", help="The .npy file to write: one float32 row a line.")] = Path("vectors.npy"),
    prompt: Annotated[str, Option(help="Text put before every line.")] = "",
    json: JsonFlag = False,
) -> None:
    """Embed a file, one vector a line.

    isogloss embed sentences.txt --model runs/quickstart --out vectors.npy
    """
    import numpy as np

    import isogloss
    from isogloss.cli.screen import progress, say, show_json
    from isogloss.corpora.readers import read_lines
    from isogloss.storage import refuse_folder, refuse_overwriting, replacing

    refuse_folder(out)
    refuse_overwriting(out, [text])
    lines = read_lines(text)
    with progress() as bars:
        vectors = isogloss.embed(isogloss.load(model, prompt), lines, on_progress=bars)
    with replacing(out) as temporary, temporary.open("wb") as handle:
        np.save(handle, vectors)
    if json:
        show_json({"path": str(out), "rows": len(vectors), "dimension": int(vectors.shape[1])})
    else:
        say(f"{out}: {len(vectors):,} vectors of {vectors.shape[1]} dimensions")
