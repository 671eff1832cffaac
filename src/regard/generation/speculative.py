"""Speculative decoding: a small model guesses some tokens, a large one reads them at once and keeps what it would say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.checks import whole
from regard.generation.choosing import check_choosable, inverse_transform
from regard.generation.hypothesis import Hypothesis, Paths
from regard.generation.stopping import StopRule
from regard.generation.transforms import LogitTransform
from regard.layers import CausalLM, DecoderState, Tokens

S = TypeVar("S", bound=DecoderState)
D = TypeVar("D", bound=DecoderState)


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculated:
    """What was written, and how well the guesses were.

    Arguments:
        hypothesis: as another decoding would return it.
        guessed: tokens that the small model proposed.
        accepted: of them, those that the large one kept.
        readings: of the large model; each gives one token more than it accepts.
    """

    hypothesis: Hypothesis
    guessed: int
    accepted: int
    readings: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculation(Generic[S, D]):
    """Writes on after a prompt as `model` would, with fewer readings of it (Leviathan et al. 2023, algorithm 1).

    The draft proposes x_1 .. x_n, each from its own distribution q_i; the model reads them in one go and gives p_1 .. p_{n+1}.

        keep x_i with probability min(1, p_i(x_i) / q_i(x_i)), up to the first that is not kept;
        in its place draw from max(0, p_i - q_i), normalised; after n kept ones draw from p_{n+1}

    What comes out is distributed as if the model had been asked token by token, whatever the draft is (their appendix A.1); only
    the time depends on it. Without a generator both take the most probable token, and what comes out is greedy search's.

    Arguments:
        model: whose answer is wanted.
        draft: reads the same tokens, faster.
        ahead: n, tokens guessed at a time.
        transforms: changes to the logits, of both alike.
        stop: rules that end the text besides the end token.
        end_tokens: ids of which any ends the text, in place of the model's own end token where there are any.

    Raises:
        InputError: for two models with other vocabularies, or `ahead` below 1.
    """

    model: CausalLM[S]
    draft: CausalLM[D]
    ahead: int = 4
    transforms: Sequence[LogitTransform] = ()
    stop: Sequence[StopRule] = ()
    end_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        whole("ahead", self.ahead, least=1)
        theirs, ours = self.draft.config.vocabulary, self.model.config.vocabulary
        if theirs != ours:
            raise InputError(
                f"the draft has a vocabulary of {theirs:,} and the model one of {ours:,}; they have to be the same"
            )

    @torch.no_grad()
    def write(
        self, prompt: Sequence[int], *, most: int, least: int = 0, generator: torch.Generator | None = None
    ) -> Speculated:
        """What follows a prompt.

        Arguments:
            prompt: token ids, one at least.
            most: tokens to write, the end token among them.
            least: tokens before the end token is allowed.
            generator: of the draws; greedy where None.

        Raises:
            InputError: for a model or draft whose state cannot go back, and for logits that are not finite.
        """
        device = next(self.model.parameters()).device  # type: ignore[attr-defined]
        ids = torch.tensor([list(prompt)], device=device)
        ends = self.end_tokens or (self.model.config.end_id,)
        never = tuple({self.model.config.padding_id} - {self.model.config.end_id, *ends})
        reading = _Reading(self.model, ids[:, :-1])
        guessing = _Reading(self.draft, ids[:, :-1])
        text = _Text(Paths.begin(1, device), least, never, ends, self.transforms)
        guessed = accepted = readings = 0
        last = ids[:, -1]
        finished = False
        while not finished and text.paths.length < most:
            count = min(self.ahead, most - text.paths.length - 1)
            proposals, beliefs = self._guess(guessing, last, text, count, generator)
            logits = reading.read(torch.cat([last, *proposals]))
            readings, guessed = readings + 1, guessed + count
            kept = 0
            for place in range(count + 1):
                allowed = text.allowed(logits[place : place + 1])
                believed = (proposals[place], beliefs[place]) if place < count else None
                token, agreed = _judged(allowed, believed, generator)
                text = text.longer(token, logits[place : place + 1])
                kept += agreed
                finished = int(token) in ends or any(bool(rule(text.paths)) for rule in self.stop)
                last = token
                if finished or not agreed:
                    break
            accepted += kept
            passed = len(prompt) - 1 + text.paths.length
            reading.back_to(passed)
            if kept == count and not finished and count:
                guessing.read(proposals[-1])  # which it proposed and has not read
            guessing.back_to(passed)
        hypothesis = text.paths.hypotheses(
            end_id=self.model.config.end_id, finished=[finished], scores=text.paths.totals.tolist()
        )[0]
        return Speculated(hypothesis=hypothesis, guessed=guessed, accepted=accepted, readings=readings)

    def _guess(
        self, guessing: _Reading, last: Tensor, text: _Text, count: int, generator: torch.Generator | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """So many tokens by the draft, and the distribution each was drawn from."""
        proposals: list[Tensor] = []
        beliefs: list[Tensor] = []
        for _ in range(count):
            logits = guessing.read(last)
            allowed = text.allowed(logits)
            last = _chosen(allowed, generator)
            text = text.longer(last, logits)
            proposals.append(last)
            beliefs.append(allowed)
        return proposals, beliefs


class _Reading:
    """A language model that reads on, and goes back."""

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
        return self._read(tokens[None])[0].float()

    def _read(self, ids: Tensor) -> Tensor:
        logits, self.state = self.model.read(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere"), self.state)
        return logits

    def back_to(self, length: int) -> None:
        """Forget all but the first tokens.

        Raises:
            InputError: for a state that does not remember earlier ones.
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
    """What has been written, and what may come next."""

    paths: Paths
    least: int
    never: tuple[int, ...]
    ends: tuple[int, ...]
    transforms: Sequence[LogitTransform]

    def allowed(self, logits: Tensor) -> Tensor:
        """(1, V) with minus infinity where a token may not come."""
        forbidden = [*self.never, *(self.ends if self.paths.length < self.least else ())]
        found = logits
        if forbidden:
            found = logits.index_fill(1, torch.tensor(forbidden, device=logits.device), -torch.inf)
        for transform in self.transforms:
            found = transform(found, self.paths)
        check_choosable(found.amax(dim=-1), self.paths.length)
        return found

    def longer(self, token: Tensor, logits: Tensor) -> _Text:
        """With one token (1,) more, and its log-probability by these logits (1, V)."""
        told = logits.log_softmax(dim=-1)[:, int(token)]
        paths = self.paths.advanced(torch.zeros(1, dtype=torch.long, device=token.device), token, told)
        return _Text(paths, self.least, self.never, self.ends, self.transforms)


