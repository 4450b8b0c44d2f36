"""The guide to keeping an index runs as it is printed, with tiny models under the names that it uses."""

import json
import re
import shlex
from pathlib import Path

import pytest

from isogloss.cli.app import main
from isogloss.runs.pipeline import run
from isogloss.storage import read_json
from tiny import save_tiny_model, tiny_recipe

GUIDE = (Path(__file__).parent.parent / "docs" / "keep-your-index.md").read_text(encoding="utf-8")


def test_the_guide_runs_as_printed(
    tmp_path: Path, tsv: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_tiny_model(tmp_path / "all-MiniLM-L6-v2", width=16, layers=1, seed=1, normalize=True)  # found before the bundled one
    commands = [line for block in re.findall(r"```sh\n(.*?)```", GUIDE, flags=re.DOTALL) for line in block.splitlines()]
    assert commands.pop(0) == "isogloss quickstart --out runs/quickstart"
    settings = ("teacher.model=all-MiniLM-L6-v2", "training.epochs=1", "training.dev_pairs=0")
    run(tiny_recipe(models, tsv, tmp_path / "runs" / "quickstart", *settings))
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    exec(compile(code, "keep-your-index.md", "exec"), {})
    capsys.readouterr()
    codes = []
    for command in commands:
        with pytest.raises(SystemExit) as caught:
            main(shlex.split(command)[1:])
        codes.append(caught.value.code or 0)
    shown = capsys.readouterr().out
    assert [shlex.split(command)[2] for command in commands] == ["build", "check", "search"]
    assert codes == [0, 3, 0], "a tiny student knows nothing of these questions"
    assert "60 documents" in shown and "✗ do not ship" in shown
    certificate = read_json(tmp_path / "certificate" / "certificate.json")
    assert certificate["queries"]["with_gold"] == 120 and len(certificate["languages"]) == 13
    assert certificate["made_by_teacher"]["match"] == "same" and certificate["index"]["built_with"] == "all-MiniLM-L6-v2"
    assert json.dumps(certificate["command"]).count("--queries questions") == 1
