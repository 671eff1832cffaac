"""What of a task's model is attributed: log-probabilities of what it writes; those of encoders are in `encoder_scores`.

A task joins by a class and a line in `SCORES`; methods and pictures of attribution know of it only `Scored`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.inspection.analysis.encoder_scores import ENCODER_SCORES
from regard.inspection.analysis.scored import ReadTokens, Scored, TaskScore, place_of
from regard.layers import Tokens
from regard.tasks import (
    LanguageModel,
    LanguageModellingTask,
    SpanCorruptionTask,
    TextToTextTask,
    TranslationTask,
)
from regard.tasks.pairs import PairPredictor


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetProbability:
    """Of a model that writes a text for a text: log p(target | source), or log p(one token | source, the target before it).

    Logarithms are natural. The target is read by teacher forcing. Attributed to are the tokens of the source, end token included,
    and of the target as the decoder reads it: the start token first.

    Arguments:
        source: a text.
        target: a text; what the model itself writes where None.
        token: which token of the target: a number, from 0 or from -1 backwards, or the token itself where it occurs once; the
            end token is the last. The whole target where None.
        to: the language wanted, or the part, of a model of several.
    """

    source: str
    target: str | None = None
    token: int | str | None = None
    to: str | None = None

    def of(self, model: PairPredictor[Any]) -> Scored:
        """The score of this model.

        Raises:
            InputError: for an empty source, a token that is not there, and as the model's `encode_source`.
        """
        task = model.task
        if not self.source.strip():
            raise InputError("the source is empty; there is nothing to attribute to")
        reader, tokenizer = task.sides
        source = [*model.encode_source(self.source, self.to), reader.end_id]
        given = None if self.target is None else [*model.encode_target(self.target), tokenizer.end_id]
        written = _written(model, source) if given is None else given
        texts = tokenizer.tokens(written)
        place = None if self.token is None else place_of(self.token, texts, "target")
        # What follows the token is not looked at, so it need not be computed.
        last = len(written) if place is None else place + 1
        first = 0 if place is None else place
        labels = written[first:last]
        fed = [tokenizer.start_id, *written[: last - 1]]

        def score(read: Sequence[Tokens]) -> Tensor:
            logits = model.model(*read)
            return _log_probability(logits[:, first:], labels)

        said = texts[place] if place is not None else shorten(tokenizer.decode(written), 60, placeholder="...")
        return Scored(
            module=model.model,
            quantity="log p",
            target=said,
            read=(
                ReadTokens(name="source", ids=tuple(source), texts=tuple(reader.tokens(source))),
                ReadTokens(name="target", ids=tuple(fed), texts=tuple(tokenizer.tokens(fed))),
            ),
            score=score,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TextProbability:
    """Of a language model: log p(text), or log p(one token | those before), natural log.

    Attributed to are the tokens read: the end token that stands before a text, and the text as far as it counts.

    Arguments:
        text: read as a document of its own, from its beginning.
        token: which token: a number, from 0 or from -1 backwards, or the token itself where it occurs once; the end token is
            the last. The whole text and its end where None.
    """

    text: str
    token: int | str | None = None

    def of(self, model: LanguageModel) -> Scored:
        """The score of this language model.

        Raises:
            InputError: for a token that is not there, and a text that is longer than the model has positions for.
        """
        tokenizer, limit = model.task.tokenizer, model.model.maximum_length
        written = [*tokenizer.encode(self.text), tokenizer.end_id]
        texts = tokenizer.tokens(written)
        place = None if self.token is None else place_of(self.token, texts, "text")
        last = len(written) if place is None else place + 1
        first = 0 if place is None else place
        if limit is not None and last > limit:
            raise InputError(f"{last} tokens are to be read where the model has {limit} positions; cut the text")
        labels = written[first:last]
        fed = [tokenizer.end_id, *written[: last - 1]]

        def score(read: Sequence[Tokens]) -> Tensor:
            return _log_probability(model.model(read[0])[:, first:], labels)

        said = texts[place] if place is not None else shorten(self.text, 60, placeholder="...")
        return Scored(
            module=model.model,
            quantity="log p",
            target=said,
            read=(ReadTokens(name="text", ids=tuple(fed), texts=tuple(tokenizer.tokens(fed))),),
            score=score,
        )


SCORES: Mapping[str, type[TaskScore]] = MappingProxyType(
    {
        TranslationTask.name: TargetProbability,
        TextToTextTask.name: TargetProbability,
        SpanCorruptionTask.name: TargetProbability,
        LanguageModellingTask.name: TextProbability,
        **ENCODER_SCORES,
    }
)
"""By the name of a task, the score that its models are asked for. Tasks that read no tokens by a table of vectors have
none: pictures, bits, words by their letters."""


def _written(model: PairPredictor[Any], source: Sequence[int]) -> list[int]:
    """The ids of what the model itself writes, its end token included where it came to one."""
    tokenizer = model.task.sides[1]
    (best,) = model.searched([source[:-1]], model.usual.with_ids(tokenizer), lambda _, found: found[0])
    return [*best.tokens, tokenizer.end_id] if best.length > len(best.tokens) else list(best.tokens)


def _log_probability(logits: Tensor, labels: Sequence[int]) -> Tensor:
    """Log-probability of the labels (L), one after the other, from logits (N, L, V): (N,)."""
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    wanted = torch.tensor(labels, device=logits.device).expand(len(logits), -1)
    return logs.gather(-1, wanted.unsqueeze(-1)).squeeze(-1).sum(dim=1)
