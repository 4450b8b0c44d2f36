"""Checkpoints: whole or not there, the newest found, the best beside them."""

import errno
import os
from pathlib import Path

import pytest
import torch

from isogloss.checksums import seal
from isogloss.training import checkpoints
from isogloss.training.distributed import Distributed


def state(value: float) -> dict[str, object]:
    engine = {"weights": torch.full((3,), value), "random": [torch.get_rng_state()]}
    return {"step": int(value), "engine": engine, "loop": {"last": {}}}


def test_the_newest_is_found_and_only_it_kept(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path) is None and checkpoints.best(tmp_path, 4) is None
    for step in (9, 10, 100):
        checkpoints.save(tmp_path, step, state(step))
        kept = checkpoints.latest(tmp_path)
        assert kept is not None and kept["step"] == step
        assert torch.equal(kept["engine"]["weights"], torch.full((3,), float(step)))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000100.pt"]


def test_a_kill_between_two_leaves_the_older_or_the_newer(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 10, state(10))
    older = (tmp_path / "step-00000010.pt").read_bytes()
    checkpoints.save(tmp_path, 20, state(20))
    (tmp_path / "step-00000010.pt").write_bytes(older)  # killed before it was removed
    (tmp_path / ".step-00000030.pt.partial-dead").write_bytes(b"half of one")
    kept = checkpoints.latest(tmp_path)
    assert kept is not None and kept["step"] == 20
    assert not list(tmp_path.glob(".*")), "what was half written is gone"


def test_one_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 10, state(10))
    with pytest.raises((AttributeError, TypeError, RuntimeError)):
        checkpoints.save(tmp_path, 20, {"step": 20, "engine": (step for step in range(3))})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010.pt"]


def test_the_best_is_beside_them_and_is_replaced(tmp_path: Path) -> None:
    for step in (3, 7):
        checkpoints.save_best(tmp_path, {"table": torch.full((2,), float(step))}, step)
    checkpoints.save(tmp_path, 8, state(8))
    kept = checkpoints.best(tmp_path, 7)
    assert kept is not None and torch.equal(kept["table"], torch.full((2,), 7.0)) and checkpoints.best(tmp_path, 3) is None
    for step in (9, 11):
        checkpoints.save_best(tmp_path, {}, step, known=7)
    assert sorted(path.name for path in tmp_path.glob("best-*")) == ["best-00000007.pt", "best-00000011.pt"]
    newest = checkpoints.latest(tmp_path)
    assert newest is not None and newest["step"] == 8


