"""Which weights a real training ships when its dev translations are found from early on, and what is said of the result."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from isogloss.cli.screens.outcome import show_run
from isogloss.evaluation.tasks.retrieval import MAIN
from isogloss.runs.pipeline import run
from made_up_sets import retrieval_tables
from tiny import SUBJECTS, VERBS, tiny_recipe

STATIC = ("student.kind=static", "training.train_layers=0", "training.learning_rate=0.02", "cleaning.min_language=0")


@pytest.fixture
def similar(tmp_path: Path) -> Path:
    """Sentences whose translations have many words in common with them: they are found before training has come far."""
    plain = [f"{subject} {verb}" for subject in SUBJECTS for verb in VERBS]
    lines = ["split\ten\tde"]
    for n in range(200):
        english = f"{plain[n % 40]} and {plain[(7 * n + 3 + n // 40) % 40]}."
        german = english.replace("the ", "das ").replace(" and ", " und ").replace("a ", "ein ")
        lines.append(f"{'test' if n % 5 == 3 else 'train'}\t{english}\t{german}")
    path = tmp_path / "similar.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("select", ["both", "retrieval"])
def test_an_early_step_is_not_shipped_because_it_found_as_much(
    models: Path, similar: Path, tmp_path: Path, select: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No later step finds more translations, so the first of the best would be one in the first half of the training."""
    settings = ("training.epochs=8", "training.dev_share=0.25", "training.dev_checks=12", f"training.select={select}")
    result = run(tiny_recipe(models, similar, tmp_path / "run", *STATIC, *settings))
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    measured = [line for line in lines if "dev_mse" in line]
    first = max(measured, key=lambda line: line["dev_retrieval"])
    assert result.training is not None
    kept = next(line for line in measured if line["step"] == result.training.best_step)
    assert first["step"] <= result.training.steps / 2 < kept["step"]
    assert kept["dev_mse"] == min(line["dev_mse"] for line in measured) < 0.9 * first["dev_mse"]
    assert kept["dev_teacher_index"] >= first["dev_teacher_index"] and kept["dev_retrieval"] == first["dev_retrieval"]

    bridge, trained = (report.average() for report in result.reports[1:])
    assert trained.teacher_index is not None and bridge.teacher_index is not None
    assert trained.teacher_index > bridge.teacher_index and not result.training.setback and not result.details["regressions"]
    show_run(result, as_json=False)
    assert "within noise" not in capsys.readouterr().out and "## Regressions" not in (result.model / "README.md").read_text()


def test_a_language_that_lost_is_named_on_the_screen_in_the_results_and_on_the_card(
    models: Path, tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = ["training.learning_rate=0.5", "training.warmup=0.0", "training.dev_pairs=0", "training.train_layers=0"]
    wild += ["losses.mse=0", "losses.ranking=1", "training.epochs=6", "leaks.level=off"]
    queries = retrieval_tables(tmp_path / "asked")
    result = run(tiny_recipe(models, tsv, tmp_path / "run", *wild, f"evaluation.retrieval={queries}"))
    assert result.training is not None
    regressions = result.details["regressions"]
    lost = {(one["stage"], one["language"]) for one in regressions if one["score"] != MAIN}
    languages = {language for stage, language in lost if stage == "the bridge alone"} - {"average"}
    assert languages, "such a training loses something"
    show_run(result, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    written = json.loads((result.folder / "results.json").read_text())
    card = (result.model / "README.md").read_text()
    said = result.training.setback
    assert said in shown and written["training"]["distill"]["setback"] == said and "than the bridge alone" in said
    for language in languages:
        assert re.search(rf"\b{language}\b", said) and f"| {language} |" in card.split("## Regressions")[1]
    by_hand = {
        score.language
        for old, score in zip(result.reports[1].scores, result.reports[2].scores, strict=True)
        if any(
            np.float64(getattr(score, name)) < getattr(old, name) - (0.005 if name == "cosine" else 1e-9)
            for name in ("teacher_index", "to_source", "from_source", "cosine")
        )
    }
    assert languages == by_hand

    (table,) = written["retrieval"]["tables"]
    values = {column["name"]: [one["value"] for one in column["scores"]] for column in table["columns"]}
    fewer = {name for name, (bridge, trained) in values.items() if trained < bridge and name not in ("Avg.", "en", "teacher")}
    assert {one["language"] for one in regressions if one["score"] == MAIN} - {"average"} == fewer != set()
    assert "documents found by queries | the bridge alone |" in card and "on the held-out pairs and the queries" in said
