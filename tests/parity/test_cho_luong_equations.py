"""Cho 2014 and Luong 2015 against their papers' equations in plain loops over words: no batch, no padding, no shared code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.models import Cho, ChoConfig, Luong, LuongConfig

EXACT = {"rtol": 1e-10, "atol": 1e-12}
SOURCES, TARGETS = [6, 3, 5], [4, 5, 2]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numbers(model):
    return {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}


class ChoPaper:
    """The RNN encoder-decoder, one sentence at a time (Cho et al. 2014, section 2 and appendix). The letters are the paper's."""

    def __init__(self, model: Cho) -> None:
        self.w, self.n, self.cell = numbers(model), model.config.hidden_width, model.config.cell

    def encoder_step(self, x, h):
        w = self.w
        if self.cell == "tanh":
            return np.tanh(
                w["encoder.cell.input.weight"] @ x + w["encoder.cell.input.bias"] + w["encoder.cell.hidden.weight"] @ h
            )
        (Wr, Wz, W), (br, bz, b) = (
            np.split(w["encoder.cell.input.weight"], 3),
            np.split(w["encoder.cell.input.bias"], 3),
        )
        if self.cell == "gru":
            Ur, Uz = np.split(w["encoder.cell.gates.weight"], 2)
            U = w["encoder.cell.candidate.weight"]
            r = sigmoid(Wr @ x + Ur @ h + br)
            z = sigmoid(Wz @ x + Uz @ h + bz)
            candidate = np.tanh(W @ x + U @ (r * h) + b)
        else:
            Ur, Uz, U = np.split(w["encoder.cell.hidden.weight"], 3)
            cr, cz, c = np.split(w["encoder.cell.hidden.bias"], 3)
            r = sigmoid(Wr @ x + Ur @ h + br + cr)
            z = sigmoid(Wz @ x + Uz @ h + bz + cz)
            candidate = np.tanh(W @ x + b + r * (U @ h + c))
        return z * h + (1 - z) * candidate

    def decoder_step(self, y, h, c):
        w = self.w
        if self.cell == "tanh":
            inner = w["decoder.cell.input.weight"] @ y + w["decoder.cell.input.bias"] + w["decoder.context.weight"] @ c
            return np.tanh(inner + w["decoder.cell.hidden.weight"] @ h)
        (Wr, Wz, W), (br, bz, b) = (
            np.split(w["decoder.cell.input.weight"], 3),
            np.split(w["decoder.cell.input.bias"], 3),
        )
        Ur, Uz, U = np.split(w["decoder.cell.hidden.weight"], 3)
        dr, dz, d = np.split(w["decoder.cell.hidden.bias"], 3)
        Cr, Cz, C = np.split(w["decoder.context.weight"], 3)
        r = sigmoid(Wr @ y + Ur @ h + Cr @ c + br + dr)
        z = sigmoid(Wz @ y + Uz @ h + Cz @ c + bz + dz)
        if self.cell == "gru":
            candidate = np.tanh(W @ y + b + r * (U @ h + C @ c + d))
        else:
            candidate = np.tanh(W @ y + b + C @ c + r * (U @ h + d))
        return z * h + (1 - z) * candidate

    def run(self, source, target):
        """Logits of each word of the target, given `target`'s words before it."""
        w, h = self.w, np.zeros(self.n)
        for word in source:
            h = self.encoder_step(w["encoder.embedding.weight"][word], h)
        c = np.tanh(w["encoder.summary.weight"] @ h + w["encoder.summary.bias"])
        h = np.tanh(w["decoder.initial.weight"] @ c + w["decoder.initial.bias"])
        Oh, Oy = w["decoder.readout.weight"][:, : self.n], w["decoder.readout.weight"][:, self.n :]
        Oc, G = w["decoder.readout_context.weight"], w["decoder.output.weight"]
        logits = []
        for word in target:
            y = w["decoder.embedding.weight"][word]
            h = self.decoder_step(y, h, c)
            s = Oh @ h + Oy @ y + Oc @ c + w["decoder.readout.bias"]
            s = np.array([max(s[2 * i], s[2 * i + 1]) for i in range(len(s) // 2)])
            logits.append(G @ s + w["decoder.output.bias"])
        return np.stack(logits)


@pytest.fixture(params=["gru", "gru_after", "tanh"])
def cho(request, seeded, randomize):
    sizes: dict[str, Any] = {"embedding_width": 4, "hidden_width": 5, "maxout_width": 3, "cell": request.param}
    return randomize(Cho(ChoConfig(source_vocabulary=11, target_vocabulary=9, **sizes))).double().eval()


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_word_of_a_padded_batch_is_chos(cho, side, sentences):
    source = sentences(SOURCES, 11, side=side, seed=1)
    target = sentences(TARGETS, 9, side=side, seed=2, start=1)
    logits, paper = cho(source, target), ChoPaper(cho)
    for row in range(3):
        words = [part.ids[row][part.valid[row]].tolist() for part in (source, target)]
        torch.testing.assert_close(logits[row][target.valid[row]], torch.from_numpy(paper.run(*words)), **EXACT)


def test_every_step_is_chos(cho, sentences):
    source, target = sentences(SOURCES, 11, seed=1), sentences([5, 5, 5], 9, seed=2, start=1)
    paper = ChoPaper(cho)
    expected = [paper.run(source.ids[row][source.valid[row]].tolist(), target.ids[row].tolist()) for row in range(3)]
    state = cho.start(source)
    for t in range(5):
        logits, state = cho.step(target.ids[:, t], state)
        for row in range(3):
            torch.testing.assert_close(logits[row], torch.from_numpy(expected[row][t]), **EXACT)


class LuongPaper:
    """Luong et al. 2015, section 3, one sentence at a time. The letters are the paper's; places count from 0."""

    def __init__(self, model: Luong) -> None:
        self.w, self.config = numbers(model), model.config

    def lstm(self, side, below, states):
        """One step of every layer: the input of the lowest to the top layer's h, and the states (h, c) after."""
        after = []
        for layer, (h, c) in enumerate(states):
            prefix = f"{side}.lstm.cells.{layer}."
            z = (
                self.w[prefix + "input.weight"] @ below
                + self.w[prefix + "input.bias"]
                + self.w[prefix + "recurrent.weight"] @ h
            )
            if side == "decoder" and layer == 0 and self.config.input_feeding:
                z = z + self.w["decoder.feeding.weight"] @ self.fed  # [W F] [y ; h~] of the step before
            i, f, g, o = np.split(z, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            below = sigmoid(o) * np.tanh(c)
            after.append((below, c))
        return below, after

    def score(self, h, hs, place):
        w, kind = self.w, self.config.score
        if kind == "dot":
            return h @ hs
        if kind == "general":
            return h @ w["decoder.attention.key.weight"] @ hs
        if kind == "concat":
            Wa = np.concatenate((w["decoder.attention.query.weight"], w["decoder.attention.key.weight"]), axis=1)
            return w["decoder.attention.attention.score.weight"] @ np.tanh(Wa @ np.concatenate((h, hs)))
        return (w["decoder.attention.attention.score.weight"] @ h)[place]

    def weights(self, h, sources, t):
        S, D = len(sources), self.config.window
        places = list(range(S))
        if self.config.attention == "local_m":
            p = t
        elif self.config.attention == "local_p":
            p = S * sigmoid(
                self.w["decoder.centre.output.weight"][0] @ np.tanh(self.w["decoder.centre.hidden.weight"] @ h)
            )
        if self.config.attention != "global":
            places = [s for s in places if p - D <= s <= p + D]
        a = np.zeros(S)
        for s in places:
            a[s] = np.exp(self.score(h, sources[s], s))
        a = a / a.sum() if places else a
        if self.config.attention == "local_p":
            for s in places:
                a[s] *= np.exp(-((s - p) ** 2) / (2 * (D / 2) ** 2))
        return a

    def run(self, source, target):
        """Logits of each word of the target, given `target`'s words before it, and the alignment of each step."""
        w, n = self.w, self.config.hidden_width
        states = [(np.zeros(n), np.zeros(n))] * self.config.layers
        sources = []
        for word in reversed(source) if self.config.reverse_source else source:
            top, states = self.lstm("encoder", w["encoder.embedding.weight"][word], states)
            sources.append(top)
        if self.config.reverse_source:
            sources.reverse()
        self.fed = np.zeros(n)
        logits, alignments = [], []
        for t, word in enumerate(target):
            h, states = self.lstm("decoder", w["decoder.embedding.weight"][word], states)
            a = self.weights(h, sources, t)
            c = sum(share * hs for share, hs in zip(a, sources, strict=True))
            self.fed = np.tanh(w["decoder.combination.weight"] @ np.concatenate((c, h)))
            logits.append(w["decoder.output.weight"] @ self.fed + w["decoder.output.bias"])
            alignments.append(a)
        return np.stack(logits), np.stack(alignments)


@pytest.fixture(
    params=[
        {"score": "dot"},
        {"score": "general", "reverse_source": False},
        {"score": "concat"},
        {"score": "location", "maximum_source": 6},
        {"attention": "local_m", "window": 1, "score": "dot"},
        {"attention": "local_p", "window": 2},
        {"attention": "local_p", "window": 2, "score": "concat", "input_feeding": False},
        {"input_feeding": False, "layers": 1},
    ],
    ids=lambda changes: ", ".join(map(str, changes.values())),
)
def luong(request, seeded, randomize):
    sizes: dict[str, Any] = {"embedding_width": 4, "hidden_width": 5, "layers": 2, **request.param}
    return randomize(Luong(LuongConfig(source_vocabulary=11, target_vocabulary=9, **sizes))).double().eval()


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_word_of_a_padded_batch_is_luongs(luong, side, sentences):
    source = sentences(SOURCES, 11, side=side, seed=1)
    target = sentences(TARGETS, 9, side=side, seed=2, start=1)
    logits, paper = luong(source, target), LuongPaper(luong)
    for row in range(3):
        words = [part.ids[row][part.valid[row]].tolist() for part in (source, target)]
        torch.testing.assert_close(logits[row][target.valid[row]], torch.from_numpy(paper.run(*words)[0]), **EXACT)


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_step_and_its_alignment_is_luongs(luong, side, sentences):
    source, target = sentences(SOURCES, 11, side=side, seed=1), sentences([5, 5, 5], 9, seed=2, start=1)
    paper = LuongPaper(luong)
    expected = [paper.run(source.ids[row][source.valid[row]].tolist(), target.ids[row].tolist()) for row in range(3)]
    state = luong.start(source)
    for t in range(5):
        logits, state = luong.step(target.ids[:, t], state)
        alignment = luong.alignment(state)
        for row in range(3):
            torch.testing.assert_close(logits[row], torch.from_numpy(expected[row][0][t]), **EXACT)
            seen = alignment[row][source.valid[row]].double()
            torch.testing.assert_close(seen, torch.from_numpy(expected[row][1][t]), rtol=1e-6, atol=1e-7)
