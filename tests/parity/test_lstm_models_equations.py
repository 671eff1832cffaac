"""Sutskever and GNMT against the papers' equations in plain loops over words, layers and tokens: no batch, no padding, no shared
code; and the LSTM layers against PyTorch's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from regard.layers import LSTMStack
from regard.models import GNMT, GNMTConfig, Sutskever, SutskeverConfig

EXACT = {"rtol": 1e-10, "atol": 1e-12}
SOURCES, TARGETS = [6, 3, 5], [4, 5, 2]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


class Layer:
    """One LSTM layer of a model, its parameters cut into the matrices of the equations."""

    def __init__(self, weights, prefix):
        W = weights[prefix + "input.weight"]
        if prefix + "context.weight" in weights:  # [x ; a] through one matrix, as the papers write it
            W = np.concatenate((W, weights[prefix + "context.weight"]), axis=1)
        self.Wi, self.Wf, self.Wg, self.Wo = np.split(W, 4)
        self.Ui, self.Uf, self.Ug, self.Uo = np.split(weights[prefix + "recurrent.weight"], 4)
        self.bi, self.bf, self.bg, self.bo = np.split(weights[prefix + "input.bias"], 4)
        self.n = self.Ui.shape[1]

    def zero(self):
        return np.zeros(self.n), np.zeros(self.n)

    def step(self, x, state):
        h, c = state
        i = sigmoid(self.Wi @ x + self.Ui @ h + self.bi)
        f = sigmoid(self.Wf @ x + self.Uf @ h + self.bf)
        g = np.tanh(self.Wg @ x + self.Ug @ h + self.bg)
        o = sigmoid(self.Wo @ x + self.Uo @ h + self.bo)
        c = f * c + i * g
        return o * np.tanh(c), c


class Paper:
    def __init__(self, model):
        self.weights = {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}
        self.config = model.config
        self.source, self.target = (self.weights[f"{side}.embedding.weight"] for side in ("encoder", "decoder"))
        self.W, self.b = self.weights["decoder.output.weight"], self.weights["decoder.output.bias"]

    def layers(self, prefix):
        found = itertools.takewhile(lambda i: f"{prefix}{i}.input.weight" in self.weights, itertools.count())
        return [Layer(self.weights, f"{prefix}{i}.") for i in found]


class SutskeverPaper(Paper):
    """Section 2 of Sutskever et al. 2014, one sentence at a time."""

    def run(self, source, target):
        encoder, decoder = self.layers("encoder.stack.cells."), self.layers("decoder.stack.cells.")
        assert len(encoder) == len(decoder) == self.config.layers
        states = [layer.zero() for layer in encoder]
        for word in reversed(source) if self.config.reverse_source else source:
            x = self.source[word]
            for i, layer in enumerate(encoder):
                states[i] = layer.step(x, states[i])
                x = states[i][0]
        logits = []
        for word in target:
            x = self.target[word]
            for i, layer in enumerate(decoder):
                states[i] = layer.step(x, states[i])
                x = states[i][0]
            logits.append(self.W @ x + self.b)
        return np.stack(logits), None


class GNMTPaper(Paper):
    """Section 3 of Wu et al. 2016, one sentence at a time. Layers are counted from 1, as there."""

    def up(self, number, x, m):
        """x^i of layer i from its input and its output."""
        return m + x if self.config.residual and number >= 3 else m

    def encode(self, words):
        (ahead,), (behind,) = self.layers("encoder.forwards.cells."), self.layers("encoder.backwards.cells.")
        forwards, backwards = [], []
        state = ahead.zero()
        for word in words:
            state = ahead.step(self.source[word], state)
            forwards.append(state[0])
        state = behind.zero()
        for word in reversed(words):
            state = behind.step(self.source[word], state)
            backwards.insert(0, state[0])
        xs = [np.concatenate(pair) for pair in zip(forwards, backwards, strict=True)]
        states = [state]  # of the backward half, which has read down to the first word
        for number, layer in enumerate(self.layers("encoder.upper.cells."), start=2):
            state, outputs = layer.zero(), []
            for x in xs:
                state = layer.step(x, state)
                outputs.append(self.up(number, x, state[0]))
            xs = outputs
            states.append(state)
        assert len(states) == self.config.layers
        return xs, states

    def run(self, source, target):
        h, states = self.encode(source)
        Wa, Ua = (self.weights[f"decoder.attention.{part}.weight"] for part in ("query", "key"))
        va = self.weights["decoder.attention.attention.score.weight"]
        layers = [Layer(self.weights, "decoder.bottom."), *self.layers("decoder.upper.cells.")]
        logits, alignments = [], []
        for word in target:
            y = states[0][0]  # the bottom layer's output of the PREVIOUS step
            a = softmax(np.array([va @ np.tanh(Wa @ y + Ua @ annotation) for annotation in h]))
            context = sum(share * annotation for share, annotation in zip(a, h, strict=True))
            x = self.target[word]
            for number, layer in enumerate(layers, start=1):
                states[number - 1] = layer.step(np.concatenate((x, context)), states[number - 1])
                x = self.up(number, x, states[number - 1][0])
            logits.append(self.W @ x + self.b)
            alignments.append(a)
        return np.stack(logits), np.stack(alignments)


SIZES = {"source_vocabulary": 11, "target_vocabulary": 9, "embedding_width": 4, "hidden_width": 5}
MODELS = {
    "sutskever": lambda: Sutskever(SutskeverConfig(**SIZES, layers=3)),
    "sutskever forwards": lambda: Sutskever(SutskeverConfig(**SIZES, layers=2, reverse_source=False)),
    "gnmt": lambda: GNMT(GNMTConfig(**SIZES, layers=4, attention_width=7)),
    "gnmt without residual": lambda: GNMT(GNMTConfig(**SIZES, layers=3, attention_width=7, residual=False)),
}


@pytest.fixture(params=MODELS)
def model(request, seeded, randomize):
    return randomize(MODELS[request.param]()).double().eval()


@pytest.fixture
def paper(model):
    return (SutskeverPaper if isinstance(model, Sutskever) else GNMTPaper)(model)


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_word_of_a_padded_batch_is_the_papers(model, paper, side, sentences):
    config = model.config
    source = sentences(SOURCES, config.source_vocabulary, side=side, seed=1)
    target = sentences(TARGETS, config.target_vocabulary, side=side, seed=2, start=config.start_id)
    logits = model(source, target)
    for row in range(3):
        words = [part.ids[row][part.valid[row]].tolist() for part in (source, target)]
        expected, _ = paper.run(*words)
        torch.testing.assert_close(logits[row][target.valid[row]], torch.from_numpy(expected), **EXACT)


def test_every_step_and_its_alignment_is_the_papers(model, paper, sentences):
    config = model.config
    source = sentences(SOURCES, config.source_vocabulary, seed=1)
    target = sentences(TARGETS, config.target_vocabulary, seed=2, start=config.start_id)
    expected = [paper.run(source.ids[row][source.valid[row]].tolist(), target.ids[row].tolist()) for row in range(3)]
    state = model.start(source)
    for t in range(5):
        logits, state = model.step(target.ids[:, t], state)
        alignment = model.alignment(state)
        for row, (wanted, alignments) in enumerate(expected):
            torch.testing.assert_close(logits[row], torch.from_numpy(wanted[t]), **EXACT)
            if alignments is not None:
                seen = alignment[row][source.valid[row]].double()
                torch.testing.assert_close(seen, torch.from_numpy(alignments[t]), rtol=1e-6, atol=1e-7)


def test_the_layers_are_pytorchs_own(seeded, randomize):
    """With the weights of `torch.nn.LSTM`, its two biases summed: the same outputs and last states, whole and step by step."""
    theirs = randomize(nn.LSTM(4, 5, num_layers=3, batch_first=True)).double()
    ours = LSTMStack(4, 5, 3).double()
    with torch.no_grad():
        for layer, cell in enumerate(ours.layers):
            cell.input.weight.copy_(getattr(theirs, f"weight_ih_l{layer}"))
            cell.recurrent.weight.copy_(getattr(theirs, f"weight_hh_l{layer}"))
            cell.input.bias.copy_(getattr(theirs, f"bias_ih_l{layer}") + getattr(theirs, f"bias_hh_l{layer}"))
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    before = torch.randn(2, 3, 2, 5, dtype=torch.float64)
    expected, (hidden, memory) = theirs(x, (before[0], before[1]))
    start = tuple(zip(before[0], before[1], strict=True))
    outputs, states = ours.read(x, torch.ones(2, 6, dtype=torch.bool), start)
    stepped, after = [], start
    for t in range(6):
        output, after = ours.step(x[:, t], after)
        stepped.append(output)
    for seen, last in ((outputs, states), (torch.stack(stepped, dim=1), after)):
        torch.testing.assert_close(seen, expected, **EXACT)
        torch.testing.assert_close(torch.stack([state[0] for state in last]), hidden, **EXACT)
        torch.testing.assert_close(torch.stack([state[1] for state in last]), memory, **EXACT)
