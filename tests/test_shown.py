"""Nothing that is shown or written down holds control characters, keys or passwords."""

import json

import pytest

from isogloss.errors import DataError, IsoglossError
from isogloss.shown import json_printable, masked, masked_values, printable, without_folders


@pytest.mark.parametrize("code", [0, 7, 8, 10, 13, 27, 31, 127, 0x80, 0x9B, 0x9F, 0x2028, 0x202E, 0x2066, 0xD800])
def test_control_characters_are_escaped(code: int) -> None:
    shown = printable(f"a{chr(code)}b")
    assert shown.isascii() and shown.isprintable() and int(shown[3:-1], 16) == code


def test_what_is_no_control_character_stays() -> None:
    text = "Zoë says: שלום\u200f, 日本語 – “hi” ✓ [red]"
    assert printable(text) == text and printable("a\n\tb", layout=True) == "a\n\tb" and printable("a\nb") == "a\\x0ab"
    value = {"name": "\x9b31m \u202e \x1b", "lines": ["a\nb"]}
    text = json_printable(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value and printable(text, layout=True) == text


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:SECRET@host/x", "https://***@host/x"),
        ("https://me:SEC@RET@host:8/x?y=1", "https://***@host:8/x?y=1"),
        ("https://me:SEC/RET#SECRET@host/x", "https://***@host/x"),
        (
            "http://host:80/@me/x and https://host/a@v1, http://[::1]:80/@x",
            "http://host:80/@me/x and https://host/a@v1, http://[::1]:80/@x",
        ),
        ("http://h/v1?api_key=SECRET#m", "http://h/v1?api_key=***#m"),
        ("http://h/?a=1&token=SECRET&b=2", "http://h/?a=1&token=***&b=2"),
        ("http://h/?X-Amz-Signature=SECRET&X-Amz-Credential=SECRET", "http://h/?X-Amz-Signature=***&X-Amz-Credential=***"),
        ("http://h/?API-KEY=SECRET and http://SECRET@i/", "http://h/?API-KEY=*** and http://***@i/"),
        ("sent b'Bearer SECRET'", "sent b'Bearer ***'"),
        ("http://h/?sig=SECRET: no (http://h/?sig=SECRET).", "http://h/?sig=***: no (http://h/?sig=***)."),
        ("https://h/a?corpus=TED&source=en", "https://h/a?corpus=TED&source=en"),
        ("me@host.org wrote: key=value, 3 > 2 ?", "me@host.org wrote: key=value, 3 > 2 ?"),
    ],
)
def test_keys_and_passwords_are_masked(address: str, shown: str) -> None:
    assert masked(address) == shown and masked(shown) == shown
    assert masked_values({"a": [address, 1], "b": (address,)}) == {"a": [shown, 1], "b": [shown]}
    assert IsoglossError(f"{address}: no", hint=address).hint == shown


def test_errors_are_clean_and_short() -> None:
    error = DataError("\x1b[2Jevil.tsv: " + "x" * 10_000, hint="\u202egnp.exe")
    assert error.message.startswith("\\x1b[2Jevil.tsv") and str(error) == error.message and len(error.message) == 2000
    assert error.hint == "\\u202egnp.exe"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/me/en-de.tsv", "en-de.tsv"),
        ("~/models/mine/", "mine"),
        ("../pairs/*.tsv.gz", "*.tsv.gz"),
        ("./mine", "mine"),
        ("..", "…"),
        ("C:\\Users\\me\\en-de.tsv", "en-de.tsv"),
        ("file:///home/me/en-de.tsv", "en-de.tsv"),
        ("onnx:/srv/model", "onnx:model"),
        ("cmd:/opt/embed --model /home/me/x org/name", "cmd:embed --model x org/name"),
        ("data/en-de.tsv", "data/en-de.tsv"),
        ("org/name", "org/name"),
        ("https://host/v1#name", "https://host/v1#name"),
        ("phrasebook", "phrasebook"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_folders_of_this_machine_are_not_published(name: str, shown: str) -> None:
    assert without_folders(name) == shown
