"""Download one corpus in one language pair: once, by version, with its licence beside it.

    get("TED2020", ("en", "de"))        → CACHE/corpora/TED2020/v1/TED2020.en-de.zip
    get("WikiMatrix", ("en", "sw"))     → CACHE/corpora/WikiMatrix/v1/WikiMatrix.en-sw.tsv.gz (scores of 1.05 and more)
    get("ParaCrawl@v8", ("en", "pl"))   a chosen version

A corpus that was fetched before is used without asking the service; `refresh` asks for a newer version.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    """The files of a corpus for a language pair, in the cache or in `folder`; several if it comes in parts."""
    plain, _, version = name.partition("@")
    entry, languages = find(plain), as_languages("-".join(languages))
    _check(entry, languages, version, min_score)
    if folder is not None:
        _refuse_file(folder)
    request = _Request(
        entry=entry,
        languages=languages,
        version=version or entry.version,
        folder=folder,
        min_score=entry.min_score if min_score is None else min_score,
        refresh=refresh,
        on_progress=on_progress,
        patience=patience or Patience(),
    )
    waiting = Step(request.stage, 0, 1, "files", "another isogloss is fetching it; waiting")
    with alone(request.record, lambda: on_progress(waiting)):
        if not refresh and (kept := request.kept()):
            on_progress(Step(request.stage, len(kept), len(kept), "files", "reused from the cache"))
            return kept
        files = _WAYS[request.entry.by](request)
        request.remember(files)
    return files


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request for a corpus."""

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
        """The name of the progress bar, without the common prefix of the hub's sets."""
        return f"{self.entry.name.removeprefix('parallel-sentences-')} {self.pair}"

    @property
    def label(self) -> str:
        """The version of fixed files; another `min_score` than usual is another version."""
        usual = self.min_score == self.entry.min_score
        return self.version if usual else f"{self.version}-{self.min_score:g}".replace("+", "")

    def place(self, version: str) -> Path:
        """The folder for files of a version, whose name must be safe."""
        if not _VERSION.fullmatch(version):
            raise DataError(
                f"{self.entry.name}: the server says {version!r}, which is not a version", hint="is it the right address?"
            )
        return self.folder if self.folder is not None else cache_folder() / "corpora" / self.entry.name / version

    def origin(self, version: str) -> Origin:
        """The origin of a file before it is downloaded."""
        return Origin(corpus=self.entry.name, version=version, licence=self.entry.licence, dictionary=self.entry.dictionary)

    def bring(self, url: str, target: Path, version: str = "", stage: str = "", **details: Any) -> Path:  # noqa: ANN401
        """Fetch one file; `details` are those of `fetch`. Without a version it is intermediate and has no origin."""
        origin = self.origin(version) if version else None
        stage = stage or self.stage
        return fetch(url, target, origin=origin, stage=stage, on_progress=self.on_progress, patience=self.patience, **details)

    def stage_of(self, number: int, files: int) -> str:
        """The name of the progress bar for one of several files."""
        return self.stage if files == 1 else f"{self.stage} {number}/{files}"

    def kept(self) -> list[Path]:
        """The files of an equal earlier request, if all are still there and undamaged."""
        try:
            files = check(read_json(self.record), {"files": Each(TEXT, SHA256)})["files"]
        except (OSError, ValueError):
            return []
        return [Path(one) for one in files] if all(is_kept(Path(one), sha256=sha256) for one, sha256 in files.items()) else []

    def remember(self, files: list[Path]) -> None:
        """Note which files belong to this request."""
        origins = {file: origin_of(file) for file in files}
        sums = {str(file.absolute()): origin.sha256 for file, origin in origins.items() if origin is not None}
        write_json(self.record, {"files": sums})

    @property
    def record(self) -> Path:
        """The file with that note."""
        parts = [self.pair, self.version, "" if self.min_score is None else f"{self.min_score:g}"]
        if self.folder is not None:
            parts.append(content_hash(str(self.folder.absolute()))[:12])
        return cache_folder() / "corpora" / ".kept" / self.entry.name / f"{'@'.join(part for part in parts if part)}.json"


def _check(entry: Entry, languages: Languages, version: str, min_score: float | None) -> None:
    """Refuse at once what cannot be fetched."""
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
    """Refuse a folder whose path is a file, before any download."""
    for place in (folder, *folder.parents):
        if place.is_file():
            raise IsoglossError(f"{place}: is a file, but a folder is needed there", hint="name another folder")


def _from_opus(request: _Request) -> list[Path]:
    file = opus.find(request.entry.corpus or request.entry.name, request.languages, request.version, request.patience)
    pair = (
        f"{file.source}-{file.target}" if file.kind == "tsv" else request.pair
    )  # its two columns are in the order of its name
    target = request.place(file.version) / f"{request.entry.name}.{pair}{file.suffix}"
    return [request.bring(mirrored(file.url), target, file.version)]


