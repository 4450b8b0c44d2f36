"""The same minutes on the same machine: isogloss' quickstart beside sentence-transformers' multilingual recipe.

    pip install datasets accelerate
    python benchmarks/versus_sentence_transformers.py

The peer gets the same teacher, the same student (vocabulary already trimmed, normalization added to fit the unit-norm
teacher), the same pairs and English text, and as many seconds of teacher vectors and training as isogloss took from the
first line to the last (reading, trimming and measuring included). It is run at its recipe's learning rate and at higher
ones, and the best is kept. Needs benchmarks/results/quickstart.json from the same machine; writes
benchmarks/results/versus_sentence_transformers.json.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance

from isogloss import recipes
from isogloss.evaluation.alignment import evaluate
from isogloss.models.encoder import SentenceEncoder
from isogloss.runs.gathering import gather_pairs
from isogloss.runs.models import open_models
from isogloss.runs.pipeline import quickstart_recipe
from isogloss.types import TRAIN, Bitext, FloatArray

RESULTS = Path(__file__).with_name("results")
BATCH = 64  # pairs, as in the peer's recipe
MEASURED_STEPS = 4


def datasets_of(bitext: Bitext, label_of: dict[str, FloatArray]) -> dict[str, Any]:
    """One data set a language with the teacher's vectors as labels, as the peer's recipe builds them."""
    from datasets import Dataset

    train = bitext.where(split=TRAIN)
    made = {}
    for language in train.languages:
        spoken = train.where(language=language)
        columns: dict[str, Any] = {"english": spoken.column("source")}
        if language != bitext.source_language:
            columns["non_english"] = spoken.column("target")
        columns["label"] = [label_of[text].tolist() for text in spoken.column("source")]
        made[language] = Dataset.from_dict(columns)
    return made


def train_peer(model: Any, train: dict[str, Any], rate: float, steps: int, seed: int) -> None:  # noqa: ANN401
    """sentence-transformers' own trainer and MSE loss for a number of steps."""
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MSELoss

    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            learning_rate=rate,
            warmup_steps=max(1, steps // 10),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
            seed=seed,
        )
        SentenceTransformerTrainer(model=model, args=arguments, train_dataset=train, loss=MSELoss(model)).train()


def fresh_student() -> tuple[Bitext, SentenceEncoder, Any]:
    """Pairs, teacher, and the untouched student as the peer would load it."""
    recipe = recipes.load(quickstart_recipe())
    bitext = gather_pairs(recipe).bitext
    teacher, student, _ = open_models(recipe, bitext)
    assert isinstance(teacher, SentenceEncoder)  # the recipe names one
    student.add_normalization()
    return bitext, teacher, student.model


def run_peer(rate: float, budget: float, seed: int) -> dict[str, Any]:
    """Train for the seconds of the budget that the teacher's vectors leave, then measure like everything else."""
    bitext, teacher, model = fresh_student()
    began = time.monotonic()
    sources = bitext.where(split=TRAIN).sources()
    vectors = teacher.model.encode(sources, batch_size=32, show_progress_bar=False)
    labels = dict(zip(sources, np.asarray(vectors), strict=True))
    train = datasets_of(bitext, labels)
    left = budget - (time.monotonic() - began)
    steps = measured_steps(train, left, seed)
    started = time.monotonic()
    train_peer(model, train, rate, steps, seed)
    trained = time.monotonic() - started
    report = evaluate(SentenceEncoder(model, "sentence-transformers"), teacher, bitext).average()
    return {
        "learning_rate": rate,
        "steps": steps,
        "pairs_seen": steps * BATCH,
        "seconds_training": round(trained, 1),
        "pairs_per_second": round(steps * BATCH / trained, 1),
        "teacher_index": report.teacher_index,
        "to_source": report.to_source,
        "from_source": report.from_source,
        "cosine": report.cosine,
    }


def measured_steps(train: dict[str, Any], seconds: float, seed: int) -> int:
    """How many steps fit: timed on a throw-away student, so that the schedule can run to its end in time."""
    _, _, model = fresh_student()
    train_peer(model, train, 0.0, 1, seed)
    began = time.monotonic()
    train_peer(model, train, 0.0, MEASURED_STEPS, seed)
    return max(1, int(seconds / ((time.monotonic() - began) / MEASURED_STEPS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-5, 2e-4])
    rates: list[float] = parser.parse_args().rates
    ours = json.loads((RESULTS / "quickstart.json").read_text())
    budget = float(ours["seconds"])
    tried = []
    for rate in rates:
        tried.append(run_peer(rate, budget, seed=17))
        print(json.dumps(tried[-1]))
    best = max(tried, key=lambda one: one["teacher_index"])
    mine = ours["stages"]["distilled"]["average"] | {"seconds": budget}
    written = provenance(17) | {"budget_seconds": budget, "isogloss": mine, "peer": best, "peer_tried": tried}
    (RESULTS / "versus_sentence_transformers.json").write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
