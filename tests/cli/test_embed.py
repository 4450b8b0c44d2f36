"""`isogloss embed` opens whatever `isogloss evaluate` opens, and takes the mean of a language off only where it fits."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isogloss as ig
from isogloss.cli.app import main
from isogloss.evaluation.space import LanguageMeans


class Call:
    """A folder with some lines, and the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        Path("x.txt").write_text("the cat sleeps\na dog\n", encoding="utf-8")

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["embed", "x.txt", "--out", "v.npy", *map(str, arguments)])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def embed(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    return Call(capsys)


def test_a_program_is_a_model_too(embed: Call, tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("import sys\nfor line in sys.stdin: print(len(line.rstrip()), 1, 0)\n")
    code, out, err = embed("--model", f"cmd:{sys.executable} {script}", "--json", "--prompt", "abc ")
    assert code == 0, err
    assert json.loads(out) == {"path": "v.npy", "rows": 2, "dimension": 3}
    assert np.load("v.npy").tolist() == [[18, 1, 0], [9, 1, 0]]
    code, _, err = embed("--model", "onnx:")
    assert code == 2 and "onnx:: the name is incomplete" in err


def test_means_must_fit(embed: Call, models: Path, tmp_path: Path) -> None:
    teacher = ig.load(str(models / "teacher"))
    LanguageMeans({"de": np.full(16, 0.1, dtype=np.float32)}, teacher.fingerprint).write(tmp_path)
    name = ("--model", models / "teacher")
    assert embed(*name, "--means", tmp_path, "--language", "deu")[0] == 0, "in any spelling of the language"
    left = teacher.encode(["the cat sleeps", "a dog"]) - 0.1
    assert np.allclose(np.load("v.npy"), left / np.linalg.norm(left, axis=1, keepdims=True), atol=1e-5)
    for arguments, message in (
        ((*name, "--means", tmp_path), "--means and --language go together"),
        ((*name, "--language", "de"), "--means and --language go together"),
        ((*name, "--means", tmp_path, "--language", "fr"), "the mean of fr is not known"),
        ((*name, "--means", "nowhere", "--language", "de"), "nowhere: no language means there"),
        ((*name, "--means", tmp_path, "--language", "de", "--prompt", "query: "), "do not belong to"),
        (("--model", models / "student", "--means", tmp_path, "--language", "de"), "do not belong to"),
    ):
        code, _, err = embed(*arguments)
        assert code == 2 and message in err and "hint: " in err, err


def test_the_place_of_the_output_is_tried_before_anything_is_loaded(embed: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, _, err = embed("--model", "no-such-model", "--out", "file/v.npy")
    assert code == 2 and "cannot be written" in err and "no-such-model" not in err
    code, _, err = embed("--model", "no-such-model", "--out", "new/folder/v.npy")
    assert code == 2 and "no-such-model" in err and not list((tmp_path / "new" / "folder").iterdir())


def test_importing_isogloss_loads_nothing_heavy() -> None:
    code = "import sys, isogloss; print([name for name in ('numpy', 'torch', 'pyarrow') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
