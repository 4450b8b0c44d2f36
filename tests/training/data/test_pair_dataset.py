"""Training data from streamed pairs: what dictionaries give, whatever the blocks, found again, and taken up after a kill."""

import shutil
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isogloss import types as types_module
from isogloss.corpora import store as store_module
from isogloss.corpora.prepare import prepare
from isogloss.corpora.store import open_store
from isogloss.errors import DataError, IsoglossError
from isogloss.models.token_store import Ids, TextTokenizer
from isogloss.models.vector_cache import text_keys
from isogloss.progress import Step
from isogloss.storage import folder_lock
from isogloss.training.data import growing_files as files_module
from isogloss.training.data import pair_dataset as data_module
from isogloss.training.data import pair_reading as reading
from isogloss.training.data.pair_dataset import PairDataset
from isogloss.types import SCHEMA, TEST, TRAIN, Bitext, IntArray, Pair, PairCounts, PairSource
from tiny import PAIRS, TEXTS, unigram

TOKENISER = TextTokenizer(unigram(), 32)
MIXED = [
    *PAIRS,
    *(Pair(pair.source, pair.source, "en", "source text") for pair in PAIRS[::7]),  # a sentence with itself
    *(Pair(pair.target, pair.source, "en", "backwards") for pair in PAIRS[::5] if pair.split == TRAIN),  # targets as sources
    *PAIRS[:9],
]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types_module, "ROWS_A_BLOCK", 7)
    monkeypatch.setattr(data_module, "AT_ONCE", 64)


def assert_is_by_dictionary(data: PairDataset, pairs: list[Pair]) -> None:
    """Compare with what a few dictionaries over the training pairs give."""
    pairs = [pair for pair in pairs if pair.split == TRAIN]
    sources = list(dict.fromkeys(pair.source for pair in pairs))
    texts = list(dict.fromkeys([*sources, *(pair.target for pair in pairs)]))
    row_of = {text: row for row, text in enumerate(texts)}
    corpora, languages = sorted({pair.corpus for pair in pairs}), sorted({pair.language for pair in pairs})
    assert data.sources == len(sources)
    assert [data.tokens.row(row).tolist() for row in range(len(data.tokens))] == unigram()(texts)["input_ids"]
    assert data.pairs.source.tolist() == [row_of[pair.source] for pair in pairs]
    assert data.pairs.target.tolist() == [row_of[pair.target] for pair in pairs]
    assert (data.corpora, data.languages) == (tuple(corpora), tuple(languages))
    assert data.pairs.corpus.tolist() == [corpora.index(pair.corpus) for pair in pairs]
    assert data.pairs.language.tolist() == [languages.index(pair.language) for pair in pairs]
    assert data.keys.tobytes() == text_keys(texts).tobytes()
    assert data.source_addresses.tobytes() == text_keys(sources).tobytes()
    assert data.source_texts.to_pylist() == sources
    assert data.rows_of(["never seen", *texts]).tolist() == [-1, *range(len(texts))]
    assert data.rows_of([]).tolist() == []
    assert data.source_keys.tolist() == text_keys(sources).view("<u8").reshape(-1, 2)[:, 0].tolist()
    for column in (data.pairs.source, data.pairs.target, data.pairs.corpus, data.pairs.language):
        assert column.dtype == np.int64


def assert_same(one: PairDataset, other: PairDataset) -> None:
    assert one.key == other.key
    for column in ("source", "target", "corpus", "language"):
        assert np.array_equal(getattr(one.pairs, column), getattr(other.pairs, column))
    assert one.tokens.ids.tobytes() == other.tokens.ids.tobytes()
    assert one.tokens.offsets.tobytes() == other.tokens.offsets.tobytes()
    assert (one.sources, one.corpora, one.languages) == (other.sources, other.corpora, other.languages)
    assert one.keys.tobytes() == other.keys.tobytes()
    assert one.source_texts.equals(other.source_texts)


@st.composite
def some_pairs(draw: st.DrawFn) -> list[Pair]:
    texts = st.sampled_from(TEXTS[:12])
    rows = st.builds(
        Pair, texts, texts, st.sampled_from(["de", "ru", "en"]), st.sampled_from(["b", "a"]), st.sampled_from([TRAIN, TEST])
    )
    return [*draw(st.lists(rows, max_size=40)), draw(rows)._replace(split=TRAIN)]


