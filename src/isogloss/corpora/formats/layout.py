"""Which column holds what: from a header, from the user, or from the order of languages in the file's name."""

from collections.abc import Sequence
from dataclasses import dataclass

from isogloss.corpora.reading.languages import canonical, is_known, is_shaped_like_a_code, is_source
from isogloss.corpora.reading.sources import IN_MEMORY, Source
from isogloss.errors import DataError

# Columns of stores, and of the tables that `isogloss mine` and `isogloss score` write.
NAMED_COLUMNS = {"id", "source", "target", "source_id", "target_id", "language", "corpus", "domain", "split", "score"}
_HUB_NAMES = {"english": "source", "non_english": "target"}  # sentence-transformers' parallel-sentences sets
_ROLES = ("source", "target", "language", "split", "score")
COLUMNS_HINT = 'write it like columns = "source=2,target=3,score=1": positions from 1, or names of the header'


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of the source, of each target with its language, and of the optional further values."""

    source: int
    targets: tuple[tuple[int, str], ...]
    language: int | None = None
    split: int | None = None
    score: int | None = None

    @property
    def used(self) -> tuple[int, ...]:
        """The columns that are read."""
        further = (place for place in self.further if place is not None)
        return (self.source, *(place for place, _ in self.targets), *further)

    @property
    def further(self) -> tuple[int | None, int | None, int | None]:
        """The columns of the language, the split and the score."""
        return self.language, self.split, self.score

    @property
    def width(self) -> int:
        """How many columns a line must have at least."""
        return max(self.used) + 1


@dataclass(frozen=True, slots=True)
class UserColumns:
    """The `columns` option: `source=2,target=3`, or `source=text_en,target=text_de,quoted`."""

    places: tuple[tuple[str, str], ...] = ()
    header: bool = False  # the first line has names, although all columns are given by position
    quoted: bool = False  # cells may be in double quotes, as in CSV

    @property
    def by_name(self) -> bool:
        """Whether a header is needed to find the columns."""
        return any(not place.isdecimal() for _, place in self.places)


def parse_columns(text: str) -> UserColumns:
    """Parse the `columns` option."""
    places: list[tuple[str, str]] = []
    flags = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, place = (piece.strip() for piece in part.partition("="))
        possible = place and place != "0" and (not place.isdecimal() or len(place) < 6)
        if not equals and key in ("header", "quoted"):
            flags.add(key)
        elif equals and possible and (key in _ROLES or is_shaped_like_a_code(key)):
            places.append((key, place))
        else:
            raise DataError(f"columns: {part!r} is not valid", hint=COLUMNS_HINT)
    if len(dict(places)) != len(places):
        raise DataError(f"columns: {text!r} names something twice", hint=COLUMNS_HINT)
    return UserColumns(tuple(places), "header" in flags, "quoted" in flags)


def language_unknown(source: Source) -> DataError:
    """The error for a target language that neither the name nor the header nor the user says."""
    hint = f"name it {source.source_language}-XX.tsv, give it a header line, or set --language XX, in a recipe pairs.language"
    if source.format == IN_MEMORY:
        hint = 'pass language="de", or give each row a language'
    return DataError(f"{source.name}: the target language is not known", hint=hint)


def target_language(source: Source) -> str:
    """The language of the only target column."""
    if not source.language:
        raise language_unknown(source)
    return source.language


def positional(source: Source) -> Layout:
    """Two columns without names, in the order of the languages in the file's name."""
    first, second = (0, 1) if source.source_first else (1, 0)
    return Layout(first, ((second, target_language(source)),))


def from_user(columns: UserColumns, names: Sequence[str] | None, source: Source, number: int = 1) -> Layout:
    """The layout the user described; `names` is the header, if there is one."""
    places = {key: _place(place, names, source, number) for key, place in columns.places}
    codes = {key: place for key, place in places.items() if key not in _ROLES}
    source_codes = [key for key in codes if is_source(key, source.source_language)]
    origin = places.get("source", codes.pop(source_codes[0]) if source_codes else None)
    if "target" in places:
        targets = [(places["target"], "" if "language" in places else target_language(source))]
    else:
        targets = [(place, canonical(key)) for key, place in codes.items() if key not in source_codes]
    if origin is None or not targets:
        raise DataError(f"{source.name}: columns lacks the source or the target", hint=COLUMNS_HINT)
    return Layout(origin, tuple(targets), places.get("language"), places.get("split"), places.get("score"))


