"""An ONNX graph of a whole model: token ids in, the embedding of each sentence out.

    input_ids, attention_mask  →  last_hidden_state, sentence_embedding            (batch × tokens  →  … and batch × dimension)

Pooling, Dense layers (the bridge) and normalization are inside. The outputs stand in the order that readers expect: the tokens'
first, under the name that optimum looks for, then the sentence's, which text-embeddings-inference looks for by name and
fastembed by place. There is no `token_type_ids`: it is 0 for single sentences, and no reader needs it as an input.

The graph has standard operators only. Attention is written as plain products, without what torch's own kernels add for cases
that cannot occur here.
"""

import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from isogloss.errors import IsoglossError, ModelError, optional_package
from isogloss.models.loading import position_count
from isogloss.models.student import Student
from isogloss.storage import make_folder, remove

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INPUTS = ("input_ids", "attention_mask")
TOKENS, SENTENCE = "last_hidden_state", "sentence_embedding"
OPSET = 18
ATTENTION = "isogloss_onnx"
MASKED = -65504.0  # added to the scores of padding: the lowest number in half precision
LARGEST_FILE = 2**31 - 2**24  # bytes of weights in one file; a protocol buffer ends at 2 GiB, and nodes need some of that
INLINE = 1024  # bytes: weights with fewer stay in the graph
KNOWN = "Transformer, StaticEmbedding, WordEmbeddings, LSTM, Pooling, Dense, Normalize, LayerNorm and Dropout"


def write_graph(student: Student, path: Path) -> None:
    """Write the model as a graph in single precision."""
    save_graph(graph_of(student), path)


