"""The setup script fails in one sentence on an old Python or a full disk, and changes nothing."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def fake(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def setup(tools: Path, venv: Path, names: str = "quickstart,dev") -> subprocess.CompletedProcess[str]:
    """Run the script seeing only the fake tools and the system's plain ones."""
    for name in ("bash", "sh", "cat", "cksum", "tr", "dirname", "mkdir", "awk", "df", "rm", "env"):
        real = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        if not (tools / name).exists():
            (tools / name).symlink_to(real)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHON"} | {"PATH": str(tools)}
    command = [str(tools / "bash"), str(ROOT / "scripts" / "setup"), str(venv), names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_an_old_python_is_one_sentence(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "python3", '[ "$1" = "--version" ] && echo "Python 3.9.2" && exit 0; exit 1')
    done = setup(tmp_path / "bin", tmp_path / "venv")
    assert done.returncode == 2
    assert done.stderr.startswith("isogloss setup: Python 3.11 or newer is needed") and "Python 3.9.2" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "venv").exists()


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "python3", "exit 0")
    fake(
        tmp_path / "bin", "df", 'echo "Filesystem 1024-blocks Used Available Capacity Mounted"; echo "/dev/x 100 99 1024 99% /"'
    )
    done = setup(tmp_path / "bin", tmp_path / "venv")
    assert done.returncode == 2
    assert done.stderr.startswith("isogloss setup: 4 GiB of free disk are needed")
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_finished_environment_is_left_alone(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "python3", "exit 1")
    pins = b"".join(
        path.read_bytes()
        for path in [
            ROOT / "pyproject.toml",
            ROOT / "reproduction" / "pyproject.toml",
            *sorted((ROOT / "requirements").glob("*.txt")),
        ]
    )
    stamp = subprocess.run(["cksum"], input=pins, capture_output=True, check=True).stdout.decode().replace(" ", "-").strip()
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / ".isogloss-quickstart,dev").write_text(stamp + "\n")
    for names in ("quickstart,dev", "quickstart"):
        assert setup(tmp_path / "bin", tmp_path / "venv", names).returncode == 0, "the larger environment has the smaller in it"
    (tmp_path / "venv" / ".isogloss-quickstart,dev").write_text("other pins\n")
    assert setup(tmp_path / "bin", tmp_path / "venv").returncode == 2, "it has to be made again, and there is no Python"


def test_what_is_installed_is_what_is_pinned_and_has_hashes() -> None:
    """requirements/ is written by scripts/lock.py: run it when a version in constraints.txt has changed."""
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    locked: dict[str, str] = {}
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text()
        assert "://" not in text
        for name, version, hashes in re.findall(
            r"^([a-z0-9.-]+)==(\S+)[^\n]*((?:\\\n +--hash=sha256:[0-9a-f]{64} ?)+)", text, re.M
        ):
            assert hashes
            locked[name] = version.removesuffix("+cpu")
        assert len(re.findall(r"^[a-z]", text, re.M)) == len(re.findall(r"^[a-z0-9.-]+==\S+[^\n]*\\\n +--hash=", text, re.M))
    assert {name: locked.get(name) for name in pinned} == pinned