@given(some_pairs(), st.integers(1, 50), st.sampled_from([1, 7, 1000]))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25, deadline=None)
def test_any_pairs_in_any_blocks_are_numbered_as_by_dictionaries(pairs: list[Pair], block: int, slice_size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(types_module, "ROWS_A_BLOCK", block)
        patch.setattr(data_module, "AT_ONCE", slice_size)
        assert_is_by_dictionary(PairDataset.build(Bitext.of(pairs), TOKENISER), pairs)


def test_on_disk_as_in_memory(tmp_path: Path, small_blocks: None) -> None:
    bitext = Bitext.of(MIXED)
    mapped = PairDataset.build(bitext, TOKENISER, tmp_path)
    assert_is_by_dictionary(mapped, MIXED)
    assert_same(mapped, PairDataset.build(bitext, TOKENISER))
    for array in (mapped.pairs.source, mapped.pairs.corpus, mapped.tokens.stored_ids, mapped.keys):
        assert isinstance(array.base, np.memmap)


def test_blocks_of_any_size_give_the_same_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PairDataset.build(Bitext.of(MIXED), TOKENISER)
    monkeypatch.setattr(types_module, "ROWS_A_BLOCK", 3)
    assert_same(whole, PairDataset.build(Bitext.of(MIXED), TOKENISER, tmp_path))


def test_a_block_is_tokenised_in_pieces_which_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_blocks: None
) -> None:
    whole, sizes, tokenize = PairDataset.build(Bitext.of(MIXED), TOKENISER), list[int](), TextTokenizer.__call__

    def noting(tokenizer: TextTokenizer, texts: Sequence[str]) -> tuple[Ids, IntArray]:
        sizes.append(len(texts))
        return tokenize(tokenizer, texts)

    monkeypatch.setattr(TextTokenizer, "__call__", noting)
    monkeypatch.setattr(reading, "TOKENIZED_AT_ONCE", 3)
    assert_same(whole, PairDataset.build(Bitext.of(MIXED), TOKENISER, tmp_path))
    assert max(sizes) == 3
    assert sum(sizes) == len(whole.tokens), "a sentence is tokenized once"


@pytest.mark.parametrize(("after", "blocks"), [(1, 1), (8, 2), (1_000, 0)])
def test_memory_goes_back_every_so_many_pairs(after: int, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(types_module, "ROWS_A_BLOCK", 7)
    monkeypatch.setattr(reading, "TRIMMED_AFTER", after)
    monkeypatch.setattr(reading, "trim", lambda: trims.append(1))
    bitext = Bitext.of([pair for pair in PAIRS if pair.split == TRAIN][:28])
    PairDataset.build(bitext, TOKENISER)
    assert len(trims) == (4 // blocks if blocks else 0)


def test_a_store_streams_what_its_bitext_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(Bitext.of(MIXED), out=tmp_path / "store")
    store = open_store(tmp_path / "store")
    source: PairSource = store
    monkeypatch.setattr(store_module, "ROWS_A_BLOCK", 5)
    for split in (None, TRAIN, TEST):
        blocks = list(source.in_blocks(split))
        assert all(0 < block.num_rows <= 5 and block.schema.names == SCHEMA.names for block in blocks)
        expected = store.bitext() if split is None else store.bitext().where(split=split)
        assert Bitext(pa.concat_tables(blocks)).table.equals(expected.table) and len(expected)
    assert_same(PairDataset.build(store, TOKENISER, tmp_path), PairDataset.build(store.bitext(), TOKENISER))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8))
@settings(deadline=None, max_examples=20)
def test_the_name_of_a_bitext_depends_on_its_pairs_alone(cuts: list[int]) -> None:
    table, pieces, start = Bitext.of(MIXED).table, [], 0
    for cut in [*cuts, len(MIXED)]:
        pieces.append(table.slice(start, cut))
        start += pieces[-1].num_rows
    chunked = Bitext(pa.concat_tables([Bitext.of(list(Bitext(piece))).table for piece in pieces]))
    assert chunked.hash == Bitext.of(MIXED).hash
    assert Bitext(table.slice(cuts[0])).hash == Bitext.of(MIXED[cuts[0] :]).hash  # columns that begin inside their buffers


