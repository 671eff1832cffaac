"""How good a translator is: exact match, BLEU and chrF against references, and the loss on the references themselves."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from regard.data.batching import Batches
from regard.data.pairs import pairs_in_memory
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers.output import check_number
from regard.tasks.translation.metrics import compared
from regard.tasks.translation.translator import Translation, Translator
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBin:
    """The pairs whose sources have between `shortest` and `longest` words.

    Arguments:
        shortest, longest: words between spaces, both included; `longest` is None in the last bin, which has no end.
        count: pairs; a bin may be empty, and has no metrics then.
        metrics: as those of the whole.
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
class Evaluation:
    """What an evaluation found.

    Arguments:
        metrics: `exact_match` in [0, 1]; `position_accuracy` in [0, 1], the share of places at which output and reference have
            the same token, over the places of the longer one; `bleu` and `chrf` in [0, 100] as sacreBLEU computes them;
            `length_ratio`, words of the output over words of the reference.
        signatures: what sacreBLEU says of how it computed each.
        count: pairs.
        translations: one for each pair.
        note: what could not be computed and why; empty where all was.
        bins: the same by length of the source, where that was asked for.
    """

    metrics: dict[str, float]
    signatures: dict[str, str]
    count: int
    translations: tuple[Translation, ...] = field(repr=False, default=())
    note: str = ""
    bins: tuple[LengthBin, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherForced:
    """How well a model predicts each token of the references from those before it.

    Arguments:
        loss: mean over target tokens, end tokens included, of -log p(token | tokens before, source), natural log.
        perplexity: exp(loss).
        token_accuracy: share of the tokens that had the highest probability.
        tokens: target tokens.
    """

    loss: float
    perplexity: float
    token_accuracy: float
    tokens: int


def evaluate(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    settings: GenerationSettings | None = None,
    *,
    to: str | None = None,
    bins: Sequence[int] | None = None,
    batch_size: int = 64,
) -> Evaluation:
    """Translate the sources and compare with the targets.

    BLEU is sacreBLEU's: cased, tokenised by `13a`, on the plain output. Without sacrebleu installed it and chrF are left out.

    Arguments:
        pairs: source and reference.
        settings: how to decode; the folder's own where None.
        to: the language of the references, of a model of several.
        bins: rising numbers of words, such as [10, 15, 20]: the metrics too of the pairs whose source has 1 to 10 words, 11 to
            15, 16 to 20, and more.
        batch_size: texts decoded together.

    Raises:
        InputError: for an empty list, bins that do not rise, or a language that is missing or not one of the model's.
    """
    if not pairs:
        raise InputError("there is nothing to evaluate; give at least one pair")
    pairs = [(pair.source, pair.target) for pair in pairs_in_memory(pairs)]
    ends = _checked(bins or ())
    translations = translator.translate_batch([source for source, _ in pairs], settings, to=to, batch_size=batch_size)
    texts, references = [t.text for t in translations], [target for _, target in pairs]
    tokenizer = translator.task.target_tokenizer
    metrics, signatures, note = compared(texts, references, tokenizer)
    return Evaluation(
        metrics=metrics,
        signatures=signatures,
        count=len(pairs),
        translations=tuple(translations),
        note=note,
        bins=_binned([source for source, _ in pairs], texts, references, tokenizer, ends) if ends else (),
    )


def teacher_forced(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    *,
    to: str | None = None,
    batch_tokens: int = 16_384,
) -> TeacherForced:
    """Loss, perplexity and token accuracy on pairs, the model reading the references and not what it wrote itself.

    No label smoothing: the numbers are those of validation in training.

    Arguments:
        pairs: source and reference.
        to: the language of the references, of a model of several.
        batch_tokens: tokens computed together, of source and target, padding included; the numbers are the same for any.

    Raises:
        InputError: for an empty list, a text longer than the model has positions for, or a language that is missing or not
            one of the model's.
    """
    if not pairs:
        raise InputError("there is nothing to evaluate; give at least one pair")
    pairs = [(pair.source, pair.target) for pair in pairs_in_memory(pairs)]
    task = translator.task
    sources = task.encode_sources([source for source, _ in pairs], to)
    targets = task.target_tokenizer.encode_batch([target for _, target in pairs])
    lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in zip(sources, targets, strict=True)])
    total, tokens, correct = 0.0, 0, 0
    with torch.no_grad():
        for rows in Batches(lengths, maximum_tokens=batch_tokens).in_order():
            batch = task.batch([sources[row] for row in rows], [targets[row] for row in rows])
            found = task.loss(translator.model, batch.to(translator.device))
            total += check_number(found.total.item(), "these pairs")
            tokens += found.tokens
            correct += int(found.correct)
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
