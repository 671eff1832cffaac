"""Speculative decoding: a draft proposes tokens, and the model reads several of them in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.choosing import check_choosable, inverse_transform
from regard.generation.hypothesis import Hypothesis, Paths
from regard.generation.penalties import StopRule, whole
from regard.generation.transforms import LogitTransform
from regard.layers import CausalLM, DecoderState, LeftToRight, Tokens

S = TypeVar("S", bound=DecoderState)


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculated:
    """The result of speculative decoding, and its acceptance statistics.

    Arguments:
        hypothesis: the text, as other decoding methods return it.
        guessed: the number of tokens that the draft proposed.
        accepted: the number of them that the model accepted.
        readings: the number of passes of the model; each gives one token more than it accepts.
    """

    hypothesis: Hypothesis
    guessed: int
    accepted: int
    readings: int


@dataclass(frozen=True, slots=True)
class NGramDraft:
    """A draft without a model: what came after the last tokens of the text where they were before, in the prompt or after it.

    It costs nothing, and guesses well where texts repeat what they have read: summaries, corrections, code, answers that quote.
    Known as prompt lookup or n-gram speculation.

    Arguments:
        longest: the most tokens that are looked up; first the longest n-gram, then shorter ones.
        shortest: the fewest tokens that are looked up.

    >>> found = NGramDraft().begin([5, 6, 7, 8, 5, 6])
    >>> found.proposed(3)
    [7, 8, 5]
    """

    longest: int = 4
    shortest: int = 2

    def __post_init__(self) -> None:
        whole("shortest", self.shortest, least=1)
        whole("longest", self.longest, least=self.shortest)

    def begin(self, tokens: Sequence[int]) -> SeenNGrams:
        """The n-grams of a text, to which tokens are added."""
        seen = SeenNGrams(range(self.longest, self.shortest - 1, -1))
        for token in tokens:
            seen.add(token)
        return seen


class SeenNGrams:
    """A text and its n-grams, each with the place after its last occurrence.

    Arguments:
        sizes: of n-grams, those to look up first first.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def add(self, token: int) -> None:
        """Lengthen the text."""
        for size in self._sizes:
            if size <= len(self._tokens):
                self._after[tuple(self._tokens[-size:])] = len(self._tokens)
        self._tokens.append(token)

    def proposed(self, count: int) -> list[int]:
        """At most `count` tokens that came after the text's last n-gram before; none where it is new. A repetition goes on."""
        for size in self._sizes:
            place = self._after.get(tuple(self._tokens[-size:])) if size <= len(self._tokens) else None
            if place is not None:
                text = self._tokens.copy()
                for _ in range(count):
                    text.append(text[place])
                    place += 1
                return text[len(self._tokens) :]
        return []


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculation(Generic[S]):
    """Speculative decoding: continues a prompt as `model` would, with fewer passes of it (Leviathan et al. 2023, algorithm 1).

    The draft model proposes x_1 .. x_n, sampled from its distributions q_i. The model reads them in one pass and gives
    p_1 .. p_{n+1}.

        accept x_i with probability min(1, p_i(x_i) / q_i(x_i)), up to the first rejection;
        replace the rejected token by a sample from max(0, p_i - q_i), normalised; after n accepted ones sample from p_{n+1}

    The result has the same distribution as sampling from the model token by token, for any draft (appendix A.1 of the paper);
    only the time depends on the draft. A proposal of n-grams has the probability 1. Without a generator model and draft take the
    most probable token, and the result is that of greedy search; with an `InferenceDecoder` as the model, to the bit.

    Arguments:
        model: the model whose continuation is generated.
        draft: a faster model with the same tokens, or n-grams.
        ahead: n, the number of tokens proposed at a time.
        transforms: changes to the logits of both models.
        stop: rules that end the text, besides the end token.
        end_tokens: ids that end the text, instead of the model's own end token.

    Raises:
        InputError: for two models with different vocabularies, or `ahead` below 1.
    """

    model: CausalLM[S]
    draft: CausalLM[Any] | NGramDraft
    ahead: int = 4
    transforms: Sequence[LogitTransform] = ()
    stop: Sequence[StopRule] = ()
    end_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        whole("ahead", self.ahead, least=1)
        if isinstance(self.draft, NGramDraft):
            return
        theirs, ours = self.draft.config.vocabulary, self.model.config.vocabulary
        if theirs != ours:
            raise InputError(
                f"the draft has a vocabulary of {theirs:,} and the model one of {ours:,}; they have to be the same"
            )

    @torch.no_grad()
    def write(
        self, prompt: Sequence[int], *, most: int, least: int = 0, generator: torch.Generator | None = None
    ) -> Speculated:
        """The continuation of a prompt.

        Arguments:
            prompt: token ids, at least one.
            most: the maximum number of tokens, with the end token.
            least: the number of tokens before the end token is allowed.
            generator: of the sampling; None = greedy.

        Raises:
            InputError: for a model or draft whose state cannot be cropped, and for logits that are not finite.
        """
        device = next(self.model.parameters()).device  # type: ignore[attr-defined]
        ids = torch.tensor([list(prompt)], device=device)
        ends = self.end_tokens or (self.model.config.end_id,)
        never = tuple({self.model.config.padding_id} - {self.model.config.end_id, *ends})
        reading = _Reading(self.model, ids[:, :-1])
        guessing = (
            _GuessedByNGrams(self.draft, prompt)
            if isinstance(self.draft, NGramDraft)
            else _GuessedByModel(self.draft, ids)
        )
        text = _Text(Paths.begin(1, device), least, never, ends, self.transforms)
        guessed = accepted = readings = 0
        last = ids[:, -1]
        finished = False
        while not finished and text.paths.length < most:
            count = min(self.ahead, most - text.paths.length - 1)
            proposals = guessing.proposed(last, text, count, generator)
            logits = reading.read(torch.cat([last, *(token for token, _ in proposals)]))
            readings, guessed = readings + 1, guessed + len(proposals)
            kept = 0
            for place in range(len(proposals) + 1):
                allowed = text.allowed(logits[place : place + 1])
                believed = proposals[place] if place < len(proposals) else None
                token, agreed = _judged(allowed, believed, generator)
                text = text.longer(token, logits[place : place + 1])
                kept += agreed
                finished = int(token) in ends or any(bool(rule(text.paths)) for rule in self.stop)
                last = token
                if finished or not agreed:
                    break
            accepted += kept
            reading.back_to(len(prompt) - 1 + text.paths.length)
            if not finished:
                guessing.go_on(text.paths.tokens[0].tolist())
        hypothesis = text.paths.hypotheses(
            end_id=self.model.config.end_id, finished=[finished], scores=text.paths.totals.tolist()
        )[0]
        return Speculated(hypothesis=hypothesis, guessed=guessed, accepted=accepted, readings=readings)


