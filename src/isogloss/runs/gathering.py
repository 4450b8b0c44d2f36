"""From what a recipe says about its pairs to a prepared store: find, fetch, read, clean, guard."""

import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from isogloss.config import CleaningSettings, LeakSettings, Recipe
from isogloss.corpora import phrasebook
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.preparation.feeds import Feed, from_bitext, from_source, from_store
from isogloss.corpora.preparation.workers import cpu_count
from isogloss.corpora.prepare import Prepared, PrepareOptions, prepare_store, refuse_missing, refuse_other_folder
from isogloss.corpora.reading.compression import looks_packed
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.readers import read_source_text
from isogloss.corpora.reading.sources import STANDARD_INPUT, Source, find_sources
from isogloss.corpora.store import Store, is_store, open_store
from isogloss.errors import DataError, RecipeError
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import cache_folder, content_hash, explaining_disk
from isogloss.types import PairCounts, PairSource, PairView

logger = logging.getLogger(__name__)

SHIPPED = (f"{phrasebook.NAME}=CC0 1.0", f"{phrasebook.READER}=CC0 1.0")


def gather_pairs(recipe: Recipe, on_progress: OnProgress = silent, out: Path | None = None) -> Prepared:
    """The pairs of a recipe in memory, cleaned and split; the store they come from stays in `out` if it is given.

    One prepared store alone is taken as it is.
    """
    with _place(out) as folder:
        store = the_store(recipe, folder, on_progress)
        return Prepared(store.bitext(_wanted(recipe, store)), store.manifest, store.folder)


def gather_source(recipe: Recipe, out: Path, on_progress: OnProgress = silent) -> tuple[PairSource, Store]:
    """The pairs of a recipe as they are streamed from the store in `out` (or the one it names), and that store."""
    store = the_store(recipe, out, on_progress)
    wanted = _wanted(recipe, store)
    return (language_subset(store, wanted) if wanted and set(store.languages) - set(wanted) else store), store


def the_store(recipe: Recipe, out: Path, on_progress: OnProgress = silent) -> Store:
    """The one prepared store that a recipe names, or all that it names prepared into `out`."""
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
    """The one prepared store that a recipe names, if that is all it names."""
    settings = recipe.pairs
    if len(settings.files) != 1 or settings.corpora or settings.source_text or not is_store(Path(settings.files[0])):
        return None
    store = open_store(settings.files[0])
    refuse_missing(tuple(map(canonical, recipe.languages)), store.languages)
    if recipe.cleaning != CleaningSettings() or recipe.leaks != LeakSettings():
        logger.warning("%s is a prepared store and is taken as it is: [cleaning] and [leaks] do not apply to it", store.folder)
    on_progress(Step("pairs", len(store), len(store), "pairs", "a prepared store, taken as it is"))
    return store


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
        yield Path(temporary) / "store"


def gather_store(recipe: Recipe, out: Path, on_progress: OnProgress = silent, workers: int = 0) -> Store:
    """Prepare everything a recipe names into the store `out`."""
    refuse_other_folder(out)  # before anything is fetched or loaded
    with ExitStack() as stack:
        feeds = gather_feeds(recipe, out, on_progress, stack)
        options = PrepareOptions(
            cleaning=recipe.cleaning,
            leaks=recipe.leaks,
            held_out=recipe.pairs.held_out,
            languages=tuple(map(canonical, recipe.languages)),
            on_error=recipe.pairs.on_error,
            workers=workers or recipe.threads or cpu_count(),
            similarity_model=_similarity_model(recipe),
            on_progress=on_progress,
        )
        return prepare_store(feeds, out, options)


def gather_feeds(recipe: Recipe, out: Path, on_progress: OnProgress, stack: ExitStack) -> list[Feed]:
    """Everything a recipe names, as feeds, in the order it names them: of equal pairs the first stays.

    What lies in the store that is written to is not read: a folder of files may hold the store made from it.
    """
    settings = recipe.pairs
    names = [*settings.files, *_fetched(recipe, on_progress)]
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
            feeds.append(_licensed(from_source(_spooled(source, stack)), (*settings.licences, *SHIPPED)))
    if not feeds:
        raise DataError(
            f"{', '.join(names)}: nothing to read but the store itself",
            hint="name another --out, in a recipe output.folder",
        )
    if settings.source_text:
        texts = from_bitext(read_source_text(settings.source_text, settings.source_language))
        feeds += [_licensed(feed, (*settings.licences, *SHIPPED)) for feed in texts]
    return feeds


def _licensed(feed: Feed, known: Sequence[str]) -> Feed:
    """The feed with the licence that the user knows, where its file has none of its own."""
    for entry in known:
        name, equals, licence = entry.partition("=")
        if not equals or not licence.strip():
            raise RecipeError(f"pairs.licences: {entry!r} is not NAME=LICENCE", hint='for example "tatoeba=CC BY 2.0 FR"')
        if not feed.licence and fnmatchcase(feed.corpus, name.strip()):
            return replace(feed, licence=licence.strip())
    return feed


def _spooled(source: Source, stack: ExitStack) -> Source:
    """Standard input can be read only once, and its name is made from its content: it is written down first."""
    if source.path != STANDARD_INPUT:
        return source
    if sys.stdin is None:
        raise DataError("standard input is closed", hint="pipe pairs into it, or name files")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isogloss-")))
    head = sys.stdin.buffer.read(16)
    path = folder / f"standard-input{looks_packed(head)}"  # packed text is known by its suffix
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
