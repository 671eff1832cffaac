"""A language model ready to use: how probable a text is, token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.errors import InputError
from regard.layers import Tokens
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.tasks.predictor import Predictor


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScore:
    """How probable a text is.

    Arguments:
        text: what was read.
        tokens: of the text, the end token included.
        log_probabilities: log p(token | those before), natural log, one for each token.
        right: whether each token was the most probable one.
    """

    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    right: tuple[bool, ...]

    @property
    def log_probability(self) -> float:
        """Of the whole text and its end."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Exp of the mean of -log p over the tokens, end token included."""
        return math.exp(min(700.0, -self.log_probability / len(self.log_probabilities)))


class LanguageModel(Predictor[LanguageModellingTask]):
    """A language model ready to use: texts in, `TextScore`s out.

    Arguments:
        model: a `Reader`.
        task: the tokenizer.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    def score(self, text: str) -> TextScore:
        """How probable a text is, as a document of its own: read from its beginning to its end.

        Raises:
            InputError: where the text is longer than the model has positions for.
        """
        return self.score_batch([text])[0]

    def score_batch(self, texts: Sequence[str], *, batch_size: int = 32, stretch: int = 512) -> list[TextScore]:
        """How probable texts are, in batches of like length; the answers come in the order of the texts.

        Arguments:
            batch_size: texts read together. It does not change the answers, only memory and speed.
            stretch: tokens read at once; the state is carried from stretch to stretch, so it does not change the answers either.

        Raises:
            InputError: where a text is longer than the model has positions for.
        """
        tokenizer, limit = self.task.tokenizer, self.model.maximum_length
        encoded = [[*ids, tokenizer.end_id] for ids in tokenizer.encode_batch(list(texts))]
        for number, ids in enumerate(encoded, start=1):
            if limit is not None and len(ids) > limit:
                raise InputError(f"text {number} has {len(ids)} tokens where the model has {limit} positions; cut it")
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        answers: dict[int, TextScore] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = self._scored([encoded[i] for i in rows], stretch)
            for i, (log_probabilities, right) in zip(rows, found, strict=True):
                answers[i] = TextScore(
                    text=texts[i],
                    tokens=tuple(tokenizer.tokens(encoded[i])),
                    log_probabilities=tuple(log_probabilities),
                    right=tuple(right),
                )
        return [answers[i] for i in range(len(texts))]

    def _scored(self, encoded: Sequence[Sequence[int]], stretch: int) -> list[tuple[list[float], list[bool]]]:
        """Log-probability of each token of each text, and whether it was the most probable."""
        end, padding = self.task.tokenizer.end_id, self.task.tokenizer.padding_id
        read = Tokens.pad([[end, *ids[:-1]] for ids in encoded], padding_id=padding, device=self.device)
        told = Tokens.pad(encoded, padding_id=padding, device=self.device).ids
        found: list[torch.Tensor] = []
        right: list[torch.Tensor] = []
        with torch.no_grad():
            state = self.model.start(len(encoded))
            for start in range(0, read.ids.shape[1], stretch):
                part = slice(start, start + stretch)
                logits, state = self.model.read(Tokens(read.ids[:, part], read.valid[:, part]), state)
                labels = told[:, part].unsqueeze(-1)
                wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
                chosen = wide.gather(-1, labels)
                found.append((chosen - wide.logsumexp(dim=-1, keepdim=True)).squeeze(-1))
                right.append((chosen >= wide.amax(dim=-1, keepdim=True)).squeeze(-1))
        logs, rights = torch.cat(found, dim=1).tolist(), torch.cat(right, dim=1).tolist()
        return [(log[: len(ids)], hit[: len(ids)]) for ids, log, hit in zip(encoded, logs, rights, strict=True)]
