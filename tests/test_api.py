"""The public names: few, importable, one calling style; the example in the package's docstring runs."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import isogloss as ig
from isogloss import config
from isogloss.training.tasks.sentence_pairs import SentencePairs, STSTask
from isogloss.training.train import TaskSettings
from isogloss.types import TEST, Bitext, Pair
from tiny import PAIRS


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    german = [pair for pair in PAIRS if pair.language == "de"]
    (tmp_path / "en-de.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in german))
    (tmp_path / "news.en.txt").write_text("".join(f"{pair.source}\n" for pair in german))
    (tmp_path / "news.de.txt").write_text("".join(f"{pair.target}\n" for pair in german))
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"id": {n}, "text": "{one.source}"}}\n' for n, one in enumerate(german)))
    for name in ("teacher", "student"):
        (tmp_path / name).symlink_to(models / name)
    return tmp_path


def test_every_public_name_is_there() -> None:
    assert len(ig.__all__) <= 21 and dir(ig) == ig.__all__
    for name in ig.__all__:
        assert getattr(ig, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'StaticStudent'"):
        _ = ig.StaticStudent


def test_the_example_of_the_docstring_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = textwrap.dedent((ig.__doc__ or "").split("\n\n", 1)[1].split("\n\nThe model comes first")[0])
    example = example.replace("all-MiniLM-L6-v2", "teacher").replace("multilingual-e5-small", "student")
    example = re.sub(r"^ig\.run\(.*$", "", example, flags=re.MULTILINE)  # the test below
    exec(example, {})
    assert "to_source=" in capsys.readouterr().out
    assert SentenceTransformer(str(place / "my-model"), device="cpu").encode("a cat").shape == (16,)


def test_run_takes_a_recipe(place: Path) -> None:
    recipe = ig.Recipe(
        languages=("de",),
        teacher=config.TeacherSettings(model="teacher"),
        student=config.StudentSettings(model="student"),
        pairs=config.PairsSettings(files=("en-de.tsv",), held_out=0.2),
        training=config.TrainingSettings(epochs=1, dev_pairs=0),
        output=config.OutputSettings(folder="out", cache="cache"),
    )
    assert (ig.run(recipe).model / "modules.json").is_file()


def test_models_by_name_and_pairs_in_any_form(place: Path) -> None:
    files, held = (
        ig.evaluate("student", "teacher", "en-de.tsv"),
        Bitext.of(Pair(pair.source, pair.target, "de", "", TEST) for pair in PAIRS if pair.language == "de"),
    )
    loaded = ig.evaluate(ig.Student.from_pretrained("student"), ig.load("teacher"), held)
    assert files.average().to_source == loaded.average().to_source and files.candidates == loaded.candidates
    prepared = ig.prepare(ig.read("en-de.tsv"))
    student = ig.Student.from_pretrained("student", device="cpu")
    ig.distill(student, "teacher", prepared, ig.Recipe(training=config.TrainingSettings(epochs=1, dev_pairs=0)))
    assert student.dimension == 16
    assert len(ig.score("teacher", held)) == len(ig.score("teacher", "en-de.tsv")) == len(held)
    assert np.array_equal(
        ig.embed("teacher", Path("news.en.txt")), ig.embed("teacher", Path("news.en.txt").read_text().splitlines())
    )


def test_a_task_is_trained_with_the_model_first(place: Path) -> None:
    pairs, student = ig.read("en-de.tsv"), ig.Student.from_pretrained("student", device="cpu")
    sentences = SentencePairs.of(student, [pair.source for pair in pairs], [pair.target for pair in pairs])
    task = STSTask(student, sentences, np.full(len(sentences), 5.0, dtype=np.float32))
    before = student.fingerprint
    summary = ig.train(student, task, TaskSettings(epochs=2, batch_pairs=8), folder="work")
    assert summary.steps == summary.steps_now and student.fingerprint != before
    again = ig.Student.from_pretrained("student", device="cpu")
    assert ig.train(again, [task], TaskSettings(epochs=2, batch_pairs=8), folder=Path("work")).steps_now == 0


def test_lists_are_mined_like_files(place: Path) -> None:
    from isogloss.config.mining import MiningSettings

    settings = MiningSettings(device="cpu", min_language=0, threshold="0")
    files = ig.mine("teacher", "news.en.txt", "news.de.txt", settings)
    lists = [Path(f"news.{language}.txt").read_text().splitlines() for language in ("en", "de")]
    assert len(files) and files.pairs.equals(ig.mine("teacher", lists[0], lists[1], settings).pairs)
