"""Several processes, one training: the same losses and weights as one process has, one voice, and one end for all."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from isogloss import recipes
from isogloss.cli.app import _without_debug, main
from isogloss.cli.launch import LEFT_BEHIND, Worker, free_port, rank_environment, run_team
from isogloss.runs.pipeline import run
from judged import write_judged
from tiny import UNTAUGHT, tiny_recipe


def team(script: str, size: int = 2, first: int = 0) -> int:
    """The exit code of processes that run a short script instead of isogloss; `first` is the rank of the first one."""
    places = [rank_environment(local, size, 2 if first else 1, 1 if first else 0, ("127.0.0.1", 1)) for local in range(size)]
    return run_team(places, [sys.executable, "-c", f"import os, signal, sys, time\nrank = int(os.environ['RANK'])\n{script}"])


def refused(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["launch", *arguments])
    return int(caught.value.code or 0)


# ── the same training ───────────────────────────────────────────────────────────────────────────────────────────────────


# The command that `launch` gives each process, once for every recipe: to start takes them longer than to train.
ONE_AFTER_ANOTHER = """
import sys
from isogloss.cli import launch
from isogloss.cli.app import main

REPEATED = '''
import sys
from isogloss.cli.app import main

verb, *recipes = sys.argv[1:]
for recipe in recipes:
    try:
        main([verb, recipe, "--json"])
    except SystemExit as end:
        if end.code:
            raise
'''
run_team = launch.run_team
launch.run_team = lambda places, command: run_team(places, [command[0], "-c", REPEATED, *command[3:]])
main(["launch", "-n", "2", "run", *sys.argv[1:]])
"""


def test_two_processes_train_as_one_does(models: Path, tsv: Path, tmp_path: Path) -> None:
    """By mse, soft similarity, and ranking with negatives of both; and by ranking alone, without a teacher.

    The last batch of an epoch has one pair, so one process none.
    """
    more = ["training.train_layers=0", "training.epochs=2", "training.batch_pairs=17", "training.dev_checks=8"]
    more += ["training.dev_share=0.2", "training.checkpoint_seconds=20"]
    taught = ["losses.ranking=0.2", "losses.soft_similarity=0.3", "losses.hard_negatives=1"]
    ways = {"taught": [*more, *taught], "untaught": [*more, *UNTAUGHT]}
    for way, settings in ways.items():
        recipe = tiny_recipe(models, tsv, tmp_path / way / "two", *settings)
        (tmp_path / f"{way}.toml").write_text(recipes.dump(recipe), encoding="utf-8")
    command = [sys.executable, "-c", ONE_AFTER_ANOTHER, *(str(tmp_path / f"{way}.toml") for way in ways)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for way, settings in ways.items():
        run(tiny_recipe(models, tsv, tmp_path / way / "one", *settings))
    out, err = child.communicate()
    assert child.returncode == 0, err
    results = json.loads(f"[{out.replace('}' + chr(10) + '{', '}, {')}]")
    assert [one["model"] for one in results] == [str(tmp_path / way / "two" / "model") for way in ways], "from one of them"
    # On the way, progress is shown once, by the main process.
    for stage, times in {"distilling": 2, "loading models": 2}.items():
        assert len(re.findall(rf"^{stage} +([\d,]+) of \1 ", err, re.MULTILINE)) == times, err
    assert_the_same(tmp_path / "taught", ("mse", "soft_similarity", "ranking", "dev_mse"))
    assert_the_same(tmp_path / "untaught", ("ranking", "dev_retrieval", "dev_lead"))


def assert_the_same(folder: Path, losses: tuple[str, ...]) -> None:
    """Steps, losses, dev scores and weights of the runs `one` and `two`."""
    alone, together = (
        [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()] for name in ("one", "two")
    )
    assert [line["step"] for line in alone] == [line["step"] for line in together] == list(range(9))
    before, after = alone.pop(0), together.pop(0)
    assert before[losses[-1]] == pytest.approx(after[losses[-1]], rel=1e-4)
    for name in (*losses, "loss", "gradient_norm", "learning_rate"):
        assert [line[name] for line in together] == pytest.approx([line[name] for line in alone], rel=1e-4), name
    expected, found = (load_file(folder / name / "model" / "model.safetensors") for name in ("one", "two"))
    for name, weight in expected.items():
        if not name.endswith("key.bias"):  # without effect, and moved by rounding
            assert float((weight - found[name]).abs().max()) < 1e-4, name
    one, two = (json.loads((folder / name / "run.json").read_text()) for name in ("one", "two"))
    assert two["status"] == "finished" and two["hashes"]["student"] == one["hashes"]["student"]


# Without dropout, and float32: the random numbers and the rounding of two processes differ.
SHORT_COMMANDS = {
    "finetune": "finetune MODELS/student --nli nli.tsv --sts sts.tsv --steps 6 --set training.dropout=false",
    "train-dual": "train-dual TSV --student MODELS/student --steps 6 --batch 16 --max-candidates 20 "
    "--set training.dropout=false --set training.dev_pairs=0",
    "train-laser": "train-laser TSV --targets en,ru --vocabulary 200 --embedding 16 --hidden 16 --layers 1 --decoder 32 "
    "--steps 6 --batch 16 --dropout 0 --set training.dev_pairs=0",
}


@pytest.mark.parametrize("verb", SHORT_COMMANDS)
def test_a_short_command_trains_in_two_processes_as_in_one(
    verb: str, models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_judged(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = [*SHORT_COMMANDS[verb].replace("MODELS", str(models)).replace("TSV", str(tsv)).split(), "--device", "cpu"]
    with pytest.raises(SystemExit):
        main([*given, "--out", "one"])
    command = [sys.executable, "-m", "isogloss", "launch", "-n", "2", *given, "--out", "two"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    one, two = ([json.loads(line) for line in Path(name, "metrics.jsonl").read_text().splitlines()] for name in ("one", "two"))
    stages = {"finetune": ["nli", "sts"], "train-dual": ["rank"], "train-laser": ["translate"]}[verb]
    assert list(dict.fromkeys(line["stage"] for line in one)) == stages and len(one) == len(two)
    for alone, together in zip(one, two, strict=True):
        shared = [key for key in ("stage", "step", "loss", "gradient_norm") if key in alone]
        assert [together[key] for key in shared if key != "stage"] == pytest.approx(
            [alone[key] for key in shared if key != "stage"], rel=1e-4
        )
        assert together["stage"] == alone["stage"]


def test_an_error_is_shown_once_and_is_exit_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "isogloss", "launch", "-n", "2", "run", str(tmp_path / "gone.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("gone.toml") == 1 and "Traceback" not in done.stderr


# ── who is told what ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_process_is_told_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    places = [rank_environment(local, 3, 2, 1, ("node0", 29500)) for local in range(3)]
    assert [place["RANK"] for place in places] == ["3", "4", "5"]
    assert [place["LOCAL_RANK"] for place in places] == ["0", "1", "2"]
    for place in places:
        assert (place["WORLD_SIZE"], place["LOCAL_WORLD_SIZE"], place["GROUP_RANK"]) == ("6", "3", "1")
        assert (place["MASTER_ADDR"], place["MASTER_PORT"]) == ("node0", "29500")
        assert 1 <= 3 * int(place["OMP_NUM_THREADS"]) <= max(3, os.cpu_count() or 1), "together they take the machine once"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert rank_environment(0, 2, 1, 0, ("x", 1))["OMP_NUM_THREADS"] == "7"


def test_ports_are_free() -> None:
    assert 1024 < free_port() < 65536


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "2", "embed", "x.txt"], "cannot start embed"),
        (["-n", "2", "--nodes", "2", "run", "r.toml"], "--nodes needs --main-address"),
        (["-n", "2", "--nodes", "2", "--node-rank", "2", "--main-address", "a", "run", "r.toml"], "--nodes is 2"),
        (["-n", "2", "--node-rank", "3", "run", "r.toml"], "--nodes is 1\n"),
        (["run", "r.toml"], "there is no GPU"),
        (["-n", "0", "run", "r.toml"], "Invalid value"),
        (["-n", "2"], "Missing argument"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert refused(*arguments) == 2
    assert message in capsys.readouterr().err


def test_everything_behind_the_verb_is_for_it() -> None:
    assert _without_debug(["launch", "-n", "2", "run", "r.toml", "--debug"]) == [
        "launch",
        "-n",
        "2",
        "run",
        "r.toml",
        "--debug",
    ]
    assert _without_debug(["--debug", "launch", "-n", "2", "run", "r.toml"])[-1] == "--debug", "it reaches the processes"
    assert _without_debug(["run", "--debug", "r.toml"]) == ["run", "r.toml"]


# ── one voice ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_first_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    assert team("print('out', rank); print('err', rank, file=sys.stderr)", 3) == 0
    heard = capfd.readouterr()
    assert (heard.out.split(), heard.err.split()) == (["out", "0"], ["err", "0"])


def test_beside_others_the_command_line_is_silent_until_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torchrun and accelerate start it, with everybody's output on the screen."""
    for rank, words in (("0", 1), ("1", 0)):
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit):
            main(["--version"])
        assert capsys.readouterr().out.count("isogloss") == words
    with pytest.raises(SystemExit) as caught:
        main(["prepare", "gone.tsv"])
    assert caught.value.code == 2 and "gone.tsv: no such file" in capsys.readouterr().err


