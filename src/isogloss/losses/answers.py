"""Question-answer ranking: of all answers in the batch, a question should be nearest to its own.

    L = −1/|B| · Σ_i log( exp(cos(q_i, h(a_i))/T) / (exp(cos(q_i, h(a_i))/T) + Σ_j exp(cos(q_i, h(a_j))/T)) )

                                                                                        over a_j that do not answer q_i

The input-response task of mUSE (Chidambaram et al. 2019; Yang et al. 2020): questions and answers go through the same encoder,
answers then through a feed-forward head h of their own, since an answer is not a paraphrase of its question and must not be
pulled to its place. The head (`training/tasks/rank.py`) is left behind after training. Vectors come here with h applied.

One direction alone, as in the papers: a question asks for its answer. Compare `ranking`, where both sides say the same and
each finds the other.
"""

import torch
from torch import Tensor

from isogloss.losses.batch import UNSEEN, cosines, pair_weights, real_rows, seen, weighted_mean


def answers(
    question: Tensor,
    answer: Tensor,
    question_group: Tensor,
    answer_group: Tensor,
    weight: Tensor | None = None,
    temperature: float = 0.05,
) -> Tensor:
    """Cross-entropy of finding the answer to each question; row j of each argument belongs to pair j.

    The groups number the texts of each side: equal numbers are the same text. An answer that some pair of the batch gives to
    the same question is no wrong one. `weight` is 0 for padding, which says nothing about what answers what.
    """
    weight = pair_weights(question, weight)
    question, answer = real_rows(question, weight), real_rows(answer, weight)
    cosine = cosines(question, answer)
    same_question = (question_group[:, None] == question_group).to(weight.dtype) * (weight > 0)
    given = same_question @ (answer_group[:, None] == answer_group).to(weight.dtype) > 0
    right = (cosine.diagonal() / temperature)[:, None]
    wrong = (cosine / temperature).masked_fill(given, UNSEEN) + seen(weight)
    surprise = torch.cat([right, wrong], 1).logsumexp(1) - right[:, 0]
    return weighted_mean(surprise, weight)
