"""How good a language model is: perplexity by token and by word, bits by character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.errors import InputError
from regard.tasks.language_modelling.language_model import LanguageModel, TextScore


@dataclass(frozen=True, kw_only=True, slots=True)
class TextEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `loss`, the mean of -log p over tokens, natural log; `perplexity`, exp of it; `token_accuracy`, the share of
            tokens that were the most probable; `word_perplexity`, exp of the whole -log p over words between spaces; and
            `bits_per_character`, the whole -log2 p over characters. An end counts as a token, a word and a character of each
            text. The last two compare models of different vocabularies.
        count: texts.
        tokens, words, characters: of all texts, ends included.
        unknown: tokens that the vocabulary does not have; each is read as one and the same, which flatters a model.
        scores: one for each text.
    """

    metrics: dict[str, float]
    count: int
    tokens: int
    words: int
    characters: int
    unknown: int
    scores: tuple[TextScore, ...] = field(repr=False, default=())


def evaluate(
    model: LanguageModel, texts: Sequence[str], *, batch_size: int = 32, stride: int | None = None
) -> TextEvaluation:
    """Read each text as a document of its own.

    Arguments:
        batch_size: texts read together.
        stride: of the windows in which texts are read that are longer than the model has positions for, see `windows`.

    Raises:
        InputError: for an empty list, or a stride that is not between 1 and the model's positions.
    """
    if isinstance(texts, str) or not texts:
        raise InputError("there is nothing to evaluate; give a list with at least one text")
    scores = model.score_batch(texts, batch_size=batch_size, stride=stride)
    tokenizer = model.task.tokenizer
    tokens = sum(len(score.tokens) for score in scores)
    words = sum(len(text.split()) + 1 for text in texts)
    characters = sum(len(text) + 1 for text in texts)
    total = -math.fsum(score.log_probability for score in scores)
    unknown = 0
    if tokenizer.unknown_id is not None:
        unknown = sum(ids.count(tokenizer.unknown_id) for ids in tokenizer.encode_batch(list(texts)))
    return TextEvaluation(
        metrics={
            "loss": total / tokens,
            "perplexity": _exp(total / tokens),
            "token_accuracy": sum(sum(score.right) for score in scores) / tokens,
            "word_perplexity": _exp(total / words),
            "bits_per_character": total / characters / math.log(2),
        },
        count=len(texts),
        tokens=tokens,
        words=words,
        characters=characters,
        unknown=unknown,
        scores=tuple(scores),
    )


def _exp(x: float) -> float:
    return math.exp(min(700.0, x))
