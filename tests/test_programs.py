"""Tests that need a program are skipped with a reason where it is missing, and fail where nothing may be left out."""

import stat
from pathlib import Path

import pytest

import programs
from programs import NO_SKIPS, needed_program, needed_runtime


def test_the_first_program_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "second").write_text("#!/bin/sh\n")
    (tmp_path / "second").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(NO_SKIPS, "1")
    assert needed_program("first", "second", package="two") == str(tmp_path / "second")


def test_without_the_program_a_test_is_skipped_and_in_ci_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for value in ("", "0"):
        monkeypatch.setenv(NO_SKIPS, value)
        with pytest.raises(pytest.skip.Exception, match="needs first: apt install two"):
            needed_program("first", "second", package="two")
    monkeypatch.setenv(NO_SKIPS, "1")
    with pytest.raises(pytest.fail.Exception, match="needs first: apt install two"):
        needed_program("first", "second", package="two")


def test_a_runtime_is_there_when_its_installation_has_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "RUNTIMES", tmp_path)
    (tmp_path / "some-backend").mkdir()
    monkeypatch.setenv(NO_SKIPS, "0")
    with pytest.raises(pytest.skip.Exception, match="needs some-backend: make runtimes"):
        needed_runtime("some-backend")
    monkeypatch.setenv(NO_SKIPS, "1")
    with pytest.raises(pytest.fail.Exception, match="needs some-backend: make runtimes"):
        needed_runtime("some-backend")
    (tmp_path / "some-backend.installed").write_text("1\n")
    assert needed_runtime("some-backend") == tmp_path / "some-backend"
