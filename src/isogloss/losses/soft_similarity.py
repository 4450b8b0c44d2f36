"""Match the teacher's similarities between the sentences of a batch, across languages.

    p_ij = softmax_j( cos(M(s_i), M(s_j)) / T′ )                the teacher, source × source
    q_ij = softmax_j( cos(M̂(t_i), M̂(s_j)) / T )                 the student, target × source
    r_ij = softmax_j( cos(M̂(s_i), M̂(t_j)) / T )                 and source × target

    L = 1/|B| · Σ_i ½ [ KL(p_i ‖ q_i) + KL(p_i ‖ r_i) ]

The soft contrastive loss of Park et al. (2024, "Improving Multi-lingual Alignment Through Soft Contrastive Learning",
arXiv 2405.16155), as a divergence: it differs from their cross-entropy by the teacher's entropy, which has no gradient, so it
is 0 for a student that agrees. Theirs is the sum of both directions; this is the mean.

Unlike in `ranking`, pairs that share a source stay candidates of each other: the teacher gives each of them the same share.
Compare `mse`, which wants the same points, and `ranking`, for which all other sentences are equally wrong.
"""

from torch import Tensor

from isogloss.losses.batch import cosines, pair_weights, real_rows, seen, weighted_mean


def soft_similarity(
    source: Tensor,
    target: Tensor,
    teacher: Tensor,
    weight: Tensor | None = None,
    temperature: float = 0.1,
    teacher_temperature: float | None = None,
) -> Tensor:
    """Mean divergence of the student's two cross-lingual similarity distributions from the teacher's.

    `teacher_temperature` is T′; without it, T′ = T, and a student with the teacher's cosines has no loss. Lower is sharper.
    """
    weight = pair_weights(source, weight)
    source, target, teacher = (real_rows(vectors, weight) for vectors in (source, target, teacher.detach()))
    candidates = seen(weight)
    wanted = (cosines(teacher, teacher) / (teacher_temperature or temperature) + candidates).log_softmax(-1)
    logits = cosines(target, source) / temperature
    from_target = (logits + candidates).log_softmax(-1)
    from_source = (logits.T + candidates).log_softmax(-1)
    divergence = (wanted.exp() * (wanted - (from_target + from_source) / 2)).sum(-1)
    return weighted_mean(divergence, weight)
