"""The help of every verb on a screen of 80 columns: nothing is cut off, examples are whole commands."""

import shlex

import pytest

from cli.verbs import options
from isogloss.cli.app import main


def lines_of_help(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*verb.split(), "--help"])
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("verb", ["", "corpora", *sorted(options())])
def test_help_is_whole_on_80_columns(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of_help(verb, monkeypatch, capsys)
    assert all(len(line) <= 80 for line in lines)
    usage, rest = lines[0], lines[1:]
    assert not [line for line in rest if line.endswith(("...", "-"))], "cut off, or a word in two"
    shown = " ".join(lines)
    assert usage.startswith("Usage: ")
    assert not [mark for mark in ("str]", "<str>", "{", "]...]", "[[") if mark in shown]


@pytest.mark.parametrize("verb", sorted(options()))
def test_examples_of_help_are_commands_on_one_line(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of_help(verb, monkeypatch, capsys)
    examples = [line.strip() for line in lines[: lines.index("Options:")] if line.startswith("  isogloss ")]
    assert examples and all(line.startswith(f"isogloss {verb}") for line in examples)
    for line in examples:
        named = [word for word in shlex.split(line) if word.startswith("--")]
        assert set(named) <= options()[verb] or verb == "launch"


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("mine", "[OPTIONS] SRC TGT"),
        ("evaluate", "[OPTIONS] MODEL..."),
        ("serve", "[OPTIONS] MODEL..."),
        ("clean", "[OPTIONS] [RUN]..."),
    ],
)
def test_usage_shows_arguments_by_their_names(
    verb: str, usage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of_help(verb, monkeypatch, capsys)
    assert lines[0].endswith(f" {verb} {usage}")
    arguments = lines[lines.index("Arguments:") + 1 :]
    names = [line.split()[0] for line in arguments[: arguments.index("")] if not line.startswith("   ")]
    assert names == [word.strip("[].") for word in usage.split()[1:]]
