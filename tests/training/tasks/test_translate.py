"""The decoder against loops from its equations, the task against sentence by sentence, the examples against the rules."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pad_packed_sequence

from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.vocabulary.learn import learn_vocabulary
from isogloss.training.batches import PairRows
from isogloss.training.dev_set import DevScore
from isogloss.training.selection import Selection
from isogloss.training.tasks.translate import (
    PIVOT,
    SECOND,
    Decoder,
    DecoderSizes,
    Examples,
    Translation,
    TranslationDev,
    TranslationScore,
    examples_of,
)
from isogloss.training.train import TaskSettings, train
from tiny import PAIRS, TEXTS

SIZES = DecoderSizes(embedding=4, hidden=5, layers=2, language=3, dropout=0.0)


def made(smoothing: float = 0.0, dropout: float = 0.0) -> Translation:
    """English to German and back, over the tiny pairs."""
    student = bilstm_student(
        learn_vocabulary(lambda: [TEXTS], 150), EncoderSizes(embedding=6, hidden=4, layers=1, dropout=0.0), max_tokens=32
    )
    german = [pair for pair in PAIRS if pair.language == "de"]
    tokens = student.tokenize([text for pair in german for text in (pair.source, pair.target)])
    count = len(german)
    source = np.concatenate([2 * np.arange(count), 2 * np.arange(count) + 1])
    examples = Examples(source, source ^ 1, np.repeat([SECOND, PIVOT], count))
    sizes = DecoderSizes(embedding=4, hidden=16, layers=1, language=3, dropout=dropout)
    decoder = Decoder(len(student.table), student.dimension, 2, 0, sizes)
    return Translation(student, decoder, tokens, examples, end=1, smoothing=smoothing)


def states_by_definition(decoder: Decoder, vector: Tensor, before: list[int], language: int) -> list[Tensor]:
    """Word by word, layer by layer; the vector and the language are told at every step."""
    weights = dict(decoder.lstm.named_parameters())
    start = decoder.start.weight @ vector + decoder.start.bias
    hidden, layers = SIZES.hidden, SIZES.layers
    h = [start[layer * hidden : (layer + 1) * hidden] for layer in range(layers)]
    c = [start[(layers + layer) * hidden : (layers + layer + 1) * hidden] for layer in range(layers)]
    states = []
    for word in before:
        x = torch.cat([decoder.embedding.weight[word], vector, decoder.language.weight[language]])
        for layer in range(layers):
            bias = weights[f"bias_ih_l{layer}"] + weights[f"bias_hh_l{layer}"]
            gates = weights[f"weight_ih_l{layer}"] @ x + weights[f"weight_hh_l{layer}"] @ h[layer] + bias
            i, f, g, o = gates.chunk(4)
            c[layer] = f.sigmoid() * c[layer] + i.sigmoid() * g.tanh()
            x = h[layer] = o.sigmoid() * c[layer].tanh()
        states.append(x)
    return states


def test_the_decoder_equals_its_equations() -> None:
    decoder = Decoder(rows=9, dimension=6, languages=2, padding=0, sizes=SIZES)
    vectors = torch.randn(3, 6, generator=torch.Generator().manual_seed(4), requires_grad=True)
    before = torch.tensor([[1, 4, 0, 0], [1, 2, 3, 8], [1, 0, 0, 0]])
    lengths, language = torch.tensor([2, 4, 1]), torch.tensor([1, 0, 1])
    found, counts = pad_packed_sequence(decoder(vectors, before, lengths, language), batch_first=True)
    assert counts.tolist() == [2, 4, 1]
    for row in range(3):
        words = before[row, : lengths[row]].tolist()
        wanted = torch.stack(states_by_definition(decoder, vectors[row], words, int(language[row])))
        assert torch.allclose(found[row, : lengths[row]], wanted, atol=1e-6)
        slope, right = (torch.autograd.grad(some.sum(), vectors, retain_graph=True)[0][row] for some in (found[row], wanted))
        assert torch.allclose(slope, right, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_batch_costs_what_its_sentences_cost_word_by_word(smoothing: float) -> None:
    task = made(smoothing)
    with torch.no_grad():  # weights as they start say little about the sentence
        for module in (task.student.model, task.decoder):
            for parameter in module.parameters():
                parameter.mul_(10)
    chosen = np.array([3, 0, 35, 3, 60])
    batch = task.prepare(chosen)
    assert len(batch.rows) == len({task.examples.source[one] for one in chosen}), "read twice, encoded once"
    losses, words = [], []
    for one in chosen:
        single = task.prepare(np.array([one]))
        ids = task.tokens.row(int(task.examples.target[one])).tolist()
        assert single.before[0].tolist() == [1, *ids[:-1]] and single.after[0].tolist() == ids and ids[-1] == 1
        losses.append(task.loss(single))
        words.append(len(ids))
    wanted = sum(count * loss for count, loss in zip(words, losses, strict=True)) / sum(words)
    assert torch.allclose(task.loss(batch), torch.as_tensor(wanted), rtol=1e-5)
    read = sum(len(task.tokens.row(int(row))) for row in {int(task.examples.source[one]) for one in chosen})
    assert task.count(batch).tokens == task.count(batch).computed == sum(words) + read


def test_gradients_reach_the_encoder_the_decoder_and_the_language() -> None:
    task = made()
    task.loss(task.prepare(np.array([0, 50]))).backward()  # type: ignore[no-untyped-call]
    for module in (task.student.model, task.decoder):
        assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in module.parameters())


ROWS = st.tuples(st.integers(0, 4), st.integers(5, 12), st.integers(0, 2))


@given(st.lists(ROWS, max_size=15))
@settings(deadline=None, max_examples=100)
def test_examples_are_those_of_the_rules(rows: list[tuple[int, int, int]]) -> None:
    """Languages are de, en (a sentence without translation) and es; English sentences 0 to 4 and their translations."""
    rows = [(source, source if language == 1 else target, language) for source, target, language in rows]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    pairs = PairRows(columns[:, 0], columns[:, 1], np.zeros(len(rows), dtype=np.int64), columns[:, 2])
    found = examples_of(pairs, ("de", "en", "es"), "en", "es")
    seen = sorted(zip(found.source.tolist(), found.target.tolist(), found.language.tolist(), strict=True))
    spanish = {source: [t for s, t, language in rows if language == 2 and s == source] for source in range(5)}
    wanted = [(t, s, PIVOT) for s, t, language in rows if language != 1]
    wanted += [(s, t, SECOND) for s, t, language in rows if language == 2]
    rest = seen.copy()
    for one in wanted:
        rest.remove(one)  # raises where it is not there often enough
    german = [(s, t) for s, t, language in rows if language == 0 and spanish[s]]
    assert all(language == SECOND and read != written for read, written, language in rest)
    same = sum(any(t == u for u in spanish[s]) for s, t in german)
    assert len(german) - same <= len(rest) <= len(german)
    for read, written, _ in rest:
        assert any(t == read and written in spanish[s] for s, t in german)


def test_several_translations_take_turns() -> None:
    source, target = np.zeros(6, dtype=np.int64), np.array([1, 2, 10, 11, 12, 13])
    pairs = PairRows(source, target, source, np.array([1, 1, 0, 0, 0, 0]))
    found = examples_of(pairs, ("de", "es"), "en", "es")
    through = found.language == SECOND
    written = dict(zip(found.source[through].tolist(), found.target[through].tolist(), strict=True))
    assert [written[one] for one in (10, 11, 12, 13)] == [1, 2, 1, 2]


def test_dev_pairs_are_found_and_written() -> None:
    task = made(smoothing=0.3, dropout=0.4)
    count = len(task) // 2
    zeros = np.zeros(count, dtype=np.int64)
    pairs = PairRows(2 * np.arange(count), 2 * np.arange(count) + 1, zeros, zeros)
    dev = TranslationDev(task, pairs, task.examples)
    assert len(dev) == count
    task.decoder.train()
    score = dev.score()
    assert score.values() == dev.score().values() and not score.improved, "nothing is dropped in measuring"
    plain = Translation(task.student, task.decoder.eval(), task.tokens, task.examples, 1)
    with torch.no_grad():
        assert score.loss == pytest.approx(float(plain.loss(plain.prepare(np.arange(len(task))))), rel=1e-5)
    vectors = torch.nn.functional.normalize(torch.from_numpy(task.student.vectors_of(task.tokens)), dim=1)
    cosine = vectors[pairs.source] @ vectors[pairs.target].T
    at = torch.arange(count)
    right = ((cosine.argmax(1) == at).double().mean() + (cosine.argmax(0) == at).double().mean()) / 2
    assert score.found.retrieval == pytest.approx(float(right))
    train(task.student, [task], TaskSettings(steps=3, learning_rate=1e-3, schedule="constant"))
    assert dev.score().improved and dev.score().loss < score.loss


def test_better_is_more_found_then_less_lost() -> None:
    most, few = np.full(60, 1 / 60), np.repeat([0.0, 1 / 60], 30)
    all_found, half = DevScore(1.0, most), DevScore(0.5, few)
    best, tied, worse = TranslationScore(all_found, 2.0), TranslationScore(all_found, 3.0), TranslationScore(half, 1.0)
    untrained = TranslationScore(all_found, 5.0, improved=False)
    selection, kept = Selection(), list[TranslationScore]()
    for score in (untrained, worse, tied, best, worse, untrained):
        preferred = selection.prefers(score.selection_score("retrieval"))
        selection.take(score.selection_score("retrieval"), preferred)
        kept += [score] if preferred else []
    assert kept == [untrained, worse, tied, best], "an untrained one is never better, what is found goes before the loss"
    assert worse.selection_score("loss").value > best.selection_score("loss").value > tied.selection_score("loss").value
    assert worse.values() == {"dev_retrieval": pytest.approx(0.5), "dev_loss": 1.0} and "50.0 % found" in worse.note()


def test_it_learns_to_translate() -> None:
    task = made()
    everything = task.prepare(np.arange(len(task)))
    before = float(task.loss(everything).detach())
    assert before == pytest.approx(math.log(len(task.student.table)), rel=0.1), "at first every word is as likely"
    train(task.student, [task], TaskSettings(steps=40, batch_pairs=32, learning_rate=1e-2, schedule="constant"))
    assert float(task.loss(everything).detach()) < 0.8 * before
