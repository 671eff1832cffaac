"""Settings of decoding, the function `search` that follows them, and checks for contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeVar

import torch

from regard.errors import InputError
from regard.generation.beam import beam_search
from regard.generation.choosing import Greedy, Sample
from regard.generation.hypothesis import Hypothesis, SearchObserver
from regard.generation.penalties import (
    CoveragePenalty,
    FixedLength,
    GnmtLength,
    LengthLimit,
    LengthPenalty,
    PowerLength,
    RelativeLength,
    StopRule,
    number,
    one_of,
    truth,
    whole,
)
from regard.generation.streaming import generate
from regard.generation.transforms import (
    Biases,
    Forbid,
    FrequencyPenalty,
    LogitBias,
    LogitTransform,
    MinP,
    NoRepeatedNgrams,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    biases_by_id,
    check_biases,
    only_ids,
)
from regard.layers import Decoder, DecoderState, Source, Tokens
from regard.structure import renamed
from regard.text import Tokenizer

S = TypeVar("S", bound=DecoderState)


WIDEST = 1_000
"""The largest number of hypotheses of a sentence: memory grows with it, and a larger beam does not improve results."""


@renamed(enough="early_stopping")
@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationSettings:
    """How to decode: greedy (the default), beam search (`beam` above 1), or sampling (`sample`).

    Arguments:
        beam: beam size; 1 is greedy search.
        n_best: hypotheses to return per input, at most `beam`; with `sample`, the number of samples.
        length_penalty: alpha of ((5 + |Y|) / 6)^alpha, at least 0; larger favours longer outputs.
        length_normalisation: `gnmt` for that formula; `power` for |Y|^alpha, as in `transformers`.
        coverage_penalty: beta of the coverage term, at least 0; larger favours covering the whole source.
        early_stopping: in beam search, the number of finished hypotheses at which a search ends; None continues until no
            better hypothesis is possible.
        search_end: how that is decided: `proof`, or `estimate`, which scores live hypotheses at their current length, see
            `beam_search`.
        minimum_length: minimum number of tokens before the end token.
        maximum_length: maximum number of tokens, end token included; None uses the next two.
        maximum_ratio, maximum_extra: maximum number of tokens as source length * ratio + extra.
        total_length: maximum number of tokens of a prompt and its continuation; None for no limit.
        forced_end: whether the last token within the limit is always the end token.
        forced_start: the id of the first token of every output, such as `<s>` for BART; None for no forced token.
        end_tokens: ids that end an output, in place of the model's own end token. They stay part of the output, except the
            model's own end token.
        sample: sample tokens instead of searching for the best.
        temperature: logits are divided by it; above 0.
        top_k: sample from the k most probable tokens; None from all.
        top_p: sample from the smallest set of tokens with this total probability, above 0 and at most 1; None from all.
        min_p: sample from tokens with at least this fraction of the best token's probability, from 0 to 1; None from all.
        seed: random seed for sampling; each call of `search` starts from it.
        repetition_penalty: theta, above 0: positive logits of tokens in the prompt or generated before are divided by it,
            negative ones multiplied. 1 changes nothing.
        no_repeat_ngram_size: never repeat an n-gram of this length; for a language model the prompt counts too. 0 changes
            nothing.
        presence_penalty: subtracted from the logit of every token generated before; the prompt does not count.
        frequency_penalty: the same, times the number of occurrences.
        forbidden_tokens: ids that are never generated.
        logit_bias: pairs of a token, as id or text, and a number added to its logit, such as [[" the", -2]].

    Raises:
        InputError: field, value and what to give instead; also for settings that contradict each other.

    >>> GenerationSettings(beam=5, n_best=2).length_penalty
    0.6
    """

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 0.6
    length_normalisation: Literal["gnmt", "power"] = "gnmt"
    coverage_penalty: float = 0.0
    early_stopping: int | None = None
    search_end: Literal["proof", "estimate"] = "proof"
    minimum_length: int = 0
    maximum_length: int | None = None
    maximum_ratio: float = 1.0
    maximum_extra: int = 50
    total_length: int | None = None
    forced_end: bool = False
    forced_start: int | None = None
    end_tokens: tuple[int, ...] = ()
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    forbidden_tokens: tuple[int, ...] = ()
    logit_bias: Biases = ()

    def __post_init__(self) -> None:
        whole("generation.beam", self.beam, least=1, most=WIDEST)
        whole("generation.n_best", self.n_best, least=1, most=WIDEST)
        number("generation.length_penalty", self.length_penalty, least=0)
        number("generation.coverage_penalty", self.coverage_penalty, least=0)
        whole("generation.minimum_length", self.minimum_length, least=0)
        number("generation.maximum_ratio", self.maximum_ratio, least=0)
        whole("generation.maximum_extra", self.maximum_extra, least=0)
        truth("generation.sample", self.sample)
        truth("generation.forced_end", self.forced_end)
        one_of("generation.length_normalisation", self.length_normalisation, ("gnmt", "power"))
        one_of("generation.search_end", self.search_end, ("proof", "estimate"))
        whole("generation.no_repeat_ngram_size", self.no_repeat_ngram_size, least=0)
        if self.forced_start is not None:
            whole("generation.forced_start", self.forced_start, least=0)
        if self.total_length is not None:
            whole("generation.total_length", self.total_length, least=1)
        number("generation.temperature", self.temperature, above=0)
        whole("generation.seed", self.seed, least=0, most=2**63 - 1)
        if self.maximum_length is not None:
            whole("generation.maximum_length", self.maximum_length, least=1)
        if self.early_stopping is not None:
            whole("generation.early_stopping", self.early_stopping, least=self.n_best)
        if self.top_k is not None:
            whole("generation.top_k", self.top_k, least=1)
        if self.top_p is not None:
            number("generation.top_p", self.top_p, above=0, most=1)
        if self.min_p is not None:
            number("generation.min_p", self.min_p, least=0, most=1)
        number("generation.repetition_penalty", self.repetition_penalty, above=0)
        number("generation.presence_penalty", self.presence_penalty)
        number("generation.frequency_penalty", self.frequency_penalty)
        check_biases("generation.logit_bias", self.logit_bias)
        check_together(self)

    @property
    def limit(self) -> LengthLimit:
        """The length limit of these settings."""
        if self.maximum_length is not None:
            return FixedLength(self.maximum_length)
        return RelativeLength(factor=self.maximum_ratio, extra=self.maximum_extra)

    @property
    def length_divisor(self) -> LengthPenalty:
        """The length penalty of these settings."""
        return (PowerLength if self.length_normalisation == "power" else GnmtLength)(self.length_penalty)

    @property
    def transforms(self) -> tuple[LogitTransform, ...]:
        """The changes of logits for sampling, in order: temperature, top-k, top-p, min-p."""
        chain: list[LogitTransform] = []
        if self.temperature != 1:
            chain.append(Temperature(self.temperature))
        if self.top_k is not None:
            chain.append(TopK(self.top_k))
        if self.top_p is not None:
            chain.append(TopP(self.top_p))
        if self.min_p is not None:
            chain.append(MinP(self.min_p))
        return tuple(chain)

    def changes(self, before: Tokens | None = None) -> tuple[LogitTransform, ...]:
        """All changes of logits, in order: biases, repetition penalties, then `transforms`.

        Arguments:
            before: the prompts of a language model, which count as earlier tokens for repetition; None if the source is another
                text, as in translation.

        Raises:
            InputError: for a biased token that is named by its text; `biases_by_id` has the ids of a tokenizer.
        """
        chain: list[LogitTransform] = []
        if self.logit_bias:
            chain.append(LogitBias(only_ids(self.logit_bias)))
        if self.repetition_penalty != 1:
            chain.append(RepetitionPenalty(self.repetition_penalty, before))
        chain.extend(self.bans(before))
        if self.presence_penalty != 0:
            chain.append(PresencePenalty(self.presence_penalty))
        if self.frequency_penalty != 0:
            chain.append(FrequencyPenalty(self.frequency_penalty))
        return (*chain, *self.transforms)

    def bans(self, before: Tokens | None = None) -> tuple[LogitTransform, ...]:
        """The part of `changes` that excludes tokens; beam search uses it too."""
        never = (Forbid(self.forbidden_tokens),) if self.forbidden_tokens else ()
        return (*never, NoRepeatedNgrams(self.no_repeat_ngram_size, before)) if self.no_repeat_ngram_size else never

    def with_ids(self, tokenizer: Tokenizer) -> GenerationSettings:
        """The same settings with ids instead of texts in `logit_bias`.

        Raises:
            InputError: for a text that is not one token.
        """
        return replace(self, logit_bias=biases_by_id(self.logit_bias, tokenizer)) if self.logit_bias else self


def search(
    decoder: Decoder[S],
    source: Source,
    settings: GenerationSettings,
    observer: SearchObserver | None = None,
    *,
    forbid: tuple[int, ...] = (),
    limit: LengthLimit | None = None,
    stop: Sequence[StopRule] = (),
    before: Tokens | None = None,
) -> list[list[Hypothesis]]:
    """Decode by the settings: greedy search, beam search or sampling.

    No gradients are computed; the caller puts the decoder in evaluation mode.

    Arguments:
        decoder: the model.
        source: B sentences.
        settings: how to decode.
        observer: called at the beginning and the end. With several samples per sentence, each sentence is repeated that many
            times in its batch.
        forbid: ids that are never emitted, besides padding and start.
        limit: replaces the limit of the settings.
        stop: rules that end a row, besides the end token; not for beam search.
        before: the prompts of a language model, see `GenerationSettings.changes`.

    Returns:
        For each source row its hypotheses: best first, or samples in the order of sampling.

    Raises:
        InputError: for a coverage penalty with a decoder without attention, NaN or infinite logits, if every token is
            forbidden, and for stop rules in beam search.
    """
    limit = settings.limit if limit is None else limit
    length_penalty = settings.length_divisor
    starts = () if settings.forced_start is None else (settings.forced_start,)
    for name, ids in (("end_tokens", settings.end_tokens), ("forced_start", starts)):
        wrong = [index for index in ids if not 0 <= index < decoder.config.target_vocabulary]
        if not wrong:
            continue
        raise InputError(
            f"generation.{name}: the model has tokens from 0 to {decoder.config.target_vocabulary - 1}, and {wrong[0]} is "
            "none of them; leave it out"
        )
    if settings.total_length is not None:
        raise InputError("generation.total_length: only a language model counts its prompt; set maximum_length instead")
    ruled_out = (Forbid(forbid),) if forbid else ()
    if settings.beam > 1 or settings.coverage_penalty > 0:
        if stop:
            raise InputError(
                "generation.beam: a beam ends at end tokens alone, and there are other stops; set beam to 1"
            )
        return beam_search(
            decoder,
            source,
            beam=settings.beam,
            n_best=settings.n_best,
            length_penalty=length_penalty,
            coverage_penalty=CoveragePenalty(settings.coverage_penalty) if settings.coverage_penalty > 0 else None,
            transforms=(*ruled_out, *settings.bans(before)),
            limit=limit,
            minimum_length=settings.minimum_length,
            # A beam of one that stops at its first end is greedy search, here with coverage in its scores.
            early_stopping=1 if settings.beam == 1 else settings.early_stopping,
            search_end=settings.search_end,
            forced_end=settings.forced_end,
            forced_start=settings.forced_start,
            end_tokens=settings.end_tokens,
            observer=observer,
        )
    draws = settings.n_best
    if draws > 1:
        rows = torch.arange(len(source), device=source.device).repeat_interleave(draws)
        source, before = source.select(rows), None if before is None else before.select(rows)
    hypotheses = generate(
        decoder,
        source,
        choose=Sample(torch.Generator().manual_seed(settings.seed)) if settings.sample else Greedy(),
        transforms=(*ruled_out, *settings.changes(before)),
        limit=limit,
        stop=stop,
        minimum_length=settings.minimum_length,
        length_penalty=length_penalty,
        forced_end=settings.forced_end,
        forced_start=settings.forced_start,
        end_tokens=settings.end_tokens,
        observer=observer,
    )
    return [hypotheses[first : first + draws] for first in range(0, len(hypotheses), draws)]


# Settings of decoding that cannot stand together, or do nothing.


OF_SAMPLING: Mapping[str, object] = MappingProxyType({"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None})
"""Settings that only affect sampling, each with its neutral value."""

OF_SINGLE_TEXTS: Mapping[str, object] = MappingProxyType(
    {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": ()}
)
"""Settings that can change the most probable token, each with its neutral value. Beam search ranks by the model's own
probabilities, which they do not change."""


def check_together(settings: GenerationSettings) -> None:
    """Refuse settings that contradict each other.

    Raises:
        InputError: field, value and what to give instead.
    """
    maximum, minimum = settings.maximum_length, settings.minimum_length
    if maximum is not None and minimum > maximum:
        raise InputError(
            f"generation.minimum_length: {minimum} is more than maximum_length {maximum}; lower the one or raise the other"
        )
    if settings.sample:
        _check_sampling(settings)
    else:
        _check_searching(settings)


def _check_sampling(settings: GenerationSettings) -> None:
    if settings.beam > 1:
        raise InputError(
            f"generation.sample: sampling keeps no beam, but beam is {settings.beam}; set beam to 1, or sample to false"
        )
    if settings.coverage_penalty > 0:
        raise InputError(
            "generation.coverage_penalty: samples are not ranked by coverage; set it to 0, or sample to false"
        )


def _check_searching(settings: GenerationSettings) -> None:
    if settings.n_best > settings.beam:
        raise InputError(
            f"generation.n_best: {settings.n_best} is more than the beam of {settings.beam}; lower n_best or raise beam"
        )
    for field, unused in OF_SAMPLING.items():
        if getattr(settings, field) != unused:
            raise InputError(f"generation.{field}: it only matters when sampling; set sample to true, or leave it out")
    if settings.beam == 1 and settings.coverage_penalty == 0:
        return
    for field, unused in OF_SINGLE_TEXTS.items():
        if getattr(settings, field) != unused:
            raise InputError(
                f"generation.{field}: a beam, and coverage, rank texts by the model's own probabilities; set beam to 1 and "
                "coverage_penalty to 0, or leave it out"
            )
