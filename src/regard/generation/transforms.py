"""Changes to logits before a token is chosen.

A transform takes logits and the paths so far, and returns logits of the same shape. It works on the last axis. Excluded tokens
get minus infinity. Transforms affect the choice of the next token; the log-probabilities of a `Hypothesis` are always those
of the model. Transforms of a single step (temperature, top-k, ...) come first, then biases of tokens, then repetition penalties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.hypothesis import Paths
from regard.generation.penalties import number, whole
from regard.layers import DecoderConfig, Tokens
from regard.text import Tokenizer


class LogitTransform(Protocol):
    """Logits in, logits out."""

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The changed logits.

        Arguments:
            logits: (N, V) float32; never changed in place.
            paths: the tokens of these N rows so far.

        Returns:
            (N, V), minus infinity at excluded tokens.
        """
        ...


@dataclass(frozen=True, slots=True)
class Temperature:
    """Logits divided by a temperature: below 1 sharper, above 1 flatter, 1 changes nothing.

    Arguments:
        value: above 0.

    Raises:
        InputError: for any other value; for temperature 0 use greedy search.

    >>> Temperature(0.5)(torch.tensor([[1.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[2.0, 4.0]]
    """

    value: float

    def __post_init__(self) -> None:
        number("temperature", self.value, above=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits over the temperature."""
        return logits / self.value


@dataclass(frozen=True, slots=True)
class TopK:
    """Only the k most probable tokens; tokens tied with the k-th stay too. k >= V changes nothing.

    Arguments:
        count: k, at least 1.

    Raises:
        InputError: for any other value.

    >>> TopK(1)(torch.tensor([[1.0, 3.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[-inf, 3.0, -inf]]
    """

    count: int

    def __post_init__(self) -> None:
        whole("top_k", self.count, least=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity below the k-th largest logit."""
        if self.count >= logits.shape[-1]:
            return logits
        least = logits.topk(self.count, dim=-1).values[..., -1:]
        return logits.masked_fill(logits < least, -torch.inf)


@dataclass(frozen=True, slots=True)
class TopP:
    """Only the smallest set of most probable tokens whose probabilities sum to p or more.

    This is nucleus sampling (Holtzman et al. 2020). The most probable token is always kept, and so are tokens with the same
    probability as the last one. p = 1 changes nothing.

    Arguments:
        mass: p, above 0 and at most 1.

    Raises:
        InputError: for any other value.

    >>> TopP(0.6)(torch.tensor([[0.5, 0.3, 0.2]]).log(), Paths.begin(1, "cpu")).isinf().tolist()
    [[False, False, True]]
    """

    mass: float

    def __post_init__(self) -> None:
        number("top_p", self.mass, above=0, most=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity outside the nucleus."""
        if self.mass == 1:
            return logits
        ordered = logits.sort(dim=-1, descending=True).values
        probability = ordered.softmax(dim=-1)
        # A token is in when those ahead of it do not reach p yet; the first has none ahead.
        inside = probability.cumsum(dim=-1) - probability < self.mass
        inside[..., 0] = True
        last = inside.sum(dim=-1, keepdim=True) - 1
        return logits.masked_fill(logits < ordered.gather(-1, last), -torch.inf)


@dataclass(frozen=True, slots=True)
class MinP:
    """Only tokens at least `share` times as probable as the most probable one. 0 changes nothing.

    Arguments:
        share: from 0 to 1.

    Raises:
        InputError: for any other value.

    >>> MinP(0.5)(torch.tensor([[0.6, 0.31, 0.09]]).log(), Paths.begin(1, "cpu")).isinf().tolist()
    [[False, False, True]]
    """

    share: float

    def __post_init__(self) -> None:
        number("min_p", self.share, least=0, most=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity below the share."""
        if self.share == 0:
            return logits
        # A ratio of probabilities is a difference of logits, so no softmax is needed.
        least = logits.amax(dim=-1, keepdim=True) + math.log(self.share)
        return logits.masked_fill(logits < least, -torch.inf)


@dataclass(frozen=True, slots=True)
class Forbid:
    """Excludes these ids.

    >>> Forbid((0,))(torch.tensor([[1.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[-inf, 2.0]]
    """

    ids: tuple[int, ...]

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity at the ids.

        Raises:
            InputError: for an id that no token has.
        """
        self.check(logits.shape[-1])
        return logits.index_fill(-1, torch.tensor(self.ids, dtype=torch.long, device=logits.device), -torch.inf)

    def check(self, vocabulary: int) -> None:
        """Raise an error for an id that no token has.

        Raises:
            InputError: for an id that is negative or not below `vocabulary`.
        """
        wrong = [index for index in self.ids if not 0 <= index < vocabulary]
        if wrong:
            raise InputError(
                f"token {wrong[0]} is forbidden, and the model has tokens from 0 to {vocabulary - 1}; forbid none but those"
            )


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """No end token before `count` other tokens.

    Arguments:
        count: tokens, without the end token; at least 0.
        end_id: the end token.

    Raises:
        InputError: for a negative count.

    >>> MinimumLength(1, end_id=1)(torch.tensor([[1.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[1.0, -inf]]
    """

    count: int
    end_id: int

    def __post_init__(self) -> None:
        whole("minimum_length", self.count, least=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity at the end token while the paths are short."""
        return logits if paths.length >= self.count else Forbid((self.end_id,))(logits, paths)


def forbidden_ids(
    config: DecoderConfig, minimum_length: int, length: int, end_tokens: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The ids that a search may not emit after `length` tokens: padding, start, and before the minimum length the end tokens.

    If a family uses the same id for the end token and for start or padding, this id is allowed.
    """
    never, ends = {config.padding_id, config.start_id} - {config.end_id}, set(end_tokens or (config.end_id,))
    return tuple(sorted((never | ends) if length < minimum_length else never - ends))


def are_among(tokens: Tensor, ids: tuple[int, ...]) -> Tensor:
    """Which tokens are one of the ids, at least one; bool in the shape of the tokens.

    >>> are_among(torch.tensor([4, 2, 3]), (2, 4)).tolist()
    [True, True, False]
    """
    found = tokens == ids[0]
    for index in ids[1:]:
        found = found | (tokens == index)
    return found


# Numbers added to the logits of some tokens, and how such tokens are named.


Biases = tuple[tuple[int | str, float], ...]
"""Tokens, each as an id or a text, and the number to add to the logit of each."""


@dataclass(frozen=True, slots=True)
class LogitBias:
    """Adds a number to the logits of some tokens.

    Arguments:
        amounts: ids, and the number to add to the logit of each; 100 makes a token almost certain, -100 almost impossible.

    Raises:
        InputError: for a value that is not an id or not a finite number, and for an id given twice.

    >>> LogitBias(((1, -2.0),))(torch.tensor([[1.0, 1.0]]), Paths.begin(1, "cpu")).tolist()
    [[1.0, -1.0]]
    """

    amounts: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        check_biases("logit_bias", self.amounts)
        for token, _ in self.amounts:
            whole("logit_bias", token, least=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits with the biases.

        Raises:
            InputError: for an id that the model does not have.
        """
        ids = [token for token, _ in self.amounts]
        beyond = [token for token in ids if token >= logits.shape[-1]]
        if beyond:
            raise InputError(f"logit_bias: there is no token {beyond[0]}; the model has 0 to {logits.shape[-1] - 1}")
        amounts = torch.tensor([amount for _, amount in self.amounts], dtype=logits.dtype, device=logits.device)
        return logits.index_add(-1, torch.tensor(ids, device=logits.device), amounts.expand(*logits.shape[:-1], -1))


def check_biases(field: str, biases: object) -> None:
    """Refuse values that are not pairs of a token and a number.

    Raises:
        InputError: naming the pair.

    >>> check_biases("logit_bias", (("the", 2.0), ("the", 1.0)))
    Traceback (most recent call last):
        ...
    regard.errors.InputError: logit_bias: 'the' is given twice; give it once
    """
    if not isinstance(biases, tuple | list) or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in biases
    ):
        raise InputError(f"{field}: {biases!r} will not do; give pairs of a token and a number, such as [[' the', -2]]")
    seen: set[int | str] = set()
    for token, amount in biases:
        if isinstance(token, bool) or not isinstance(token, int | str) or token == "":
            raise InputError(f"{field}: {token!r} is no token; give an id or a text that is not empty")
        number(f"{field} of {token!r}", amount)
        if token in seen:
            raise InputError(f"{field}: {token!r} is given twice; give it once")
        seen.add(token)


def biases_by_id(biases: Sequence[tuple[int | str, float]], tokenizer: Tokenizer) -> tuple[tuple[int, float], ...]:
    """The biases with ids instead of texts.

    A text must be a single token for the tokenizer, such as " the", or a token as it is in the vocabulary.

    Raises:
        InputError: for a text of several tokens, or of none.

    >>> biases_by_id([("a", 1.5), (7, -1.0)], Tokenizer.train(["abc"], kind="character", size=9))
    ((2, 1.5), (7, -1.0))
    """
    return tuple((_id(token, tokenizer) if isinstance(token, str) else token, amount) for token, amount in biases)


def only_ids(biases: Biases) -> tuple[tuple[int, float], ...]:
    """The same pairs, if all tokens are ids.

    Raises:
        InputError: naming a token that is not an id.
    """
    found = []
    for token, amount in biases:
        if isinstance(token, str):
            raise InputError(f"generation.logit_bias: {token!r} is a text, and there is no tokenizer here; give its id")
        found.append((token, amount))
    return tuple(found)


def _id(text: str, tokenizer: Tokenizer) -> int:
    ids = tokenizer.encode(text)
    if len(ids) == 1 and ids[0] != tokenizer.unknown_id:
        return ids[0]
    spelt = tokenizer.find(text)
    if spelt is not None:
        return spelt
    pieces = ", ".join(map(repr, tokenizer.tokens(ids))) or "no token"
    raise InputError(
        f"generation.logit_bias: {text!r} is {pieces} to this model; give a text that is one token, or an id"
    )


# Changes to logits by what is in the text already: no n-gram twice, repetition, presence and frequency penalties.


@dataclass(frozen=True, slots=True, eq=False)
class RepetitionPenalty:
    """Makes tokens of the prompt and of the generated text less probable (Keskar et al. 2019, section 4.1).

        logit -> logit / theta if logit > 0,  logit * theta if logit < 0        for each token that occurred

    The paper divides every logit. That would raise negative ones, so they are multiplied here, as in `transformers`. Logits have
    different scales and offsets in different models, so the effect of theta depends on the model.

    Arguments:
        penalty: theta, above 0; 1 changes nothing, 1.2 is the paper's value, below 1 repetition becomes more probable.
        before: the prompts, whose tokens count too, without padding; None = no prompts.

    Raises:
        InputError: for a penalty that is not above 0.

    >>> paths = Paths.begin(1, "cpu").advanced(torch.tensor([0]), torch.tensor([2]), torch.zeros(1))
    >>> RepetitionPenalty(2.0, Tokens.pad([[0]]))(torch.tensor([[1.0, 1.0, -1.0]]), paths).tolist()
    [[0.5, 1.0, -2.0]]
    """

    penalty: float
    before: Tokens | None = None

    def __post_init__(self) -> None:
        number("repetition_penalty", self.penalty, above=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits, with the penalty for tokens that occurred."""
        seen = times_written(paths, logits.shape[-1]) > 0
        if self.before is not None:
            seen |= times_read(self.before.select(paths.sources), logits.shape[-1]) > 0
        return torch.where(seen, torch.where(logits < 0, logits * self.penalty, logits / self.penalty), logits)


@dataclass(frozen=True, slots=True, eq=False)
class NoRepeatedNgrams:
    """Excludes tokens that would repeat an n-gram (Paulus et al. 2018, section 2.5, for n = 3).

    Arguments:
        size: n, at least 1.
        before: the prompts, whose n-grams count too, without padding; None = no prompts.

    Raises:
        InputError: for any other size.

    >>> paths = Paths.begin(1, "cpu").advanced(torch.tensor([0]), torch.tensor([2]), torch.zeros(1))
    >>> NoRepeatedNgrams(2, Tokens.pad([[2, 0]]))(torch.tensor([[1.0, 1.0, 1.0]]), paths).tolist()
    [[-inf, 1.0, 1.0]]
    """

    size: int
    before: Tokens | None = None

    def __post_init__(self) -> None:
        whole("no_repeat_ngram_size", self.size, least=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity at each token that would repeat an n-gram."""
        ids, real = paths.tokens, torch.ones_like(paths.tokens, dtype=torch.bool)
        if self.before is not None:
            read = self.before.select(paths.sources)
            ids, real = torch.cat((read.ids, ids), dim=1), torch.cat((read.valid, real), dim=1)
        if ids.shape[1] < self.size:
            return logits
        ngrams = ids.unfold(1, self.size, 1)
        begun = ids[:, None, ids.shape[1] - self.size + 1 :]
        again = (ngrams[..., :-1] == begun).all(dim=-1) & real.unfold(1, self.size, 1).all(dim=-1)
        rows, places = again.nonzero(as_tuple=True)
        banned = torch.zeros_like(logits, dtype=torch.bool)
        banned[rows, ngrams[rows, places, -1]] = True
        return logits.masked_fill(banned, -torch.inf)


@dataclass(frozen=True, slots=True)
class PresencePenalty:
    """Subtracts a number from the logit of every token that was generated before; the prompt does not count.

        logit -> logit - alpha [count > 0]                                               (as in OpenAI's interface)

    Arguments:
        penalty: alpha; 0 changes nothing, below 0 repetition becomes more probable.

    Raises:
        InputError: for a value that is not a finite number.

    >>> paths = Paths.begin(1, "cpu").advanced(torch.tensor([0]), torch.tensor([1]), torch.zeros(1))
    >>> PresencePenalty(0.5)(torch.tensor([[1.0, 1.0]]), paths).tolist()
    [[1.0, 0.5]]
    """

    penalty: float

    def __post_init__(self) -> None:
        number("presence_penalty", self.penalty)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits minus the penalty for tokens that occurred."""
        return logits - self.penalty * (times_written(paths, logits.shape[-1]) > 0)


@dataclass(frozen=True, slots=True)
class FrequencyPenalty:
    """Subtracts a number from the logit of a token for each time that it was generated before; the prompt does not count.

        logit -> logit - alpha count                                                     (as in OpenAI's interface)

    Arguments:
        penalty: alpha; 0 changes nothing, below 0 repetition becomes more probable.

    Raises:
        InputError: for a value that is not a finite number.

    >>> paths = Paths.begin(1, "cpu")
    >>> for _ in range(3):
    ...     paths = paths.advanced(torch.tensor([0]), torch.tensor([1]), torch.zeros(1))
    >>> FrequencyPenalty(0.5)(torch.tensor([[1.0, 1.0]]), paths).tolist()
    [[1.0, -0.5]]
    """

    penalty: float

    def __post_init__(self) -> None:
        number("frequency_penalty", self.penalty)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits minus the penalty times the number of occurrences."""
        return logits - self.penalty * times_written(paths, logits.shape[-1])


def times_written(paths: Paths, vocabulary: int) -> Tensor:
    """(N, V) float32, the number of times that each row has generated each token.

    >>> paths = Paths.begin(1, "cpu").advanced(torch.tensor([0]), torch.tensor([1]), torch.zeros(1))
    >>> times_written(paths, 3).tolist()
    [[0.0, 1.0, 0.0]]
    """
    return _counts(paths.tokens, torch.ones_like(paths.tokens, dtype=torch.float32), vocabulary)


def times_read(tokens: Tokens, vocabulary: int) -> Tensor:
    """(N, V) float32, the number of times that each token is in each row, without padding.

    >>> times_read(Tokens.pad([[2, 2], [1]], padding_id=0), 3).tolist()
    [[0.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
    """
    return _counts(tokens.ids.masked_fill(~tokens.valid, 0), tokens.valid.float(), vocabulary)


def _counts(ids: Tensor, amounts: Tensor, vocabulary: int) -> Tensor:
    nothing = torch.zeros(ids.shape[0], vocabulary, dtype=torch.float32, device=ids.device)
    return nothing.scatter_add_(1, ids, amounts)
