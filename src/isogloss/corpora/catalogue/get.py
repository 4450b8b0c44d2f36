"""Download one corpus in one language pair: once, by version, with its license beside it.

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
from isogloss.corpora.catalogue.download import discard, download_lock, fetch, is_unchanged, kept, refuse_foreign
from isogloss.corpora.catalogue.entries import Entry, Languages, as_languages, find
from isogloss.corpora.catalogue.retries import PATIENT, NotFound, Patience, mirrored
from isogloss.corpora.reading.origin import Origin, origin_of
from isogloss.errors import DataError
from isogloss.progress import OnProgress, Step, silent
from isogloss.shapes import SHA256, TEXT, Each, check
from isogloss.storage import atomic_write, cache_folder, content_hash, file_hash, make_folder, read_json, write_json
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
    patience: Patience = PATIENT,
) -> list[Path]:
    """The files of a corpus for a language pair, in the cache or in `folder`; several if it comes in parts."""
    plain, _, version = name.partition("@")
    entry, languages = find(plain), as_languages("-".join(languages))
    _check(entry, languages, version, min_score)
    if folder is not None:
        make_folder(folder)  # before anything is asked for
    request = _Request(
        entry=entry,
        languages=languages,
        version=version or entry.version,
        folder=folder,
        min_score=entry.min_score if min_score is None else min_score,
        refresh=refresh,
        on_progress=on_progress,
        patience=patience,
    )
    waiting = Step(request.stage, 0, 1, "files", "another isogloss is fetching it; waiting")
    with download_lock(request.record, lambda: on_progress(waiting)):
        if not refresh and (files := request.kept()):
            on_progress(Step(request.stage, len(files), len(files), "files", "reused from the cache"))
            return files
        files = _SERVICES[request.entry.by](request)
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

    def download(self, url: str, target: Path, version: str, number: int = 1, files: int = 1, **details: Any) -> Path:  # noqa: ANN401
        """Fetch a file, the `number`-th of several; `details` are those of `fetch`."""
        entry = self.entry
        origin = Origin(corpus=entry.name, version=version, license=entry.license, dictionary=entry.dictionary)
        details.setdefault("stage", self.stage if files == 1 else f"{self.stage} {number}/{files}")
        return fetch(url, target, origin, on_progress=self.on_progress, patience=self.patience, **details)

    def kept(self) -> list[Path]:
        """The files of an equal earlier request, if all are still there and undamaged."""
        try:
            files = check(read_json(self.record), {"files": Each(TEXT, SHA256)})["files"]
        except (OSError, ValueError):
            return []
        return [Path(file) for file in files] if all(kept(Path(file), sha256=files[file]) for file in files) else []

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
    """Refuse a request that cannot succeed, before anything is downloaded."""
    if entry.by == "hand":
        source, target = languages
        raise DataError(f"{entry.name} cannot be downloaded: {entry.why}", hint=entry.how.format(source=source, target=target))
    if version and not _VERSION.fullmatch(version):
        raise DataError(f"{version!r} is not a version", hint=f"for example {entry.name}@v1")
    if version and entry.files and version != entry.version:
        raise DataError(f"{entry.name} has no version {version}", hint=f"there is only {entry.version}")
    if min_score is not None and entry.min_score is None:
        raise DataError(f"{entry.name} cannot be fetched by score", hint="leave --min-score out for it")


def _from_opus(request: _Request) -> list[Path]:
    file = opus.find(request.entry.corpus or request.entry.name, request.languages, request.version, request.patience)
    # The two columns of TSV are in the order of its name.
    pair = f"{file.source}-{file.target}" if file.kind == "tsv" else request.pair
    target = request.place(file.version) / f"{request.entry.name}.{pair}{file.suffix}"
    return [request.download(mirrored(file.url), target, file.version)]


def _from_hub(request: _Request) -> list[Path]:
    files = hub.find(request.entry.repo, request.languages, request.version, request.patience)
    token = hub.token()
    paths = []
    for number, file in enumerate(files, start=1):
        name = ".".join(part for part in (request.entry.name, file.shard, request.pair, "parquet") if part)
        target = request.place(file.commit[:12]) / name
        details = {"size": file.size, "sha256": file.sha256, "token": token}
        paths.append(request.download(file.url, target, file.commit, number, len(files), **details))
    return paths


def _from_files(request: _Request) -> list[Path]:
    entry, version = request.entry, request.label
    missing = DataError(f"{entry.name} has no {request.pair}", hint=f"its languages are {', '.join(entry.languages)}")
    beside_english = any("{other}" in name for name in entry.files)
    if not entry.may_have(request.languages) or (beside_english and "en" not in request.languages):
        raise missing
    columns = _in_order(request)
    paths = []
    for number, (name, pattern) in enumerate(entry.files.items(), start=1):
        target = request.place(version) / name.format(**_names(request, lambda code: code))
        url = mirrored(pattern.format(**_names(request, entry.spelling)))
        try:
            if entry.layout:
                _convert(
                    request,
                    target,
                    version,
                    [url],
                    lambda files, out: repack.repack(entry.layout, files[0], out, columns, request.min_score),
                )
            else:
                request.download(url, target, version, number, len(entry.files), refresh=request.refresh)
        except NotFound as error:
            raise missing from error
        paths.append(target)
    return paths


def _names(request: _Request, spelling: Callable[[str], str]) -> dict[str, str]:
    """The language codes in file names: as requested, in alphabetical order, or the one beside English."""
    source, target = map(spelling, request.languages)
    first, second = map(spelling, _in_order(request))
    return {"source": source, "target": target, "first": first, "second": second, "other": source if target == "en" else target}


def _in_order(request: _Request) -> Languages:
    """The two languages in the order of the corpus' columns: alphabetical by its own codes."""
    one, other = sorted(request.languages, key=request.entry.spelling)
    return one, other


