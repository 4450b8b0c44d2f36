"""Find files of labelled pairs (`--nli`, `--sts`): a file, or all tables in a folder.

Published sets have training, dev and test files side by side. A folder with files of more than one split is refused, so that a
test set is not trained on. `corpora.reading.labelled` reads the files.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from isogloss.corpora.reading.compression import unpacked_name
from isogloss.corpora.reading.filenames import is_no_corpus
from isogloss.errors import DataError

TABLES = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet")  # .txt and .json files in a folder are usually documentation
_SPLITS = re.compile(r"(?<![a-z])(?:(?P<train>train(?:ing)?)|(?P<dev>dev|valid(?:ation)?)|(?P<test>test))(?![a-z])", re.I)


def labelled_files(names: Sequence[str], option: str) -> tuple[str, ...]:
    """The named files, with folders replaced by their sorted tables; `option` is named in error messages."""
    return tuple(file for name in names for file in (_within(Path(name), option) if Path(name).is_dir() else [name]))


def _within(folder: Path, option: str) -> list[str]:
    """The tables in a folder, if all are of one split."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and _is_table(path.relative_to(folder)))
    if not found:
        raise DataError(
            f"{folder}: is a folder without a table in it",
            hint=f"tables end in {', '.join(TABLES)}, packed or not; or name files",
        )
    splits: dict[str, Path] = {}
    for path in found:
        split = _SPLITS.search(str(path.relative_to(folder)))
        splits.setdefault("train" if split is None else str(split.lastgroup), path)
    if len(splits) > 1:
        some = ", ".join(str(path.relative_to(folder)) for path in splits.values())
        raise DataError(
            f"{folder}: is a folder with files of more than one split: {some}",
            hint=f"name the files you mean: {option} {splits.get('train', found[0])}",
        )
    return [str(path) for path in found]


def _is_table(path: Path) -> bool:
    return unpacked_name(path.name)[0].lower().endswith(TABLES) and not any(map(is_no_corpus, path.parts))
