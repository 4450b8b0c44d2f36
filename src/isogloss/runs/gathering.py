"""From the [pairs] of a recipe to a prepared store: find, download, read, clean, scan for leaks."""

import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from isogloss.config import CleaningSettings, LeakSettings, PairsSettings, Recipe
from isogloss.corpora import phrasebook
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.preparation.feeds import Feed, from_bitext, from_source, from_store
from isogloss.corpora.preparation.pair_limits import PairLimits
from isogloss.corpora.preparation.workers import cpu_count
from isogloss.corpora.prepare import Prepared, PrepareOptions, prepare_store, refuse_other_folder
from isogloss.corpora.reading.compression import looks_packed
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.readers import read_source_text, refuse_missing_languages
from isogloss.corpora.reading.sources import STANDARD_INPUT, Source, find_sources
from isogloss.corpora.store import Store, is_store, open_store
from isogloss.errors import DataError, RecipeError
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import cache_folder, content_hash, explaining_disk
from isogloss.types import PairCounts, PairSource, PairView

logger = logging.getLogger(__name__)

BUNDLED_CORPORA = (phrasebook.NAME, phrasebook.READER)


def gather_pairs(recipe: Recipe, on_progress: OnProgress = silent, out: Path | None = None) -> Prepared:
    """The pairs of a recipe in memory, cleaned and split; with `out`, their store is kept there."""
    with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
        store = the_store(recipe, out or Path(temporary) / "store", on_progress)
        return Prepared(store.bitext(_wanted(recipe, store)), store.manifest, store.folder)


def gather_source(recipe: Recipe, out: Path, on_progress: OnProgress = silent) -> tuple[PairSource, Store]:
    """The pairs of a recipe, streamed from a store, and that store: one that the recipe names, or a new one in `out`."""
    store = the_store(recipe, out, on_progress)
    wanted = _wanted(recipe, store)
    return (language_subset(store, wanted) if wanted and set(store.languages) - set(wanted) else store), store


def the_store(recipe: Recipe, out: Path, on_progress: OnProgress = silent) -> Store:
    """The store that a recipe names if it names nothing else, or everything it names prepared into `out`."""
    return _as_it_is(recipe, on_progress) or gather_store(recipe, out, on_progress)


def _wanted(recipe: Recipe, store: Store) -> tuple[str, ...]:
    return (*map(canonical, recipe.languages), store.source_language) if recipe.languages else ()


def language_subset(store: Store, languages: Sequence[str]) -> PairView:
    """The pairs of some languages of a store."""
    chosen = tuple(sorted(set(languages) & set(store.languages)))
    counts = PairCounts({cell: count for cell, count in store.pair_counts().cells.items() if cell[1] in chosen})

    def in_blocks(split: str | None = None) -> Iterator[pa.Table]:
        for block in store.in_blocks(split):
            yield block.filter(pc.is_in(block.column("language"), pa.array(chosen, pa.string())))

    return PairView(store.source_language, chosen, content_hash(store.hash, *chosen), counts, in_blocks)


def _as_it_is(recipe: Recipe, on_progress: OnProgress) -> Store | None:
    """The prepared store that a recipe names, if it names nothing else and takes all of it."""
    settings = recipe.pairs
    others = settings.corpora or settings.source_text or _limits(recipe).reasons
    if others or len(settings.files) != 1 or not is_store(Path(settings.files[0])):
        return None
    store = open_store(settings.files[0])
    refuse_missing_languages(tuple(map(canonical, recipe.languages)), store.languages)
    if recipe.cleaning != CleaningSettings() or recipe.leaks != LeakSettings():
        logger.warning("%s is a prepared store and is taken as it is: [cleaning] and [leaks] do not apply to it", store.folder)
    on_progress(Step("pairs", len(store), len(store), "pairs", "a prepared store, taken as it is"))
    return store


def gather_store(recipe: Recipe, out: Path, on_progress: OnProgress = silent, workers: int = 0) -> Store:
    """Prepare everything a recipe names into the store `out`."""
    refuse_other_folder(out)  # before anything is fetched or loaded
    with ExitStack() as stack:
        feeds = gather_feeds(recipe, out, on_progress, stack)
        options = PrepareOptions(
            cleaning=recipe.cleaning,
            leaks=recipe.leaks_scanned,
            held_out=recipe.pairs.held_out,
            limits=_limits(recipe),
            languages=tuple(map(canonical, recipe.languages)),
            on_error=recipe.pairs.on_error,
            workers=workers or recipe.threads or cpu_count(),
            similarity_model=_similarity_model(recipe),
            on_progress=on_progress,
        )
        return prepare_store(feeds, out, options)


