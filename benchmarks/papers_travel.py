"""What the papers' tables need on a machine without network: text that is prepared here, evaluation sets, and two models.

    OUT/data/eval         the evaluation sets
    OUT/data/sizes.json   names and sizes of the training files: systems are known by them, and nobody reads the files again
    OUT/ready.0, .1, …    parts of a tar of stores of pairs and files of judged ones, as `papers.workshop` leaves them
    OUT/models            the student, cut to the pieces of that text, in the 4 bits it came in; the teacher in fp16

`carry` writes it (`benchmarks/papers.py carry`), `laid_out` makes of it what `reproduce` asks for.
"""

import argparse
import gzip
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from isogloss.corpora.store import DROPPED
from isogloss.errors import IsoglossError
from isogloss.evaluation.tasks.tatoeba import GROUPS, LOW_RESOURCE
from isogloss.storage import file_hash
from isogloss_papers.published import published
from isogloss_papers.recipe import CONTROLS, Making, load_system
from isogloss_papers.reproduce import table_rows
from isogloss_papers.workshop import TEXT, Workshop

EVAL = ("sts2017", "stsb", "stsb_xling", "kor_nlu", "tatoeba_laser_v1", "bucc2018_zh-en", "mining_news")
STUDENT, TEACHER = "multilingual-e5-small", "all-MiniLM-L6-v2"
ALL_TATOEBA = "hk-table-3"
TRAIN, SIZES, READY = "train", "sizes.json", "ready"
LIMIT_MIB, PART_MIB = 64, 56  # of what travels in one call, and of a part of what is larger


def makings(tables: list[str]) -> Iterator[Making]:
    """How every system of the tables is made in the lab, and all that they are made from."""
    names, seen = [name for table in tables for name in published(table).systems] + [*CONTROLS], set[str]()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            making = load_system(name).lab
            names += making.others().values()
            yield making


def wanted_files(tables: list[str], data: Path) -> dict[Path, bool]:
    """Training files that the tables need, and whether they must be whole: where sizes and kinds of data are compared."""
    found: dict[Path, bool] = {}
    for making in makings(tables):
        for name in making.pairs:
            for code in (*making.languages, *making.each):
                path = data / name / f"en-{code}.tsv.gz"
                if path.is_file():
                    found[path] = found.get(path, False) or code in making.each
        found |= {data / name: True for kind in TEXT for name in getattr(making, kind)}
    return found


def carry(options: argparse.Namespace) -> None:
    """Write what a machine without network needs: text, cut to so many lines a file and prepared, and models in few bytes."""
    place: Path = options.out / "data"
    for path, whole in sorted(wanted_files(options.only, options.data).items()):
        target = place / path.relative_to(options.data)
        target.parent.mkdir(parents=True, exist_ok=True)
        cut = 10**9 if whole else options.lines
        with gzip.open(path, "rt", encoding="utf-8") as source, gzip.open(target, "wt", encoding="utf-8") as written:
            for _, line in zip(range(cut), source, strict=False):
                written.write(line)
    for name in EVAL:
        left_out = None if ALL_TATOEBA in options.only else _other_languages
        shutil.copytree(options.data / "eval" / name, place / "eval" / name, dirs_exist_ok=True, ignore=left_out)
    _pack_models(options.out / "models", place)
    gather(options.only, place, options.out / READY)
    _pack_ready(options.out / READY)
    _leave_sizes(place)
    sizes = {
        part: _mib(part) for part in (place, *sorted(options.out.glob("ready.*")), *sorted((options.out / "models").iterdir()))
    }
    print("\n".join(f"{size:6.1f} MiB  {part}" for part, size in sizes.items()))
    if sum(sizes.values()) > LIMIT_MIB:
        print(f"together more than {LIMIT_MIB} MiB: send the parts in several calls to the same machine")


def _mib(folder: Path) -> float:
    if folder.is_file():
        return folder.stat().st_size / 2**20
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def _other_languages(_folder: str, names: list[str]) -> list[str]:
    """Files of Tatoeba that only the table of all its languages needs: their pieces would double the student's vocabulary."""
    kept = tuple(f"tatoeba.{code}-" for code in (*GROUPS["14"], *LOW_RESOURCE))
    return [name for name in names if name.startswith("tatoeba.") and not name.startswith(kept)]


