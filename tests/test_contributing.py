"""The examples of CONTRIBUTING.md, applied to a copy of the package, do what the page says in as many files as it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LIMITS = {"cleaning rule": 2, "loss": 3, "task": 2, "format": 2, "encoder": 2, "recipe key": 1}
BLOCK = re.compile(r"(?:New file|Change in) `(src/[\w/.]+)`:\n\n```(python|diff)\n(.*?)```", re.DOTALL)

CHECK = """
from pathlib import Path
import numpy as np, pyarrow as pa, torch
import isogloss as ig
from isogloss import recipes
from isogloss.config import CleaningSettings, LossSettings
from isogloss.corpora.cleaning.rule import PairBatch
from isogloss.corpora.cleaning.rule import rules_for
from isogloss.corpora.text.side import Side
from isogloss.losses.combined import CombinedLoss, LossBatch
from isogloss.models.encoders.open import open_encoder

settings = CleaningSettings(max_brackets=0)
(rule,) = [rule for rule in rules_for(settings, "x") if rule.name == "different brackets"]
sides = Side(pa.array(["a (b)", "[c]", ""]), "en"), Side(pa.array(["a b", "(c)", ")"]), "de")
assert rule.score(PairBatch(*sides, np.full(3, np.nan, dtype=np.float32))).tolist() == [2.0, 0.0, 1.0]
assert not [rule for rule in rules_for(CleaningSettings(), "x") if rule.name == "different brackets"]

losses = CombinedLoss(LossSettings(uniformity=0.5))
x, y = torch.nn.functional.normalize(torch.randn(2, 5, 8), dim=-1)
values = losses(LossBatch(x, y, x, torch.arange(5)))
far = torch.cdist(y, y).square().mul(-2).exp()[~torch.eye(5, dtype=torch.bool)]
torch.testing.assert_close(values["uniformity"], far.mean().log())
torch.testing.assert_close(values["loss"], values["mse"] + 0.5 * values["uniformity"])

Path("en-de.inter").write_text("One.\\nEins.\\n\\nTwo.\\nZwei.\\n")
assert [(pair.source, pair.target, pair.language) for pair in ig.read("en-de.inter")] == [
    ("One.", "Eins.", "de"), ("Two.", "Zwei.", "de")]

found = open_encoder("trigrams").encode(["the house", "the houses", "der Baum"])
assert found.shape == (3, 512) and found[0] @ found[1] > 0.8 > 0.3 > found[0] @ found[2]

assert recipes.parse({"output": {"license": "MIT"}}).output.license == "MIT"
assert "License of the model" in recipes.dump(ig.Recipe())

Path("same.tsv").write_text("".join(f"{a} runs.\\t{a} walks.\\n" for a in ("The dog", "The cat", "A bird", "My friend")))
data = {
    "teacher": {"model": ""}, "bridge": {"enabled": False},
    "student": {"model": "tiny", "trim": "off"}, "output": {"folder": "run"},
    "stage": [{"task": "paraphrase", "files": ["same.tsv"], "training": {"epochs": 3, "learning_rate": 1e-3}}],
}
result = ig.run(recipes.parse(data))
(stage,) = result.stages
assert stage.name == "paraphrase" and stage.examples == {"paraphrase": 4} and (result.model / "modules.json").is_file()
"""


def apply(change: str, path: Path) -> None:
    """Apply a change: lines with a space are looked for from the top on, those with - removed, those with + put in.

    After @@, + lines go before the next line that is found.
    """
    lines, at = path.read_text(encoding="utf-8").splitlines(), 0
    for hunk in change.split("@@\n"):
        kinds = [(line[:1], line[1:]) for line in hunk.splitlines()]
        if kinds[0][0] == "+":
            at = lines.index(next(text for kind, text in kinds if kind != "+"), at)
        for kind, text in kinds:
            if kind == "+":
                lines.insert(at, text)
                at += 1
                continue
            at = lines.index(text, at) + 1
            if kind == "-":
                at -= 1
                del lines[at]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_each_example_touches_few_files() -> None:
    sections = re.findall(r"^### An? (.*?)\n(.*?)(?=^##)", PAGE, flags=re.DOTALL | re.MULTILINE)
    touched = {name: len({path for path, _, _ in BLOCK.findall(text)}) for name, text in sections}
    assert touched.keys() == LIMITS.keys() and all(0 < touched[name] <= limit for name, limit in LIMITS.items())


def test_the_examples_work(tmp_path: Path, tiny_folder: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    changes = BLOCK.findall(PAGE)
    names = dict.fromkeys(name for name, _, _ in changes)
    for name, kind, text in changes:
        path = tmp_path / name
        assert path.exists() is (kind == "diff"), name
        if kind == "diff":
            apply(text, path)
        else:
            path.write_text(text, encoding="utf-8")
    shutil.copytree(tiny_folder, tmp_path / "tiny")
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "src"), "ISOGLOSS_CACHE": "cache"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ruff = subprocess.run(
        [Path(sys.executable).with_name("ruff"), "check", "--config", ROOT / "pyproject.toml", *names],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ruff.returncode == 0, ruff.stdout


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    from tiny import save_tiny_model

    save_tiny_model(tmp_path / "made", width=16, layers=1, seed=1, normalize=False)
    return tmp_path / "made"