def _place(place: str, names: Sequence[str] | None, source: Source, number: int) -> int:
    if place.isdecimal():
        return int(place) - 1
    if names is None or place not in names:
        header = " ".join(names or ())
        raise DataError(f"{source.name} line {number}: no column {place!r}", hint=f"the header is: {header[:200]}")
    return list(names).index(place)


def from_header(cells: Sequence[str], source: Source, number: int = 1, strict: bool = True) -> Layout | None:
    """The layout of a header, or None if it is not one (the first line is already data).

    Text files are `strict`: an unknown name is refused, since a wrong guess would train on the wrong column. The names of
    Parquet columns and JSON keys are certain, so unknown ones are ignored.
    """
    names = [cell.strip() for cell in cells]
    if source.source_language == "en" and _HUB_NAMES.keys() <= set(names):
        names = [_HUB_NAMES.get(name, name) for name in names]
    sided = {"source", "target"} <= set(names)
    if len(names) < 2 or not (sided or _has_languages(names, source)):
        return None
    if strict and (unknown := [name for name in names if name not in NAMED_COLUMNS and not _may_be_a_language(name)]):
        raise DataError(
            f"{source.name} line {number}: the header has the unknown column {unknown[0]!r}",
            hint=f"columns are language codes and {', '.join(sorted(NAMED_COLUMNS))}; remove the others, "
            "or set columns: source=NAME,target=NAME (or a rare code: xyz=NAME)",
        )
    language, split, score = (names.index(name) if name in names else None for name in ("language", "split", "score"))
    if sided:
        target = (names.index("target"), target_language(source) if language is None else "")
        return Layout(names.index("source"), (target,), language, split, score)
    origin = next(place for place, name in enumerate(names) if is_source(name, source.source_language))
    targets = tuple(
        (place, canonical(name)) for place, name in enumerate(names) if place != origin and _is_target(name, source, strict)
    )
    if not targets:
        raise DataError(
            f"{source.name} line {number}: no column for a second language",
            hint=f"the header is: {' '.join(names)[:200]}; if id means Indonesian, use --language id, in a recipe"
            ' pairs.language = "id"',
        )
    return Layout(origin, targets, None, split, score)


def from_codes(names: Sequence[str], source: Source) -> Layout | None:
    """The layout of a `translation`: all names are languages, `id` is Indonesian. None if the source is not there."""
    mine = [place for place, name in enumerate(names) if is_source(name, source.source_language)]
    targets = [
        (place, canonical(name)) for place, name in enumerate(names) if place not in mine and is_shaped_like_a_code(name)
    ]
    return Layout(mine[0], tuple(targets)) if mine and targets else None


def _is_target(name: str, source: Source, strict: bool) -> bool:
    if name == source.language:
        return True  # `id` is Indonesian if the file's name says so
    return name not in NAMED_COLUMNS and (_may_be_a_language(name) if strict else is_known(name))


def _may_be_a_language(name: str) -> bool:
    """Any two letters; of three letters only known codes, because of `url` and `src`."""
    return is_known(name) or (is_shaped_like_a_code(name) and len(canonical(name).split("-")[0]) == 2)


def _has_languages(names: Sequence[str], source: Source) -> bool:
    """Whether column names are languages with the source among them.

    `en` is also a word (French "in"). So if the other language is known, it must be there too, or more than half of the
    names must be known.
    """
    if not any(is_source(name, source.source_language) for name in names):
        return False
    if not source.language or any(canonical(name) == source.language for name in names if is_shaped_like_a_code(name)):
        return True
    return 2 * sum(name in NAMED_COLUMNS or is_known(name) for name in names) > len(names)
