"""BERT and DistilBERT beside their papers' equations, in numpy, one text at a time: no batch, no padding, no masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regard.layers import TextEncoder, Tokens
from regard.models import MODELS, BertConfig, DistilBertConfig

Array = NDArray[np.float64]

SIZES: dict[str, Any] = {
    "vocabulary": 17,
    "width": 12,
    "heads": 3,
    "feedforward_width": 10,
    "layers": 3,
    "maximum_positions": 9,
}
TEXTS = [[5, 9, 3, 16, 8, 2], [7, 4, 4], [11, 3, 5, 12, 6, 14, 1, 2, 9]]
SECOND = [4, 3, 1]  # where the second segment begins: nowhere in the second text


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


class Written:
    """The equations, on the parameters of a model."""

    def __init__(self, model: TextEncoder) -> None:
        self.config: Any = model.config
        self.of = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
        self.activation = ACTIVATIONS[self.config.activation]

    def linear(self, x: Array, name: str) -> Array:
        return x @ self.of[f"{name}.weight"].T + self.of[f"{name}.bias"]

    def norm(self, x: Array, name: str) -> Array:
        mean = x.mean(axis=-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        scaled = (x - mean) / np.sqrt(variance + self.config.norm_epsilon)
        return scaled * self.of[f"{name}.weight"] + self.of[f"{name}.bias"]

    def attention(self, x: Array, layer: int) -> Array:
        """MultiHead(x) = [head_1; ...; head_H] Wo + b, head_h = softmax(q_h k_h^T / sqrt(E)) v_h."""
        name = f"layers.{layer}.attention"
        query, key, value = (self.linear(x, f"{name}.{part}") for part in ("query", "key", "value"))
        size = self.config.width // self.config.heads
        heads = []
        for start in range(0, query.shape[1], size):  # the heads that are left
            part = slice(start, start + size)
            gathered = np.zeros((len(x), size))
            for i in range(len(x)):
                scores = np.array([query[i, part] @ key[j, part] for j in range(len(x))]) / math.sqrt(size)
                weights = np.exp(scores) / np.exp(scores).sum()
                gathered[i] = sum(weights[j] * value[j, part] for j in range(len(x)))
            heads.append(gathered)
        return self.linear(np.concatenate(heads, axis=1), f"{name}.output")

    def hidden_states(self, ids: list[int], segments: list[int]) -> list[Array]:
        x = np.stack([self.of["embedding.tokens.weight"][index] for index in ids])
        x = x + self.of["embedding.positions.weight"][: len(ids)]
        if "embedding.segments.weight" in self.of:
            x = x + np.stack([self.of["embedding.segments.weight"][segment] for segment in segments])
        states = [self.norm(x, "embedding.norm")]
        for layer in range(self.config.layers):
            name = f"layers.{layer}"
            x = self.norm(states[-1] + self.attention(states[-1], layer), f"{name}.attention_residual.after")
            inner = self.activation(self.linear(x, f"{name}.feedforward.inner"))
            states.append(
                self.norm(x + self.linear(inner, f"{name}.feedforward.outer"), f"{name}.feedforward_residual.after")
            )
        return states

    def pooled(self, hidden: Array) -> Array:
        first = self.linear(hidden[0], "pooler.map")
        return np.tanh(first) if self.config.model_type == "bert" else np.maximum(first, 0)

    def masked(self, hidden: Array, name: str) -> Array:
        """The logits over the vocabulary: the table is the embedding's, the bias its own."""
        transformed = self.norm(self.activation(self.linear(hidden, f"{name}.transform")), f"{name}.norm")
        return transformed @ self.of["embedding.tokens.weight"].T + self.of[f"{name}.output.bias"]


def randomized(config: Any, seed: int = 3) -> TextEncoder:
    model = MODELS[config.model_type].model(config).double().eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.4)
    assert isinstance(model, TextEncoder)
    return model


def batch(side: str) -> tuple[Tokens, torch.Tensor]:
    tokens = Tokens.pad(TEXTS, side=side)  # type: ignore[arg-type]
    segments = torch.zeros_like(tokens.ids)
    for row, second in enumerate(SECOND):
        segments[row][tokens.valid[row]] = (torch.arange(len(TEXTS[row])) >= second).long()
    return tokens, segments


