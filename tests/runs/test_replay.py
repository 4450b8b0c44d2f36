"""Replay: equal shares, the same draw for the same seed, and no held-out text in what is trained on."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isogloss.runs.replay import draw, equal_shares, held_out_text, together, without_held_out
from isogloss.types import TEST, TRAIN, Bitext, Pair, PairSource

NOTHING = np.zeros(0, dtype=np.uint64)


@given(st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 30), min_size=1), st.integers(0, 200))
def test_shares_are_those_of_handing_out_one_by_one(sizes: dict[str, int], total: int) -> None:
    given_out = dict.fromkeys(sizes, 0)
    for _ in range(total):  # the next goes to who has least of those that have more, the larger first
        able = [name for name in sizes if given_out[name] < sizes[name]]
        if able:
            given_out[min(able, key=lambda name: (given_out[name], -sizes[name], [-ord(name)]))] += 1
    assert equal_shares(sizes, total) == given_out


def bitext(*languages: tuple[str, int]) -> Bitext:
    pairs = [
        Pair(f"source {number}", f"{language} target {number}", language, "c", TEST if number % 10 == 3 else TRAIN)
        for language, count in languages
        for number in range(count)
    ]
    return Bitext.of([*pairs, *(Pair(f"text {number}", f"text {number}", "en", "c") for number in range(20))])


def rows(pairs: PairSource, split: str | None = None) -> list[Pair]:
    return [Pair(**row) for block in pairs.in_blocks(split) for row in block.to_pylist()]


def test_a_draw_is_balanced_without_repetition_and_of_training_pairs() -> None:
    old = bitext(("de", 100), ("ru", 20), ("ko", 50))
    drawn = draw(old, 90, NOTHING, 17)
    assert drawn is not None
    assert drawn.counts.of_split() == {("c", "de"): 36, ("c", "ko"): 36, ("c", "ru"): 18} and len(drawn) == 90
    found = rows(drawn)
    assert len(set(found)) == 90 and set(found) <= set(rows(old, TRAIN))
    assert drawn.languages == ("de", "ko", "ru"), "source text is no language"
    assert rows(drawn, TEST) == [] and rows(drawn, TRAIN) == found
    assert found == sorted(found, key=rows(old).index), "in the order of the store"


def test_a_draw_depends_on_the_seed() -> None:
    old = bitext(("de", 100), ("ru", 100))
    first, again, other = draw(old, 40, NOTHING, 1), draw(old, 40, NOTHING, 1), draw(old, 40, NOTHING, 2)
    assert first is not None and again is not None and other is not None
    assert rows(first) == rows(again) == rows(first) and first.hash == again.hash
    assert rows(other) != rows(first) and other.hash != first.hash
    german = draw(bitext(("de", 100)), 20, NOTHING, 1)
    assert german is not None and rows(german) == [pair for pair in rows(first) if pair.language == "de"]


def test_held_out_text_of_others_is_not_trained_on() -> None:
    old = bitext(("de", 40))
    new = Bitext.of(
        [
            Pair("Source 3!", "sw target a", "sw", "n"),  # the source of a held-out old pair, written otherwise
            Pair("other 1", "de target 13", "sw", "n"),  # its target
            Pair("other 2", "sw target b", "sw", "n"),
            Pair("source 33", "sw target c", "sw", "n", TEST),  # held-out pairs may share text
            Pair("source 7", "sw target d", "sw", "n", TEST),  # trained on before: not again
        ]
    )
    held = held_out_text(together((old, new)))
    clear = without_held_out(new, held)
    assert len(clear) == 3
    assert [pair.target for pair in rows(clear)] == ["sw target b", "sw target c", "sw target d"]
    assert [pair.target for pair in rows(clear, TRAIN)] == ["sw target b"]
    assert clear.hash != new.hash and without_held_out(new, NOTHING).hash == new.hash
    drawn = draw(old, 1000, held, 17)
    assert drawn is not None and {pair.source for pair in rows(drawn)} == {
        pair.source for pair in old if pair.split == TRAIN and pair.language == "de" and pair.source != "source 7"
    }


def test_together_is_one_after_the_other() -> None:
    parts = bitext(("de", 5)), bitext(("ru", 4))
    both = together(parts)
    assert rows(both) == [*rows(parts[0]), *rows(parts[1])] and len(both) == len(rows(both))
    assert both.languages == ("de", "en", "ru") and both.hash != together(parts[::-1]).hash


def test_nothing_to_draw() -> None:
    only_held = Bitext.of([Pair("a", "b", "de", "c", TEST), Pair("text", "text", "en", "c")])
    assert draw(only_held, 10, NOTHING, 17) is None
