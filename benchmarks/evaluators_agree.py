"""The same vectors of real test sets, judged by us and by others: sentence-transformers' evaluators, and LASER's xSIM.

    python benchmarks/evaluators_agree.py --data ../shared/data/eval --laser LASER/source

`--laser` names the folder with LASER's own xsim.py (it needs faiss); without it that part is left out. The largest
differences go to benchmarks/results/evaluators_agree.json. Their similarities are of single precision: pairs closer than that
are ranked in another order, and the same sentence twice is now 1 and now 0.9999999, where it is a tie here. So correlations are
compared twice, with our similarities and with theirs; the second leaves nothing but the correlation to differ.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from provenance import provenance

from isogloss.evaluation.data.test_sets import RatedPairs, open_data
from isogloss.evaluation.metrics import pearson, spearman
from isogloss.evaluation.space import Space
from isogloss.evaluation.suites import open_suite
from isogloss.evaluation.tasks.task import Task
from isogloss.models.cached_encoder import embed
from isogloss.models.encoders.open import open_encoder

RESULTS = Path(__file__).with_name("results")
SUITE = "sts2017,stsb,korsts,tatoeba:deu+jpn+kat+swh+tat+tgl"
LIMIT = 1e-6
SINGLE = "similarities of single precision"


class Known:
    """As much of a SentenceTransformer as its evaluators use, answering with vectors that are known already."""

    similarity_fn_name = "cosine"

    def __init__(self, space: Space) -> None:
        self.space = space
        self.model_card_data = type("Card", (), {"set_evaluation_metrics": lambda *_: None})()

    def encode(self, sentences: Sequence[str], convert_to_numpy: bool = True, **_: object) -> Any:  # noqa: ANN401
        """The vectors of `sentences`, as an array or as a list of tensors."""
        vectors = self.space.of(list(sentences), "")
        return vectors if convert_to_numpy else list(torch.from_numpy(vectors))


def sts(task: Task, space: Space) -> dict[str, dict[str, float]]:
    """Our correlations minus those of EmbeddingSimilarityEvaluator: with our similarities, and with theirs."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.util import pairwise_cos_sim, pairwise_dot_score, pairwise_euclidean_sim

    single = {"cosine": pairwise_cos_sim, "dot": pairwise_dot_score, "euclidean": pairwise_euclidean_sim}
    found = {}
    for pairs, ours in zip(task.sets, task.measure(space), strict=True):
        assert isinstance(pairs, RatedPairs)
        judge = EmbeddingSimilarityEvaluator(
            *pairs.texts, pairs.gold.tolist(), similarity_fn_names=list(single), write_csv=False
        )
        theirs, gaps = judge(Known(space)), {}
        for name, similarity in single.items():
            values = similarity(*space.columns(pairs)).numpy()
            for kind, correlation in (("Spearman", spearman), ("Pearson", pearson)):
                told = float(theirs[f"{kind.lower()}_{name}"])
                gaps[f"{kind} of {name}"] = ours.others[f"{kind} of {name}"] - told
                gaps[f"{kind} of {name}, {SINGLE}"] = correlation(values, pairs.gold) - told
        found[f"{pairs.set} {pairs.subset}"] = gaps
    return found


def tatoeba(task: Task, space: Space, laser: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401 - LASER's module
    """Our accuracies minus those of TranslationEvaluator, and our xsim minus LASER's own."""
    from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator

    found = {}
    for pairs, measured in zip(task.sets, task.measure(space), strict=False):
        theirs = TranslationEvaluator(pairs.texts[1], pairs.texts[0], write_csv=False)(Known(space))
        gaps = {
            "en → xx": measured.others["en → xx"] - theirs["src2trg_accuracy"],
            "xx → en": measured.others["xx → en"] - theirs["trg2src_accuracy"],
        }
        if laser is not None:
            foreign, english = space.columns(pairs)
            for name, sides in (("xsim xx → en", (foreign, english)), ("xsim en → xx", (english, foreign))):
                wrong, rows = laser.xSIM(sides[0].copy(), sides[1].copy(), "ratio", 4)[:2]
                gaps[name] = measured.others[name] - float(wrong) / float(rows)
        found[f"{pairs.set} {pairs.subset}"] = gaps
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data/eval")
    parser.add_argument("--model", default="multilingual-e5-small")
    parser.add_argument("--laser", default="")
    parser.add_argument("--cache", type=Path, default=None, help="where vectors are kept, rounded to fp16 for all judges")
    asked = parser.parse_args()
    laser = None
    if asked.laser:
        sys.path.insert(0, asked.laser)
        laser = importlib.import_module("xsim")
    suite = open_suite(SUITE, open_data(asked.data))
    texts = list(dict.fromkeys(text for _, some in suite.texts() for text in some))
    space = Space({text: row for row, text in enumerate(texts)}, embed(open_encoder(asked.model), texts, asked.cache))
    found: dict[str, dict[str, float]] = {}
    for task in suite.tasks:
        rated = isinstance(task.sets[0], RatedPairs)
        found |= sts(task, space) if rated else tatoeba(task, space, laser)
    told: dict[str, Any] = {"model": asked.model, "sentences": len(texts), "limit": LIMIT, "lasers_xsim": laser is not None}
    for title, wanted in (("from our similarities", False), ("from their similarities", True)):
        gaps = [abs(gap) for own in found.values() for name, gap in own.items() if name.endswith(SINGLE) == wanted]
        told[title] = {"compared": len(gaps), "within_limit": sum(gap <= LIMIT for gap in gaps), "largest": max(gaps)}
    told |= {"differences": found, "provenance": provenance(0)}
    (RESULTS / "evaluators_agree.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({key: told[key] for key in told if key.startswith("from")}))


if __name__ == "__main__":
    main()