Proposal = tuple[Tensor, Tensor | None]
"""A token (1,), and the logits (1, V) that it was sampled from; None where nothing but it was possible."""


class _GuessedByModel:
    """The proposals of a draft model."""

    def __init__(self, draft: CausalLM[Any], ids: Tensor) -> None:
        self.reading = _Reading(draft, ids[:, :-1])
        self.before = ids.shape[1] - 1
        self.unread: Tensor | None = None

    def proposed(self, last: Tensor, text: _Text, count: int, generator: torch.Generator | None) -> list[Proposal]:
        """Tokens after `last`, each with the logits that it was sampled from."""
        found: list[Proposal] = []
        for _ in range(count):
            logits = self.reading.read(last)
            allowed = text.allowed(logits)
            last = _chosen(allowed, generator)
            text = text.longer(last, logits)
            found.append((last, allowed))
        self.unread = last if count else None
        return found

    def go_on(self, tokens: Sequence[int]) -> None:
        """Go back to the text so far; its last token is read with the next proposals."""
        passed = self.before + len(tokens)
        if self.unread is not None and self.reading.state.length < passed:
            self.reading.read(self.unread)  # which was proposed last and accepted
        self.reading.back_to(passed)


class _GuessedByNGrams:
    """The proposals of n-grams."""

    def __init__(self, draft: NGramDraft, prompt: Sequence[int]) -> None:
        self.seen = draft.begin(prompt)
        self.count = 0

    def proposed(self, last: Tensor, text: _Text, count: int, generator: torch.Generator | None) -> list[Proposal]:
        """Tokens after `last`."""
        return [(last.new_tensor([token]), None) for token in self.seen.proposed(count)]

    def go_on(self, tokens: Sequence[int]) -> None:
        """Add the new tokens of the text so far."""
        for token in tokens[self.count :]:
            self.seen.add(token)
        self.count = len(tokens)