def graph_of(student: Student) -> Any:  # noqa: ANN401 - an onnx.ModelProto
    """The model as a graph in single precision."""
    _package("onnx"), _package("onnxscript")
    _refuse_unknown(student)
    whole = _Whole(student).eval()
    ids = torch.full((2, 5), student.text_tokenizer.pad_id)
    ids[:, :3] = 1 if ids[0, 0] != 1 else 2
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    axes = {0: torch.export.Dim("batch"), 1: _token_axis(student)}
    try:
        with torch.no_grad(), _exportable(student), _quiet():
            program = torch.onnx.export(
                whole,
                (ids, mask),
                input_names=list(INPUTS),
                output_names=[TOKENS, SENTENCE],
                dynamic_shapes=dict.fromkeys(INPUTS, axes),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # torch has many classes of errors
        reason = (str(error).strip() or type(error).__name__).split("\n")[0][:160]
        message = f"{student.name}: torch cannot export this model to ONNX ({reason})"
        raise ModelError(message, hint="evaluate and serve it as it is, or start from another kind of encoder") from error
    assert program is not None, "with dynamo, torch returns the program"
    proto: Any = program.model_proto
    _simplify(proto)
    return proto


def save_graph(proto: Any, path: Path) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Write a graph to one file; if its weights are beyond `LARGEST_FILE`, they go to another one, `weights_file(path)`.

    onnx takes the weights out of `proto` as it writes them there.
    """
    onnx, beside = _package("onnx"), weights_file(path)
    make_folder(path.parent)
    remove(beside)  # onnx would append to it
    if sum(len(one.raw_data) for one in proto.graph.initializer) < LARGEST_FILE:
        onnx.save(proto, str(path))
    else:
        onnx.save(proto, str(path), save_as_external_data=True, location=beside.name, size_threshold=INLINE)


def weights_file(path: Path) -> Path:
    """The file beside a graph that has its weights if they are too large for one file, named as optimum looks for it."""
    return path.with_name(f"{path.name}_data")


def load_graph(path: Path) -> Any:  # noqa: ANN401 - an onnx.ModelProto
    """A graph with its weights."""
    return _package("onnx").load(str(path))


def _package(name: str) -> Any:  # noqa: ANN401 - an untyped module
    return optional_package(name, IsoglossError(f"{name} is not installed here", hint='pip install "isogloss[export]"'))


class _Whole(nn.Module):
    """All modules of a model, with tensors in and out."""

    def __init__(self, student: Student) -> None:
        super().__init__()
        self.parts = nn.ModuleList(_exported(module) for module in student.model)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        for part in self.parts:
            features = part(features)
        return features["token_embeddings"], features[SENTENCE]


class _Table(nn.Module):
    """A StaticEmbedding over a padded batch: the mean of the rows of its tokens, zero without tokens."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - a StaticEmbedding
        super().__init__()
        self.table = module.embedding.weight

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows = torch.nn.functional.embedding(features["input_ids"], self.table)
        mask = features["attention_mask"][..., None].to(rows.dtype)
        mean = (rows * mask).sum(1) / mask.sum(1).clamp(min=1)
        return features | {"token_embeddings": rows, SENTENCE: mean}


class _Lstm(nn.Module):
    """The layers of an LSTM as ONNX's own operator, which takes the length of each sentence."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - sentence-transformers' LSTM
        super().__init__()
        self.encoder: nn.LSTM = module.encoder

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        states: Tensor = features["token_embeddings"].transpose(0, 1)
        lengths = features["attention_mask"].sum(1).clamp(min=1).to(torch.int32)
        directions = 2 if self.encoder.bidirectional else 1
        kind: dict[str, Any] = {
            "hidden_size": self.encoder.hidden_size,
            "direction": "bidirectional" if directions == 2 else "forward",
        }
        for layer in range(self.encoder.num_layers):
            weight, recurrent, bias = self._weights(layer, directions)
            shape = [states.shape[0], directions, states.shape[1], self.encoder.hidden_size]
            inputs = (states, weight, recurrent, bias, lengths)
            found = torch.onnx.ops.symbolic("LSTM", inputs, kind, dtype=states.dtype, shape=shape, version=14)
            states = found.transpose(1, 2).flatten(2)
        return features | {"token_embeddings": states.transpose(0, 1)}

    def _weights(self, layer: int, directions: int) -> tuple[Tensor, Tensor, Tensor]:
        """W, R and B in ONNX's order of gates (input, output, forget, cell); torch's is input, forget, cell, output."""

        def ordered(name: str, ending: str) -> Tensor:
            part: Tensor = getattr(self.encoder, f"{name}_l{layer}{ending}")
            gates = part.chunk(4)
            return torch.cat([gates[0], gates[3], gates[1], gates[2]])

        endings = ("", "_reverse")[:directions]
        weight, recurrent = (torch.stack([ordered(name, end) for end in endings]) for name in ("weight_ih", "weight_hh"))
        bias = torch.stack([torch.cat([ordered("bias_ih", end), ordered("bias_hh", end)]) for end in endings])
        return weight, recurrent, bias


class _Body(nn.Module):
    """A transformer, without the pooler that nothing here reads."""

    def __init__(self, body: "PreTrainedModel") -> None:
        super().__init__()
        self.body = body

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        states = self.body(input_ids=features["input_ids"], attention_mask=features["attention_mask"]).last_hidden_state
        return features | {"token_embeddings": states}


def _exported(module: nn.Module) -> nn.Module:
    """A module in the form that is exported."""
    body = getattr(module, "auto_model", None)
    if body is not None:
        return _Body(body)
    forms: dict[str, Any] = {"StaticEmbedding": _Table, "LSTM": _Lstm}
    form = forms.get(type(module).__name__)
    return module if form is None else form(module)


def _refuse_unknown(student: Student) -> None:
    known = {name.strip(" ,") for name in KNOWN.replace(" and ", ", ").split(",")}
    for module in student.model:
        kind = type(module).__name__
        if kind not in known:
            raise ModelError(f"{student.name}: a {kind} module cannot be exported to ONNX", hint=f"supported are {KNOWN}")
        if kind == "Pooling" and not module.include_prompt and any(student.model.prompts.values()):
            message = (
                f"{student.name}: its pooling leaves out the tokens of the prompt, whose number an ONNX graph is not given"
            )
            raise ModelError(message, hint="train it with include_prompt = true, or without a prompt")


def _token_axis(student: Student) -> Any:  # noqa: ANN401 - torch's class of dimensions is private
    """The axis of tokens, up to the number of positions of a transformer."""
    body = getattr(student.model[0], "auto_model", None)
    longest = None if body is None else position_count(body)
    return torch.export.Dim("tokens", max=longest) if longest else torch.export.Dim("tokens")


def plain_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_others: Any,  # noqa: ANN401 - anything else that a model passes to its attention
) -> tuple[Tensor, None]:
    """Attention over batch × heads × tokens × width as products and a softmax, for transformers' AttentionInterface."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scale) @ key.transpose(2, 3)
    if attention_mask is not None:
        scores = scores + attention_mask
    return (scores.softmax(-1) @ value).transpose(1, 2), None


def plain_mask(**given: Any) -> Tensor:  # noqa: ANN401 - what transformers passes to a mask function
    """What is added to the scores: 0, or a number so low that softmax makes it 0."""
    from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

    tokens: Tensor | None = given.get("attention_mask")
    if given["mask_function"] is bidirectional_mask_function and tokens is not None:
        seen = tokens[:, None, None, :] != 0
    else:
        found = sdpa_mask(**given | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
        assert found is not None, "it is not skipped"
        seen = found
    return torch.where(seen, 0.0, MASKED)


@contextmanager
def _exportable(student: Student) -> Iterator[None]:
    """The model in evaluation mode, with plain attention and without a pooler."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(ATTENTION, plain_attention)
    AttentionMaskInterface.register(ATTENTION, plain_mask)
    model = student.model
    body: Any = getattr(model[0], "auto_model", None)
    was_training = model.training
    model.eval()
    config = getattr(body, "config", None)
    before = getattr(config, "_attn_implementation", None)
    pooler = getattr(body, "pooler", None)
    if config is not None and before in ("sdpa", "eager"):
        config._attn_implementation = ATTENTION
    if pooler is not None:
        body.pooler = None
    try:
        yield
    finally:
        model.train(was_training)
        if config is not None:
            config._attn_implementation = before
        if pooler is not None:
            body.pooler = pooler


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings and log lines about its own parts."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _simplify(proto: Any) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Remove what describes the exporter's work on this machine, and write GELU as onnxruntime recognizes it."""
    for node in [*proto.graph.node, *proto.graph.input, *proto.graph.output, *proto.graph.initializer, *proto.graph.value_info]:
        del node.metadata_props[:]
        node.doc_string = ""
    del proto.graph.metadata_props[:], proto.metadata_props[:]
    proto.producer_name, proto.producer_version, proto.doc_string = "isogloss", "", ""
    _reorder_gelu(proto)


def _reorder_gelu(proto: Any) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Write GELU so that runtimes replace it with one operation.

    x · (½ · (1 + erf(x/√2)))  →  ½ · (x · (1 + erf(x/√2)))
    """
    import onnx

    made_by = {name: node for node in proto.graph.node for name in node.output}
    readers = Counter(name for node in proto.graph.node for name in node.input)
    constants = {one.name: one for one in proto.graph.initializer}
    for last in (node for node in proto.graph.node if node.op_type == "Mul"):
        for place, name in enumerate(last.input):
            half = made_by.get(name)
            if half is None or half.op_type != "Mul" or readers[name] > 1:
                continue
            factors = [one for one in half.input if one in constants and onnx.numpy_helper.to_array(constants[one]).size == 1]
            others = [one for one in half.input if one not in factors]
            if len(factors) == len(others) == 1 and _is_one_plus_erf(made_by, others[0]):
                value = last.input[1 - place]
                half.input[:], last.input[:] = [value, others[0]], [name, factors[0]]
                break


def _is_one_plus_erf(made_by: dict[str, Any], name: str) -> bool:
    added = made_by.get(name)
    return (
        added is not None
        and added.op_type == "Add"
        and any(made_by[one].op_type == "Erf" for one in added.input if one in made_by)
    )
