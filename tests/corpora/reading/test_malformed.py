"""What a reading leaves out: by which policy, and in which words."""

import pytest

from isogloss.corpora.reading.malformed import Faults, unread_in_words
from isogloss.errors import DataError


@pytest.mark.parametrize(("policy", "borne"), [("fail", 0), ("stop-after 2", 2), ("skip", 5)])
def test_patience_ends_where_it_was_told(policy: str, borne: int) -> None:
    faults, error = Faults(policy), DataError("line 1: bad", hint="mend it")
    for _ in range(borne):
        faults.add(error)
    assert faults.count == borne
    if policy != "skip":
        with pytest.raises(DataError, match="line 1: bad") as caught:
            faults.add(error)
        assert caught.value.hint == "mend it"
        Faults(policy).replay(borne, "line 1: bad")
        with pytest.raises(DataError, match="line 1: bad"):
            Faults(policy).replay(borne + 1, "line 1: bad")


def test_one_and_many_in_words() -> None:
    faults = Faults("stop-after 1")
    faults.add(DataError("line 1: bad"))
    with pytest.raises(DataError, match=r"line 2: bad \(and 1 bad line before it\)"):
        faults.add(DataError("line 2: bad"))
    with pytest.raises(DataError, match=r"line 1: bad \(and 1 more bad line\)"):
        Faults().replay(2, "line 1: bad")
    assert unread_in_words(0, "", {}) == ""
    assert unread_in_words(1, "", {}) == "1 bad line skipped"
    told = unread_in_words(2000, "x line 3: bad", {"untranslated": 3, "fuzzy": 1})
    assert told == "2,000 bad lines skipped, the first: x line 3: bad; 4 entries skipped: 1 fuzzy, 3 untranslated"
    assert unread_in_words(0, "", {"fuzzy": 1}) == "1 entry skipped: 1 fuzzy"
