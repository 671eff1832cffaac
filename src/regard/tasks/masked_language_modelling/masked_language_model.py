"""A masked language model ready to use."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers import Tokens
from regard.tasks.encoders import BATCH_TOKENS, EncoderPredictor, Joined, join
from regard.tasks.gaps import refuse_empty
from regard.tasks.losses import stands_out
from regard.tasks.masked_language_modelling.answers import Candidate, Filled, PseudoScore
from regard.tasks.masked_language_modelling.inputs import mask_of, read_masked
from regard.tasks.masked_language_modelling.task import FOLLOWED, MaskedLanguageModellingTask

SCORED_TOGETHER = 64
"""Texts whose copies, one for each token, are held in memory together."""


class MaskedLanguageModel(EncoderPredictor[MaskedLanguageModellingTask]):
    """A masked language model ready to use: it fills gaps, scores texts, and may tell if one text follows another.

    Arguments:
        model: a `TextEncoder` with a head over the vocabulary.
        task: the tokenizer.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged_always = False

    def fill(self, text: str, top: int = 5) -> Filled:
        """What may stand at each mask of a text, such as "Paris is the [MASK] of France.".

        Arguments:
            top: how many candidates for each mask.

        Raises:
            InputError: for a text without a mask, or one that is too long.
        """
        return self.fill_batch([text], top)[0]

    def fill_batch(self, texts: Sequence[str], top: int = 5, *, batch_tokens: int = BATCH_TOKENS) -> list[Filled]:
        """The same for many texts; the answers come in the order of the texts.

        Arguments:
            top: how many candidates for each mask.
            batch_tokens: tokens read together. It does not change the answers, only memory and speed.

        Raises:
            InputError: as `fill`.
        """
        if top < 1:
            raise InputError(f"top is {top}; give at least 1")
        inputs = read_masked(self.task.tokenizer, texts, maximum=self.maximum_length)
        found: dict[int, Filled] = {}
        for rows, tokens, encoded in self.encoded(inputs, batch_tokens=batch_tokens, at=self._masks):
            # A model's table may have rows that no token has.
            probabilities = _wide(encoded.logits).softmax(dim=-1)[:, : self.task.tokenizer.size]
            best = probabilities.topk(min(top, probabilities.shape[1]), dim=-1)
            candidates = iter(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            counts = (tokens.ids == self.task.tokenizer.mask_id).sum(dim=1).tolist()
            made = [
                self._filled(texts[row], [next(candidates) for _ in range(count)])
                for row, count in zip(rows, counts, strict=True)
            ]
            self.tell(made)
            found.update(zip(rows, made, strict=True))
        return [found[row] for row in range(len(texts))]

    def follows(self, first: str, second: str) -> float:
        """How probable it is that the second text followed the first.

        Raises:
            InputError: where the model was not trained on that, or a text is empty.
        """
        return self.follows_batch([(first, second)])[0]

    def follows_batch(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The same for many pairs.

        Raises:
            InputError: as `follows`.
        """
        if not self.task.next_sentence:
            raise InputError(
                "the model was not trained to tell whether one text follows another; use one trained with data.next_sentence=true"
            )
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        refuse_empty(firsts, "first text")
        refuse_empty(seconds, "second text")
        encode = self.task.tokenizer.encode_batch
        inputs = [
            join(self.task.tokenizer, one, other, maximum=self.maximum_length)
            for one, other in zip(encode(firsts), encode(seconds), strict=True)
        ]
        found = [0.0] * len(inputs)
        for rows, _, encoded in self.encoded(inputs, at=_nowhere):
            told = _wide(encoded.next_sentence).softmax(dim=-1)[:, FOLLOWED].tolist()
            for row, probability in zip(rows, told, strict=True):
                found[row] = probability
        return found

    def score(self, text: str) -> PseudoScore:
        """How well each token of a text is guessed from all the others: the model reads the text once for every token.

        Raises:
            InputError: for an empty text, or one that is too long.
        """
        return self.score_batch([text])[0]

    def score_batch(self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS) -> list[PseudoScore]:
        """The same for many texts; the answers come in the order of the texts.

        Arguments:
            batch_tokens: tokens read together. It does not change the answers, only memory and speed.

        Raises:
            InputError: as `score`.
        """
        refuse_empty(texts)
        tokenizer = self.task.tokenizer
        mask_of(tokenizer)
        encoded = tokenizer.encode_batch(list(texts))
        for number, ids in enumerate(encoded, start=1):
            if not 1 <= len(ids) <= self.maximum_length - 2:
                raise InputError(
                    f"text {number} has {len(ids)} tokens and the model scores 1 to {self.maximum_length - 2}; shorten it"
                    if ids
                    else f"text {number} ({texts[number - 1]!r:.60}) has no token that the model knows; leave it out"
                )
        made: list[PseudoScore] = []
        for start in range(0, len(texts), SCORED_TOGETHER):
            group = encoded[start : start + SCORED_TOGETHER]
            guesses = iter(self._guesses(group, batch_tokens))
            for text, ids in zip(texts[start:], group, strict=False):
                logs, right = zip(*[next(guesses) for _ in ids], strict=True)
                made.append(
                    PseudoScore(text=text, tokens=tuple(tokenizer.tokens(ids)), log_probabilities=logs, right=right)
                )
            self.tell(made[start:])
        return made

    def _guesses(self, texts: Sequence[Sequence[int]], batch_tokens: int) -> list[tuple[float, bool]]:
        """Log-probability of each token of each text when it alone is masked, and whether it was the most probable one."""
        tokenizer = self.task.tokenizer
        start, end, mask = tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id or 0
        inputs = [Joined([start, *ids[:i], mask, *ids[i + 1 :], end]) for ids in texts for i in range(len(ids))]
        right = torch.tensor([index for ids in texts for index in ids], device=self.device)
        found: list[tuple[float, bool]] = [(0.0, False)] * len(inputs)
        for rows, _, encoded in self.encoded(inputs, batch_tokens=batch_tokens, at=self._masks):
            logits = _wide(encoded.logits)
            chosen = logits.gather(1, right[rows].unsqueeze(1)).squeeze(1)
            logs, best = (chosen - logits.logsumexp(dim=1)).tolist(), stands_out(logits, right[rows]).tolist()
            for row, guess in zip(rows, zip(logs, best, strict=True), strict=True):
                found[row] = guess
        return found

    def _masks(self, tokens: Tokens) -> Tensor:
        """Where the masks of a batch stand, as indices into B x L."""
        return (tokens.ids == self.task.tokenizer.mask_id).flatten().nonzero().squeeze(1)

    def _filled(self, text: str, found: Sequence[tuple[list[int], list[float]]]) -> Filled:
        """A text with the candidates for each of its masks, as ids and probabilities."""
        tokenizer = self.task.tokenizer
        between = text.split(mask_of(tokenizer))
        best = [self._spelt(ids[0]) for ids, _ in found]
        masks = []
        for place, (ids, probabilities) in enumerate(found):
            candidates = []
            for index, token, probability in zip(ids, tokenizer.tokens(ids), probabilities, strict=True):
                words = [*best[:place], self._spelt(index), *best[place + 1 :]]
                candidates.append(Candidate(token=token, probability=probability, text=_joined(between, words)))
            masks.append(tuple(candidates))
        return Filled(text=text, masks=tuple(masks))

    def _spelt(self, index: int) -> str:
        """A token as it is written in a text, "##" before it where it goes on with the word before."""
        (token,) = self.task.tokenizer.tokens([index])
        return token if _goes_on(token) else self.task.tokenizer.decode([index]).strip() or token


def _goes_on(token: str) -> bool:
    return token.startswith("##") and len(token) > 2


def _joined(between: Sequence[str], words: Sequence[str]) -> str:
    """Words put into the gaps of a text; one that goes on with the word before loses the space before it."""
    text = between[0]
    for word, after in zip(words, between[1:], strict=True):
        text = (text.rstrip() + word[2:] if _goes_on(word) else text + word) + after
    return text


def _nowhere(tokens: Tokens) -> Tensor:
    """No place of a batch: what is asked is of the whole text."""
    return torch.zeros(0, dtype=torch.int64, device=tokens.ids.device)


def _wide(logits: Tensor | None) -> Tensor:
    """Logits in float32 at least."""
    if logits is None:
        raise RuntimeError("the model has no such head")
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