# ── one end ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_error_of_another_process_is_shown_and_its_code_given(capfd: pytest.CaptureFixture[str]) -> None:
    script = f"""
if rank == 1:
    print('isogloss: a full disk', file=sys.stderr)
    sys.exit(2)
time.sleep(0.2)
sys.exit({LEFT_BEHIND})"""
    assert team(script, 3) == 2
    err = capfd.readouterr().err
    assert err == "isogloss: process 1 failed:\nisogloss: a full disk\n"


def test_where_the_first_one_failed_itself_nothing_is_added(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isogloss.cli.launch.AFTERMATH_SECONDS", math.inf)  # whoever starts last is waited for
    script = "print('isogloss: no such file', file=sys.stderr); sys.exit(2)"
    assert team(script, 3) == 2
    assert capfd.readouterr().err == "isogloss: no such file\n"


def test_the_others_are_ended_when_one_fails(tmp_path: Path) -> None:
    script = f"""
first = {str(tmp_path / "0")!r}
if rank == 0:
    open(first + "-", "w").write(str(os.getpid()))
    os.rename(first + "-", first)
    signal.pause()
while not os.path.exists(first):
    time.sleep(0.01)
sys.exit(7)"""
    assert team(script) == 7
    assert not alive(int((tmp_path / "0").read_text()))


def test_a_process_that_the_system_ended_is_said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.cli.launch.AFTERMATH_SECONDS", 0.1)
    assert team("os.kill(os.getpid(), 9) if rank == 1 else signal.pause()") == 137
    assert "process 1 was killed by signal 9; memory may have run out" in capfd.readouterr().err


def test_on_another_machine_than_the_first_errors_are_shown_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert team(f"print('another process ended', file=sys.stderr); sys.exit({LEFT_BEHIND})", first=2) == 2
    assert capfd.readouterr().err.count("another process ended") == 1


# A shell that runs tests in the background has told them to ignore Ctrl-C, and they tell their children.
STOPPED = """
import signal, sys
from isogloss.cli import launch
from isogloss.cli.launch import rank_environment, run_team
launch.GRACE_SECONDS = 1e6  # nobody is killed for being slow
signal.signal(signal.SIGINT, signal.default_int_handler)
script = '''
import os, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
folder, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
try:
    (folder / rank).write_text(str(os.getpid()))
    signal.pause()
except KeyboardInterrupt:
    print("stopped", rank, file=sys.stderr)
    sys.exit(130)
'''
places = [rank_environment(rank, 3, 1, 0, ("x", 1)) for rank in range(3)]
sys.exit(run_team(places, [sys.executable, "-c", script, sys.argv[1]]))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_stops_all_of_them(tmp_path: Path, how: signal.Signals) -> None:
    launcher = subprocess.Popen([sys.executable, "-c", STOPPED, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    while not all((tmp_path / str(rank)).exists() and (tmp_path / str(rank)).read_text() for rank in range(3)):
        assert launcher.poll() is None
        time.sleep(0.01)
    launcher.send_signal(how)
    _, err = launcher.communicate()
    assert launcher.returncode == 128 + how and err == "stopped 0\n", "each is asked once, and the first one says so"
    assert not any(alive(int((tmp_path / str(rank)).read_text())) for rank in range(3))


def test_a_signal_while_they_are_started_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = Worker.__init__

    def start_and_be_stopped(self: Worker, command: list[str], environment: dict[str, str]) -> None:
        start(self, command, environment)
        started.append(self.process.pid)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Worker, "__init__", start_and_be_stopped)
    assert team("signal.pause()") == 143
    assert len(started) == 1 and not alive(started[0])


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
