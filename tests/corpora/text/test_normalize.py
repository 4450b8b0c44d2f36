"""Normal forms: the block gives what the definition gives, and doing it twice changes nothing."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.text.normalize import FORMS, normalize, normalize_block

# Characters that normal forms care about, far more often than chance would bring them.
ODD = st.sampled_from(
    "\u0301\u0323\u1100\u1161\u11a8\uac00\u00e9\ufb01\u2460\u00a0\u200b\u200f\u00ad\t\r\x00\u2028\u3000“”‘’`´–—‐−½İßΣς"
)
TEXT = st.text(st.one_of(st.characters(codec="utf-8"), ODD, st.sampled_from(" ab")), max_size=30)


@given(texts=st.lists(TEXT, max_size=12), form=st.sampled_from(FORMS))
def test_a_block_is_normalised_as_its_texts_one_by_one(texts: list[str], form: str) -> None:
    assert normalize_block(pa.array(texts, pa.string()), form).to_pylist() == [normalize(text, form) for text in texts]


@given(text=TEXT, form=st.sampled_from(FORMS))
def test_twice_is_once(text: str, form: str) -> None:
    once = normalize(text, form)
    assert normalize(once, form) == once


@pytest.mark.parametrize(
    ("form", "text", "wanted"),
    [
        ("nfc", "  cafe\u0301 \t\u00a0au\x00lait\u200b ", "café au lait"),
        ("nfc", "“quoted” – ﬁne", "“quoted” – ﬁne"),
        ("nfkc", "ﬁne ① Ａ", "fine 1 A"),
        ("ham-kim", "„Ja“ «oui» ‘yes’ it’s ‐ − — –", '"Ja" "oui" \'yes\' it\'s - - – –'),
        ("nfc", "co\u00adoperate \u202bשלום\u202c", "cooperate שלום"),
    ],
)
def test_what_each_form_does(form: str, text: str, wanted: str) -> None:
    assert normalize(text, form) == wanted