@pytest.mark.parametrize("name", ["step-00000004.pt", "best-00000004.pt"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_one_is_reported_and_not_used(
    tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints.save(tmp_path, 4, state(4))
    checkpoints.save_best(tmp_path, {}, 4)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / name).write_bytes(data if damage == "flipped" else data[:50])
    found = checkpoints.best(tmp_path, 4) if name.startswith("best") else checkpoints.latest(tmp_path)
    assert found is None and not (tmp_path / name).exists() and f"{name} is damaged" in caplog.text


def test_an_older_checkpoint_serves_where_the_newest_is_damaged(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 4, state(4))
    older = (tmp_path / "step-00000004.pt").read_bytes()
    checkpoints.save(tmp_path, 8, state(8))
    (tmp_path / "step-00000004.pt").write_bytes(older)  # as after a kill -9 just before it is removed
    (tmp_path / "step-00000008.pt").write_bytes(older[:-1])
    found = checkpoints.latest(tmp_path)
    assert found is not None and found["step"] == 4


def test_nothing_in_a_checkpoint_is_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    torch.save({"step": 1, "engine": Trap()}, tmp_path / "step-00000001.pt")
    seal(tmp_path / "step-00000001.pt")
    assert checkpoints.latest(tmp_path) is None
    assert not (tmp_path / "sprung").exists()


# ── of other trainings ──────────────────────────────────────────────────────────────────────────────────────────────────

SETTINGS = {"training": {"epochs": 4, "learning_rate": 0.1}, "losses": {"mse": 1.0}, "seed": 17}


def begun(work: Path, key: str, kind: str, settings: dict[str, object], step: int = 0) -> Path:
    folder = checkpoints.folder_of(work, key, kind)
    checkpoints.open_folder(folder, settings, Distributed())
    if step:
        checkpoints.save(folder, step, state(step))
    return folder


@pytest.mark.parametrize(
    ("key", "kind", "changed", "reason", "hint"),
    [
        ("aa", "eager", {}, "is of the eager engine and this is the graphs one", 'training.engine = "eager"'),
        ("bb", "graphs", {}, "is of other pairs or models", "--fresh"),
        ("bb", "eager", {"seed": 18}, "is of other settings (seed was 18)", "--fresh"),
        ("bb", "eager", {"seed": 1, "a": 2, "b": 3}, "(seed was 1, a was 2, b was 3),", "--fresh"),
        ("bb", "eager", {"seed": 1, "a": 2, "b": 3, "c": 4}, "(seed was 1, a was 2, b was 3 and 1 more),", "--fresh"),
        ("bb", "eager", {"training": {"epochs": 2}}, "(training.epochs was 2, training.learning_rate was None)", "--fresh"),
    ],
)
def test_a_checkpoint_that_is_passed_over_is_named_with_the_reason(
    tmp_path: Path, key: str, kind: str, changed: dict[str, object], reason: str, hint: str
) -> None:
    begun(tmp_path, key, kind, {**SETTINGS, **changed}, step=40)
    mine = checkpoints.folder_of(tmp_path, "aa", "graphs")
    found = checkpoints.passed_over(mine, SETTINGS)
    assert found is not None and "the checkpoint of step 40 there" in found.sentence and reason in found.sentence
    assert found.sentence.endswith("so training starts at step 0") and hint in found.hint
    begun(tmp_path, "aa", "graphs", SETTINGS, step=3)
    assert checkpoints.passed_over(mine, SETTINGS) is None, "it goes on from its own"


def test_the_newest_of_other_trainings_is_named(tmp_path: Path) -> None:
    mine = begun(tmp_path, "aa", "eager-rows", SETTINGS)
    assert checkpoints.passed_over(mine, SETTINGS) is None
    for place, (key, kind) in enumerate([("bb", "eager"), ("aa", "eager"), ("cc", "eager")]):
        path = begun(tmp_path, key, kind, SETTINGS, step=place + 1) / f"step-{place + 1:08d}.pt"
        os.utime(path, (2000 - abs(place - 1), 2000 - abs(place - 1)))
    found = checkpoints.passed_over(mine, SETTINGS)
    assert found is not None and "step 2 there is of another number of processes" in found.sentence


def test_settings_that_are_gone_are_not_guessed(tmp_path: Path) -> None:
    other = begun(tmp_path, "bb", "eager", SETTINGS, step=1)
    for damage in ("{", None):
        (other / "settings.json").unlink() if damage is None else (other / "settings.json").write_text(damage)
        found = checkpoints.passed_over(checkpoints.folder_of(tmp_path, "aa", "eager"), SETTINGS)
        assert found is not None and "is of other settings, pairs or models" in found.sentence


def test_a_checkpoint_that_cannot_be_opened_now_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(tmp_path, 4, state(4))

    def too_many_files(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(torch, "load", too_many_files)
    with pytest.raises(OSError, match="Too many open files"):
        checkpoints.latest(tmp_path)
    assert (tmp_path / "step-00000004.pt").is_file()


@pytest.mark.parametrize("content", [b"not a checkpoint", b""])
def test_what_is_sealed_and_no_checkpoint_is_reported_and_removed(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "step-00000004.pt"
    path.write_bytes(content)
    seal(path)
    assert checkpoints.latest(tmp_path) is None and not path.exists()
    assert f"{path}: the checkpoint cannot be read and is removed: training starts again" in caplog.text
