"""Natural-language inference with a siamese encoder: the relation of two sentences, classified from their vectors.

    o = softmax( W · (u, v, |u − v|) )          L = − 1/|B| · Σ_j log o_j[y_j]          (Reimers & Gurevych 2019, §3)

u and v are the vectors of premise and hypothesis, W is 3 × 3n for vectors of length n, y is entailment, neutral or
contradiction. W is a `Classifier`, trained beside the encoder and discarded afterwards. It is the first stage of SBERT and of
Ham & Kim's monolingual model; `sts` is the second one.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from isogloss.losses.batch import pair_weights, real_rows, weighted_mean

CLASSES = 3


class Classifier(nn.Linear):
    """W: from (u, v, |u − v|) to a score for each class. There is no bias in the formula, and none here."""

    def __init__(self, dimension: int, seed: int, classes: int = CLASSES) -> None:
        """The same `seed` gives the same weights, whatever else draws random numbers."""
        super().__init__(3 * dimension, classes, bias=False)
        bound = (3 * dimension) ** -0.5  # what nn.Linear starts from
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))


def nli(u: Tensor, v: Tensor, labels: Tensor, classifier: Callable[[Tensor], Tensor], weight: Tensor | None = None) -> Tensor:
    """The mean cross-entropy; row j of `u`, `v`, `labels` and `weight` (0 for padding) belongs to pair j."""
    weight = pair_weights(u, weight)
    u, v = real_rows(u, weight), real_rows(v, weight)
    with torch.autocast(u.device.type, enabled=False):
        logits = classifier(torch.cat([u, v, (u - v).abs()], dim=1))
        return weighted_mean(functional.cross_entropy(logits, labels, reduction="none"), weight)
