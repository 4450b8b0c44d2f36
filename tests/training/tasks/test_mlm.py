"""What is hidden, by BERT's rule; pairs in one sequence, as in XLM; a head that is transformers' own; a loss that falls."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMRobertaModel,
)

from isogloss.errors import ModelError
from isogloss.models.loading import quiet_transformers
from isogloss.models.student import Student
from isogloss.training.batches import PairRows
from isogloss.training.tasks.mlm import (
    Hidden,
    MaskedHead,
    MaskedTask,
    Masking,
    Template,
    token_states,
    with_mask_token,
)
from isogloss.training.tasks.protocol import Task
from isogloss.training.train import TaskSettings, train
from tiny import PAIRS, TEXTS, unigram
from training.by_hand import task_loss

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SHORT = {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
MASKING = Masking(mask_id=4, ordinary=np.arange(5, 60))


def with_mask() -> PreTrainedTokenizerFast:
    tokenizer = unigram(extra=("<mask>",))
    tokenizer.mask_token = "<mask>"
    return tokenizer


def student_of(kind: str, tmp: str, tokenizer: PreTrainedTokenizerFast | None = None) -> Student:
    """A tiny student of a family, with random weights."""
    torch.manual_seed(3)
    tokenizer = tokenizer or with_mask()
    shared = {"vocab_size": len(tokenizer), "max_position_embeddings": 64, "pad_token_id": 1}
    bodies: dict[str, Callable[[], PreTrainedModel]] = {
        "bert": lambda: BertModel(BertConfig(**SIZES, **shared, initializer_range=0.2)),
        "xlm-r": lambda: XLMRobertaModel(XLMRobertaConfig(**SIZES, **shared, initializer_range=0.2)),
        "distilbert": lambda: DistilBertModel(DistilBertConfig(**SHORT, **shared, initializer_range=0.2)),
    }
    with quiet_transformers():
        bodies[kind]().save_pretrained(tmp)
        tokenizer.save_pretrained(tmp)
        model = SentenceTransformer(modules=[Transformer(tmp), Pooling(24, "mean")], device="cpu")
    return Student(model, kind, max_tokens=32)


@pytest.fixture
def student(tmp_path: object) -> Student:
    return student_of("bert", str(tmp_path))


def pair_rows() -> tuple[list[str], PairRows]:
    """The German pairs of the tests, as rows."""
    spoken = [pair for pair in PAIRS if pair.language == "de"]
    texts = [pair.source for pair in spoken] + [pair.target for pair in spoken]
    number = np.arange(len(spoken))
    return texts, PairRows(number, number + len(spoken), 0 * number, 0 * number)


# ── what is hidden ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=40), min_size=1, max_size=8), st.integers(0, 999))
@settings(deadline=None)
def test_so_many_of_each_sequence_and_never_a_special_token(sequences: list[list[int]], seed: int) -> None:
    ids = np.array([token for one in sequences for token in one], dtype=np.int32)
    lengths = np.array([len(one) for one in sequences])
    hidden, chosen = MASKING.hide(ids, lengths, np.random.default_rng(seed))
    assert len(set(chosen.tolist())) == len(chosen) and (np.diff(chosen) > 0).all()
    assert (ids[chosen] >= 5).all(), "special tokens stay"
    untouched = np.ones(len(ids), dtype=bool)
    untouched[chosen] = False
    assert (hidden[untouched] == ids[untouched]).all()
    assert set(hidden[chosen].tolist()) <= {4, *range(5, 60)}
    bounds = [0, *np.cumsum(lengths).tolist()]
    for begin, end in pairwise(bounds):
        ordinary = int((ids[begin:end] >= 5).sum())
        found = int(((chosen >= begin) & (chosen < end)).sum())
        assert found == (max(1, round(0.15 * ordinary)) if ordinary else 0)


def test_eighty_ten_ten_and_every_place_alike() -> None:
    rows, length = 6000, 20
    ids = np.tile(np.concatenate([[0], np.full(length, 30), [2]]), rows).astype(np.int32)
    hidden, chosen = MASKING.hide(ids, np.full(rows, length + 2), np.random.default_rng(0))
    count = len(chosen)
    assert count == 3 * rows
    masked, same = (hidden[chosen] == 4).mean(), (hidden[chosen] == 30).mean()
    swapped = hidden[chosen][(hidden[chosen] != 4) & (hidden[chosen] != 30)]
    assert masked == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / count))
    drawn_alike = 0.1 / len(MASKING.ordinary)  # another token may be the one that stood there
    assert same == pytest.approx(0.1 + drawn_alike, abs=5 * np.sqrt(0.09 / count))
    assert len(swapped) / count == pytest.approx(0.1 - drawn_alike, abs=5 * np.sqrt(0.09 / count))
    assert set(swapped.tolist()) == set(range(5, 60)) - {30}, "any ordinary token may stand in, and no other"
    places = np.bincount(chosen % (length + 2), minlength=length + 2)
    assert places[0] == places[-1] == 0
    expected = count / length
    assert np.abs(places[1:-1] - expected).max() < 5 * np.sqrt(expected)


def test_masks_are_a_function_of_seed_and_batch(student: Student) -> None:
    tokens, head = student.tokenize(TEXTS), MaskedHead(student.body)
    task, other = MaskedTask(student, tokens, head, seed=1), MaskedTask(student, tokens, head, seed=2)

    def shown(one: MaskedTask, chosen: list[int]) -> list[int]:
        return one.prepare(np.array(chosen)).ids.tolist()

    assert shown(task, list(range(40))) == shown(task, list(range(40)))
    assert shown(task, list(range(40))) != shown(other, list(range(40)))
    assert shown(task, list(range(40))) != shown(task, [1, 0, *range(2, 40)]), "another pass has another order"


def test_what_was_hidden_is_wanted(student: Student) -> None:
    task = MaskedTask(student, student.tokenize(TEXTS), MaskedHead(student.body))
    chosen = np.array([5, 0, 9])
    made = task.prepare(chosen)
    by_size = sorted((task.tokens.row(int(row)).tolist() for row in chosen), key=len)
    whole = made.ids.clone()
    whole[made.at] = made.wanted
    assert whole.tolist() == [token for row in by_size for token in row]
    assert made.positions.tolist() == [place for row in by_size for place in range(len(row))]
    special = set(student.tokenizer.all_special_ids)
    assert not special & set(made.wanted.tolist())


# ── two sentences in one sequence ───────────────────────────────────────────────────────────────────────────────────────


def bert_like() -> PreTrainedTokenizerFast:
    """The same pieces with one separator between two sentences."""
    tokenizer = with_mask()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


@pytest.mark.parametrize(("make", "separators"), [(with_mask, 2), (bert_like, 1)])
def test_a_pair_is_what_the_tokenizer_makes_of_two_texts(make: Callable[[], PreTrainedTokenizerFast], separators: int) -> None:
    tokenizer = make()
    template = Template.of(tokenizer)
    for pair in PAIRS[:6]:
        one, other = (np.array(tokenizer(text)["input_ids"], dtype=np.int32) for text in (pair.source, pair.target))
        joined, second = template.join(one, other)
        assert joined.tolist() == tokenizer(pair.source, pair.target)["input_ids"]
        assert joined[second - 1] == 2, "the first sentence ends with a separator"
        assert second == len(one), "which is its own"
        assert len(joined) == len(one) + len(other) - 2 + separators


def test_places_begin_again_and_both_sides_are_hidden(student: Student) -> None:
    texts, rows = pair_rows()
    tokens = student.tokenize(texts)
    task = MaskedTask(student, tokens, MaskedHead(student.body), rows)
    made = task.prepare(np.arange(len(rows)))
    sides = Counter[str]()
    starts = np.cumsum(made.lengths) - made.lengths
    for start, length in zip(starts.tolist(), made.lengths.tolist(), strict=True):
        places = made.positions[start : start + length].tolist()
        second = places.index(0, 1)
        assert places == [*range(second), *range(length - second)]
        for at in made.at.tolist():
            if start <= at < start + length:
                sides["first" if at - start < second else "second"] += 1
    assert min(sides["first"], sides["second"]) > len(rows) / 4
    longest = max(tokens.lengths_of(rows.source).max(), tokens.lengths_of(rows.target).max())
    assert made.positions.max() <= longest, "no place is needed that a single sentence does not have"


def test_a_tokenizer_without_a_separator_is_refused() -> None:
    tokenizer = with_mask()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    with pytest.raises(ModelError, match="no separator"):
        Template.of(tokenizer)


# ── states and head ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["bert", "xlm-r", "distilbert"])
@pytest.mark.parametrize("packs", [True, False])
def test_states_are_those_of_each_sequence_alone(kind: str, packs: bool, tmp_path: object) -> None:
    student = student_of(kind, str(tmp_path))
    texts, rows = pair_rows()
    task = MaskedTask(student, student.tokenize(texts), MaskedHead(student.body), rows)
    made = task.prepare(np.arange(9))
    if packs:
        assert student.packs
    else:
        student.__dict__["packs"] = False
    first = 2 if kind == "xlm-r" else 0  # RoBERTa counts places from behind the padding token's number
    student.body.eval()
    with torch.no_grad():
        found = token_states(student, made)
        alone, start = [], 0
        for length in made.lengths.tolist():
            own = slice(start, start + length)
            places = made.positions[own][None] + first
            alone.append(student.body(input_ids=made.ids[own][None], position_ids=places).last_hidden_state[0])
            start += length
    assert torch.allclose(found, torch.cat(alone)[made.at], atol=1e-5)


def test_many_tokens_go_through_in_several_passes(student: Student, monkeypatch: pytest.MonkeyPatch) -> None:
    task = MaskedTask(student, student.tokenize(TEXTS), MaskedHead(student.body))
    made = task.prepare(np.arange(40))
    student.body.eval()
    with torch.no_grad():
        whole = token_states(student, made)
        monkeypatch.setattr("isogloss.training.tasks.mlm.AT_ONCE", 50)
        assert torch.allclose(token_states(student, made), whole, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "whole"),
    [("bert", BertForMaskedLM), ("xlm-r", XLMRobertaForMaskedLM), ("distilbert", DistilBertForMaskedLM)],
)
def test_the_head_is_the_one_of_transformers_over_the_students_table(
    kind: str, whole: type[PreTrainedModel], tmp_path: object
) -> None:
    student = student_of(kind, str(tmp_path))
    head = MaskedHead(student.body, seed=5)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    with quiet_transformers():
        model = whole(student.body.config).eval()
    model.base_model.load_state_dict(student.body.state_dict(), strict=False)
    named = {name.removeprefix("whole."): value for name, value in head.named_parameters()}
    bias = next(value for name, value in named.items() if len(value) == len(student.table) and value.ndim == 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in named and parameter.shape == named[name].shape:
                parameter.copy_(named[name])
        model.get_output_embeddings().weight = torch.nn.Parameter(student.table.detach().clone())
        model.get_output_embeddings().bias = torch.nn.Parameter(bias.detach().clone())
    ids = torch.from_numpy(student.tokenize(TEXTS[:1]).ids.astype(np.int64))[None]
    student.body.eval()
    with torch.no_grad():
        expected = model(input_ids=ids).logits[0]
        found = head.eval()(student.body(input_ids=ids).last_hidden_state[0])
    assert found.shape == (ids.shape[1], len(student.table))
    assert torch.allclose(found, expected, atol=1e-5)


def test_the_table_is_tied_and_no_parameter_of_the_head(student: Student) -> None:
    head = MaskedHead(student.body)
    assert all(parameter.shape != student.table.shape for parameter in head.parameters())
    states = torch.randn(3, 24)
    student.table.requires_grad_(True)
    head(states).square().sum().backward()
    assert student.table.grad is not None
    assert torch.equal(student.table.grad.abs().sum(1) > 0, torch.arange(len(student.table)) != 1), "the row of padding is zero"
    student.table.grad = None
    before = head(states).detach()
    with torch.no_grad():
        student.table.mul_(2)
    assert not torch.allclose(head(states), before)


def test_the_same_seed_makes_the_same_head_and_leaves_the_others_numbers_alone(student: Student) -> None:
    torch.manual_seed(0)
    one, other, third = MaskedHead(student.body, 1), MaskedHead(student.body, 1), MaskedHead(student.body, 2)
    after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(3))
    states = torch.randn(2, 24)
    assert torch.equal(one(states), other(states)) and not torch.equal(one(states), third(states))


def test_a_student_without_a_mask_token_gets_one(tmp_path: object) -> None:
    student = student_of("bert", str(tmp_path), unigram())
    before, vectors = student.table.detach().clone(), student.encode(TEXTS[:5])
    with_mask_token(student)
    assert student.tokenizer.mask_token_id == len(before) and len(student.table) == len(before) + 1
    assert torch.equal(student.table[:-1], before) and torch.allclose(student.table[-1], before.mean(0))
    assert np.allclose(student.encode(TEXTS[:5]), vectors, atol=1e-6)
    table = student.table
    assert with_mask_token(student).table is table, "once"
    assert Masking.of(student.tokenizer).mask_id == len(before)
    assert len(before) not in Masking.of(student.tokenizer).ordinary


# ── learning ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["mlm", "tlm", "both"])
def test_the_loss_falls(kind: str, student: Student) -> None:
    texts, rows = pair_rows()
    tokens, head = student.tokenize(texts), MaskedHead(student.body)
    text, pairs = MaskedTask(student, tokens, head), MaskedTask(student, tokens, head, rows)
    named: dict[str, list[Task]] = {"mlm": [text], "tlm": [pairs], "both": [text, pairs]}
    tasks = named[kind]
    told = np.arange(len(rows))

    def costs() -> list[float]:
        student.model.eval()
        head.eval()
        with torch.no_grad():
            return [float(task_loss(student, task, told)) for task in tasks]

    before = costs()
    train(student, tasks, TaskSettings(steps=60, batch_pairs=16, learning_rate=3e-3, dropout=False))
    for old, new in zip(before, costs(), strict=True):
        assert new < 0.7 * old


def test_tokens_are_counted_with_and_without_filling(student: Student) -> None:
    task = MaskedTask(student, student.tokenize(TEXTS), MaskedHead(student.body))
    made = task.prepare(np.arange(10))
    assert task.count(made).tokens == task.count(made).computed == int(made.lengths.sum())
    student.__dict__["packs"] = False
    assert task.count(made).computed == 10 * int(made.lengths.max())
    empty = Hidden(made.ids, made.lengths, made.positions, made.at[:0], made.wanted[:0])
    assert task.loss(empty).item() == 0