def test_the_name_of_a_bitext_tells_any_change() -> None:
    pairs = [Pair("ab", "c", "de"), Pair("d", "e", "de")]
    others = [
        Bitext.of(pairs, "fr"),
        Bitext.of(pairs[::-1]),
        Bitext.of([Pair("a", "bc", "de"), pairs[1]]),
        Bitext.of([Pair("abd", "c", "de"), Pair("", "e", "de")]),
        *(Bitext.of([pairs[0]._replace(**{name: "x"}), pairs[1]]) for name in SCHEMA.names),
        Bitext.of([]),
    ]
    assert len({bitext.hash for bitext in [Bitext.of(pairs), *others]}) == len(others) + 1


# ── kept, found, taken up ───────────────────────────────────────────────────────────────────────────────────────────────


class Watched:
    """Pairs that remember how often they were gone through."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.bitext, self.passes = Bitext.of(pairs), 0
        self.source_language, self.languages, self.hash = "en", self.bitext.languages, self.bitext.hash

    def __len__(self) -> int:
        return len(self.bitext)

    def pair_counts(self) -> PairCounts:
        return self.bitext.pair_counts()

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        self.passes += 1
        return self.bitext.in_blocks(split)


def test_a_finished_build_is_found_again(tmp_path: Path) -> None:
    pairs, steps = Watched(MIXED), list[Step]()
    first = PairDataset.build(pairs, TOKENISER, tmp_path)
    assert pairs.passes == 1
    assert_same(first, PairDataset.build(pairs, TOKENISER, tmp_path, steps.append))
    assert pairs.passes == 1
    assert steps == [Step("tokens", len(first.tokens), len(first.tokens), "sentences", "reused")]
    other = PairDataset.build(pairs, TextTokenizer(unigram(), 32, "query: "), tmp_path)
    assert other.key != first.key and pairs.passes == 2
    fewer = PairDataset.build(Bitext.of(MIXED[:-1]), TOKENISER, tmp_path)
    assert fewer.key != first.key
    assert len(list(tmp_path.glob("data-*"))) == 3


def test_progress_counts_the_pairs_that_were_read(tmp_path: Path, small_blocks: None) -> None:
    steps: list[Step] = []
    data = PairDataset.build(Bitext.of(MIXED), TOKENISER, tmp_path, steps.append)
    assert len(steps) > 5 and steps[-1].finished
    assert all((step.stage, step.total, step.unit) == ("tokens", len(data.pairs), "pairs") for step in steps)
    assert [step.done for step in steps] == sorted(step.done for step in steps)


def test_a_build_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types_module, "ROWS_A_BLOCK", 9)
    monkeypatch.setattr(files_module, "SAVE_SECONDS", 0.0)
    steps: list[Step] = []
    whole = PairDataset.build(Bitext.of(MIXED), TOKENISER, tmp_path / "whole", steps.append)
    resumed_at = set()
    for kill in range(1, len(steps) + 1):
        left = kill

        def until(step: Step) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

        folder, more = tmp_path / f"killed-{kill}", list[Step]()
        with pytest.raises(KeyboardInterrupt):
            PairDataset.build(Bitext.of(MIXED), TOKENISER, folder, until)
        with monkeypatch.context() as other:
            other.setattr(types_module, "ROWS_A_BLOCK", 19)  # where blocks end does not matter to what is taken up
            assert_same(whole, PairDataset.build(Bitext.of(MIXED), TOKENISER, folder, more.append))
        assert not list(folder.rglob("*.partial-*"))
        resumed_at.add(next(step.done for step in more if step.stage == "tokens"))
    assert len(resumed_at) == len(steps), "each continues where the other was killed"


WORK = ("write_json", "_put_in_order", "_token_counts", "_write_rows", "remove", "raw_array")


@pytest.mark.parametrize("name", WORK)
def test_a_build_that_is_killed_after_its_text_was_read_reads_none_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = PairDataset.build(Bitext.of(MIXED), TOKENISER)
    kill, finished = 0, False
    while not finished:
        kill, pairs, calls, original = kill + 1, Watched(MIXED), 0, getattr(data_module, name)

        def killed(*given: Any, kill: int = kill, original: Any = original, **named: Any) -> Any:  # noqa: ANN401
            nonlocal calls
            calls += 1
            if calls == kill:
                raise KeyboardInterrupt
            return original(*given, **named)

        folder = tmp_path / str(kill)
        with monkeypatch.context() as patch:
            patch.setattr(data_module, name, killed)
            try:
                PairDataset.build(pairs, TOKENISER, folder)
                finished = True
            except KeyboardInterrupt:
                pass
        before = pairs.passes
        assert_same(whole, PairDataset.build(pairs, TOKENISER, folder))
        assert pairs.passes == 1, "what was read is not read again" if before else "nothing was read"
    assert kill > 1


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    def interrupted(step: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PairDataset.build(Bitext.of(PAIRS), TOKENISER, tmp_path, interrupted)
    (place,) = tmp_path.iterdir()
    (place / ".data.json.partial-1234abcd").write_bytes(b"half")  # a kill leaves what an interruption removes
    PairDataset.build(Bitext.of(PAIRS), TOKENISER, tmp_path)
    assert sorted(path.name for path in place.iterdir() if path.name != ".lock") == sorted(["data.json", *data_module.FILES])


def test_damaged_data_are_made_again(tmp_path: Path) -> None:
    whole = PairDataset.build(Bitext.of(MIXED), TOKENISER)
    for name in ("data.json", *data_module.FILES):
        folder = tmp_path / name
        PairDataset.build(Bitext.of(MIXED), TOKENISER, folder)
        (file,) = folder.glob(f"data-*/{name}")
        file.write_bytes(file.read_bytes()[:-8])
        assert_same(whole, PairDataset.build(Bitext.of(MIXED), TOKENISER, folder))
        shutil.rmtree(folder)


def test_pairs_that_change_while_they_are_read_are_refused(tmp_path: Path) -> None:
    class Growing(Watched):
        def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
            self.bitext = Bitext.of([*self.bitext, Pair("one more", "eins mehr", "de")])
            return super().in_blocks(split)

    with pytest.raises(DataError, match="changed"):
        PairDataset.build(Growing(MIXED), TOKENISER, tmp_path)


def test_pairs_that_are_all_held_out_are_refused() -> None:
    with pytest.raises(DataError, match="no pairs to train on"):
        PairDataset.build(Bitext.of([pair._replace(split=TEST) for pair in PAIRS]), TOKENISER)


def test_two_at_once_do_not_write_to_one_place(tmp_path: Path) -> None:
    def again(step: Step) -> None:
        with pytest.raises(IsoglossError, match="another isogloss"):
            PairDataset.build(Bitext.of(PAIRS), TOKENISER, tmp_path)

    made = PairDataset.build(Bitext.of(PAIRS), TOKENISER, tmp_path, again)
    (place,) = tmp_path.iterdir()
    with folder_lock(place, "", ""):  # somebody else is reading it
        assert_same(made, PairDataset.build(Bitext.of(PAIRS), TOKENISER, tmp_path))


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def peak(folder: Path, count: int) -> int:
    """Bytes that Python and numpy hold at most while `count` pairs become training data."""
    random = np.random.default_rng(count)
    words = random.integers(0, 40, (count, 2, 6))
    pairs = [Pair(" ".join(map(str, a)), " ".join(map(str, b)), "de") for a, b in words]
    bitext = Bitext.of(pairs)
    tracemalloc.start()
    PairDataset.build(bitext, TOKENISER, folder)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_does_not_grow_with_the_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types_module, "ROWS_A_BLOCK", 250)
    monkeypatch.setattr(data_module, "AT_ONCE", 1_000)
    few, many = peak(tmp_path, 1_000), peak(tmp_path, 5_000)
    assert many < few + 4 * 4_000  # four bytes a pair more at most; its texts and tokens alone are hundreds