def _chosen(allowed: Tensor, generator: torch.Generator | None) -> Tensor:
    """(1,): the best token, or a draw."""
    if generator is None:
        return allowed.argmax(dim=-1)
    return inverse_transform(allowed, torch.rand(1, generator=generator, dtype=torch.float64))


def _judged(
    allowed: Tensor, believed: tuple[Tensor, Tensor] | None, generator: torch.Generator | None
) -> tuple[Tensor, bool]:
    """The token that the model lets stand at a place, (1,), and whether it is the proposed one.

    Arguments:
        allowed: the model's logits, (1, V).
        believed: the proposal and the draft's logits; None after the last proposal.
    """
    if believed is None:
        return _chosen(allowed, generator), False
    proposal, beliefs = believed
    if generator is None:
        best = allowed.argmax(dim=-1)
        return best, bool(best == proposal)
    ours, theirs = allowed.double().softmax(dim=-1), beliefs.double().softmax(dim=-1)
    place = int(proposal)
    mark = float(torch.rand((), generator=generator, dtype=torch.float64))
    if mark * float(theirs[0, place]) < float(ours[0, place]):
        return proposal, True
    rest = (ours - theirs).clamp_min(0)
    return inverse_transform(rest.log(), torch.rand(1, generator=generator, dtype=torch.float64)), False
