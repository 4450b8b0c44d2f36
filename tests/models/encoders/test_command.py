"""A program as a model: what it is given, what it may answer, and what is said when it does not."""

import sys
from pathlib import Path

import pytest

from isogloss.errors import ModelError
from isogloss.models.encoders.open import open_encoder

SCRIPT = """
import json, sys
lines = sys.stdin.read().split("\\n")[:-1]
with open(sys.argv[2], "a") as log:
    print(len(lines), file=log)
for line in lines:
    row = [float(len(line)), 0.5, -1e-3]
    print(json.dumps(row) if sys.argv[1] == "json" else sys.argv[1].join(map(str, row)))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "lines to vectors.py"
    path.write_text(SCRIPT)
    return path


def command(script: Path, form: str, log: Path) -> str:
    return f"cmd:'{sys.executable}' '{script}' '{form}' '{log}'"


@pytest.mark.parametrize("form", ["json", "\t", " ", ","])
def test_lines_in_vectors_out(script: Path, tmp_path: Path, form: str) -> None:
    encoder = open_encoder(command(script, form, tmp_path / "log"))
    vectors = encoder.encode(["one", "with\nbreak\u2028s", "", "one"])
    assert vectors[:, 0].tolist() == [3, 12, 0, 3] and vectors[0, 2] == pytest.approx(-1e-3)
    assert (tmp_path / "log").read_text() == "3\n", "started once, each distinct line once"
    assert encoder.dimension == 3


def test_the_fingerprint_sees_the_files_of_the_command(script: Path, tmp_path: Path) -> None:
    name = command(script, "json", tmp_path / "log")
    before = open_encoder(name).fingerprint
    assert before == open_encoder(name).fingerprint
    script.write_text(SCRIPT + "# changed\n")
    assert open_encoder(name).fingerprint != before


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.stderr.write('no model\\n'); sys.exit(3)", r"exited with status 3 \(no model\)"),
        ("print('[1, 2]')", r"1 vector for 2 lines"),
        ("print('[1, 2]'); print('[1]')", r"differ in length"),
        ("print('[1, 2]'); print('words')", r"line 2 of its output is not a vector: 'words'"),
    ],
)
def test_a_program_that_does_not_do_its_part(code: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        open_encoder(f'cmd:{sys.executable} -c "{code}"').encode(["a", "b"])


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="cannot be started"):
        open_encoder("cmd:no-such-program-here").encode(["a"])
    with pytest.raises(ModelError, match="not a command"):
        open_encoder("cmd:'unclosed")
