"""Changes to logits by what stands in the text already: no n-gram twice, repetition, presence and frequency penalties."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.generation.checks import number, whole
from regard.generation.paths import Paths
from regard.layers import Tokens


@dataclass(frozen=True, slots=True, eq=False)
class RepetitionPenalty:
    """Tokens that were read or written before become less probable by a factor (Keskar et al. 2019, section 4.1).

        logit -> logit / theta where it is above 0, logit * theta where it is below        for each token seen

    The paper divides every logit; a negative one would rise by that, so it is multiplied here, as in `transformers`. What a
    token's logit is above or below depends on the model, so the same theta means more to one than to another.

    Arguments:
        penalty: theta, above 0; 1 changes nothing, 1.2 is the paper's, below 1 repeats more.
        before: what the sources had read before the first token that is written, padding left out; None for nothing.

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
        """The logits of what was seen, over or times the penalty."""
        seen = times_written(paths, logits.shape[-1]) > 0
        if self.before is not None:
            seen |= times_read(self.before.select(paths.sources), logits.shape[-1]) > 0
        return torch.where(seen, torch.where(logits < 0, logits * self.penalty, logits / self.penalty), logits)


@dataclass(frozen=True, slots=True, eq=False)
class NoRepeatedNgrams:
    """No n tokens that stood in this order before (Paulus et al. 2018, section 2.5, for n = 3).

    Arguments:
        size: n, at least 1.
        before: what the sources had read before the first token that is written, padding left out; None for nothing.

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
        """Minus infinity at each token that would end an n-gram a second time."""
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
    """A number taken off the logit of every token that was written before, however often; the prompt does not count.

        logit -> logit - alpha [count > 0]                                               (as in OpenAI's interface)

    Arguments:
        penalty: alpha; 0 changes nothing, below 0 repeats more.

    Raises:
        InputError: for what is no finite number.

    >>> paths = Paths.begin(1, "cpu").advanced(torch.tensor([0]), torch.tensor([1]), torch.zeros(1))
    >>> PresencePenalty(0.5)(torch.tensor([[1.0, 1.0]]), paths).tolist()
    [[1.0, 0.5]]
    """

    penalty: float

    def __post_init__(self) -> None:
        number("presence_penalty", self.penalty)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits less the penalty where a token stands already."""
        return logits - self.penalty * (times_written(paths, logits.shape[-1]) > 0)


@dataclass(frozen=True, slots=True)
class FrequencyPenalty:
    """A number taken off the logit of a token as many times as it was written before; the prompt does not count.

        logit -> logit - alpha count                                                     (as in OpenAI's interface)

    Arguments:
        penalty: alpha; 0 changes nothing, below 0 repeats more.

    Raises:
        InputError: for what is no finite number.

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
        """The logits less the penalty for each time."""
        return logits - self.penalty * times_written(paths, logits.shape[-1])


def times_written(paths: Paths, vocabulary: int) -> Tensor:
    """(N, V) float32: how often each row has written each token.

    >>> paths = Paths.begin(1, "cpu").advanced(torch.tensor([0]), torch.tensor([1]), torch.zeros(1))
    >>> times_written(paths, 3).tolist()
    [[0.0, 1.0, 0.0]]
    """
    return _counts(paths.tokens, torch.ones_like(paths.tokens, dtype=torch.float32), vocabulary)


def times_read(tokens: Tokens, vocabulary: int) -> Tensor:
    """(N, V) float32: how often each row holds each token, padding left out.

    >>> times_read(Tokens.pad([[2, 2], [1]], padding_id=0), 3).tolist()
    [[0.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
    """
    return _counts(tokens.ids.masked_fill(~tokens.valid, 0), tokens.valid.float(), vocabulary)


def _counts(ids: Tensor, amounts: Tensor, vocabulary: int) -> Tensor:
    nothing = torch.zeros(ids.shape[0], vocabulary, dtype=torch.float32, device=ids.device)
    return nothing.scatter_add_(1, ids, amounts)
