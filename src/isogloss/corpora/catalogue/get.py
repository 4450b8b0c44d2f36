"""One corpus in one pair of languages, onto the disk: fetched once, kept under its version, with its licence beside it.

    get("TED2020", ("en", "de"))        → CACHE/corpora/TED2020/v1/TED2020.en-de.zip
    get("WikiMatrix", ("en", "sw"))     → CACHE/corpora/WikiMatrix/v1/WikiMatrix.en-sw.tsv.gz (scores of 1.05 and more)
    get("ParaCrawl@v8", ("en", "pl"))   a version of one's own choice

What was fetched before is taken without asking the service again; `refresh` asks whether there is something newer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from isogloss.corpora.catalogue import hub_datasets as hub
from isogloss.corpora.catalogue import opus, repack, wikipedia
from isogloss.corpora.catalogue.download import alone, fetch, is_kept, refuse_foreign
from isogloss.corpora.catalogue.entries import Entry, Languages, as_languages, find
from isogloss.corpora.catalogue.freshness import forget, is_unchanged, recall, remember
from isogloss.corpora.catalogue.retries import NotThere, Patience, mirrored
from isogloss.corpora.reading.origin import Origin, origin_of
from isogloss.errors import DataError, IsoglossError
from isogloss.progress import OnProgress, Step, silent
from isogloss.shapes import SHA256, TEXT, Each, check
from isogloss.shown import masked
from isogloss.storage import atomic_write, cache_folder, content_hash, file_hash, read_json, write_json
from isogloss.web import parse_url

_VERSION = re.compile(r"\w[\w.-]*")  # it becomes the name of a folder


def get(
    name: str,
    languages: Languages,
    folder: Path | None = None,
    *,
    min_score: float | None = None,
    refresh: bool = False,
    on_progress: OnProgress = silent,
    patience: Patience | None = None,
) -> list[Path]:
    """The files of a corpus for a pair of languages, in the cache or in `folder`; several where it comes in parts."""
    plain, _, version = name.partition("@")
    entry, languages = find(plain), as_languages("-".join(languages))
    _check(entry, languages, version, min_score)
    if folder is not None:
        _refuse_file(folder)
    wish = _Wish(
        entry=entry,
        languages=languages,
        version=version or entry.version,
        folder=folder,
        min_score=entry.min_score if min_score is None else min_score,
        refresh=refresh,
        on_progress=on_progress,
        patience=patience or Patience(),
    )
    waiting = Step(wish.stage, 0, 1, "files", "another isogloss is fetching it; waiting")
    with alone(wish.record, lambda: on_progress(waiting)):
        if not refresh and (kept := wish.kept()):
            on_progress(Step(wish.stage, len(kept), len(kept), "files", "reused from the cache"))
            return kept
        files = _WAYS[wish.entry.by](wish)
        wish.remember(files)
    return files


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What is wanted, in full."""

    entry: Entry
    languages: Languages
    version: str  # empty for the newest
    folder: Path | None
    min_score: float | None
    refresh: bool
    on_progress: OnProgress
    patience: Patience

    @property
    def pair(self) -> str:
        """`en-de`."""
        return "-".join(self.languages)

    @property
    def stage(self) -> str:
        """What progress is called; the names of the hub's sets are long, and all begin alike."""
        return f"{self.entry.name.removeprefix('parallel-sentences-')} {self.pair}"

    @property
    def label(self) -> str:
        """The version of files that are not the newest of anything; another limit than usual makes another version."""
        usual = self.min_score == self.entry.min_score
        return self.version if usual else f"{self.version}-{self.min_score:g}".replace("+", "")

    def place(self, version: str) -> Path:
        """The folder for files of a version; what a service calls a version is never a way to somewhere else."""
        if not _VERSION.fullmatch(version):
            raise DataError(
                f"{self.entry.name}: the server says {version!r}, which is not a version", hint="is it the right address?"
            )
        return self.folder if self.folder is not None else cache_folder() / "corpora" / self.entry.name / version

    def origin(self, version: str) -> Origin:
        """What is known of a file's descent before it is here."""
        return Origin(corpus=self.entry.name, version=version, licence=self.entry.licence, dictionary=self.entry.dictionary)

    def bring(
        self,
        url: str,
        target: Path,
        version: str,
        stage: str = "",
        size: int | None = None,
        sha256: str | None = None,
        token: str = "",
        refresh: bool = False,
    ) -> Path:
        """Fetch one file, with its note of descent; what a service names by its version is not asked about again."""
        return fetch(
            url,
            target,
            size=size,
            sha256=sha256,
            origin=self.origin(version),
            token=token,
            refresh=refresh,
            stage=stage or self.stage,
            on_progress=self.on_progress,
            patience=self.patience,
        )

    def bring_original(self, url: str, target: Path, stage: str = "") -> None:
        """Fetch a file that is only worked from and then removed: it needs no note of its descent."""
        fetch(
            url,
            target,
            refresh=self.refresh,
            stage=stage or self.stage,
            on_progress=self.on_progress,
            patience=self.patience,
        )

    def stage_of(self, number: int, files: int) -> str:
        """What progress is called for one of several files."""
        return self.stage if files == 1 else f"{self.stage} {number}/{files}"

    def kept(self) -> list[Path]:
        """Files of an earlier wish that was the same, if all of them are still there and whole."""
        try:
            files = check(read_json(self.record), {"files": Each(TEXT, SHA256)})["files"]
        except (OSError, ValueError):
            return []
        return [Path(one) for one in files] if all(is_kept(Path(one), sha256=sha256) for one, sha256 in files.items()) else []

    def remember(self, files: list[Path]) -> None:
        """Note which files answered the wish."""
        origins = {file: origin_of(file) for file in files}
        sums = {str(file.absolute()): origin.sha256 for file, origin in origins.items() if origin is not None}
        write_json(self.record, {"files": sums})

    @property
    def record(self) -> Path:
        """Where it is noted which files answered the wish."""
        parts = [self.pair, self.version, "" if self.min_score is None else f"{self.min_score:g}"]
        if self.folder is not None:
            parts.append(content_hash(str(self.folder.absolute()))[:12])
        return cache_folder() / "corpora" / ".kept" / self.entry.name / f"{'@'.join(part for part in parts if part)}.json"


