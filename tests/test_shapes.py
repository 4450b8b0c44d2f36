"""Foreign JSON: whatever is wrong with it is a ValueError that says where."""

from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest

from isogloss.shapes import (
    COUNT,
    FILE_NAME,
    NOTHING,
    NUMBER,
    SHA256,
    TEXT,
    Each,
    Misfit,
    as_type,
    check,
    parse_json,
    parse_toml,
)

SHAPE = {
    "hash": TEXT,
    "parts": [{"file": FILE_NAME, "rows": COUNT}],
    "note?": TEXT,
    "sizes": Each(TEXT, (NUMBER, NOTHING)),
}
GOOD: dict[str, Any] = {"hash": "x", "parts": [{"file": "a.parquet", "rows": 3}], "sizes": {"de": 1.5, "fr": None}, "more": 1}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "[" * 101 + "]" * 101,
        "9" * 5000,
        '["\\ud800"]',
        '{"\\uDFFF\\ud83d": 1}',
        b'"\xed\xa0\x80"',
        "{",
        b"\xff",
        "",
    ],
)
def test_text_that_cannot_be_followed_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_what_can_be_followed_is_read() -> None:
    deep = "[" * 100 + "]" * 100
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]} and parse_json(deep.encode()) == parse_json(deep)
    assert parse_json(f"[{', '.join(['[[1]]'] * 500)}]") == [[[1]]] * 500, "many brackets are not deep"
    assert parse_json('"\\ud83d\\ude00 \\\\ud800"') == "\U0001f600 \\ud800" and parse_json('"é"'.encode("utf-16")) == "é"
    assert parse_toml("a = 1") == {"a": 1}
    for bad in ("a = " + "[" * 100_000, "a = " + "9" * 5000, "a ="):
        with pytest.raises(ValueError, match=r"."):
            parse_toml(bad)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hash": 1}, "hash is not text"),
        ({"hash": "\ud800"}, "hash is not text"),
        ({"parts": {}}, "parts is not a list"),
        ({"parts": [3]}, r"parts\[0\] is not an object"),
        ({"parts": [{"file": "a"}]}, r"parts\[0\] has no rows"),
        ({"parts": [{"file": "a", "rows": -1}]}, r"parts\[0\]\.rows is not a count"),
        ({"parts": [{"file": "a", "rows": True}]}, r"parts\[0\]\.rows is not a count"),
        ({"parts": [{"file": "a", "rows": 2**63}]}, r"parts\[0\]\.rows is not a count"),
        ({"note": None}, "note is not text"),
        ({"sizes": {"de": "x"}}, "sizes.de is not a number"),
        ({"sizes": {"de": float("nan")}}, "sizes.de is not a number"),
        ({"sizes": []}, "sizes is not an object"),
    ],
)
def test_a_misfit_says_where(change: dict[str, Any], said: str) -> None:
    assert check(GOOD, SHAPE) is GOOD
    with pytest.raises(Misfit, match=said):
        check(GOOD | change, SHAPE)
    with pytest.raises(Misfit, match="it has no hash"):
        check({}, SHAPE)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "C:x", "a\0b", "a\x1bb", "x" * 256, 3, None]
)
def test_names_that_lead_elsewhere_are_no_file_names(name: object) -> None:
    assert not FILE_NAME.fits(name) and FILE_NAME.fits("TED2020.de-0123.parquet") and FILE_NAME.fits("日本語 ..x")
    assert SHA256.fits("0" * 64) and not SHA256.fits("0" * 63) and not SHA256.fits("A" * 64)


@dataclass
class _Kept:
    name: str
    count: int = 0
    score: float | None = None
    by: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()


def test_json_becomes_a_dataclass() -> None:
    good = {"name": "x", "score": 0.5, "by": {"a": 1}, "names": ["b"]}
    assert as_type(good, _Kept) == _Kept("x", 0, 0.5, {"a": 1}, ("b",)) and as_type([good], list[_Kept])
    changes: tuple[dict[str, Any], ...] = (
        {"count": "1"},
        {"score": "x"},
        {"by": {"a": None}},
        {"names": [1]},
        {"score": inf},
        {"other": 1},
    )
    for change in changes:
        with pytest.raises(ValueError, match=r"."):
            as_type(good | change, _Kept)
    assert as_type(good | {"other": 1}, _Kept, "ignore").name == "x"
    with pytest.raises(ValueError, match="name"):
        as_type({}, _Kept)
