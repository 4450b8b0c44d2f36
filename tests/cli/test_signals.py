"""Ctrl-C, SIGTERM and SIGHUP: a sentence, the record says stopped, the shell's exit code, and the same command goes on."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from isogloss import recipes
from isogloss.cli.signals import Signalled, Stopped, signals_interrupt, stoppable
from isogloss.runs.pipeline import run
from isogloss.storage import weights_hash
from killed import ended, signalled, started
from tiny import OFTEN, tiny_recipe


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_says_so_and_goes_on_later(
    models: Path, tsv: Path, tmp_path: Path, how: signal.Signals
) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", OFTEN)
    (tmp_path / "r.toml").write_text(recipes.dump(recipe), encoding="utf-8")
    process = started(signalled, ["run", str(tmp_path / "r.toml")], "distill", 3, int(how), tmp_path / "errors")
    assert ended(process) == 128 + how
    assert (tmp_path / "errors").read_text() == "\nisogloss: stopped. The same command continues from here.\n"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "stopped"
    assert not [path for path in (tmp_path / "run").rglob("*") if ".partial-" in path.name]
    result = run(recipe)
    assert result.training is not None and 0 < result.training.steps_now < result.training.steps
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
    whole = run(tiny_recipe(models, tsv, tmp_path / "whole", OFTEN))
    assert weights_hash(result.model) == weights_hash(whole.model)


def test_prepare_ends_its_processes_too(tsv: Path, tmp_path: Path) -> None:
    arguments = ["prepare", str(tsv), "--out", str(tmp_path / "store"), "--workers", "2"]
    process = started(signalled, arguments, "pairs", 1, int(signal.SIGTERM), tmp_path / "errors")
    assert ended(process) == 143 and "stopped. The same command continues" in (tmp_path / "errors").read_text()
    assert not [path for path in (tmp_path / "store").rglob("*") if ".partial-" in path.name]


def asked_thrice() -> None:
    """By a closed terminal, and by a service manager that asks again while files are closed."""
    os.kill(os.getpid(), signal.SIGHUP)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_first_signal_counts_and_what_is_ignored_stays_ignored() -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with pytest.raises(Signalled) as caught, signals_interrupt():
            asked_thrice()
        assert caught.value.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_verb_that_is_not_in_the_main_thread_is_left_alone() -> None:
    seen: list[object] = []
    thread = threading.Thread(target=lambda: stoppable(lambda: seen.append("done"))())
    thread.start()
    thread.join()
    assert seen == ["done"]


def test_a_keyboard_interrupt_without_a_signal_is_ctrl_c() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(Stopped) as caught:
        stoppable(stop)()
    assert caught.value.exit_code == 130