def _check(entry: Entry, languages: Languages, version: str, min_score: float | None) -> None:
    """Say at once what can never be had."""
    if entry.by == "hand":
        source, target = languages
        raise DataError(f"{entry.name} is not fetched: {entry.why}", hint=entry.how.format(source=source, target=target))
    if version and not _VERSION.fullmatch(version):
        raise DataError(f"{version!r} is not a version", hint=f"for example {entry.name}@v1")
    if version and entry.files and version != entry.version:
        raise DataError(f"{entry.name} has no version {version}", hint=f"there is only {entry.version}")
    if min_score is not None and entry.min_score is None:
        raise DataError(f"{entry.name} cannot be fetched by score", hint="leave --min-score out for it")


def _refuse_file(folder: Path) -> None:
    """Say before anybody is asked, not after it, that there can be no folder where a file is."""
    for place in (folder, *folder.parents):
        if place.is_file():
            raise IsoglossError(f"{place}: is a file, and a folder was to be there", hint="name a folder, or a new one")


def _from_opus(wish: _Wish) -> list[Path]:
    file = opus.find(wish.entry.corpus or wish.entry.name, wish.languages, wish.version, wish.patience)
    pair = f"{file.source}-{file.target}" if file.kind == "tsv" else wish.pair  # two columns stand as the name says
    target = wish.place(file.version) / f"{wish.entry.name}.{pair}{file.suffix}"
    return [wish.bring(mirrored(file.url), target, file.version)]


def _from_hub(wish: _Wish) -> list[Path]:
    files = hub.find(wish.entry.repo, wish.languages, wish.version, wish.patience)
    token = hub.token()
    paths = []
    for number, file in enumerate(files, start=1):
        name = ".".join(part for part in (wish.entry.name, file.shard, wish.pair, "parquet") if part)
        target = wish.place(file.commit[:12]) / name
        stage = wish.stage_of(number, len(files))
        paths.append(wish.bring(file.url, target, file.commit, stage, size=file.size, sha256=file.sha256, token=token))
    return paths


