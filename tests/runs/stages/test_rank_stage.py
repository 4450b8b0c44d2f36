"""Dual encoders from files to folders, on tiny models: tasks, rounds, negatives, resuming, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.corpora.store import open_store
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.evaluation.alignment import evaluate
from isogloss.evaluation.leak_report import scan_of
from isogloss.models.encoder import load
from isogloss.progress import Step, silent
from isogloss.runs.pipeline import run
from isogloss.runs.presets import dual_recipe
from isogloss.runs.run import RunResult
from isogloss.runs.stages import rank
from isogloss.runs.stages.session import StageSession
from isogloss.training.hard_negatives import mine_negatives
from isogloss.training.tasks.distill import DistillTask
from isogloss.types import IntArray
from tiny import PAIRS

TRAINING: dict[str, Any] = {"epochs": 3, "batch_pairs": 16, "learning_rate": 2e-3, "dev_pairs": 0}
DEV: dict[str, Any] = {"dev_pairs": 500, "dev_share": 0.1}
ALL: dict[str, Any] = {"tlm": True, "losses": {"hard_negatives": 2}, "training": {"checkpoint_seconds": 0.0, "epochs": 1}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pairs, and NLI, questions and plain text about the same few things."""
    folder, german = tmp_path_factory.mktemp("files"), [pair for pair in PAIRS if pair.language == "de"]
    labels = ("entailment", "neutral", "contradiction")
    nli = [f"{one.source}\t{two.source}\t{labels[n % 3]}\n" for n, (one, two) in enumerate(pairwise(german))]
    qa = [f"who {pair.source.split(' ', 2)[2]}\t{pair.source}\n" for pair in german]
    written = {"nli.tsv": "".join(nli), "qa.tsv": "".join(qa), "text.txt": "".join(f"{pair.target}\n" for pair in PAIRS)}
    russian = {pair.source: pair.target for pair in PAIRS if pair.language == "ru"}
    rows = [f"{pair.split}\t{pair.source}\t{pair.target}\t{russian[pair.source]}\n" for pair in german]
    written["pairs.tsv"] = "split\ten\tde\tru\n" + "".join(rows)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name.split(".")[0]: str(folder / name) for name in written}


@pytest.fixture(scope="module")
def whole(models: Path, files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of a training with all tasks, never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return weights(trained(models, Path(files["pairs"]), out, nli=[files["nli"]], qa=[files["qa"]], **ALL))


def trained(
    models: Path,
    tsv: Path,
    out: Path,
    on_progress: Any = silent,  # noqa: ANN401
    fresh: bool = False,
    replace: bool = False,
    **more: Any,  # noqa: ANN401
) -> RunResult:
    training = TRAINING | more.pop("training", {})
    student = {"max_tokens": 32} | more.pop("student", {})
    data = dual_recipe([str(tsv)], out, str(models / "student"), training=training, device="cpu", **more)
    data["student"] |= student
    return run(recipes.parse(data, (), "test"), on_progress, fresh, replace)


def weights(result: RunResult) -> str:
    found: str = json.loads((result.folder / "run.json").read_text())["hashes"]["weights"]
    return found


def test_labse_finds_translations_and_loads_anywhere(models: Path, tsv: Path, tmp_path: Path) -> None:
    training = {"epochs": 30, "learning_rate": 3e-3, "dropout": False, **DEV}
    result = trained(models, tsv, tmp_path / "labse", like="labse", training=training)
    assert [report.model for report in result.reports] == ["untouched", "rank"]
    before, after = (report.average() for report in result.reports)
    assert after.to_source > 0.3 > 4 * before.to_source and after.from_source > 0.3 > 4 * before.from_source
    model = SentenceTransformer(str(result.model))
    assert model[1].pooling_mode == "cls" and isinstance(model[-1], Normalize)
    assert np.linalg.norm(model.encode(["die Katze rennt nach Hause."])) == pytest.approx(1, abs=1e-5)
    measured = evaluate(load(str(result.folder)), None, open_store(result.folder / "pairs").bitext())
    assert measured.average().to_source == pytest.approx(after.to_source, abs=1e-6)
    assert scan_of(result.folder) is not None
    record = json.loads((result.folder / "run.json").read_text())
    assert record["status"] == "finished" and record["recipe"]["stage"][0]["losses"]["margin"] == 0.3
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[0]["step"] == 0 and "dev_retrieval" in lines[0] and lines[-1]["loss"] < lines[1]["loss"]


def test_muse_trains_all_its_tasks_in_two_rounds(models: Path, tsv: Path, files: dict[str, str], tmp_path: Path) -> None:
    steps: list[Step] = []
    (tmp_path / "labelled").mkdir()
    (tmp_path / "labelled" / "nli.tsv").symlink_to(files["nli"])
    given: dict[str, Any] = {"nli": [str(tmp_path / "labelled")], "qa": [files["qa"]], "losses": {"hard_negatives": 2}}
    result = trained(models, tsv, tmp_path / "muse", steps.append, like="muse", training=DEV, **given)
    assert [report.model for report in result.reports] == ["untouched", "rank round 1", "rank"]
    for stage in result.stages:
        assert list(stage.examples) == ["translation", "nli", "answers"]
        assert stage.examples["nli"] == 39 and stage.examples["answers"] == 40
        seen = {name for step in steps if step.stage == stage.name for name in step.values}
        assert {"loss", "dev_retrieval"} <= seen and {"translation", "nli", "answers"} & seen
    assert SentenceTransformer(str(result.model))[1].pooling_mode == "mean"
    assert len(list((result.folder / "work").glob("negatives-*.npy"))) == 1
    assert scan_of(result.folder) is None, "the other text was not scanned for test sets"
    assert not [name for name in load(str(result.folder)).model.state_dict() if "head" in name or "classifier" in name]


def test_hard_negatives_are_those_of_the_first_rounds_model(
    models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, IntArray | None, IntArray, dict[str, torch.Tensor]]] = []
    train_tasks = StageSession.train_tasks

    def watched(self: StageSession, stage: Any, tasks: Any, dev: Any, key: str, name: str = "", shares: Any = ()) -> Any:  # noqa: ANN401
        start = {key: value.clone() for key, value in self.student.model.state_dict().items()}
        summary = train_tasks(self, stage, tasks, dev, key, name, shares)
        task = tasks[0]
        assert isinstance(task, DistillTask)
        mined = mine_negatives(task.inputs.pairs, lambda rows: self.student.vectors_of(task.inputs.tokens, rows), 3, 17)
        seen.append((name, task.inputs.negatives, mined, start))
        return summary

    monkeypatch.setattr(StageSession, "train_tasks", watched)
    trained(models, tsv, tmp_path / "run", losses={"hard_negatives": 3})
    (first, none, mined, start), (second, used, _, again) = seen
    assert (first, second) == ("rank round 1", "rank") and none is None
    assert used is not None and np.array_equal(used, mined)
    assert all(torch.equal(value, again[name]) for name, value in start.items()), "each round begins with the same weights"


