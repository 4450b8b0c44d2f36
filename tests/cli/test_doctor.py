"""`isogloss doctor` on a screen of 80 columns."""

from pathlib import Path

import pytest

from isogloss import recipes
from isogloss.cli.app import main
from isogloss.cli.screens.progress import output
from tiny import tiny_recipe


def test_findings_and_advice_fit_the_screen(
    models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path)), encoding="utf-8")
    monkeypatch.setattr(output, "_width", 80)
    monkeypatch.setenv("ISOGLOSS_CACHE", "/proc/nowhere")
    with pytest.raises(SystemExit) as caught:
        main(["doctor", str(path), "--set", "output.cache=/proc/nowhere"])
    lines = capsys.readouterr().out.splitlines()
    assert caught.value.code == 2 and any(line.startswith("✗ cache ") for line in lines)
    paths = [line for line in lines if "/" in line]  # a path is not cut
    assert all(len(line) <= 80 for line in lines if line not in paths)
    starts = {line.index("→") for line in lines if line.strip().startswith("→ ")}
    assert len(starts) == 1 and all(line[:2] in ("✓ ", "! ", "✗ ", "  ") for line in lines)