class _Reading:
    """A language model with its state, which can be cropped."""

    def __init__(self, model: CausalLM[Any], before: Tensor) -> None:
        self.model = model
        self.state = model.start(1)
        if before.shape[1]:
            self._read(before)

    def read(self, tokens: Tensor) -> Tensor:
        """Tokens (L,) to the logits (L, V) float32 after each."""
        if len(tokens) == 1:
            logits, self.state = self.model.step(tokens, self.state)
            return logits.float()
        if isinstance(self.model, LeftToRight):
            logits, self.state = self.model.step_through(tokens[None], self.state)
            return logits[0].float()
        return self._read(tokens[None])[0].float()

    def _read(self, ids: Tensor) -> Tensor:
        logits, self.state = self.model.read(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere"), self.state)
        return logits

    def back_to(self, length: int) -> None:
        """Crop the state to the first tokens.

        Raises:
            InputError: for a state that cannot be cropped.
        """
        if self.state.length <= length:
            return
        try:
            self.state = self.state.rewound(length)
        except ValueError as error:
            raise InputError(
                f"a {type(self.model).__name__} keeps no earlier states, and speculative decoding goes back; leave the draft out"
            ) from error


@dataclass(frozen=True, slots=True)
class _Text:
    """The generated tokens, and the tokens that are allowed next."""

    paths: Paths
    least: int
    never: tuple[int, ...]
    ends: tuple[int, ...]
    transforms: Sequence[LogitTransform]

    def allowed(self, logits: Tensor) -> Tensor:
        """Logits (1, V) with minus infinity at tokens that are not allowed."""
        forbidden = [*self.never, *(self.ends if self.paths.length < self.least else ())]
        found = logits
        if forbidden:
            found = logits.index_fill(1, torch.tensor(forbidden, device=logits.device), -torch.inf)
        for transform in self.transforms:
            found = transform(found, self.paths)
        check_choosable(found.amax(dim=-1), self.paths.length)
        return found

    def longer(self, token: Tensor, logits: Tensor) -> _Text:
        """The text with one more token (1,), whose log-probability is given by these logits (1, V)."""
        log_probability = logits.log_softmax(dim=-1)[:, int(token)]
        paths = self.paths.advanced(torch.zeros(1, dtype=torch.long, device=token.device), token, log_probability)
        return _Text(paths, self.least, self.never, self.ends, self.transforms)


def _chosen(allowed: Tensor, generator: torch.Generator | None) -> Tensor:
    """(1,): the most probable token, or a sample."""
    if generator is None:
        return allowed.argmax(dim=-1)
    return inverse_transform(allowed, torch.rand(1, generator=generator, dtype=torch.float64))


def _judged(allowed: Tensor, believed: Proposal | None, generator: torch.Generator | None) -> tuple[Tensor, bool]:
    """The token of the model at a position, (1,), and whether it is the proposed one.

    Arguments:
        allowed: the model's logits, (1, V).
        believed: the proposal; None after the last one.
    """
    if believed is None:
        return _chosen(allowed, generator), False
    proposal, beliefs = believed
    if generator is None:
        best = allowed.argmax(dim=-1)
        return best, bool(best == proposal)
    place, ours = int(proposal), allowed.double().softmax(dim=-1)
    theirs = (
        torch.zeros_like(ours).index_fill_(1, proposal, 1.0) if beliefs is None else beliefs.double().softmax(dim=-1)
    )
    mark = float(torch.rand((), generator=generator, dtype=torch.float64))
    if mark * float(theirs[0, place]) < float(ours[0, place]):
        return proposal, True
    rest = (ours - theirs).clamp_min(0)
    return inverse_transform(rest.log(), torch.rand(1, generator=generator, dtype=torch.float64)), False
