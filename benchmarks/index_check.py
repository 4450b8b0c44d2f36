"""`isogloss index check` on real paragraphs: what a student keeps of an index, and whether wrong indexes are recognized.

    python benchmarks/index_check.py --data ../shared/data/eval/xquad_retrieval --run runs/quickstart

The teacher of the run embeds the English paragraphs into an .npy file. Measured is the run's student with the questions in all
languages, with the answers as gold and without; some languages were not trained on, and should not ship. Then the index is
spoiled in the usual ways, and what the check says about each is kept. Takes about ten minutes on two cores. Results go to
benchmarks/results/index_check.json.
"""

import argparse
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance

from isogloss.cli.screens.progress import progress
from isogloss.config.index_check import IndexCheckSettings
from isogloss.evaluation.data.retrieval_sets import open_retrieval_set
from isogloss.index.building.build import build_index
from isogloss.index.checking.check import check_index
from isogloss.index.checking.query_sets import Query, QuerySet, read_queries
from isogloss.index.checking.teacher_match import TeacherMatch, match_teacher
from isogloss.index.open import open_index
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.encoders.roles import with_prompt
from isogloss.runs.finished import open_finished
from isogloss.storage import write_json
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results") / "index_check.json"
LANGUAGES = "ar,de,el,es,hi,ro,ru,th,tr,vi,zh"  # those of XQuAD; the quickstart trains on six of them


def spoiled(texts: list[str], own: FloatArray, teacher: Encoder, other: Encoder) -> dict[str, FloatArray]:
    """Indexes of the same texts that are not, or not only, the teacher's vectors."""
    prompted = with_prompt(teacher, "passage: ")
    assert prompted is not None
    changed = own.copy()
    changed[::5] = np.roll(own[::5], 1, axis=0)
    return {
        "as it should be": own,
        "rounded to 8 bits": np.round(own * 127) / 127,
        "with the prompt `passage: ` before documents": prompted.encode(texts),
        "minus the mean vector": own - own.mean(axis=0),
        "the first 256 dimensions only": own[:, :256],
        "ids shifted by one row": np.roll(own, 1, axis=0),
        "a fifth of the documents changed since": changed,
        f"embedded by {other.name}": other.encode(texts),
    }


def diagnosis(folder: Path, vectors: FloatArray, teacher: Encoder) -> TeacherMatch:
    """What the check says about these vectors; the texts are in the folder."""
    np.save(folder / "docs.npy", vectors)
    with open_index(str(folder / "docs.npy")) as index:
        found = match_teacher(index, index.facts(), teacher, index.sample(64))
    assert found is not None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="a folder of documents and queries, or `questions`")
    parser.add_argument("--run", required=True, help="the folder of a finished run")
    parser.add_argument("--other", default="multilingual-e5-small", help="another model, of the teacher's dimension")
    parser.add_argument("--languages", default=LANGUAGES)
    parser.add_argument("--max-queries", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    recipe = open_finished(args.run).recipe
    documents = open_retrieval_set(args.data).documents["en"]
    queries = replace(read_queries(args.data), name=Path(args.data).name)
    without_gold = QuerySet(queries.name, {name: Query(one.texts) for name, one in queries.queries.items()})
    settings = IndexCheckSettings(languages=tuple(args.languages.split(",")), max_queries=args.max_queries)
    teacher, other = open_encoder(recipe["teacher"]["model"]), open_encoder(args.other)
    student = open_encoder(args.run)
    with tempfile.TemporaryDirectory() as place, progress() as bars:
        folder = Path(place)
        pairs = zip(documents.ids, documents.texts[0], strict=True)
        lines = [json.dumps({"id": name, "text": text}) for name, text in pairs]
        (folder / "source.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        address = str(folder / "index" / "docs.npy")
        build_index(teacher, str(folder / "source.jsonl"), address, on_progress=bars)
        checks = [check_index(student, address, asked, teacher, settings, bars) for asked in (queries, without_gold)]
        shutil.copy(folder / "source.jsonl", folder / "docs.jsonl")
        cases = spoiled(documents.texts[0], np.load(address), teacher, other)
        diagnoses = {case: diagnosis(folder, vectors, teacher) for case, vectors in cases.items()}
    facts: dict[str, Any] = {
        "student": recipe["student"]["model"],
        "teacher": recipe["teacher"]["model"],
        "recipe": recipe["name"],
        "data": queries.name,
        "documents": len(documents.ids),
        "trained_on": recipe["languages"],
        "k": settings.k,
        "settings": {name: getattr(settings, name) for name in ("min_kept_recall", "min_first_found", "min_overlap", "care")},
    }
    for name, result in zip(("gold", "without_gold"), checks, strict=True):
        shown = result.as_dict()
        facts[name] = {key: shown[key] for key in ("languages", "average", "verdict")} | {"teacher": shown["teacher"]["scores"]}
    facts["diagnoses"] = {
        case: {"match": one.match, "cosine": one.cosine, "text": one.text.partition(": ")[2] or one.text, "advice": one.advice}
        for case, one in diagnoses.items()
    }
    write_json(args.out, provenance(recipe["seed"]) | facts)


if __name__ == "__main__":
    main()
