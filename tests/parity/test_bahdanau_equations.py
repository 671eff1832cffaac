"""Bahdanau against the paper's equations in plain loops over words: no batch, no padding, no shared code."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.models import Bahdanau

EXACT = {"rtol": 1e-10, "atol": 1e-12}
SOURCES, TARGETS = [6, 3, 5], [4, 5, 2]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Paper:
    """RNNsearch as the paper writes it, one sentence at a time (section 3, appendix A).

    The letters are the paper's. A model's parameters, some of which are stacked there, are cut into the paper's matrices.
    """

    def __init__(self, model: Bahdanau) -> None:
        weights = {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}
        config = model.config
        n, m = config.hidden_width, config.embedding_width
        self.n, self.score = n, config.score
        self.source, self.target = weights["encoder.embedding.weight"], weights["decoder.embedding.weight"]
        self.forwards = self.unit(weights, "encoder.reader.forwards.")
        self.backwards = self.unit(weights, "encoder.reader.backwards.")
        self.decoder = self.unit(weights, "decoder.cell.")
        self.Cr, self.Cz, self.C = np.split(weights["decoder.context.weight"], 3)
        self.Ws, self.bs = weights["decoder.initial.weight"], weights["decoder.initial.bias"]
        readout = weights["decoder.readout.weight"]
        self.Uo, self.Vo, self.Co = readout[:, :n], readout[:, n : n + m], readout[:, n + m :]
        self.bo = weights["decoder.readout.bias"]
        self.Wo, self.b = weights["decoder.output.weight"], weights["decoder.output.bias"]
        self.Wa = weights.get("decoder.attention.query.weight")
        self.Ua = weights.get("decoder.attention.key.weight")
        self.va = weights.get("decoder.attention.attention.score.weight")

    @staticmethod
    def unit(weights, prefix):
        Wr, Wz, W = np.split(weights[prefix + "input.weight"], 3)
        br, bz, b = np.split(weights[prefix + "input.bias"], 3)
        Ur, Uz = np.split(weights[prefix + "gates.weight"], 2)
        return {"W": (Wr, Wz, W), "b": (br, bz, b), "U": (Ur, Uz, weights[prefix + "candidate.weight"])}

    @staticmethod
    def step(unit, x, s, context=(0.0, 0.0, 0.0)):
        (Wr, Wz, W), (br, bz, b), (Ur, Uz, U) = unit["W"], unit["b"], unit["U"]
        r = sigmoid(Wr @ x + br + Ur @ s + context[0])
        z = sigmoid(Wz @ x + bz + Uz @ s + context[1])
        candidate = np.tanh(W @ x + b + U @ (r * s) + context[2])
        return (1 - z) * s + z * candidate

    def annotations(self, words):
        ahead, behind = [], []
        state = np.zeros(self.n)
        for word in words:
            state = self.step(self.forwards, self.source[word], state)
            ahead.append(state)
        state = np.zeros(self.n)
        for word in reversed(words):
            state = self.step(self.backwards, self.source[word], state)
            behind.insert(0, state)
        return [np.concatenate(pair) for pair in zip(ahead, behind, strict=True)]

    def energy(self, s, h):
        if self.score == "additive":
            return self.va @ np.tanh(self.Wa @ s + self.Ua @ h)
        if self.score == "general":
            return (self.Wa @ s) @ h
        return s @ (self.Ua @ h) / (np.sqrt(self.n) if self.score == "scaled_dot" else 1)

    def run(self, source, target):
        """Logits of each word of the target, given `target`'s words before it, and the alignment of each step."""
        h = self.annotations(source)
        s = np.tanh(self.Ws @ h[0][self.n :] + self.bs)  # the backward state at the FIRST word
        logits, alignments = [], []
        for word in target:
            y = self.target[word]
            energies = np.array([self.energy(s, annotation) for annotation in h])
            a = np.exp(energies - energies.max())
            a = a / a.sum()
            c = sum(share * annotation for share, annotation in zip(a, h, strict=True))
            t = self.Uo @ s + self.Vo @ y + self.Co @ c + self.bo  # with the state BEFORE the step
            t = np.array([max(t[2 * i], t[2 * i + 1]) for i in range(len(t) // 2)])
            logits.append(self.Wo @ t + self.b)
            alignments.append(a)
            s = self.step(self.decoder, y, s, (self.Cr @ c, self.Cz @ c, self.C @ c))
        return np.stack(logits), np.stack(alignments)


@pytest.fixture(params=["additive", "general", "dot", "scaled_dot"])
def model(request, seeded, randomize, tiny_bahdanau):
    return randomize(Bahdanau(tiny_bahdanau(score=request.param))).double().eval()


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_word_of_a_padded_batch_is_the_papers(model, side, sentences):
    config = model.config
    source = sentences(SOURCES, config.source_vocabulary, side=side, seed=1)
    target = sentences(TARGETS, config.target_vocabulary, side=side, seed=2, start=config.start_id)
    logits, paper = model(source, target), Paper(model)
    for row in range(3):
        words = [part.ids[row][part.valid[row]].tolist() for part in (source, target)]
        expected, _ = paper.run(*words)
        torch.testing.assert_close(logits[row][target.valid[row]], torch.from_numpy(expected), **EXACT)


def test_every_step_and_its_alignment_is_the_papers(model, sentences):
    config = model.config
    source = sentences(SOURCES, config.source_vocabulary, seed=1)
    target = sentences(TARGETS, config.target_vocabulary, seed=2, start=config.start_id)
    paper = Paper(model)
    expected = [paper.run(source.ids[row][source.valid[row]].tolist(), target.ids[row].tolist()) for row in range(3)]
    state = model.start(source)
    for t in range(5):
        logits, state = model.step(target.ids[:, t], state)
        alignment = model.alignment(state)
        for row in range(3):
            torch.testing.assert_close(logits[row], torch.from_numpy(expected[row][0][t]), **EXACT)
            seen = alignment[row][source.valid[row]].double()
            torch.testing.assert_close(seen, torch.from_numpy(expected[row][1][t]), rtol=1e-6, atol=1e-7)
