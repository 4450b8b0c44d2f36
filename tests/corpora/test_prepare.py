"""Preparation as a whole: counts add up, nothing is invented, order and repetition do not matter, only what is new is done."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from isogloss.config import CleaningSettings, LeakSettings
from isogloss.corpora import scoring, selecting
from isogloss.corpora.cleaning.judgement import Judge
from isogloss.corpora.feeds import from_bitext, from_source, from_store
from isogloss.corpora.prepare import Preparation, forget_scores, prepare, prepare_store
from isogloss.corpora.sources import find_sources
from isogloss.corpora.store import is_store, open_store
from isogloss.corpora.text.normalise import normalise
from isogloss.errors import DataError, IsoglossError
from isogloss.types import Bitext, Pair
from tiny import PAIRS

WORD = st.sampled_from(["cat", "dog", "runs", "Home", "7", "ж", "猫", "", "!", "the"])
SENTENCE = st.lists(WORD, max_size=6).map(" ".join)
ROWS = st.lists(
    st.builds(
        Pair,
        SENTENCE,
        SENTENCE,
        st.sampled_from(["de", "ru"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "train", "test"]),
    ),
    min_size=1,
    max_size=25,
)


def key(pair: Pair) -> tuple[str, ...]:
    letters = ("".join(filter(str.isalnum, side.lower())) for side in (pair.source, pair.target))
    return (*letters, pair.language)


def prepared(rows: list[Pair], cleaning: CleaningSettings | None = None, held_out: float = 0.2) -> list[Pair]:
    return list(prepare(Bitext.of(rows), cleaning, held_out).bitext)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS)
def test_counts_add_up_and_nothing_is_invented(rows: list[Pair]) -> None:
    try:
        result = prepare(Bitext.of(rows))
    except DataError:  # nothing is left: see test_bad_places_and_languages_are_said
        return
    manifest = result.manifest
    assert manifest["rows_in"] == len(rows)
    assert manifest["rows_out"] == len(result.bitext)
    assert manifest["rows_in"] - sum(drop["count"] for drop in manifest["dropped"]) == manifest["rows_out"]
    for line in manifest["waterfall"]:
        assert line["rows_in"] == sum(line["dropped"].values()) + line["train"] + line["test"]
        assert line["rows_in"] == sum((row.corpus, row.language) == (line["corpus"], line["language"]) for row in rows)
    given_rows = {(normalise(row.source), normalise(row.target), row.language, row.corpus) for row in rows}
    assert {pair[:4] for pair in result.bitext} <= given_rows


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 99))
def test_order_does_not_matter_and_twice_is_once(rows: list[Pair], seed: int) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    try:
        once = prepared(rows)
    except DataError:
        with pytest.raises(DataError):
            prepared(shuffled)
        return
    assert sorted((*key(pair), pair.split) for pair in prepared(shuffled)) == sorted((*key(pair), pair.split) for pair in once)
    assert sorted(prepared(once)) == sorted(once)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS)
def test_no_training_text_is_test_text_and_a_source_has_one_split(rows: list[Pair]) -> None:
    try:
        kept = prepared(rows)
    except DataError:
        return
    held = {side for pair in kept if pair.split == "test" for side in key(pair)[:2]}
    learnt = {side for pair in kept if pair.split == "train" for side in key(pair)[:2]}
    assert not held & learnt


def test_slices_of_the_hash_space_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Pair(f"sentence {n % 90}", f"Satz {n % 80}", "de", "c", "") for n in range(300)]
    cleaning = CleaningSettings(duplicates="near")
    whole = prepared(rows, cleaning)
    monkeypatch.setattr(selecting, "ROWS_A_SLICE", 17)
    assert prepared(rows, cleaning) == whole


def test_a_held_out_copy_stays_before_a_training_copy() -> None:
    rows = [Pair("The cat.", "Die Katze.", "de", "a", "train"), Pair("the cat", "die katze", "de", "b", "test")]
    assert [(pair.corpus, pair.split) for pair in prepared([*rows, Pair("Dogs.", "Hunde.", "de", "a", "train")])] == [
        ("a", "train"),
        ("b", "test"),
    ]


@pytest.mark.parametrize(("level", "kept"), [("keep", 5), ("exact", 4), ("normalised", 3), ("near", 2)])
def test_levels_of_duplicates(level: str, kept: int) -> None:
    base = "a rather long sentence about a small cat that runs home every single evening before it rains"
    other = "ein ziemlich langer Satz über eine kleine Katze die jeden Abend nach Hause läuft bevor es regnet"
    rows = [
        (base, other),
        (base, other),
        (base.upper(), other + "!"),
        (base + " again", other + " wieder"),
        ("Dogs bark.", "Hunde."),
    ]
    cleaning = CleaningSettings(duplicates=level, near=0.7, min_language=0)
    assert len(prepared([Pair(*row, "de", "c", "train") for row in rows], cleaning, 0)) == kept


def test_a_share_of_the_sources_is_held_out_with_all_translations() -> None:
    rows = [Pair(f"number {n}", f"{code} {n}", code, "c", "") for n in range(2000) for code in ("de", "fr")]
    cleaning = CleaningSettings(min_language=0)
    splits: dict[str, set[str]] = {}
    for pair in prepared(rows, cleaning, 0.1):
        splits.setdefault(pair.source, set()).add(pair.split)
    assert all(len(found) == 1 for found in splits.values())
    assert 0.07 < sum(found == {"test"} for found in splits.values()) / len(splits) < 0.13


def feeds(*names: Path) -> list:  # type: ignore[type-arg]
    return [from_source(source) for source in find_sources([str(name) for name in names])]


def write(path: Path, rows: int, start: int = 0) -> Path:
    path.write_text("".join(f"sentence number {n} is here\tSatz Nummer {n} ist hier\n" for n in range(start, start + rows)))
    return path


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted(folder.glob("*.parquet"))}


HOW = Preparation(cleaning=CleaningSettings(min_language=0), leaks=LeakSettings(level="off"))


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    source = write(tmp_path / "news.en-de.tsv", 300)
    for name in ("one", "two"):
        prepare_store(feeds(source), tmp_path / name, HOW)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()} for name in ("one", "two")
    )
    assert one == two
    assert str(tmp_path) not in (tmp_path / "one" / "manifest.json").read_text()


def test_other_processes_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.corpora.prepare.MANY_BYTES", 0)
    source = write(tmp_path / "news.en-de.tsv", 3000)
    alone = prepare_store(feeds(source), tmp_path / "one", HOW)
    together = prepare_store(feeds(source), tmp_path / "two", replace(HOW, workers=2))
    assert alone.manifest == together.manifest


def test_adding_a_corpus_touches_only_what_is_new(tmp_path: Path) -> None:
    first, out = write(tmp_path / "news.en-de.tsv", 300), tmp_path / "store"
    prepare_store(feeds(first), out, HOW)
    before = stamps(out / "pairs") | {f"s/{name}": stamp for name, stamp in stamps(out / "scored").items()}
    (tmp_path / "talks.en-fr.tsv").write_text("good morning to you\tbonjour à vous\n" * 3)
    store = prepare_store(feeds(first, tmp_path / "talks.en-fr.tsv"), out, HOW)
    after = stamps(out / "pairs") | {f"s/{name}": stamp for name, stamp in stamps(out / "scored").items()}
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2
    assert store.manifest["corpora"]["talks"]["train"] + store.manifest["corpora"]["talks"]["test"] == 1


def test_adding_a_language_of_a_many_way_file_reads_only_that_language(tmp_path: Path) -> None:
    table = tmp_path / "many.tsv"
    table.write_text("en\tde\tfr\n" + "".join(f"number {n} one\tNummer {n}\tnuméro {n}\n" for n in range(50)))
    out = tmp_path / "store"
    prepare_store(feeds(table), out, replace(HOW, languages=("de",)))
    before = stamps(out / "scored")
    store = prepare_store(feeds(table), out, replace(HOW, languages=("de", "fr")))
    assert store.languages == ("de", "fr")
    assert before.items() <= stamps(out / "scored").items()
    assert len(before) == 1 and len(stamps(out / "scored")) == 2
    assert prepare_store(feeds(table), out, replace(HOW, languages=("fr",))).languages == ("fr",)


def test_a_threshold_moves_without_scoring_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "news.en-de.tsv", 100), tmp_path / "store"
    prepare_store(feeds(source), out, HOW)
    before = stamps(out / "scored")
    stricter = replace(HOW, cleaning=replace(HOW.cleaning, max_characters=25))
    store = prepare_store(feeds(source), out, stricter)
    assert stamps(out / "scored") == before
    dropped = {drop["rule"]: drop["count"] for drop in store.manifest["dropped"]}
    assert dropped["too long"] == 90  # "sentence number 10 is here" has 26 characters
    assert len(list((out / "pairs").glob("*.parquet"))) == 1


def test_every_dropped_pair_keeps_its_reason(tmp_path: Path) -> None:
    source = tmp_path / "en-de.tsv"
    source.write_text("one cat\teine Katze\n!!\t??\nsame\tsame\none cat\teine Katze\nin 1999\tim Jahr 2024\n")
    store = prepare_store(feeds(source), tmp_path / "store", replace(HOW, held_out=0.0))
    rows = pq.read_table(tmp_path / "store" / "dropped").to_pylist()
    assert [(row["line"], row["reason"]) for row in rows] == [
        (2, "empty side"),
        (3, "identical sides"),
        (4, "duplicate"),
        (5, "different numbers"),
    ]
    assert len(store) == 1
    examples = {drop["rule"]: drop["examples"] for drop in store.manifest["dropped"] if drop["count"]}
    assert examples["different numbers"][0]["score"] == 0.0


def test_evaluation_text_is_removed_from_training_and_reported(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("Sentence number 7 is here!\n")
    source = write(tmp_path / "en-de.tsv", 20)
    guarded = replace(HOW, leaks=LeakSettings(against=(str(tmp_path / "test.txt"),)), held_out=0.0)
    store = prepare_store(feeds(source), tmp_path / "store", guarded)
    scan = store.manifest["leak_scan"]
    assert scan["sets"][0]["name"] == "test.txt" and scan["sets"][0]["texts"] == 1
    assert sum(scan["removed"].values()) == 1
    assert "sentence number 7 is here" not in store.bitext().column("source")


def test_thresholds_set_from_the_data_say_why(tmp_path: Path) -> None:
    rows = [Pair(f"a sentence about the number {n}", f"ein Satz über die Zahl {n}", "de", "c", "") for n in range(990)]
    rows += [Pair(f"short {n}", f"ein Satz der sehr viel länger ist als der andere {n}", "de", "c", "") for n in range(10)]
    result = prepare(Bitext.of(rows), CleaningSettings(auto=True, min_language=0))
    (chosen,) = [one for one in result.manifest["thresholds"] if one["rule"] == "length ratio"]
    assert chosen["value"] < 3 and "ordinary spread ends" in chosen["reason"]
    assert {drop["rule"]: drop["count"] for drop in result.manifest["dropped"]}["length ratio"] == 10


def test_an_interrupted_preparation_goes_on_from_what_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, out = [write(tmp_path / "a.en-de.tsv", 50), write(tmp_path / "b.en-de.tsv", 50, start=50)], tmp_path / "store"
    broken = feeds(*files)
    broken[1] = replace(broken[1], blocks=lambda faults: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        prepare_store(broken, out, HOW)
    assert not is_store(out)
    before = stamps(out / "scored")
    assert len(before) == 1
    store = prepare_store(feeds(*files), out, HOW)
    assert len(store) == 100 - sum(drop["count"] for drop in store.manifest["dropped"])
    assert before.items() <= stamps(out / "scored").items()


def judge(limit: int = 10) -> Judge:
    """Knows only how long a text is."""
    return Judge(
        lambda texts: np.array([[1.0, float(len(text) > limit)] for text in texts], dtype=np.float32), f"length {limit}"
    )


def test_a_loosened_rule_lets_no_pair_past_the_judge(tmp_path: Path) -> None:
    rows = [Pair("short", "a rather long text indeed", "xx", "c", "train"), Pair("short", "brief", "xx", "c", "train")]
    cleaning = CleaningSettings(max_length_ratio=2, similarity_model="m", min_similarity=0.9, min_language=0)
    how = replace(HOW, cleaning=cleaning, judge=judge(), held_out=0.0)
    for ratio in (2, 50):
        looser = replace(how, cleaning=replace(cleaning, max_length_ratio=ratio))
        assert prepare_store(from_bitext(Bitext.of(rows)), tmp_path / "store", looser).bitext().column("target") == ["brief"]
    other = replace(how, cleaning=replace(cleaning, max_length_ratio=50), judge=judge(100))
    assert len(prepare_store(from_bitext(Bitext.of(rows)), tmp_path / "store", other)) == 2  # another model, other scores
    with pytest.raises(DataError, match="needs a loaded model"):
        prepare_store(from_bitext(Bitext.of(rows)), tmp_path / "other", replace(how, judge=None))


def test_damaged_and_missing_parts_are_made_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "news.en-de.tsv", 50), tmp_path / "store"
    before = prepare_store(feeds(source), out, HOW)
    for folder, damage in (("scored", b""), ("scored", None), ("pairs", b"PAR1"), ("dropped", None)):
        (part,) = (out / folder).glob("*.parquet")
        part.unlink() if damage is None else part.write_bytes(damage)
        again = prepare_store(feeds(source), out, HOW)
        assert again.manifest == before.manifest and len(again.bitext()) == len(before)


def test_the_policy_holds_for_what_was_read_before(tmp_path: Path) -> None:
    source, out = tmp_path / "en-de.tsv", tmp_path / "store"
    source.write_text("one cat\teine Katze\nalone\nlonely\ntwo dogs\tzwei Hunde\n")
    assert prepare_store(feeds(source), out, replace(HOW, on_error="skip")).manifest["skipped_lines"] == 2
    with pytest.raises(DataError, match=r"en-de.tsv line 2: 1 column.*1 more bad lines"):
        prepare_store(feeds(source), out, HOW)
    with pytest.raises(DataError, match="line 2: 1 column"):
        prepare_store(feeds(source), out, replace(HOW, on_error="stop-after 1"))
    assert len(prepare_store(feeds(source), out, replace(HOW, on_error="stop-after 2"))) == 2
    assert str(tmp_path) not in (out / "manifest.json").read_text()


def test_parts_do_not_depend_on_what_was_prepared_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.corpora.scored.ROWS_A_GROUP", 7)
    table = tmp_path / "many.tsv"
    table.write_text("en\tde\tfr\n" + "".join(f"number {n} one\tNummer {n}\tnuméro {n}\n" for n in range(50)))
    whole = prepare_store(feeds(table), tmp_path / "one", HOW)
    prepare_store(feeds(table), tmp_path / "two", replace(HOW, languages=("de",)))
    assert prepare_store(feeds(table), tmp_path / "two", HOW).hash == whole.hash


def test_a_giant_is_too_long_and_costs_little(tmp_path: Path) -> None:
    source = tmp_path / "en-de.tsv"
    source.write_text("one cat\teine Katze\n" + "x" * 3_000_000 + "\tein Riese\n")
    loose = replace(HOW, cleaning=replace(HOW.cleaning, max_characters=10**9), held_out=0.0)
    store = prepare_store(feeds(source), tmp_path / "store", loose)
    assert {drop["rule"]: drop["count"] for drop in store.manifest["dropped"] if drop["count"]} == {"too long": 1}
    assert len(pq.read_table(tmp_path / "store" / "dropped").to_pylist()[0]["source"]) == 200


def test_a_tokenizer_is_known_by_its_content(tmp_path: Path) -> None:
    path, out = tmp_path / "tokenizer.json", tmp_path / "store"
    source = write(tmp_path / "en-de.tsv", 5)
    limited = replace(HOW, cleaning=replace(HOW.cleaning, max_tokens=8, tokenizer=str(path)))
    for splitter, fits in ((pre_tokenizers.Whitespace(), True), (pre_tokenizers.Split("", "isolated"), False)):
        tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = splitter
        tokenizer.save(str(path))
        scoring._counter.cache_clear()
        if fits:
            prepare_store(feeds(source), out, limited)
        else:
            with pytest.raises(DataError, match="no pairs are left"):
                prepare_store(feeds(source), out, limited)


def test_long_language_codes_are_told_apart() -> None:
    rows = [Pair("a cat", "貓在這裡", code, "c", "train") for code in ("zh-Hant-TW", "zh-Hant-HK")]
    assert len(prepared(rows, CleaningSettings(min_language=0), 0)) == 2


def test_a_split_that_is_not_known_is_refused() -> None:
    with pytest.raises(DataError, match="a split is 'dev'"):
        prepare(Bitext.of([Pair("a", "b", "de", "c", "dev")]))


def test_a_failed_preparation_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 50)), out, HOW)
    (tmp_path / "b.en-de.tsv").write_text("only one column\n")
    with pytest.raises(DataError, match="1 column"):
        prepare_store(feeds(tmp_path / "a.en-de.tsv", tmp_path / "b.en-de.tsv"), out, HOW)
    assert open_store(out).manifest == store.manifest
    assert len(open_store(out).bitext()) == len(store)


def test_stores_can_be_prepared_again_with_others(tmp_path: Path) -> None:
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 50)), tmp_path / "one", HOW)
    again = prepare_store([*from_store(store), *from_bitext(Bitext.of(PAIRS))], tmp_path / "two", HOW)
    assert set(again.manifest["corpora"]) == {"a", PAIRS[0].corpus}
    assert sorted(again.bitext().where(corpus="a")) == sorted(store.bitext())


def test_bad_places_and_languages_are_said(tmp_path: Path) -> None:
    source = feeds(write(tmp_path / "a.en-de.tsv", 5))
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file, and a store is a folder"):
        prepare_store(source, tmp_path / "file", HOW)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("x")
    with pytest.raises(DataError, match="has other things in it"):
        prepare_store(source, tmp_path / "full", HOW)
    with pytest.raises(DataError, match="no pairs for fr; there are some for de"):
        prepare_store(source, tmp_path / "new", replace(HOW, languages=("fr",)))
    with pytest.raises(DataError, match="different source languages: de, en"):
        prepare_store([*source, replace(source[0], source_language="de")], tmp_path / "new", HOW)
    with pytest.raises(DataError, match="no pairs are left of 5"):
        prepare_store(source, tmp_path / "new", replace(HOW, cleaning=replace(HOW.cleaning, max_characters=1)))


def test_two_at_once_do_not_share_a_store(tmp_path: Path) -> None:
    from filelock import FileLock

    out = tmp_path / "store"
    prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, HOW)
    with FileLock(out / ".lock"), pytest.raises(IsoglossError, match="another isogloss is writing"):
        prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, HOW)


def test_broken_stores_are_explained(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, HOW)
    (out / "pairs" / store.manifest["parts"][0]["file"]).write_bytes(b"gone")
    with pytest.raises(DataError, match="a part of the store cannot be read"):
        open_store(out).bitext()
    with pytest.raises(DataError, match="not a prepared store"):
        open_store(tmp_path)
    (out / "manifest.json").write_text(json.dumps(store.manifest | {"isogloss_store": 99}))
    with pytest.raises(DataError, match="another version of isogloss"):
        open_store(out)
    (out / "manifest.json").write_text('{"isogloss_store": 1, "hash": "x"}')
    with pytest.raises(DataError, match="its manifest has no source_language, rows_in"):
        open_store(out)


def test_only_files_of_our_own_ever_go(tmp_path: Path) -> None:
    out = tmp_path / "store"
    (out / "scored").mkdir(parents=True)
    (out / "scored" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="has other things in it"):
        prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, HOW)
    (out / "scored" / "thesis.txt").unlink()
    (out / "scored").rmdir()
    prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, HOW)
    for name in ("scored/thesis.txt", "pairs/mine.parquet", "dropped/mine.parquet"):
        (out / name).write_text("years of work")
    prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, HOW)
    forget_scores(out)
    assert [path.name for path in (out / "scored").iterdir()] == ["thesis.txt"]
    assert (out / "pairs" / "mine.parquet").exists() and (out / "dropped" / "mine.parquet").exists()


def test_a_rule_is_turned_off_and_on_without_scoring_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "a.en-de.tsv", 20), tmp_path / "store"
    first = prepare_store(feeds(source), out, HOW)
    before = stamps(out / "scored")
    off = replace(HOW, cleaning=replace(HOW.cleaning, min_numbers=0, max_tokens=0))
    prepare_store(feeds(source), out, off)
    assert prepare_store(feeds(source), out, HOW).manifest == first.manifest
    assert stamps(out / "scored") == before
    prepare_store(feeds(source), out, replace(HOW, cleaning=replace(HOW.cleaning, min_language=0.2)))  # never scored yet
    assert stamps(out / "scored") != before


def test_damage_inside_a_part_is_noticed(tmp_path: Path) -> None:
    source, out = write(tmp_path / "a.en-de.tsv", 500), tmp_path / "store"
    first = prepare_store(feeds(source), out, HOW)
    for folder in ("pairs", "scored"):
        (part,) = (out / folder).glob("*.parquet")
        data = bytearray(part.read_bytes())
        footer = int.from_bytes(data[-8:-4], "little")
        middle = (len(data) - footer) // 2
        data[middle : middle + 40] = bytes(40) if folder == "pairs" else bytes(byte ^ 1 for byte in data[middle : middle + 40])
        part.write_bytes(data)
        if folder == "scored":
            with pytest.raises(DataError, match="kept scores are damaged"):
                prepare_store(feeds(source), out, replace(HOW, held_out=0.2))  # everything is read
        assert prepare_store(feeds(source), out, HOW).manifest == first.manifest
        assert len(open_store(out).bitext()) == len(first)


def test_names_are_prepared_as_the_verb_does_it(tmp_path: Path) -> None:
    scored = "".join(f"{score}\tsentence number {n}\tSatz Nummer {n}\n" for n, score in enumerate((1.01, 1.2, 1.3)))
    (tmp_path / "WikiMatrix.v1.en-de.tsv").write_text("score\ten\tde\n" + scored)
    result = prepare(tmp_path / "WikiMatrix.v1.en-de.tsv", CleaningSettings(min_language=0))
    assert result.manifest["rows_out"] == 2
    entries = Bitext.of(
        [Pair("Berlin", "Berlin", "de", "dict_towns", "train"), Pair("a cat", "eine Katze", "de", "x", "train")]
    )
    assert len(prepare(entries).bitext) == 2


def test_the_manifest_is_strict_json(tmp_path: Path) -> None:
    source = tmp_path / "en-de.tsv"
    source.write_text("one cat\teine Katze\n" + "x" * 1_200_000 + "\tein Riese\n")
    prepare_store(feeds(source), tmp_path / "store", replace(HOW, held_out=0.0))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads((tmp_path / "store" / "manifest.json").read_text(), parse_constant=refuse)
