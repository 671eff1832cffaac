"""Generation with a language model: cached prefixes, stop strings, the most probable tokens, and search or sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation import (
    Continuation,
    FixedLength,
    Forbid,
    GenerationSettings,
    Greedy,
    Hypothesis,
    LengthLimit,
    NGramDraft,
    Paths,
    PositionLimit,
    SampleRows,
    Speculation,
    generate,
    search,
    stream,
)
from regard.generation.penalties import whole
from regard.layers import DecoderState, Tokens
from regard.layers.embeddings import check_finite
from regard.tasks.language_task import LanguageModellingTask
from regard.text import Tokenizer
from regard.text.growing import UNFINISHED, GrowingText

if TYPE_CHECKING:
    from regard.text.chat import Prompt


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Beginning:
    """A common prefix of prompts that was read once, such as an instruction, examples or a conversation.

    Arguments:
        text: the prefix.
        ids: its tokens, after the ids that are before every prompt.
        state: the decoder state of one row after all of these tokens but the last, which is read with the rest of a prompt.
    """

    text: str
    ids: Sequence[int]
    state: DecoderState


REACH = 16
"""After each step the last tokens of a text are decoded to look for a stop string: its number of characters plus this many."""


class StopText:
    """A stop rule: a text ends when it contains one of several strings, which may begin or end inside a token.

    Arguments:
        tokenizer: the model's tokenizer.
        strings: the stop strings, none empty.

    Raises:
        InputError: for an empty string, which every text contains.
    """

    def __init__(self, tokenizer: Tokenizer, strings: Sequence[str]) -> None:
        if not all(strings):
            raise InputError("a stop string is empty, and every text contains it; leave it out")
        self._tokenizer = tokenizer
        self._strings = tuple(strings)
        self._longest = max(map(len, strings), default=0)

    def __call__(self, paths: Paths) -> Tensor:
        """(N,) bool, True = the text has ended, as for `StopRule`."""
        tails = paths.tokens[:, -(self._longest + REACH) :].tolist()
        found = [any(each in text for each in self._strings) for text in map(self._tokenizer.decode, tails)]
        return torch.tensor(found, dtype=torch.bool, device=paths.tokens.device)

    def cut(self, text: str) -> str:
        """The text up to the first stop string."""
        places = [place for place in (text.find(each) for each in self._strings) if place >= 0]
        return text[: min(places)] if places else text

    def held_back(self, text: str) -> int:
        """The number of characters at the end of a text that may be the beginning of a stop string."""
        most = min(self._longest - 1, len(text))
        return next((n for n in range(most, 0, -1) if any(each.startswith(text[-n:]) for each in self._strings)), 0)


STRETCH = 128
"""The number of tokens per pass; it limits the memory of logits for long texts with large vocabularies."""

Place = tuple[tuple[str, float], ...]
"""Tokens and their log-probabilities, the most probable first."""


@torch.no_grad()
def most_probable(
    model: Any, tokenizer: Tokenizer, texts: Sequence[tuple[Sequence[int], Sequence[int]]], count: int
) -> list[tuple[Place, ...]]:
    """The most probable tokens at each position of texts, given the tokens before it.

    Arguments:
        model: a `CausalLM`.
        texts: for each text the ids of its context, at least one, and the ids of the positions to look at.
        count: the number of tokens per position, at most the vocabulary.

    Returns:
        For each text and position (token, log-probability) pairs, the most probable first.
    """
    device = next(model.parameters()).device
    read = Tokens.pad(
        [[*before, *written][:-1] if written else list(before) for before, written in texts],
        padding_id=tokenizer.padding_id,
        device=device,
    )
    values: list[torch.Tensor] = []
    ids: list[torch.Tensor] = []
    state = model.start(len(texts))
    for start in range(0, read.ids.shape[1], STRETCH):
        part = slice(start, start + STRETCH)
        logits, state = model.read(Tokens(read.ids[:, part], read.valid[:, part]), state)
        check_finite(logits, "these texts", where=read.valid[:, part])
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
        top = wide.topk(min(count, wide.shape[-1]), dim=-1)
        values.append(top.values)
        ids.append(top.indices)
    numbers, tokens = torch.cat(values, dim=1).tolist(), torch.cat(ids, dim=1).tolist()
    found = []
    for row, (before, written) in enumerate(texts):
        first = len(before) - 1  # the last token of the context predicts the first position
        places = range(first, first + len(written))
        found.append(tuple(tuple(zip(tokenizer.tokens(tokens[row][t]), numbers[row][t], strict=True)) for t in places))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The continuation of a prompt by a language model.

    Arguments:
        text: the generated text, without the prompt, up to the first stop string.
        prompt: the prompt.
        tokens: the generated tokens, including the end token if there is one, and the tokens of a stop string.
        ids: their ids.
        log_probabilities: the log-probability of each of them under the model, natural log, before penalties and temperature.
        finished: whether the text ended with the end token or a stop string, and not at the limit.
        alternatives: further texts, best first, or in the order of sampling.
        top: for each generated token the most probable tokens at its position with their log-probabilities under the model, best
            first, as many as requested.
    """

    text: str
    prompt: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    finished: bool
    alternatives: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    top: tuple[tuple[tuple[str, float], ...], ...] = ()

    @property
    def log_probability(self) -> float:
        """The log-probability of all generated tokens together."""
        return sum(self.log_probabilities)


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Generates continuations of prompts.

    Arguments:
        model: a `CausalLM`.
        task: its tokenizer, and the ids before prompts.
        settings: how to decode.
        stop: strings that end a text and are not part of it.
        top: the number of most probable tokens to return for each position.
        draft: for speculative decoding, a faster `CausalLM` with the same vocabulary, or an `NGramDraft`; None for none.
        ahead: the number of tokens that the draft proposes at a time.
        after: a common prefix of all prompts that was already read; None for none.
    """

    model: Any
    task: LanguageModellingTask
    settings: GenerationSettings
    stop: StopText | None = None
    top: int = 0
    draft: Any = None
    ahead: int = 4
    after: Beginning | None = None

    def __post_init__(self) -> None:
        whole("top", self.top, least=0)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.task.tokenizer

    def write(self, prompts: Sequence[str | Prompt], places: Sequence[int] | None = None) -> list[Written]:
        """The continuation of each prompt; the prompts of a batch do not affect each other.

        Arguments:
            places: the indices of the prompts among all prompts, from 0; with the seed they determine the samples. None for their
                order here.

        Raises:
            InputError: for a prompt longer than the model's positions, and for stop strings in beam search.
        """
        places = range(len(prompts)) if places is None else places
        encoded = [self.encode(prompt, place) for prompt, place in zip(prompts, places, strict=True)]
        if self.draft is not None:
            found = self._speculated(encoded, places)
        else:
            found = self._sampled(encoded, places) if self.settings.sample else self._searched(encoded)
        texts = [prompt if isinstance(prompt, str) else prompt.text for prompt in prompts]
        written = [self._written(*each) for each in zip(texts, encoded, found, strict=True)]
        if not self.top:
            return written
        tops = most_probable(
            self.model,
            self.tokenizer,
            [(ids, self._emitted(each[0])) for ids, each in zip(encoded, found, strict=True)],
            self.top,
        )
        return [replace(each, top=top) for each, top in zip(written, tops, strict=True)]

    def stream(self, prompt: str | Prompt) -> Iterator[str]:
        """The continuation of a prompt in pieces, each as soon as later tokens cannot change it.

        Raises:
            InputError: for a prompt longer than the model's positions, and for settings with several texts.
        """
        if self.settings.beam > 1 or self.settings.n_best > 1:
            raise InputError("only one text can be streamed; set beam and n_best to 1")
        ids = self.encode(prompt)
        choose = SampleRows([self.seed_of(0, 0)]) if self.settings.sample else Greedy()
        steps = stream(self._continuation, self._source([ids]), choose=choose, **self.rules([ids]))
        growing = GrowingText(self.tokenizer, ids)
        shown = 0
        for step in steps:
            text = self.cut(growing.add([token for token in step.tokens if token != self.tokenizer.end_id]))
            ready = len(text) if step.left else len(text) - self.unsure(text)
            if ready > shown:
                yield text[shown:ready]
                shown = ready

    def encode(self, prompt: str | Prompt, place: int = 0) -> list[int]:
        """The tokens of a prompt, after the ids that are before every prompt; those of a chat template are used as they are.

        Raises:
            InputError: for a prompt longer than the model's positions.
        """
        if isinstance(prompt, str):
            read = self.tokenizer.encode(prompt)
            ids = self.task.prompted(read) if self.after is None else [*self.after.ids, *read]
        else:
            ids = list(prompt.ids) or self.task.prompted(())
        limit = self.model.maximum_length
        if limit is not None and len(ids) > limit:
            raise InputError(
                f"prompt {place + 1} has {len(ids)} tokens and the model has positions for {limit}; shorten it, or train with a "
                f"larger {self.model.length_setting}"
            )
        return ids

    def tokens_read(self, prompt: str | Prompt, written: Written) -> Tokens:
        """All tokens that the model read for one text: the prompt and the generated tokens but the last."""
        return self._side_by_side([[*self.encode(prompt), *written.ids[:-1]]])

    def _searched(self, encoded: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        return search(
            self._continuation,
            self._source(encoded),
            replace(self.settings, total_length=None).with_ids(self.tokenizer),
            before=self._side_by_side(encoded),
            forbid=self._never,
            limit=self._limit,
            stop=() if self.stop is None else (self.stop,),
        )

    def _sampled(self, encoded: Sequence[Sequence[int]], places: Sequence[int]) -> list[list[Hypothesis]]:
        draws = self.settings.n_best
        seeds = [self.seed_of(place, draw) for place in places for draw in range(draws)]
        repeated = [ids for ids in encoded for _ in range(draws)]
        rules = self.rules(repeated)
        found = generate(self._continuation, self._source(encoded), draws=draws, choose=SampleRows(seeds), **rules)
        return [found[first : first + draws] for first in range(0, len(found), draws)]

    def _speculated(self, encoded: Sequence[Sequence[int]], places: Sequence[int]) -> list[list[Hypothesis]]:
        """Generate each text separately, because the number of accepted proposals differs between texts."""
        settings = self.settings
        if settings.beam > 1:
            raise InputError(f"generation.beam: a draft works for one text, and beam is {settings.beam}; set beam to 1")
        if settings.forced_end:
            raise InputError("generation.forced_end: it does not work with a draft; set forced_end to false")
        if settings.forced_start is not None:
            raise InputError("generation.forced_start: it does not work with a draft; leave it out")
        found = []
        for ids, place in zip(encoded, places, strict=True):
            rules = self.rules([ids])
            speculation = Speculation(
                model=self.model,
                draft=self.draft,
                ahead=self.ahead,
                transforms=rules["transforms"],
                stop=rules["stop"],
                end_tokens=rules["end_tokens"],
            )
            within = PositionLimit(self._asked(0), self.model.maximum_length)
            if not isinstance(self.draft, NGramDraft):
                within = PositionLimit(within, self.draft.maximum_length)
            most = int(within(self._side_by_side([ids])))
            generators: list[torch.Generator | None] = [None]
            if settings.sample:
                generators = [
                    torch.Generator().manual_seed(self.seed_of(place, draw)) for draw in range(settings.n_best)
                ]
            found.append(
                [
                    speculation.write(ids, most=most, least=settings.minimum_length, generator=generator).hypothesis
                    for generator in generators
                ]
            )
        return found

    def seed_of(self, place: int, draw: int) -> int:
        """The seed for sampling one text, derived from the seed of the settings; different for every text."""
        base = torch.randint(2**60, (), generator=torch.Generator().manual_seed(self.settings.seed))
        return int(base) + (place << 20) + draw

    def rules(self, encoded: Sequence[Sequence[int]]) -> dict[str, Any]:
        """The common arguments of `generate` and `stream` for these prompts."""
        changes = self.settings.with_ids(self.tokenizer).changes(self._side_by_side(encoded))
        return {
            "transforms": ((Forbid(self._never),) if self._never else ()) + changes,
            "stop": () if self.stop is None else (self.stop,),
            "limit": self._limit,
            "minimum_length": self.settings.minimum_length,
            "forced_end": self.settings.forced_end,
            "forced_start": self.settings.forced_start,
            "end_tokens": self.settings.end_tokens,
        }

    @property
    def _never(self) -> tuple[int, ...]:
        """The ids that are never generated: the unknown token, unless it is the end token."""
        unknown = self.tokenizer.unknown_id
        return () if unknown is None or unknown == self.tokenizer.end_id else (unknown,)

    @property
    def _limit(self) -> PositionLimit:
        read = 0 if self.after is None else self.after.state.length
        return PositionLimit(self._asked(read), self._continuation.maximum_source_length)

    def _asked(self, read: int) -> LengthLimit:
        """The length limit of the settings, for prompts with `read` tokens in a prefix that was read before."""
        settings = self.settings
        if settings.total_length is None:
            return settings.limit
        most = FixedLength(settings.total_length) if settings.maximum_length is None else settings.limit
        return PositionLimit(most, settings.total_length - 1 - read)

    @property
    def _continuation(self) -> Continuation[Any]:
        return Continuation(self.model, None if self.after is None else self.after.state)

    def _source(self, encoded: Sequence[Sequence[int]]) -> Tokens:
        """A batch of prompts, without their prefix that was read before."""
        read = 0 if self.after is None else self.after.state.length
        return self._side_by_side([ids[read:] for ids in encoded])

    def _side_by_side(self, encoded: Sequence[Sequence[int]]) -> Tokens:
        device = next(self.model.parameters()).device
        return Tokens.pad(encoded, padding_id=self.tokenizer.padding_id, side="left", device=device)

    def decoded(self, ids: Sequence[int], written: Sequence[int]) -> str:
        """The text of generated tokens after the prompt; a space between the two belongs to it."""
        before = self.tokenizer.decode(list(ids))
        whole = self.tokenizer.decode([*ids, *written])
        text = whole.removeprefix(before) if whole.startswith(before) else self.tokenizer.decode(list(written))
        return self.cut(text)

    def cut(self, text: str) -> str:
        """The text up to the first stop string."""
        return text if self.stop is None else self.stop.cut(text)

    def unsure(self, text: str) -> int:
        """The number of characters at the end of the text that may still change."""
        unfinished = len(text) - len(text.rstrip(UNFINISHED))
        return max(unfinished, 0 if self.stop is None else self.stop.held_back(text))

    def _written(self, prompt: str, ids: Sequence[int], found: Sequence[Hypothesis]) -> Written:
        best = found[0]
        return Written(
            text=self.decoded(ids, best.tokens),
            prompt=prompt,
            tokens=tuple(self.tokenizer.tokens(self._emitted(best))),
            ids=tuple(self._emitted(best)),
            log_probabilities=best.token_log_probabilities,
            finished=best.finished,
            alternatives=tuple(self.decoded(ids, other.tokens) for other in found[1:]),
        )

    def _emitted(self, found: Hypothesis) -> list[int]:
        """The generated tokens, including the end token if there is one."""
        return [*found.tokens, *([self.tokenizer.end_id] if found.length > len(found.tokens) else [])]
