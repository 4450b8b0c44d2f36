"""The folder of a model, written again."""

from pathlib import Path

import isogloss as ig
from isogloss.models.loading import local_model_folder
from tiny import save_tiny_model


def test_what_a_killed_export_left_is_removed_and_what_others_write_is_not(tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "exports" / "out"
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)
    for left in (".out.partial-12ab", ".other.partial-34cd"):
        (out.parent / left).mkdir(parents=True)
    assert ig.export(str(model), "folder", out).folder == out
    assert sorted(path.name for path in out.parent.iterdir()) == [".other.partial-34cd", "out"]
    local_model_folder(str(out))  # it is whole


def test_a_folder_that_a_killed_export_had_moved_aside_comes_back(tmp_path: Path) -> None:
    model, aside = tmp_path / "model", tmp_path / ".out.partial-old-12ab"
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)
    save_tiny_model(aside, width=16, layers=1, seed=2, normalize=True)
    ig.export(str(model), "folder", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]