CONFIGS = {
    "bert": BertConfig(**SIZES),
    "bert gelu_tanh": BertConfig(**SIZES, activation="gelu_tanh", head="masked"),
    "bert relu": BertConfig(**SIZES, activation="relu", head="pretraining", outputs=2, norm_epsilon=1e-3),
    "bert swish": BertConfig(**SIZES, activation="swish", head="next_sentence", outputs=2),
    "bert three segments": BertConfig(**SIZES, segments=3, head="sequence", outputs=4),
    "bert pruned": BertConfig(**SIZES, head="sequence", outputs=2, pruned_heads=((0, 1), (2, 0), (2, 1))),
    "bert tokens": BertConfig(**SIZES, head="tokens", outputs=5),
    "bert spans": BertConfig(**SIZES, head="spans", outputs=2),
    "bert choice": BertConfig(**SIZES, head="choice", outputs=1),
    "distilbert": DistilBertConfig(**SIZES),
    "distilbert masked": DistilBertConfig(**SIZES, head="masked", activation="relu"),
    "distilbert sequence": DistilBertConfig(**SIZES, head="sequence", outputs=3),
    "distilbert tokens": DistilBertConfig(**SIZES, head="tokens", outputs=3, pruned_heads=((1, 2),)),
    "distilbert spans": DistilBertConfig(**SIZES, head="spans", outputs=2),
    "distilbert choice": DistilBertConfig(**SIZES, head="choice", outputs=1),
}
POOLED = ("next_sentence", "sequence", "choice")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_whole_forward_is_the_equations(name, side):
    config = CONFIGS[name]
    model = randomized(config)
    written = Written(model)
    tokens, segments = batch(side)
    with torch.no_grad():
        found = model(tokens, segments)
        states = model.hidden_states(tokens, segments)
    for row, ids in enumerate(TEXTS):
        real = tokens.valid[row]
        expected = written.hidden_states(ids, segments[row][real].tolist())
        for state, wanted in zip(states, expected, strict=True):
            close(state[row][real], wanted)
        close(found.hidden[row][real], expected[-1])
        if found.pooled is not None:
            close(found.pooled[row], written.pooled(expected[-1]))
        head = config.head
        if head in POOLED:
            close(found.logits[row], written.linear(written.pooled(expected[-1]), "head.output"))
        elif head in ("tokens", "spans"):
            close(found.logits[row][real], written.linear(expected[-1], "head.output"))
        elif head == "masked":
            close(found.logits[row][real], written.masked(expected[-1], "head"))
        elif head == "pretraining":
            close(found.logits[row][real], written.masked(expected[-1], "head.masked"))
            close(found.next_sentence[row], written.linear(written.pooled(expected[-1]), "head.next_sentence.output"))
        else:
            assert found.logits is None


def close(found: torch.Tensor, wanted: Array) -> None:
    torch.testing.assert_close(found, torch.from_numpy(np.asarray(wanted)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_has_a_place_in_the_equations(name):
    """Nothing is computed by a parameter that the equations do not name, and none of them is read twice by accident."""
    model = randomized(CONFIGS[name])
    written = Written(model)
    asked: set[str] = set()

    class Noting(dict):
        def __getitem__(self, key: str) -> Array:
            asked.add(key)
            return super().__getitem__(key)

    written.of = Noting(written.of)
    states = written.hidden_states(TEXTS[0], [0] * len(TEXTS[0]))
    head = CONFIGS[name].head
    if "pooler.map.weight" in written.of:
        written.pooled(states[-1])
    if head in ("masked", "pretraining"):
        written.masked(states[-1], "head" if head == "masked" else "head.masked")
        asked.add("head.output.weight" if head == "masked" else "head.masked.output.weight")  # the table itself
        if head == "pretraining":
            written.linear(written.pooled(states[-1]), "head.next_sentence.output")
    elif head != "none":
        pooled = written.pooled(states[-1]) if head in POOLED else states[-1]
        written.linear(pooled, "head.output")
    assert asked == set(model.state_dict())
