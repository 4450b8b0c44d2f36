"""What was used stays, what was not goes with the block that ended well; anything else is left alone."""

from pathlib import Path

import pytest

from isogloss.training.data.work_files import only_used_kept, use

OTHERS = ("silver-1.json", "candidate", "vocabulary-1.json")


def filled(folder: Path) -> set[str]:
    for name in ("data-1", "data-2", "checkpoints-1-plain", "activations-1-2", "candidate"):
        (folder / name).mkdir(parents=True)
        (folder / name / "inside").write_text("x")
    for name in ("teacher-1.npy", "untouched-1.npy", "trained-1.npy", "negatives-1.npy", "silver-1.json", "vocabulary-1.json"):
        (folder / name).write_text("x")
    return {path.name for path in folder.iterdir()}


def test_only_what_was_used_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "work")
    monkeypatch.chdir(tmp_path)
    with only_used_kept(Path("work")):
        use(tmp_path / "work" / "data-2")
        use(Path("work/teacher-1.npy"))
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"data-2", "teacher-1.npy", *OTHERS}
    assert (tmp_path / "work" / "data-2" / "inside").is_file()


def test_a_block_that_failed_removes_nothing_and_outside_of_one_nothing_is_noted(tmp_path: Path) -> None:
    every = filled(tmp_path)
    use(tmp_path / "data-1")
    with pytest.raises(KeyboardInterrupt), only_used_kept(tmp_path):
        raise KeyboardInterrupt
    assert {path.name for path in tmp_path.iterdir()} == every
    with only_used_kept(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == set(OTHERS)