def _from_hub(request: _Request) -> list[Path]:
    files = hub.find(request.entry.repo, request.languages, request.version, request.patience)
    token = hub.token()
    paths = []
    for number, file in enumerate(files, start=1):
        name = ".".join(part for part in (request.entry.name, file.shard, request.pair, "parquet") if part)
        target = request.place(file.commit[:12]) / name
        stage = request.stage_of(number, len(files))
        paths.append(request.bring(file.url, target, file.commit, stage, size=file.size, sha256=file.sha256, token=token))
    return paths


def _from_files(request: _Request) -> list[Path]:
    entry = request.entry
    missing = DataError(f"{entry.name} has no {request.pair}", hint=f"its languages are {', '.join(entry.languages)}")
    beside_english = any("{other}" in name for name in entry.files)
    if not entry.may_have(request.languages) or (beside_english and "en" not in request.languages):
        raise missing
    here, there = _names(request, spelled=False), _names(request, spelled=True)
    paths = []
    for number, (name, url) in enumerate(entry.files.items(), start=1):
        target = request.place(request.label) / name.format(**here)
        address = mirrored(url.format(**there))
        stage = request.stage_of(number, len(entry.files))
        try:
            if entry.layout:
                path = _repacked(request, address, target)
            else:
                path = request.bring(address, target, request.label, stage, refresh=request.refresh)
        except NotThere as error:
            raise missing from error
        paths.append(path)
    return paths


def _names(request: _Request, spelled: bool) -> dict[str, str]:
    """The language codes in file names: as requested, in alphabetical order, or the one beside English."""
    source, target = (request.entry.spelling(code) if spelled else code for code in request.languages)
    first, second = (request.entry.spelling(code) if spelled else code for code in _in_order(request))
    other = source if target == "en" else target
    return {"source": source, "target": target, "first": first, "second": second, "other": other}


def _in_order(request: _Request) -> Languages:
    """The two languages in the order of the corpus' columns: alphabetical by its own codes."""
    one, other = sorted(request.languages, key=request.entry.spelling)
    return one, other


def _repacked(request: _Request, url: str, target: Path) -> Path:
    """Fetch a file in an unusual layout, convert it to plain columns, and remove the original."""
    if _is_made(target, request.label) and not (request.refresh and _is_changed(request, url, target)):
        return target
    original = target.with_name(f".original-{_last(url)}")
    request.bring(url, original, refresh=request.refresh)
    remote = recall(original, url)
    layout, columns = request.entry.layout, _in_order(request)
    origin = replace(request.origin(request.label), url=masked(url))
    _made(request, target, origin, [original], lambda out: repack.repack(layout, original, out, columns, request.min_score))
    if remote is not None:
        remember(target, url, remote)
    return target


def _is_changed(request: _Request, url: str, target: Path) -> bool:
    """Whether the server has another file than the one `target` was made from; True if unknown."""
    known = recall(target, url)
    return known is None or not is_unchanged(url, known, request.patience)


def _from_wikipedia(request: _Request) -> list[Path]:
    version = request.version or "latest"
    target = request.place(version) / f"{request.entry.name}.{request.pair}.tsv.gz"
    if _is_made(target, version) and not request.refresh:
        return [target]
    addresses = wikipedia.addresses(request.languages, version)
    dumps = []
    for url in addresses:
        dump = target.with_name(f".original-{_last(url)}")
        try:
            request.bring(mirrored(url), dump, stage=_last(url), refresh=request.refresh)
        except NotThere as error:
            raise DataError(
                f"there are no dumps for {request.pair} ({url})", hint="is there a Wikipedia in that language?"
            ) from error
        dumps.append(dump)

    def build(out: Path) -> int:
        pairs = wikipedia.titles(dumps[0], dumps[1], request.languages, request.entry.name, request.on_progress)
        return repack.write_lines(out, request.languages, pairs)

    return [_made(request, target, replace(request.origin(version), url=addresses[0]), dumps, build)]


def _is_made(target: Path, version: str) -> bool:
    """Whether the converted file is there in this version; refuses a file of the user."""
    known = origin_of(target)
    if known is None:
        refuse_foreign(target)
        return False
    return known.version == version and is_kept(target)


def _made(request: _Request, target: Path, origin: Origin, originals: list[Path], build: Callable[[Path], int]) -> Path:
    """Build a file from fetched originals, and remove these unless it was interrupted."""
    try:
        with atomic_write(target) as temporary:
            if not build(temporary):
                raise DataError(
                    f"{request.entry.name} has no pairs for {request.pair}", hint="is it the right pair of languages?"
                )
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


_WAYS: dict[str, Callable[[_Request], list[Path]]] = {
    "opus": _from_opus,
    "hub": _from_hub,
    "files": _from_files,
    "wikipedia": _from_wikipedia,
}