def _limits(recipe: Recipe) -> PairLimits:
    return PairLimits(recipe.pairs.max_per_language, recipe.pairs.max_per_corpus, recipe.seed)


def gather_feeds(recipe: Recipe, out: Path, on_progress: OnProgress, stack: ExitStack) -> list[Feed]:
    """Everything a recipe names, in its order, as feeds: of equal pairs the first is kept.

    A folder may contain the store made from it: what is in the store `out` is not read.
    """
    settings = recipe.pairs
    names, licenses = [*settings.files, *_fetched(recipe, on_progress)], _licenses(settings)
    feeds: list[Feed] = []
    for source in find_sources(
        names,
        language=settings.language or None,
        source_language=settings.source_language,
        format=settings.format or None,
        columns=settings.columns or None,
        dictionaries=settings.dictionaries,
    ):
        if source.path.resolve().is_relative_to(out.resolve()):
            continue
        if is_store(source.path):
            feeds += from_store(open_store(source.path))
        else:
            feeds.append(_licensed(from_source(_spooled(source, stack)), licenses))
    if not feeds:
        raise DataError(
            f"{', '.join(names)}: nothing to read but the store itself",
            hint="name another --out, in a recipe output.folder",
        )
    if settings.source_text:
        texts = from_bitext(read_source_text(settings.source_text, settings.source_language))
        feeds += [_licensed(feed, licenses) for feed in texts]
    return feeds


def _licenses(settings: PairsSettings) -> list[tuple[str, str]]:
    """Patterns of corpus names and their licenses: those that the user names, then those of the bundled text."""
    found = []
    for entry in settings.licenses:
        name, _, license = (part.strip() for part in entry.partition("="))
        if not license:
            raise RecipeError(f"pairs.licenses: {entry!r} is not NAME=LICENSE", hint='for example "tatoeba=CC BY 2.0 FR"')
        found.append((name, license))
    return [*found, *((name, "CC0 1.0") for name in BUNDLED_CORPORA)]


def _licensed(feed: Feed, licenses: Sequence[tuple[str, str]]) -> Feed:
    """The feed with the first license that fits its corpus, if its file states none."""
    license = next((license for pattern, license in licenses if fnmatchcase(feed.corpus, pattern)), "")
    return replace(feed, license=feed.license or license)


def _spooled(source: Source, stack: ExitStack) -> Source:
    """Standard input can be read only once and has no name, so it is copied to a file first."""
    if source.path != STANDARD_INPUT:
        return source
    if sys.stdin is None:
        raise DataError("standard input is closed", hint="pipe pairs into it, or name files")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isogloss-")))
    head = sys.stdin.buffer.read(16)
    path = folder / f"standard-input{looks_packed(head)}"  # compression is recognized by the suffix
    with explaining_disk(path), path.open("wb") as handle:
        handle.write(head)
        shutil.copyfileobj(sys.stdin.buffer, handle)
    return replace(source, path=path)


def _fetched(recipe: Recipe, on_progress: OnProgress) -> list[str]:
    """The files of the catalogue's corpora for every language of the recipe."""
    if not recipe.pairs.corpora:
        return []
    if not recipe.languages:
        raise RecipeError("pairs.corpora needs `languages`", hint='say which to fetch: languages = ["de", "fr"]')
    from isogloss.corpora.catalogue.get import get

    return [
        str(path)
        for name in recipe.pairs.corpora
        for language in recipe.languages
        for path in get(name, (recipe.pairs.source_language, language), on_progress=on_progress)
    ]


def _similarity_model(recipe: Recipe) -> SimilarityModel | None:
    """The model that scores pairs, if the recipe names one."""
    if not recipe.cleaning.similarity_model:
        return None
    from isogloss.models.cached_encoder import CachedEncoder
    from isogloss.models.encoders.open import open_encoder

    model = open_encoder(recipe.cleaning.similarity_model, recipe.device, batch_size=recipe.teacher.batch_size)
    encoder = CachedEncoder(model, recipe.output.cache or cache_folder())
    return SimilarityModel(lambda texts: encoder.encode(texts), encoder.fingerprint)
