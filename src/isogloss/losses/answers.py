"""Question-answer ranking: of all answers in the batch, a question should be nearest to its own.

    L = −1/|B| · Σ_i log( exp(cos(q_i, h(a_i))/T) / (exp(cos(q_i, h(a_i))/T) + Σ_j exp(cos(q_i, h(a_j))/T)) )

                                                                                        over a_j that do not answer q_i

The input-response task of mUSE (Chidambaram et al. 2019; Yang et al. 2020): questions and answers go through the same encoder,
answers then through a feed-forward head h, since an answer is no paraphrase of its question. Vectors passed here have gone
through h, which is not exported. Only questions search; in `ranking` each side finds the other.
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

    The groups number the texts of each side: equal numbers are the same text. No answer that some pair of the batch gives to
    the same question counts as wrong. `weight` is 0 for padding.
    """
    weight = pair_weights(question, weight)
    question, answer = real_rows(question, weight), real_rows(answer, weight)
    cosine = cosines(question, answer)
    same_question = (question_group[:, None] == question_group).to(weight.dtype) * (weight > 0)
    given = same_question @ (answer_group[:, None] == answer_group).to(weight.dtype) > 0
    right = (cosine.diagonal() / temperature)[:, None]
    wrong = (cosine / temperature).masked_fill(given, UNSEEN) + seen(weight)
    cost = torch.cat([right, wrong], 1).logsumexp(1) - right[:, 0]
    return weighted_mean(cost, weight)
