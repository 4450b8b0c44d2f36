"""Cut embeddings to their first coordinates, inside the model, so that nothing computes or stores the others.

    v' = v[:k], brought to length 1 again if the model does that

Prefixes are useful if the model was trained for them (Matryoshka, `losses.dimensions`). An index of the teacher's vectors has
to be cut in the same way: a prefix is compared with prefixes.
"""

import torch
from torch import Tensor, nn

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.static import StaticStudent
from isogloss.models.student import Student


def cut_embeddings(student: Student, dimension: int) -> None:
    """Keep the first `dimension` coordinates of the embeddings, in place.

    The last linear layer loses its other rows; a token table that has none after it, its other columns; any other model gets a
    layer that picks the first coordinates.
    """
    whole = student.dimension
    if not 0 < dimension <= whole:
        raise ModelError(
            f"embeddings of {amount(whole, 'dimension')} cannot be cut to {dimension}", hint=f"choose sizes from 1 to {whole}"
        )
    if dimension == whole:
        return
    modules = list(student.model)
    end = len(modules)
    while type(modules[end - 1]).__name__ == "Normalize":
        end -= 1
    last = modules[end - 1]
    if isinstance(student, StaticStudent) and end == 1:
        student.cut_columns(dimension)
    elif type(last).__name__ == "Dense" and isinstance(last.activation_function, nn.Identity):
        bias = last.linear.bias
        student.model[end - 1] = _dense(last.linear.weight[:dimension], None if bias is None else bias[:dimension])
    else:
        student.model.insert(end, _dense(torch.eye(whole)[:dimension], None))
    student.model.eval()


def _dense(weight: Tensor, bias: Tensor | None) -> nn.Module:
    from sentence_transformers.sentence_transformer.modules import Dense

    height, width = weight.shape
    copies = [None if part is None else part.detach().clone() for part in (weight, bias)]
    dense: nn.Module = Dense(width, height, bias is not None, nn.Identity(), init_weight=copies[0], init_bias=copies[1])
    return dense