def test_steps_instead_of_epochs(models: Path, tsv: Path, tmp_path: Path) -> None:
    result = trained(models, tsv, tmp_path / "x", training={"steps": 2})
    assert result.stages[0].summary.steps == 2


def test_pretraining_changes_where_ranking_begins(models: Path, tsv: Path, files: dict[str, str], tmp_path: Path) -> None:
    plain = trained(models, tsv, tmp_path / "plain", training={"epochs": 1})
    more: dict[str, Any] = {"mlm": [files["text"]], "tlm": True, "pretrain": {"learning_rate": 1e-3}}
    result = trained(models, tsv, tmp_path / "both", training={"epochs": 1}, **more)
    assert [report.model for report in result.reports] == ["untouched", "mlm", "rank"]
    examples = result.stages[0].examples
    assert list(examples) == ["mlm", "tlm"] and examples["mlm"] == len({pair.target for pair in PAIRS})
    assert weights(plain) != weights(result)
    assert SentenceTransformer(str(result.model)).tokenizer.mask_token == "<mask>"


@pytest.mark.parametrize(("stage", "after"), [("tlm", 2), ("rank round 1", 3), ("hard negatives", 1), ("rank", 4)])
def test_interrupted_anywhere_it_ends_with_the_same_weights(
    stage: str, after: int, models: Path, files: dict[str, str], whole: str, tmp_path: Path
) -> None:
    tsv, given = Path(files["pairs"]), {**ALL, "nli": [files["nli"]], "qa": [files["qa"]]}
    seen = 0

    def stop(step: Step) -> None:
        nonlocal seen
        seen += step.stage == stage
        if seen > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(models, tsv, tmp_path / "cut", stop, **given)
    assert json.loads((tmp_path / "cut" / "run.json").read_text())["status"] == "stopped"
    assert not (tmp_path / "cut" / "model").exists()
    notes: list[str] = []
    resumed = trained(models, tsv, tmp_path / "cut", lambda step: notes.append(step.note), **given)
    assert weights(resumed) == whole
    assert any("continued at step" in note or "reused" in note for note in notes)
    if stage != "rank":
        return
    again: list[Step] = []
    finished = trained(models, tsv, tmp_path / "cut", again.append, **given)
    assert weights(finished) == whole and finished.reports == resumed.reports
    reused = {step.stage for step in again if "reused" in step.note}
    assert {"tlm", "rank round 1", "hard negatives", "rank"} <= reused
    assert {f"{name} student" for name in ("untouched", "tlm", "rank round 1", "rank")} <= reused


