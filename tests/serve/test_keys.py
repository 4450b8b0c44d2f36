"""API keys: where they come from, which are admitted, and that nothing shows them."""

import logging
from pathlib import Path

import pytest

from isogloss.errors import IsoglossError
from isogloss.serve.keys import VARIABLE, ApiKeys, read_keys


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_one_of_several_keys_is_enough() -> None:
    keys = ApiKeys(["first", "second"])
    assert keys.admit("Bearer first") and keys.admit("bearer second") and keys.admit("Bearer  first ")
    for wrong in ("", "first", "Basic first", "Bearer", "Bearer ", "Bearer firs", "Bearer first second", "Bearer \xff"):
        assert not keys.admit(wrong)


def test_without_keys_everybody_is_admitted() -> None:
    assert not ApiKeys([]) and ApiKeys([]).admit("") and ApiKeys([]).admit("Bearer anything")


def test_every_key_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time does not say which of them, or how much of one, was right."""
    import hmac

    compared: list[bool] = []
    original = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(original(one, other))
        assert len(one) == len(other)
        return compared[-1]

    monkeypatch.setattr("isogloss.serve.keys.hmac.compare_digest", counting)
    assert ApiKeys(["a", "b", "c"]).admit("Bearer a") and compared == [True, False, False]


def test_keys_of_a_file_and_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("# for the laboratory\n\nfrom-file \n", encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv(VARIABLE, "one, two,")
    keys = read_keys(str(file))
    assert all(keys.admit(f"Bearer {key}") for key in ("from-file", "one", "two"))
    assert not keys.admit("Bearer # for the laboratory")
    assert not read_keys("").admit("Bearer from-file")


def test_a_file_that_others_may_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "keys"
    file.write_text("hidden-key\n")
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        read_keys(str(file))
    assert "chmod 600" in caplog.text and "hidden-key" not in caplog.text
    caplog.clear()
    file.chmod(0o600)
    read_keys(str(file))
    assert not caplog.text


@pytest.mark.parametrize(
    "content", [None, b"", b"# only a comment\n", b"with\x07bell\n", "schlüssel\n".encode(), b"\xff\xfe\n"]
)
def test_files_without_usable_keys_are_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(IsoglossError, match="keys") as found:
        read_keys(str(file))
    assert "bell" not in found.value.message and "schl" not in found.value.message
