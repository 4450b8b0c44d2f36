"""More rated pairs than people rated: near sentences of the training set, labelled by a cross-encoder.

Augmented SBERT (Thakur et al. 2020), as Ham & Kim (2021, §5.1) use it: of every sentence of the set the k nearest others
by an encoder's vectors, without pairs that are in the set already, in either order; a cross-encoder trained on the set
says how alike the two are. Random pairs would nearly all be unlike; near ones are where scores differ.
"""

import json
import logging
from pathlib import Path

import numpy as np

from isogloss.corpora.labelled import Labelled
from isogloss.encode.encoder import Encoder, weights_key
from isogloss.mining.neighbours import SearchSettings, one_way
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash, write_text
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.types import FloatArray

logger = logging.getLogger(__name__)

LABELLING = "labelling"


def near_pairs(
    rated: Labelled, vectors: FloatArray, k: int, device: str = "auto", on_progress: OnProgress = silent
) -> list[tuple[str, str]]:
    """Each sentence of the set with its k nearest others, without what is rated already, each pair once.

    `vectors` has a row for each of `rated.sentences()`. The search is exact.
    """
    sentences = rated.sentences()
    found = one_way(vectors, vectors, min(k + 1, len(sentences)), SearchSettings(device=device), on_progress)
    known = {frozenset(pair) for pair in zip(rated.first, rated.second, strict=True)}
    pairs: list[tuple[str, str]] = []
    for place, row in enumerate(found.ids.tolist()):
        for other in [one for one in row if one != place][:k]:  # most often the nearest is the sentence itself
            pair = sentences[place], sentences[other]
            if frozenset(pair) not in known:
                known.add(frozenset(pair))
                pairs.append(pair)
    return pairs


def label(
    rated: Labelled,
    encoder: Encoder,
    scorer: CrossEncoder,
    k: int = 10,
    folder: Path | None = None,
    device: str = "auto",
    on_progress: OnProgress = silent,
) -> Labelled:
    """The near pairs of a rated set with the cross-encoder's scores, without the set itself.

    With `folder`, they are kept there under a name made from the set, the encoder and the scorer.
    """
    key = content_hash(rated.hash, encoder.fingerprint, weights_key(scorer.model), str(k), str(scorer.max_tokens))[:16]
    kept = None if folder is None else folder / f"silver-{key}.jsonl"
    silver = None if kept is None or not kept.is_file() else _read(kept)
    if silver is not None:
        on_progress(Step(LABELLING, len(silver), len(silver), "pairs", "reused"))
        return silver
    pairs = near_pairs(rated, encoder.encode(rated.sentences(), on_progress, "sentences to compare"), k, device, on_progress)
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    silver = Labelled(first, second, scorer.score(first, second, on_progress, LABELLING))
    if kept is not None:
        rows = zip(first, second, silver.gold.tolist(), strict=True)
        lines = [{"sentence1": one, "sentence2": other, "score": score} for one, other, score in rows]
        write_text(kept, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return silver


def union(rated: Labelled, silver: Labelled) -> Labelled:
    """What people rated, and what the cross-encoder did."""
    gold = np.concatenate([rated.gold, silver.gold])
    return Labelled([*rated.first, *silver.first], [*rated.second, *silver.second], gold, rated.left_out)


def _read(kept: Path) -> Labelled | None:
    """What was labelled before; None if it cannot be read."""
    try:
        rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").split("\n") if line]
        scores = np.array([float(row["score"]) for row in rows], dtype=np.float32)
        return Labelled([str(row["sentence1"]) for row in rows], [str(row["sentence2"]) for row in rows], scores)
    except (ValueError, KeyError, TypeError, RecursionError):
        logger.warning("%s is damaged; the pairs are labelled again", kept)
        return None
