"""The account against plain loops."""

from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.preparation.drop_counts import Line, grouped, total

LINES = st.lists(
    st.builds(
        Line,
        st.sampled_from("ab"),
        st.sampled_from(["de", "fr"]),
        st.integers(0, 9),
        st.dictionaries(st.sampled_from(["x", "y"]), st.integers(1, 9)),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=8,
)


@given(lines=LINES)
def test_groups_add_up(lines: list[Line]) -> None:
    assert [line.corpus for line in grouped(lines, "corpus")] == sorted({line.corpus for line in lines})
    for group in grouped(lines, "corpus", "language"):
        own = [line for line in lines if (line.corpus, line.language) == (group.corpus, group.language)]
        assert (group.rows_in, group.pairs) == (sum(line.rows_in for line in own), sum(line.train + line.test for line in own))
        for rule in ("x", "y"):
            assert group.dropped.get(rule, 0) == sum(line.dropped.get(rule, 0) for line in own)
    for name in ("corpus", "language"):
        assert total(grouped(lines, name)) == total(lines)


def test_the_rule_that_took_most() -> None:
    assert Line("a", "de", 9, {"x": 2, "y": 3000, "z": 1}, 0, 0).worst == "y (3,000)"
    assert Line("a", "de", 9, {}, 9, 0).worst == ""
