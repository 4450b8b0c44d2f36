"""More rated pairs than people rated: near sentences of the training set, labelled by a cross-encoder.

Augmented SBERT (Thakur et al. 2020), as Ham & Kim (2021, §5.1) use it: of every sentence of the set the k nearest others
by an encoder's vectors, without pairs that are in the set already, in either order; a cross-encoder trained on the set
says how alike the two are. Random pairs would nearly all be unlike; near ones are where scores differ.
"""

import logging
from pathlib import Path

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.corpora.reading.labelled import Labelled
from isogloss.models.encoder import Encoder, weights_key
from isogloss.progress import OnProgress, Step, silent
from isogloss.search.neighbours import neighbours
from isogloss.storage import content_hash, read_json, write_json
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
    found = neighbours(vectors, vectors, min(k + 1, len(sentences)), SearchSettings(device=device), on_progress)
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
    kept = None if folder is None else folder / f"silver-{key}.json"
    silver = None if kept is None else _read(kept)
    if silver is not None:
        on_progress(Step(LABELLING, len(silver), len(silver), "pairs", "reused"))
        return silver
    pairs = near_pairs(rated, encoder.encode(rated.sentences(), on_progress, "sentences to compare"), k, device, on_progress)
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    silver = Labelled(first, second, scorer.score(first, second, on_progress, LABELLING))
    if kept is not None:
        write_json(kept, {"sentence1": first, "sentence2": second, "score": silver.gold.tolist()})
    return silver


def union(rated: Labelled, silver: Labelled) -> Labelled:
    """What people rated, and what the cross-encoder did."""
    gold = np.concatenate([rated.gold, silver.gold])
    return Labelled([*rated.first, *silver.first], [*rated.second, *silver.second], gold, rated.left_out)


def _read(kept: Path) -> Labelled | None:
    """The pairs that were labelled before; None where they are not there, or damaged."""
    try:
        found = read_json(kept)
        return Labelled(found["sentence1"], found["sentence2"], np.array(found["score"], dtype=np.float32))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        logger.warning("%s is damaged; the pairs are labelled again", kept)
        return None
