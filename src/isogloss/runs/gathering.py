"""From what a recipe says about its pairs to a prepared store: find, fetch, read, clean, guard."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from isogloss.config import Recipe
from isogloss.corpora.feeds import Feed, from_bitext, from_source, from_store
from isogloss.corpora.prepare import Preparation, Prepared, prepare_store
from isogloss.corpora.readers import read_source_text
from isogloss.corpora.sources import STANDARD_INPUT, Source, find_sources
from isogloss.corpora.store import Store, is_store, open_store
from isogloss.corpora.workers import cpu_count
from isogloss.errors import RecipeError
from isogloss.progress import OnProgress, Step, silent

if TYPE_CHECKING:
    from isogloss.corpora.cleaning.judgement import EncodeTexts


def gather_pairs(recipe: Recipe, on_progress: OnProgress = silent, out: Path | None = None) -> Prepared:
    """The pairs of a recipe in memory, cleaned and split; the store they come from stays in `out` if it is given."""
    with _place(out) as folder:
        store = gather_store(recipe, folder, on_progress)
        wanted = (*recipe.languages, store.source_language) if recipe.languages else ()
        prepared = Prepared(store.bitext(wanted), store.manifest, store.folder)
    return prepared


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
        yield Path(temporary) / "store"


def gather_store(recipe: Recipe, out: Path, on_progress: OnProgress = silent, workers: int = 0) -> Store:
    """Prepare everything a recipe names into the store `out`; one prepared store alone is taken as it is."""
    alone = recipe.pairs.files[0] if len(recipe.pairs.files) == 1 else ""
    if alone and is_store(Path(alone)) and not recipe.pairs.corpora and not recipe.pairs.source_text:
        store = open_store(alone)
        on_progress(Step("pairs", len(store), len(store), "pairs", "a prepared store, taken as it is"))
        return store
    with ExitStack() as stack:
        feeds = gather_feeds(recipe, on_progress, stack)
        how = Preparation(
            cleaning=recipe.cleaning,
            leaks=recipe.leaks,
            held_out=recipe.pairs.held_out,
            languages=recipe.languages,
            on_error=recipe.pairs.on_error,
            workers=workers or recipe.threads or cpu_count(),
            encode=_similarity_encoder(recipe),
            on_progress=on_progress,
        )
        return prepare_store(feeds, out, how)


def gather_feeds(recipe: Recipe, on_progress: OnProgress, stack: ExitStack) -> list[Feed]:
    """Everything a recipe names, as feeds, in the order it names them: of equal pairs the first stays."""
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
        if is_store(source.path):
            feeds += from_store(open_store(source.path))
        else:
            feeds.append(_licensed(from_source(_spooled(source, stack)), settings.licences))
    if settings.source_text:
        feeds += from_bitext(read_source_text(settings.source_text, settings.source_language))
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
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isogloss-")))
    path = folder / "standard-input"
    with path.open("wb") as handle:
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


def _similarity_encoder(recipe: Recipe) -> "EncodeTexts | None":
    """The model that judges pairs, if the recipe names one."""
    if not recipe.cleaning.similarity_model:
        return None
    from isogloss.encode.encoder import load

    encoder = load(recipe.cleaning.similarity_model, "", recipe.teacher.batch_size, recipe.device)
    return lambda texts: encoder.encode(texts)
