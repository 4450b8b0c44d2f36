"""Augmented SBERT: more STS pairs, made of near sentences of the training set and scored by a cross-encoder.

As in Thakur et al. (2020) and Ham & Kim (2021, §5.1): each sentence of the set is paired with its k nearest sentences by an
encoder's embeddings, except for pairs that are in the set already, and a cross-encoder trained on the set scores them. Random
pairs would nearly all be dissimilar.
"""

import logging
from pathlib import Path

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.corpora.reading.labelled import Labelled
from isogloss.models.encoder import Encoder, weights_key
from isogloss.progress import OnProgress, Step, silent
from isogloss.search.neighbors import neighbors
from isogloss.storage import content_hash, read_json, write_json
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.types import FloatArray

logger = logging.getLogger(__name__)

LABELLING = "labelling"


def near_pairs(
    rated: Labelled, vectors: FloatArray, k: int, device: str = "auto", on_progress: OnProgress = silent
) -> list[tuple[str, str]]:
    """Each sentence of the set with its k nearest others, without rated pairs, each pair once.

    `vectors` has a row for each of `rated.sentences()`. The search is exact.
    """
    sentences = rated.sentences()
    found = neighbors(vectors, vectors, min(k + 1, len(sentences)), SearchSettings(device=device), on_progress)
    known = {frozenset(pair) for pair in zip(rated.first, rated.second, strict=True)}
    pairs: list[tuple[str, str]] = []
    for place, row in enumerate(found.ids.tolist()):
        for other in [one for one in row if one != place][:k]:  # the nearest is usually the sentence itself
            pair = sentences[place], sentences[other]
            if frozenset(pair) not in known:
                known.add(frozenset(pair))
                pairs.append(pair)
    return pairs


def label(
    rated: Labelled,
    encoder: Encoder,
    scorer: CrossEncoder,
    k: int,
    folder: Path,
    device: str = "auto",
    on_progress: OnProgress = silent,
) -> Labelled:
    """The near pairs of a rated set with the cross-encoder's scores, without the set itself.

    They are stored in `folder` under a hash of the set, the encoder and the cross-encoder.
    """
    key = content_hash(rated.hash, encoder.fingerprint, weights_key(scorer.model), str(k), str(scorer.max_tokens))[:16]
    path = folder / f"silver-{key}.json"
    silver = _read(path)
    if silver is not None:
        on_progress(Step(LABELLING, len(silver), len(silver), "pairs", "reused"))
        return silver
    pairs = near_pairs(rated, encoder.encode(rated.sentences(), on_progress, "sentences to compare"), k, device, on_progress)
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    silver = Labelled(first, second, scorer.score(first, second, on_progress, LABELLING))
    write_json(path, {"sentence1": first, "sentence2": second, "score": silver.gold.tolist()})
    return silver


def union(rated: Labelled, silver: Labelled) -> Labelled:
    """The rated pairs and those that the cross-encoder labelled."""
    gold = np.concatenate([rated.gold, silver.gold])
    return Labelled([*rated.first, *silver.first], [*rated.second, *silver.second], gold, rated.left_out)


def _read(path: Path) -> Labelled | None:
    """The stored pairs; None if there are none, or the file is damaged."""
    try:
        found = read_json(path)
        return Labelled(found["sentence1"], found["sentence2"], np.array(found["score"], dtype=np.float32))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        logger.warning("%s is damaged; the pairs are labelled again", path)
        return None