def test_fresh_starts_again_and_other_settings_do_not_continue(models: Path, tsv: Path, tmp_path: Path) -> None:
    one: dict[str, Any] = {"training": {"epochs": 1}}
    first = weights(trained(models, tsv, tmp_path / "x", **one))
    notes: list[Step] = []
    assert weights(trained(models, tsv, tmp_path / "x", notes.append, fresh=True, **one)) == first
    assert not any("reused" in step.note for step in notes if step.stage == "rank")
    assert weights(trained(models, tsv, tmp_path / "x", losses={"margin": 0.2}, replace=True, **one)) != first
    assert weights(trained(models, tsv, tmp_path / "x", seed=3, replace=True, **one)) != first


def test_trimming_keeps_the_pieces_of_all_text(models: Path, tsv: Path, files: dict[str, str], tmp_path: Path) -> None:
    result = trained(models, tsv, tmp_path / "x", student={"trim": "corpus"}, qa=[files["qa"]], training={"epochs": 1})
    trimming = result.details["student"]["trimming"]
    assert trimming["rows_after"] < trimming["rows_before"]
    model = SentenceTransformer(str(result.model))
    assert model[1].pooling_mode == "mean"
    assert len(model[0].auto_model.get_input_embeddings().weight) == trimming["rows_after"]


def parsed(**given: Any) -> Recipe:  # noqa: ANN401
    return recipes.parse(dual_recipe(["x"], "z", "y", **given), (), "test")


def test_what_the_papers_chose() -> None:
    labse = parsed(like="labse")
    (stage,) = labse.stages
    assert (labse.losses_of(stage).margin, labse.student.pooling, stage.task) == (0.3, "cls", "rank")
    muse = parsed(like="muse", nli=["a"], qa=["b"])
    data = dual_recipe(["x"], "z", "y", "muse", ["a"], ["b"])
    assert [beside["task"] for beside in data["stage"][0]["beside"]] == ["nli", "answers"]
    assert (muse.losses_of(muse.stages[0]).hard_negatives, data["stage"][0]["rounds"], muse.student.pooling) == (5, 2, "mean")
    assert parsed(like="labse", losses={"margin": 0.1}).losses_of(stage).margin != 0.1  # its own stage has it
    assert dual_recipe(["x"], "z", losses={"hard_negatives": 3})["stage"][0]["rounds"] == 2
    assert dual_recipe(["x"], "z", rounds=3)["stage"][0]["losses"]["hard_negatives"] == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"like": "bert"}, "like = 'bert' is not known"),
        ({"like": "muse", "qa": ["b"]}, "missing: NLI files"),
        ({"like": "muse"}, "missing: NLI files and question-answer files"),
        ({"like": "labse", "nli": ["b"]}, "no task beside translations"),
        ({"losses": {"hard_negatives": 2}, "rounds": 1}, "needs a second round"),
        ({"losses": {"hard_negatives": 0}, "rounds": 2}, "needs hard negatives"),
        ({"shares": (1.0, 2.0)}, "2 shares for 1 task"),
        ({"losses": {"margin": -0.1}}, "margin"),
        ({"pooling": "sum"}, "pooling"),
        ({"training": {"learnig_rate": 1.0}}, "learnig_rate"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        parsed(**given)
    assert caught.value.hint


def test_bad_text_is_named_before_a_model_is_loaded(models: Path, tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("no tab here\n")
    with pytest.raises(DataError, match=r"bad.tsv line 1: 1 column"):
        trained(models, tsv, tmp_path / "x", qa=[str(tmp_path / "bad.tsv")])
    full = tmp_path / "y" / "model"
    full.mkdir(parents=True)
    (full / "thesis.txt").write_text("mine")
    with pytest.raises(IsoglossError, match="not a model"):
        trained(models, tsv, tmp_path / "y")
    assert (full / "thesis.txt").read_text() == "mine"


def test_one_pair_cannot_be_ranked(models: Path, tmp_path: Path) -> None:
    (tmp_path / "en-de.tsv").write_text("the cat sleeps at night.\tdie Katze schläft nachts.\n", encoding="utf-8")
    with pytest.raises(DataError, match="fewer than 2 pairs"):
        trained(models, tmp_path / "en-de.tsv", tmp_path / "x", pairs={"held_out": 0.0})


def test_dev_pairs_are_trained_on_in_no_task(models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []
    monkeypatch.setattr(rank, "_tasks", _watching(rank._tasks, seen))
    result = trained(models, tsv, tmp_path / "x", training=DEV | {"steps": 1})
    ((pairs, session),) = seen
    _, dev = session.dev_split(session.recipe.stages[0])
    assert dev is not None and len(pairs) + len(dev) == result.details["pairs"]["train"]
    assert len(dev) and not set(pairs.source.tolist()) & set(dev.source.tolist())


def _watching(function: Any, seen: list[tuple[Any, Any]]) -> Any:  # noqa: ANN401
    def watched(stage: Any, session: Any, pairs: Any, negatives: Any) -> Any:  # noqa: ANN401
        seen.append((pairs, session))
        return function(stage, session, pairs, negatives)

    return watched
