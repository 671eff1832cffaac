"""A toy decoder whose state holds real tensors, so that a wrong select or reorder changes its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from regard.attention import KeysValues
from regard.layers import SOURCE, TARGET, DecoderState, Tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class ToyState(DecoderState):
    annotations: Tensor = field(metadata=SOURCE)  # (R, S, D)
    memory: Tensor = field(metadata=TARGET)  # (N, D)
    weights: Tensor = field(metadata=TARGET)  # (N, S)
    cache: KeysValues = field(metadata=TARGET)  # (N, 1, T, D)


class Toy:
    """Random and fixed. The logits depend on the whole prefix (through a recurrent memory and a growing
    cache) and on the source (through attention). Every call's input tokens are kept in `calls`."""

    def __init__(
        self,
        vocabulary: int = 7,
        *,
        seed: int = 0,
        sharpness: float = 2.0,
        dtype: torch.dtype = torch.float64,
        end_bias: float = 0.0,
        ids: tuple[int, int, int] = (0, 1, 2),
        maximum_target_length: int | None = None,
        has_alignment: bool = True,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        width = 5

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        padding, start, end = ids
        self.config = SimpleNamespace(target_vocabulary=vocabulary, padding_id=padding, start_id=start, end_id=end)
        self.maximum_source_length, self.maximum_target_length = None, maximum_target_length
        self.has_alignment, self.length_setting = has_alignment, ""
        self.source_table, self.target_table = random(50, width), random(vocabulary, width)
        self.recurrent, self.output = random(width, width), random(width, vocabulary) * sharpness
        self.bias = torch.zeros(vocabulary, dtype=torch.float64)
        self.bias[end] = end_bias
        self.dtype = dtype
        self.calls: list[list[int]] = []
        self.alignments_asked = 0
        self.grad_modes: list[bool] = []

    def start(self, source: Tokens) -> ToyState:
        rows, width = len(source), 5
        annotations = self.source_table[source.ids] * source.valid[:, :, None]
        nothing = torch.zeros(rows, 1, 0, width, dtype=torch.float64)
        return ToyState(
            source_valid=source.valid,
            annotations=annotations,
            memory=annotations.sum(1).tanh(),
            weights=torch.zeros(source.valid.shape),
            cache=KeysValues(nothing, nothing),
        )

    def step(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        self.calls.append(tokens.tolist())
        self.grad_modes.append(torch.is_grad_enabled())
        annotations, valid = state.for_each_row(state.annotations), state.for_each_row(state.source_valid)
        scores = torch.einsum("nsd,nd->ns", annotations, state.memory)
        weights = scores.masked_fill(~valid, -torch.inf).softmax(1)
        context = torch.einsum("ns,nsd->nd", weights, annotations)
        embedded = self.target_table[tokens]
        slot = embedded[:, None, None, :]
        cache = state.cache.extended(KeysValues(slot, slot * 0.5))
        past = (cache.key * cache.value).sum((1, 2)).sin()
        memory = (state.memory @ self.recurrent + embedded + context + past).tanh()
        logits = (memory @ self.output + self.bias).to(self.dtype)
        return logits, state.advanced(memory=memory, weights=weights.float(), cache=cache)

    def alignment(self, state: ToyState) -> Tensor:
        self.alignments_asked += 1
        return state.weights


class Markov:
    """The next token depends on the last one alone, by a table of probabilities."""

    maximum_source_length = maximum_target_length = None
    has_alignment, length_setting = True, ""

    def __init__(self, table: dict[int, dict[int, float]], vocabulary: int, weights: Tensor | None = None) -> None:
        self.config = SimpleNamespace(target_vocabulary=vocabulary, padding_id=0, start_id=1, end_id=2)
        self.logits = torch.full((vocabulary, vocabulary), -torch.inf)
        self.logits[:, 2] = 0.0
        for last, row in table.items():
            self.logits[last] = -torch.inf
            for token, probability in row.items():
                self.logits[last, token] = torch.tensor(probability).log()
        self.weights = weights  # (V, S), by the last token

    def start(self, source: Tokens) -> ToyState:
        nothing = torch.zeros(len(source), 1, 0, 1)
        return ToyState(
            source_valid=source.valid,
            annotations=nothing[:, 0],
            memory=torch.zeros(len(source), 1),
            weights=torch.zeros(source.valid.shape),
            cache=KeysValues(nothing, nothing),
        )

    def step(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        weights = state.weights if self.weights is None else self.weights[tokens]
        return self.logits[tokens], state.advanced(weights=weights)

    def alignment(self, state: ToyState) -> Tensor:
        return state.weights


@dataclass(frozen=True)
class Candidate:
    """A hypothesis of the naive twins: plain lists and floats."""

    emitted: tuple[int, ...]
    total: float
    score: float
    finished: bool


def rerun(decoder, source: Tokens, prefix: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """From scratch, for one sentence: log-probabilities (V,) of what follows `prefix`, and coverage (S,)."""
    state = decoder.start(source)
    coverage = torch.zeros(source.valid.shape[1])
    logits = None
    for token in (decoder.config.start_id, *prefix):
        logits, state = decoder.step(torch.tensor([token]), state)
        coverage = coverage + decoder.alignment(state)[0]
    assert logits is not None
    return logits[0].float().log_softmax(0), coverage


def score(decoder, source: Tokens, emitted: tuple[int, ...], total: float, *, alpha: float, beta: float) -> float:
    """Wu et al. 2016, equation 14, written out. `emitted` includes the end token."""
    value = total / (((5 + len(emitted)) ** alpha) / ((5 + 1) ** alpha))
    if beta:
        coverage = rerun(decoder, source, emitted[:-1])[1]
        for position, real in enumerate(source.valid[0].tolist()):
            if real:
                value += beta * torch.tensor(max(min(float(coverage[position]), 1.0), 1e-6)).log().item()
    return value


def naive_beam(
    decoder,
    source: Tokens,
    *,
    beam: int,
    n_best: int,
    alpha: float,
    beta: float,
    maximum: int,
    minimum: int = 0,
) -> list[Candidate]:
    """One sentence, lists, every prefix from scratch, no early end: it always walks to the maximum."""
    config = decoder.config
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[Candidate] = []
    for length in range(1, maximum + 1):
        candidates = []
        for prefix, total in live:
            log_probabilities = rerun(decoder, source, prefix)[0].tolist()
            for token, value in enumerate(log_probabilities):
                banned = {config.padding_id, config.start_id} - {config.end_id}
                if token in banned or (token == config.end_id and length <= minimum):
                    continue
                candidates.append(((*prefix, token), total + value))
        candidates.sort(key=lambda candidate: -candidate[1])
        for emitted, total in candidates[:beam]:
            if emitted[-1] == config.end_id or length == maximum:
                value = score(decoder, source, emitted, total, alpha=alpha, beta=beta)
                finished.append(Candidate(emitted, total, value, emitted[-1] == config.end_id))
        live = [one for one in candidates if one[0][-1] != config.end_id][:beam]
    finished.sort(key=lambda one: -one.score)
    return finished[:n_best]


@pytest.fixture(scope="session")
def toys() -> SimpleNamespace:
    """The toy decoders and the naive twins."""
    return SimpleNamespace(Toy=Toy, Markov=Markov, Candidate=Candidate, rerun=rerun, score=score, naive_beam=naive_beam)


@pytest.fixture(scope="session")
def sentences() -> Tokens:
    """Five sources of different lengths."""
    return Tokens.pad([[3, 9, 27], [4], [11, 12, 13, 14, 15, 16], [8, 40], [22, 21, 20, 5]])


class Watcher:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.source: Tokens | None = None
        self.pauses = 0
        self.hypotheses = None

    def search_started(self, source: Tokens) -> None:
        assert self.source is None
        self.source = source

    def search_paused(self) -> None:
        self.pauses += 1

    def search_finished(self, hypotheses) -> None:
        assert self.source is not None
        self.hypotheses = hypotheses


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()