def _from_files(wish: _Wish) -> list[Path]:
    entry = wish.entry
    missing = DataError(f"{entry.name} has no {wish.pair}", hint=f"its languages are {', '.join(entry.languages)}")
    beside_english = any("{other}" in name for name in entry.files)
    if not entry.may_have(wish.languages) or (beside_english and "en" not in wish.languages):
        raise missing
    here, there = _names(wish, spelled=False), _names(wish, spelled=True)
    paths = []
    for number, (name, url) in enumerate(entry.files.items(), start=1):
        target = wish.place(wish.label) / name.format(**here)
        address = mirrored(url.format(**there))
        stage = wish.stage_of(number, len(entry.files))
        try:
            if entry.layout:
                path = _repacked(wish, address, target)
            else:
                path = wish.bring(address, target, wish.label, stage, refresh=wish.refresh)
        except NotThere as error:
            raise missing from error
        paths.append(path)
    return paths


def _names(wish: _Wish, spelled: bool) -> dict[str, str]:
    """The languages as file names have them: as asked for, in the corpus' alphabetical order, or the one beside English."""
    source, target = (wish.entry.spelling(code) if spelled else code for code in wish.languages)
    first, second = (wish.entry.spelling(code) if spelled else code for code in _in_order(wish))
    other = source if target == "en" else target
    return {"source": source, "target": target, "first": first, "second": second, "other": other}


def _in_order(wish: _Wish) -> Languages:
    """The two languages in alphabetical order of how the corpus writes them: so its columns stand."""
    one, other = sorted(wish.languages, key=wish.entry.spelling)
    return one, other


def _repacked(wish: _Wish, url: str, target: Path) -> Path:
    """A file in an odd layout: fetched, written anew as plain columns, and removed."""
    if _is_made(target, wish.label) and not (wish.refresh and _is_changed(wish, url, target)):
        return target
    original = target.with_name(f".original-{_last(url)}")
    wish.bring_original(url, original)
    remote = recall(original, url)
    layout, columns = wish.entry.layout, _in_order(wish)
    origin = replace(wish.origin(wish.label), url=masked(url))
    _made(wish, target, origin, [original], lambda out: repack.repack(layout, original, out, columns, wish.min_score))
    if remote is not None:
        remember(target, url, remote)
    return target


def _is_changed(wish: _Wish, url: str, target: Path) -> bool:
    """Whether the server has another file than the one `target` was made of; so it is taken where nobody knows."""
    known = recall(target, url)
    return known is None or not is_unchanged(url, known, wish.patience)


def _from_wikipedia(wish: _Wish) -> list[Path]:
    version = wish.version or "latest"
    target = wish.place(version) / f"{wish.entry.name}.{wish.pair}.tsv.gz"
    if _is_made(target, version) and not wish.refresh:
        return [target]
    addresses = wikipedia.addresses(wish.languages, version)
    dumps = []
    for url in addresses:
        dump = target.with_name(f".original-{_last(url)}")
        try:
            wish.bring_original(mirrored(url), dump, _last(url))
        except NotThere as error:
            raise DataError(f"there are no dumps for {wish.pair} ({url})", hint="has Wikipedia that language?") from error
        dumps.append(dump)

    def build(out: Path) -> int:
        pairs = wikipedia.titles(dumps[0], dumps[1], wish.languages, wish.entry.name, wish.on_progress)
        return repack.write_lines(out, wish.languages, pairs)

    return [_made(wish, target, replace(wish.origin(version), url=addresses[0]), dumps, build)]


def _is_made(target: Path, version: str) -> bool:
    """Whether a file that is made here is there, in this version; a file of the user's own is refused."""
    known = origin_of(target)
    if known is None:
        refuse_foreign(target)
        return False
    return known.version == version and is_kept(target)


def _made(wish: _Wish, target: Path, origin: Origin, originals: list[Path], build: Callable[[Path], int]) -> Path:
    """A file that is made here of what was fetched. The originals go, unless the work was only interrupted."""
    try:
        with atomic_write(target) as temporary:
            if not build(temporary):
                raise DataError(f"{wish.entry.name} has no pairs for {wish.pair}", hint="is it the right pair of languages?")
            replace(origin, sha256=file_hash(temporary)).write_beside(target)
    except DataError:
        _remove(originals)
        raise
    _remove(originals)
    return target


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
        forget(file)


def _last(url: str) -> str:
    return Path(parse_url(url).path).name


_WAYS: dict[str, Callable[[_Wish], list[Path]]] = {
    "opus": _from_opus,
    "hub": _from_hub,
    "files": _from_files,
    "wikipedia": _from_wikipedia,
}
