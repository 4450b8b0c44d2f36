"""Whatever `evaluate` can open is a teacher, a similarity model, and the model of mine, score and embed: here, a program."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import isogloss as ig
from isogloss.config.mining import MiningSettings, ScoringSettings
from isogloss.errors import RecipeError
from isogloss.mining.mine import mine
from isogloss.mining.score import score
from isogloss.models.encoders.open import open_encoder
from isogloss.runs.gathering import gather_source
from isogloss.runs.pipeline import run
from isogloss.types import Bitext, Pair
from tiny import PAIRS, tiny_recipe

# It knows the tiny sentences: a translation has nearly the vector of its source, the sum of the directions of its words.
PROGRAM = """
import hashlib, json, sys

english = json.load(open(sys.argv[1], encoding="utf-8"))
lines = sys.stdin.buffer.read().decode("utf-8").split("\\n")[:-1]
with open(sys.argv[2] + "/log", "a", encoding="utf-8") as log:
    log.writelines(line + "\\n" for line in lines)
for line in lines:
    line = line.removeprefix("query: ")
    total = [0.0] * 16
    for word in [*english.get(line, line).strip(".").split(), line]:
        weight = 0.05 if word == line else 1.0
        drawn = hashlib.sha256(word.encode()).digest()[:16]
        total = [have + weight * (byte - 127.5) / 128 for have, byte in zip(total, drawn)]
    print(json.dumps(total))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of the encoder, and the file in which it writes down every sentence that it is asked for."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "model.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "english.json").write_text(json.dumps({pair.target: pair.source for pair in PAIRS}), encoding="utf-8")
    parts = sys.executable, folder / "model.py", folder / "english.json", folder
    (folder / "log").touch()
    return f"cmd:{' '.join(map(str, parts))}", folder / "log"


def asked(log: Path) -> list[str]:
    return [line for line in log.read_text(encoding="utf-8").split("\n")[:-1] if line.removeprefix("query: ") != "."]


def test_a_program_teaches_a_student_from_end_to_end(
    models: Path, tsv: Path, tmp_path: Path, program: tuple[str, Path]
) -> None:
    name, log = program
    log.write_text("")
    recipe = tiny_recipe(models, tsv, tmp_path / "run", f"teacher.model={name}", "teacher.prompt='query: '")
    result = run(recipe)
    assert [report.model for report in result.reports] == ["untouched", "bridge", "distill"]
    learned = result.reports[2].average().cosine
    assert learned is not None and learned > 0.4, (
        "16 dimensions: the student, which has 32, was brought into the teacher's space"
    )
    teacher = open_encoder(name, prompt="query: ")
    record = json.loads((result.folder / "run.json").read_text())
    assert record["hashes"]["teacher"] == teacher.fingerprint != open_encoder(name).fingerprint
    sources = asked(log)
    assert len(sources) == len(set(sources)) == 40, "each source once, held out or not"
    assert all(source.startswith("query: ") for source in sources)
    run(recipe)
    run(tiny_recipe(models, tsv, tmp_path / "again", f"teacher.model={name}", f"output.cache={tmp_path / 'run' / 'cache'}"))
    assert len(asked(log)) == 80, "only the other prompt is new: everything else is in the cache"


def test_a_program_has_no_body_to_copy(models: Path, tsv: Path, tmp_path: Path, program: tuple[str, Path]) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", f"teacher.model={program[0]}", "student.kind=teacher-body")
    with pytest.raises(RecipeError, match="needs the weights of the teacher"):
        run(recipe)


def test_a_program_judges_pairs_in_cleaning(models: Path, tmp_path: Path, program: tuple[str, Path]) -> None:
    name, log = program
    log.write_text("")
    german = [pair for pair in PAIRS if pair.language == "de"]
    wrong = {(german[place].source, german[(place + 11) % 40].target) for place in range(0, 40, 4)}
    pairs = [*((pair.source, pair.target) for pair in german), *sorted(wrong)]
    (tmp_path / "en-de.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs), encoding="utf-8")
    recipe = tiny_recipe(
        models, tmp_path / "en-de.tsv", tmp_path / "run", f"cleaning.similarity_model={name}", "languages=de",
        "cleaning.min_similarity=0.9", "cleaning.similarity=cosine", "cleaning.duplicates=keep",
    )  # fmt: skip
    _, store = gather_source(recipe, tmp_path / "store")
    kept = {(pair.source, pair.target) for pair in store.bitext()}
    assert len(kept) == 40 and not kept & wrong
    assert len(asked(log)) == len(set(asked(log))) == 80


def test_a_program_mines_scores_and_embeds(tmp_path: Path, program: tuple[str, Path]) -> None:
    name, log = program
    german = [pair for pair in PAIRS if pair.language == "de"]
    (tmp_path / "x.en").write_text("\n".join(pair.source for pair in german), encoding="utf-8")
    (tmp_path / "x.de").write_text("\n".join(pair.target for pair in german[::-1]), encoding="utf-8")
    how = MiningSettings(threshold="-9", device="cpu", min_language=0, cache=tmp_path / "cache")
    mined = mine(name, tmp_path / "x.en", tmp_path / "x.de", how)
    right = {(pair.source, pair.target) for pair in german}
    assert set(zip(mined.pairs["source"].to_pylist(), mined.pairs["target"].to_pylist(), strict=True)) == right
    log.write_text("")
    bitext = Bitext.of([Pair(pair.source, pair.target, "de", "x") for pair in german])
    scored = score(name, bitext, ScoringSettings(device="cpu", cache=tmp_path / "cache"))
    assert scored.pairs["score"].to_numpy().min() > 1 and not asked(log), "mining had embedded them"
    embedded = ig.embed(name, [german[0].source, german[0].target], tmp_path / "cache")
    assert embedded.shape == (2, 16) and not asked(log)
    assert np.allclose(embedded, open_encoder(name).encode([german[0].source, german[0].target]), atol=1e-2)
