"""The evaluation of translators: translations compared with references, and the loss with teacher forcing."""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.batching import Batches
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.losses import summed_losses
from regard.tasks.pairs import compared
from regard.tasks.predictor import Evaluation
from regard.tasks.translation_data import PAIRS
from regard.text import Tokenizer

if TYPE_CHECKING:
    from regard.tasks.translation import Translation, Translator


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBin:
    """The pairs whose sources have between `shortest` and `longest` words.

    Arguments:
        shortest, longest: numbers of words between spaces, both included; `longest` is None in the last bin, which is open.
        count: the number of pairs; an empty bin has no metrics.
        metrics: the same as for all pairs.
    """

    shortest: int
    longest: int | None
    count: int
    metrics: dict[str, float]

    @property
    def name(self) -> str:
        """The range, such as `11-15`, `7` for one length, or `21+` without end."""
        if self.longest == self.shortest:
            return str(self.shortest)
        return f"{self.shortest}+" if self.longest is None else f"{self.shortest}-{self.longest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationEvaluation(Evaluation):
    """The result of an evaluation; `predictions` are `Translation`s.

    The metrics are `exact_match` in [0, 1]; `position_accuracy` in [0, 1], the share of positions at which output and reference
    have the same token, over the positions of the longer one; `bleu` and `chrf` in [0, 100], by sacreBLEU; and `length_ratio`,
    the number of words of the output divided by that of the reference.

    Arguments:
        signatures: sacreBLEU's signatures of the metrics.
        note: metrics that could not be computed, and why; empty if all were.
        bins: the metrics by source length, if requested.
    """

    signatures: dict[str, str]
    note: str = ""
    bins: tuple[LengthBin, ...] = ()

    @property
    def translations(self) -> tuple[Translation, ...]:
        """The old name of `predictions`, for one release."""
        warnings.warn("translations is called predictions; use that name", DeprecationWarning, stacklevel=2)
        return self.predictions


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherForced:
    """How well a model predicts each token of the references, given the previous ones.

    Arguments:
        loss: the mean of -log p(token | previous tokens, source) over target tokens, with end tokens; natural log.
        perplexity: exp(loss).
        token_accuracy: the share of tokens that had the highest probability.
        tokens: the number of target tokens.
    """

    loss: float
    perplexity: float
    token_accuracy: float
    tokens: int


def evaluate(
    translator: Translator,
    pairs: Any,
    settings: GenerationSettings | None = None,
    *,
    to: str | None = None,
    bins: Sequence[int] | None = None,
    batch_size: int = 64,
) -> TranslationEvaluation:
    """Translate the sources and compare with the targets.

    BLEU is that of sacreBLEU: cased, tokenized with `13a`, on the plain output. Without the package sacrebleu, BLEU and chrF
    are left out.

    Arguments:
        pairs: pairs of source and reference.
        settings: how to decode; None = the settings of the folder.
        to: the language of the references, for a model with several.
        bins: increasing numbers of words, such as [10, 15, 20], for metrics of pairs whose source has 1 to 10 words, 11 to 15,
            16 to 20, and more.
        batch_size: texts per batch.

    Raises:
        InputError: for an empty list, bins that do not increase, or a language that is missing or that the model does not have.
    """
    given = PAIRS.to_measure(pairs)
    sources, references = [pair.source for pair in given], [pair.target for pair in given]
    ends = _checked(bins or ())
    translations = translator.translate_batch(sources, settings, to=to, batch_size=batch_size)
    texts = [translation.text for translation in translations]
    tokenizer = translator.task.target_tokenizer
    metrics, signatures, note = compared(texts, references, tokenizer)
    return TranslationEvaluation(
        metrics=metrics,
        signatures=signatures,
        count=len(given),
        predictions=tuple(translations),
        note=note,
        bins=_binned(sources, texts, references, tokenizer, ends) if ends else (),
    )


def teacher_forced(
    translator: Translator,
    pairs: Any,
    *,
    to: str | None = None,
    batch_tokens: int = 16_384,
) -> TeacherForced:
    """Loss, perplexity and token accuracy on pairs with teacher forcing: the model reads the references, not its own output.

    There is no label smoothing, as in validation during training.

    Arguments:
        pairs: pairs of source and reference.
        to: the language of the references, for a model with several.
        batch_tokens: source and target tokens per batch, with padding; it does not affect the results.

    Raises:
        InputError: for an empty list, a text longer than the model's positions, or a language that is missing or that the model
            does not have.
    """
    given, task = PAIRS.to_measure(pairs), translator.task
    sources = task.encode_sources([pair.source for pair in given], to)
    targets = task.target_tokenizer.encode_batch([pair.target for pair in given])
    lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in zip(sources, targets, strict=True)])
    batches = (
        task.batch([sources[row] for row in rows], [targets[row] for row in rows]).to(translator.device)
        for rows in Batches(lengths, maximum_tokens=batch_tokens).in_order()
    )
    total, tokens, correct = summed_losses(task.loss, translator.model, batches, "these pairs")[""]
    loss = total / tokens
    return TeacherForced(
        loss=loss, perplexity=math.exp(min(50.0, loss)), token_accuracy=correct / tokens, tokens=tokens
    )


def _checked(bins: Sequence[int]) -> list[int]:
    ends = list(bins)
    if any(isinstance(end, bool) or not isinstance(end, int) or end < 1 for end in ends) or sorted(set(ends)) != ends:
        raise InputError(f"bins are {ends}; give rising numbers of words, such as 10,15,20")
    return ends


def _binned(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str], tokenizer: Tokenizer, ends: list[int]
) -> tuple[LengthBin, ...]:
    rows: list[list[int]] = [[] for _ in range(len(ends) + 1)]
    for row, source in enumerate(sources):
        rows[bisect.bisect_left(ends, len(source.split()))].append(row)
    bins = []
    for number, within in enumerate(rows):
        found = compared([texts[i] for i in within], [references[i] for i in within], tokenizer) if within else ({},)
        shortest, longest = (ends[number - 1] + 1 if number else 1), (ends[number] if number < len(ends) else None)
        bins.append(LengthBin(shortest=shortest, longest=longest, count=len(within), metrics=found[0]))
    return tuple(bins)