def _pack_models(out: Path, data: Path) -> None:
    """The student with the rows of its token table that the text uses, in the 4 bits it came in; the teacher as fp16."""
    from travelling import pack

    from isogloss.models.loading import open_model
    from isogloss.models.student import Student

    student = Student.from_pretrained(STUDENT, device="cpu")
    texts: dict[str, list[str]] = {"en": []}
    for path in sorted(data.rglob("*.gz")):
        language = path.name.removeprefix("en-").split(".")[0] if path.name.startswith("en-") else "en"
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            for line in file:
                cells = line.rstrip("\n").split("\t")
                texts["en"] += cells if language == "en" else cells[:1]
                texts.setdefault(language, []).extend([] if language == "en" else cells[1:])
    trimming = student.trim(texts, "corpus")
    print(f"{STUDENT}: {trimming.rows_before:,} → {trimming.rows_after:,} rows")
    pack(student.model, out / STUDENT)
    open_model(TEACHER).half().save(str(out / TEACHER))


def gather(tables: list[str], data: Path, out: Path) -> None:
    """Prepare what every system of the tables learns from, which takes no model."""
    workshop = Workshop(scale="lab", data=data, out=out)
    for table in tables:
        for name in table_rows(table, workshop):
            for language in workshop.languages_of(name):
                for system in workshop.resolve(name, language).walk():
                    try:
                        workshop.gather(system)
                    except IsoglossError as error:
                        print(f"{table} {system.name}: {error.message}")


def _pack_ready(folder: Path) -> None:
    """One tar of all stores, in parts that travel one by one; a file that several stores have is in it once."""
    known: dict[str, str] = {}

    def once(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        inside = Path(entry.name).parts
        if {"scored", DROPPED} & set(inside) or any(part.endswith("-first") for part in inside):
            return None  # what a store is made again from, and what was left out of it
        if entry.isfile():
            first = known.setdefault(f"{entry.size} {file_hash(folder / entry.name)}", entry.name)
            if first != entry.name:
                entry.type, entry.linkname, entry.size = tarfile.LNKTYPE, first, 0
        return entry

    whole = folder.with_suffix(".tar")
    with tarfile.open(whole, "w") as tar:
        tar.add(folder, ".", filter=once)
    with whole.open("rb") as source:
        for number, part in enumerate(iter(lambda: source.read(PART_MIB * 2**20), b"")):
            folder.with_suffix(f".{number}").write_bytes(part)
    whole.unlink()


def _unpack_ready(folder: Path, work: Path) -> None:
    whole = work / "ready.tar"
    with whole.open("wb") as target:
        for part in sorted(folder.glob("ready.[0-9]*")):
            target.write(part.read_bytes())
    with tarfile.open(whole) as tar:
        tar.extractall(work, filter="data")
    whole.unlink()


def _leave_sizes(data: Path) -> None:
    """Names and sizes in place of the training files: what was made of them is in the stores."""
    files = {str(path.relative_to(data)): path.stat().st_size for path in (data / TRAIN).rglob("*") if path.is_file()}
    (data / SIZES).write_text(json.dumps(files, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(data / TRAIN)


def laid_out(folder: Path, work: Path) -> tuple[Path, Path]:
    """The data folder and the folder of models, ready to be used; stores are put into `work`."""
    data = work / "data"
    if not data.is_dir():
        work.mkdir(parents=True, exist_ok=True)
        _unpack_ready(folder, work)
        shutil.copytree(folder / "data" / "eval", data / "eval")
        for name, size in json.loads((folder / "data" / SIZES).read_text(encoding="utf-8")).items():
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            with (data / name).open("wb") as empty:
                empty.truncate(size)
    return data, _unpacked(folder / "models", work / "models")


def _unpacked(folder: Path, work: Path) -> Path:
    """The carried models as folders that sentence-transformers loads."""
    from travelling import unpack

    from isogloss.models.loading import open_model

    if not (work / TEACHER / "modules.json").is_file():
        unpack(folder / STUDENT).save(str(work / STUDENT))
        open_model(str(folder / TEACHER)).float().save(str(work / TEACHER))
    return work