def _from_wikipedia(request: _Request) -> list[Path]:
    version = request.version or "latest"
    target = request.place(version) / f"{request.entry.name}.{request.pair}.tsv.gz"
    dumps = [mirrored(url) for url in wikipedia.addresses(request.languages, version)]

    def build(files: list[Path], out: Path) -> int:
        pairs = wikipedia.titles(files[0], files[1], request.languages, request.entry.name, request.on_progress)
        return repack.write_lines(out, request.languages, pairs)

    try:
        _convert(request, target, version, dumps, build)
    except NotFound as error:
        message = f"there are no dumps for {request.pair} ({dumps[0]})"
        raise DataError(message, hint="is there a Wikipedia in that language?") from error
    return [target]


def _convert(request: _Request, target: Path, version: str, urls: list[str], build: Callable[[list[Path], Path], int]) -> None:
    """Download originals, build `target` from them, and remove them unless the download was interrupted.

    `build` returns the number of pairs.
    """
    refuse_foreign(target)
    known = kept(target)
    same = known is not None and known.version == version
    if known is not None and same and not (request.refresh and not is_unchanged(urls[0], known, request.patience)):
        return
    originals = []
    for url in urls:
        name = Path(parse_url(url).path).name
        hidden = target.with_name(f".original-{name}")
        stage = name if len(urls) > 1 else request.stage
        originals.append(request.download(url, hidden, version, refresh=request.refresh, stage=stage))
    origin = origin_of(originals[0])
    assert origin is not None
    try:
        with atomic_write(target) as temporary:
            if not build(originals, temporary):
                message = f"{request.entry.name} has no pairs for {request.pair}"
                raise DataError(message, hint="is it the right pair of languages?")
            replace(origin, sha256=file_hash(temporary)).write_beside(target)
    except DataError:
        list(map(discard, originals))
        raise
    list(map(discard, originals))


_SERVICES: dict[str, Callable[[_Request], list[Path]]] = {
    "opus": _from_opus,
    "hub": _from_hub,
    "files": _from_files,
    "wikipedia": _from_wikipedia,
}
