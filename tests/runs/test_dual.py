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

from isogloss.corpora.store import open_store
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.evaluation.alignment import evaluate
from isogloss.evaluation.leak_report import scan_of
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.runs.dual import DualResult, train_dual
from isogloss.runs.dual_rounds import OtherText, Rounds
from isogloss.runs.dual_settings import LIKE, settings_of, with_recipe
from isogloss.training.hard_negatives import mine_negatives
from isogloss.training.pair_dataset import PairDataset
from isogloss.types import Bitext, IntArray
from tiny import PAIRS

SMALL: dict[str, Any] = {"epochs": 3, "batch": 16, "learning_rate": 2e-3, "max_tokens": 32, "device": "cpu", "dev_pairs": 0}
ALL: dict[str, Any] = {"tlm": True, "hard_negatives": 2, "rounds": 2, "checkpoint_seconds": 0.0, "epochs": 1}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pairs, and NLI, questions and plain text about the same few things."""
    folder, spoken = tmp_path_factory.mktemp("files"), [pair for pair in PAIRS if pair.language == "de"]
    labels = ("entailment", "neutral", "contradiction")
    nli = [f"{one.source}\t{two.source}\t{labels[n % 3]}\n" for n, (one, two) in enumerate(pairwise(spoken))]
    qa = [f"who {pair.source.split(' ', 2)[2]}\t{pair.source}\n" for pair in spoken]
    written = {"nli.tsv": "".join(nli), "qa.tsv": "".join(qa), "text.txt": "".join(f"{pair.target}\n" for pair in PAIRS)}
    russian = {pair.source: pair.target for pair in PAIRS if pair.language == "ru"}
    rows = [f"{pair.split}\t{pair.source}\t{pair.target}\t{russian[pair.source]}\n" for pair in spoken]
    written["pairs.tsv"] = "split\ten\tde\tru\n" + "".join(rows)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name.split(".")[0]: str(folder / name) for name in written}


@pytest.fixture(scope="module")
def whole(models: Path, files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of a training with all that there is, never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return weights(trained(models, Path(files["pairs"]), out, nli=(files["nli"],), qa=(files["qa"],), **ALL))


def trained(models: Path, tsv: Path, out: Path, like: str = "", **more: Any) -> DualResult:  # noqa: ANN401 - settings
    return train_dual(str(tsv), str(models / "student"), out, like, **{**SMALL, **more})


def weights(result: DualResult) -> str:
    found: str = json.loads((result.folder / "run.json").read_text())["hashes"]["weights"]
    return found


def test_labse_finds_translations_and_loads_anywhere(models: Path, tsv: Path, tmp_path: Path) -> None:
    long = {"epochs": 30, "learning_rate": 3e-3, "dropout": False, "dev_pairs": 500, "dev_share": 0.1}
    result = trained(models, tsv, tmp_path / "labse", "labse", **long)
    assert [report.model for report in result.reports] == ["untouched", "round 1"]
    before, after = (report.average() for report in result.reports)
    assert after.to_source > 0.3 > 4 * before.to_source and after.from_source > 0.3 > 4 * before.from_source
    model = SentenceTransformer(str(result.model))
    assert model[1].pooling_mode == "cls" and isinstance(model[-1], Normalize)
    assert np.linalg.norm(model.encode(["die Katze rennt nach Hause."])) == pytest.approx(1, abs=1e-5)
    measured = evaluate(load(str(result.folder)), None, open_store(result.folder / "pairs").bitext())
    assert measured.average().to_source == pytest.approx(after.to_source, abs=1e-6)
    assert "like labse" in (result.model / "README.md").read_text() and scan_of(result.folder) is not None
    record = json.loads((result.folder / "run.json").read_text())
    assert record["status"] == "finished" and record["settings"]["margin"] == 0.3
    written = json.loads((result.folder / "results.json").read_text())
    assert written["training"]["round 1"]["tasks"] == {"translation": written["pairs"]["train"] - written["dev_pairs"]}
    lines = [json.loads(line) for line in (result.folder / "metrics-round-1.jsonl").read_text().splitlines()]
    assert lines[0]["step"] == 0 and "dev_retrieval" in lines[0] and lines[-1]["loss"] < lines[1]["loss"]


def test_muse_trains_all_its_tasks_in_two_rounds(models: Path, tsv: Path, files: dict[str, str], tmp_path: Path) -> None:
    steps: list[Step] = []
    (tmp_path / "judged").mkdir()
    (tmp_path / "judged" / "nli.tsv").symlink_to(files["nli"])
    given = {"nli": (str(tmp_path / "judged"),), "qa": (files["qa"],), "on_progress": steps.append}
    result = trained(models, tsv, tmp_path / "muse", "muse", hard_negatives=2, dev_pairs=500, dev_share=0.1, **given)
    assert [report.model for report in result.reports] == ["untouched", "round 1", "round 2"]
    for number in (1, 2):
        tasks = result.details["training"][f"round {number}"]["tasks"]
        assert list(tasks) == ["translation", "nli", "answers"] and tasks["nli"] == 39 and tasks["answers"] == 40
        seen = {name for step in steps if step.stage == f"round {number}" for name in step.values}
        assert {"loss", "dev_retrieval"} <= seen and {"translation", "nli", "answers"} & seen
    assert SentenceTransformer(str(result.model))[1].pooling_mode == "mean"
    assert len(list((result.folder / "work").glob("negatives-*.npy"))) == 1
    assert scan_of(result.folder) is None, "nobody looked for test sets in the other text"
    assert not [name for name in load(str(result.folder)).model.state_dict() if "head" in name or "classifier" in name]


def rounds_of(models: Path, out: Path, bitext: Bitext, **more: Any) -> tuple[Rounds, Student]:  # noqa: ANN401 - settings
    settings = settings_of("", {"pairs": ("x",), "student": "x", "out": str(out), **SMALL, **more})
    student = Student.from_pretrained(str(models / "student"), max_tokens=32, device="cpu")
    return Rounds(settings, student, bitext, OtherText.read(settings), out), student


def test_hard_negatives_are_those_of_the_first_rounds_model(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    first, student = rounds_of(models, tmp_path / "first", bitext)

    def mined() -> IntArray:
        return mine_negatives(first.pairs, lambda rows: student.vectors_of(first.data.tokens, rows), 3, 17)

    untouched = mined()
    start = {name: value.clone() for name, value in student.model.state_dict().items()}
    assert list(first.stages()) == ["round 1"]
    wanted = mined()
    assert not np.array_equal(untouched, wanted)
    second, other = rounds_of(models, tmp_path / "second", bitext, hard_negatives=3, rounds=2)
    assert first.summaries["round 1"]["steps"] > 2
    shorter, _ = rounds_of(models, tmp_path / "shorter", bitext, steps=2)
    assert list(shorter.stages()) == ["round 1"] and shorter.summaries["round 1"]["steps"] == 2
    seen: list[tuple[str, Any, bool]] = []
    train = second._train

    def watched(stage: str, tasks: Any, *rest: Any) -> None:  # noqa: ANN401 - as it comes
        fresh = all(torch.equal(value, start[name]) for name, value in other.model.state_dict().items())
        seen.append((stage, tasks[0].negatives, fresh))
        train(stage, tasks, *rest)

    second._train = watched  # type: ignore[method-assign, assignment]
    list(second.stages())
    assert [stage for stage, _, _ in seen] == ["round 1", "round 2"]
    assert seen[0][1] is None and np.array_equal(seen[1][1], wanted)
    assert all(fresh for _, _, fresh in seen), "each round begins with the same weights"


def test_pretraining_changes_where_the_rounds_begin(models: Path, tsv: Path, files: dict[str, str], tmp_path: Path) -> None:
    plain = trained(models, tsv, tmp_path / "plain", epochs=1)
    more: dict[str, Any] = {"mlm": (files["text"],), "tlm": True, "pretrain_learning_rate": 1e-3}
    result = trained(models, tsv, tmp_path / "both", epochs=1, **more)
    assert [report.model for report in result.reports] == ["untouched", "pretrain", "round 1"]
    tasks = result.details["training"]["pretrain"]["tasks"]
    assert list(tasks) == ["mlm", "tlm"] and tasks["mlm"] == len({pair.target for pair in PAIRS})
    assert weights(plain) != weights(result)
    assert SentenceTransformer(str(result.model)).tokenizer.mask_token == "<mask>"


@pytest.mark.parametrize(("stage", "after"), [("pretrain", 2), ("round 1", 3), ("hard negatives", 1), ("round 2", 4)])
def test_interrupted_anywhere_it_ends_with_the_same_weights(
    stage: str, after: int, models: Path, files: dict[str, str], whole: str, tmp_path: Path
) -> None:
    tsv, given = Path(files["pairs"]), {**ALL, "nli": (files["nli"],), "qa": (files["qa"],)}
    seen = 0

    def stop(step: Step) -> None:
        nonlocal seen
        seen += step.stage == stage
        if seen > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(models, tsv, tmp_path / "cut", on_progress=stop, **given)
    assert json.loads((tmp_path / "cut" / "run.json").read_text())["status"] == "stopped"
    assert not (tmp_path / "cut" / "model").exists()
    notes: list[str] = []
    resumed = trained(models, tsv, tmp_path / "cut", on_progress=lambda step: notes.append(step.note), **given)
    assert weights(resumed) == whole
    assert any("continued at step" in note or "reused" in note for note in notes)
    if stage != "round 2":
        return
    again: list[Step] = []
    finished = trained(models, tsv, tmp_path / "cut", on_progress=again.append, **given)
    assert weights(finished) == whole and finished.reports == resumed.reports
    reused = {step.stage for step in again if "reused" in step.note}
    assert {"pretrain", "round 1", "hard negatives", "round 2"} <= reused
    measured = {f"measuring, {name}" for name in ("untouched", "pretrain", "round 1", "round 2")}
    assert measured <= reused and all("reused" in step.note for step in again if step.stage in measured)


def test_fresh_starts_again_and_other_settings_do_not_go_on(models: Path, tsv: Path, tmp_path: Path) -> None:
    first = weights(trained(models, tsv, tmp_path / "x", epochs=1))
    notes: list[Step] = []
    assert weights(trained(models, tsv, tmp_path / "x", epochs=1, fresh=True, on_progress=notes.append)) == first
    assert not any("reused" in step.note for step in notes if step.stage == "round 1")
    for kept in (tmp_path / "x" / "work").glob("measured-*.json"):
        kept.write_text("{")  # as a bad disk leaves it: what cannot be read is measured again
    assert weights(trained(models, tsv, tmp_path / "x", epochs=1, margin=0.2, replace=True)) != first
    assert weights(trained(models, tsv, tmp_path / "x", epochs=1, seed=3, replace=True)) != first


def test_trimming_and_the_students_own_pooling(models: Path, tsv: Path, files: dict[str, str], tmp_path: Path) -> None:
    given: dict[str, Any] = {"trim": "corpus", "qa": (files["qa"],), "normalize": False, "epochs": 1}
    result = trained(models, tsv, tmp_path / "x", **given)
    trimming = result.details["trimming"]
    assert trimming["rows_after"] < trimming["rows_before"]
    model = SentenceTransformer(str(result.model))
    assert model[1].pooling_mode == "mean" and not isinstance(model[-1], Normalize)
    assert len(model[0].auto_model.get_input_embeddings().weight) == trimming["rows_after"]


def test_what_the_papers_chose() -> None:
    base = {"pairs": ("x",), "student": "y", "out": "z"}
    labse = settings_of("labse", base)
    assert (labse.margin, labse.pooling, labse.normalize, labse.rounds, labse.tasks) == (0.3, "cls", True, 1, ("translation",))
    muse = settings_of("muse", {**base, "nli": ("a",), "qa": ("b",)})
    assert (muse.hard_negatives, muse.rounds, muse.margin, muse.pooling) == (5, 2, 0.0, "mean")
    assert muse.tasks == ("translation", "nli", "answers")
    assert settings_of("labse", {**base, "margin": 0.1}).margin == 0.1
    assert settings_of("", {**base, "hard_negatives": 3}).rounds == 2
    assert settings_of("", {**base, "rounds": 3}).hard_negatives == 5
    assert set(LIKE) == {"labse", "muse"}
    listed = settings_of("", {"pairs": ["x"], "student": "y", "out": "z", "nli": ["a"], "shares": [2.0, 1.0]})
    assert listed.pairs == ("x",) and listed.nli == ("a",) and listed.shares == (2.0, 1.0), "as TOML and JSON have them"


@pytest.mark.parametrize(
    ("like", "given", "said"),
    [
        ("bert", {}, "like = 'bert' is not known"),
        ("muse", {"qa": ("b",)}, "--nli is missing"),
        ("muse", {}, "--nli and --qa are missing"),
        ("labse", {"nli": ("b",)}, "no task beside translations"),
        ("", {"hard_negatives": 2, "rounds": 1}, "no model before it"),
        ("", {"hard_negatives": 0, "rounds": 2}, "the first again"),
        ("", {"shares": (1.0, 2.0)}, "2 numbers for 1 task"),
        ("", {"shares": (-1.0,)}, "impossible"),
        ("", {"margin": -0.1}, "margin = -0.1 is impossible"),
        ("", {"pooling": "sum"}, "pooling = 'sum' is not known"),
        ("", {"learnig_rate": 1.0}, "unknown setting learnig_rate"),
        ("", {"pairs": ()}, "no pairs"),
        ("", {"epochs": "three"}, "epochs must be a whole number, not 'three'"),
        ("", {"tlm": 1}, "tlm must be true or false, not 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(like: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said) as caught:
        settings_of(like, {"pairs": ("x",), "student": "y", "out": "z", **given})
    assert caught.value.hint


def test_set_reaches_settings_and_the_tables_by_which_text_is_read() -> None:
    base = {"pairs": ("x",), "student": "y", "out": "z", "seed": 3, "languages": ("nan",)}
    told = ["dev_pairs=0", "prompt=query: ", "temperature=1", "qa=a.tsv", "cleaning.min_language=0", "pairs.held_out=0.2"]
    settings, recipe = with_recipe("labse", base, told[:3] + told[4:])
    assert (settings.dev_pairs, settings.prompt, settings.temperature, settings.margin) == (0, "query:", 1.0, 0.3)
    assert recipe.cleaning.min_language == 0 and recipe.seed == 3 and recipe.languages == ("nan",) == settings.languages
    assert settings.held_out == recipe.pairs.held_out == 0.2, "one truth, whichever name it was set by"
    assert with_recipe("", base, told)[0].qa == ("a.tsv",)
    assert with_recipe("", base, ["evaluation.max_candidates=9"])[0].max_candidates == 9
    for wrong, said in {
        "training.epochs=2": r"\[training\] says nothing about a dual encoder",
        "cleaning.nothing=2": "unknown key cleaning.nothing",
        "epoch=2": "unknown setting epoch",
        "epochs": "expected key=value",
        "like=muse": "unknown setting like",
    }.items():
        with pytest.raises(RecipeError, match=said) as caught:
            with_recipe("", base, [wrong])
        assert caught.value.hint


def test_other_things_are_left_alone_and_bad_text_is_named_before_a_model_is_loaded(tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("no tab here\n")
    with pytest.raises(DataError, match=r"bad.tsv line 1: 1 column"):
        train_dual(str(tsv), "no-such-model", tmp_path / "x", qa=(str(tmp_path / "bad.tsv"),))
    full = tmp_path / "y" / "model"
    full.mkdir(parents=True)
    (full / "thesis.txt").write_text("mine")
    with pytest.raises(IsoglossError, match="contains files that are not a model"):
        train_dual(str(tsv), "no-such-model", tmp_path / "y")
    assert (full / "thesis.txt").read_text() == "mine"


def test_one_pair_has_nothing_to_be_told_from(tmp_path: Path) -> None:
    (tmp_path / "en-de.tsv").write_text("the cat sleeps at night.\tdie Katze schläft nachts.\n", encoding="utf-8")
    with pytest.raises(DataError, match="1 pair to train on"):
        train_dual(str(tmp_path / "en-de.tsv"), "no-such-model", tmp_path / "x", held_out=0.0)


def test_numbers_are_those_of_the_data(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    """Dev pairs are trained on in no task, and pairs of the test split are nowhere."""
    rounds, student = rounds_of(models, tmp_path / "x", bitext, dev_pairs=500, dev_share=0.1)
    data = PairDataset.build(bitext, student.text_tokenizer)
    assert len(rounds.pairs) + len(rounds.dev_rows) == len(data.pairs) == len(bitext.where(split="train"))
    assert len(rounds.dev_rows) and not set(rounds.pairs.source.tolist()) & set(rounds.dev_rows.source.tolist())
    assert len(rounds.tasks(None)[0]) == len(rounds.pairs)
