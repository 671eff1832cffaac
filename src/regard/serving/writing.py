"""A language model for many clients: requests become rows of a continuous batch, and the batch's events become replies."""

from __future__ import annotations

import copy
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from regard.attention import BatchInvariant
from regard.errors import InputError
from regard.generation import (
    ContinuousBatch,
    GenerationSettings,
    Greedy,
    NextToken,
    PromptRead,
    RequestFailed,
    SampleRows,
    TextRequest,
    TokenEvent,
    top_of,
)
from regard.serving.looking import Changes, language_model_changes
from regard.serving.messages import Began, Failure, Likely, Piece, Reply, Token, Write
from regard.serving.text_reading import TYPED, LastText, Reading, check_written, read_again
from regard.serving.tokens import token_names
from regard.structure import from_mapping
from regard.text.growing import GrowingText

if TYPE_CHECKING:
    from regard.generation.continuous import Event, Top
    from regard.serving.attention import Attention
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.language_writing import Writer
    from regard.text import Tokenizer


FAILED = "the engine failed at this request; its log says why"


class TooLong(InputError):
    """The prompt, or prompt and completion together, have more tokens than the model has positions."""


def failure(key: int, error: Exception) -> Failure:
    """The reply to a failed request: the error's sentence where the request is wrong, else a pointer to the engine's log."""
    if isinstance(error, InputError):
        return Failure(key, str(error), "request", "context_length_exceeded" if isinstance(error, TooLong) else "")
    traceback.print_exception(error)
    return Failure(key, FAILED, "engine")


@dataclass(kw_only=True, slots=True, eq=False)
class _Text:
    """A text that is being generated."""

    growing: GrowingText | None = None
    """Decodes a text that is streamed; None for others."""
    written: list[int] = field(default_factory=list)
    unsent: list[Token] = field(default_factory=list)
    shown: int = 0


@dataclass(kw_only=True, slots=True, eq=False)
class _Writing:
    """A request to a language model."""

    asked: Write
    writer: Writer
    prompt: Sequence[int]
    leading: int
    """The number of tokens that the model puts before every prompt; they are not part of the text."""
    text: str
    texts: list[_Text]


class WritingModel:
    """A language model for many clients.

    Arguments:
        predictor: the model.
        rows: the most texts generated at the same time.
        kept_bytes: memory for the KV caches of prompt prefixes.
    """

    def __init__(self, predictor: LanguageModel, *, rows: int, kept_bytes: int) -> None:
        self.predictor = predictor
        self.batch = ContinuousBatch(predictor.model, rows=rows, kept_bytes=kept_bytes)
        self._requests: dict[int, _Writing] = {}
        self._looking: deque[tuple[Piece, Iterator[Reading | None]]] = deque()
        self._changes: Changes | None = None
        self._last = LastText()
        self._named = token_names(predictor.task.tokenizer)
        tokenizer = predictor.task.tokenizer
        self._longest = max(map(len, tokenizer.tokens(range(tokenizer.size))), default=1)
        usual = predictor.usual  # special tokens come from the folder, the other settings from the request
        names = ("end_tokens", "forbidden_tokens", "forced_end", "forced_start")
        self._own = {name: getattr(usual, name) for name in names}

    @property
    def busy(self) -> bool:
        """Whether `turn` has work to do."""
        return self.batch.busy or bool(self._looking)

    def changed(self, asked: Write) -> WritingModel:
        """A copy of this object with the model changed by a request's interventions, for this request alone.

        Raises:
            InputError: for an unknown address, head or position.
        """
        own = copy.copy(self)
        own.batch = ContinuousBatch(self.predictor.model, rows=self.batch.rows, kept_bytes=0)
        own._requests, own._looking = {}, deque()
        own._changes = language_model_changes(
            self.predictor.model, asked.interventions, len(self._prompt(asked)[0]), self._source
        )
        return own

    def add(self, asked: Write) -> None:
        """Queue a request.

        Raises:
            InputError: for settings that the model does not support, and a prompt that is too long.
        """
        if asked.copies > self.batch.rows:
            raise InputError(
                f"n: {asked.copies} texts of one prompt are asked for; ask for 1 to {self.batch.rows} (--rows)"
            )
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in asked.settings.items()}
        settings = from_mapping(GenerationSettings, {**self._own, **values}, "the request")
        writer = self.predictor.writer(settings, asked.stop)
        prompt, leading, text = self._prompt(asked)
        limit, room = asked.maximum, self._room(len(prompt))
        if limit is None:
            most = room if room is not None else self.predictor.usual.maximum_length or 512
            limit = most if asked.usual is None else min(most, asked.usual)
        if room is not None and (room < 1 or limit > room):
            raise TooLong(
                f"this model's maximum context length is {self.predictor.model.maximum_length} tokens, and the prompt has "
                f"{len(prompt)} and {limit} more are asked for; shorten the prompt or ask for fewer"
            )
        if asked.attention is not None:
            check_written(self.predictor, asked.attention, len(prompt), limit, asked.copies)
        rules = writer.rules([prompt])
        wanted = [
            TextRequest(
                rules=NextToken(
                    config=_config(self.predictor.model),
                    choice=(SampleRows([writer.seed_of(0, number)]) if settings.sample else Greedy()).begin(1),
                    transforms=rules["transforms"],
                    stop=rules["stop"],
                    minimum_length=rules["minimum_length"],
                    forced_end=rules["forced_end"],
                    forced_start=rules["forced_start"],
                    end_tokens=rules["end_tokens"],
                ),
                limit=limit,
                top=asked.top,
            )
            for number in range(asked.copies)
        ]
        self.batch.add(asked.key, prompt, wanted, scored=asked.scored, client=asked.client)
        tokenizer = self.predictor.task.tokenizer
        texts = [_Text(growing=GrowingText(tokenizer, prompt) if asked.stream else None) for _ in range(asked.copies)]
        self._requests[asked.key] = _Writing(
            asked=asked, writer=writer, prompt=prompt, leading=leading, text=text, texts=texts
        )

    def cancel(self, key: int) -> None:
        """Drop a request."""
        self._looking = deque(each for each in self._looking if each[0].key != key)
        if self._requests.pop(key, None) is not None:
            self.batch.cancel(key)

    def turn(self) -> list[Reply]:
        """Run one step. An error in one request's text ends that request alone."""
        replies: list[Reply] = []
        for event in self._events() if self.batch.busy else ():
            try:
                replies += self._replies(event)
            except Exception as error:
                key: Any = event.key
                self.cancel(key)
                replies.append(failure(key, error))
        if self._looking:
            replies += self._look()
        return replies

    def expected(
        self,
        text: str,
        interventions: Sequence[Any],
        attention: Attention | None,
        *,
        top: int,
        pause: Callable[[], None],
    ) -> dict[str, Any]:
        """The most probable next tokens after a text, and the text's attention, from one reading.

        Arguments:
            text: without the tokens that the model puts before every prompt.
            interventions: how the model is changed meanwhile.
            attention: which weights; None for none.
            top: how many tokens to return.
            pause: called between two chunks of a long text, so that other requests are answered meanwhile.

        Returns:
            `next`, for each token its `label` and `log_probability` (natural log), the most probable first; `attention`, a
            `Seen`.

        Raises:
            InputError: for a text that is too long, and for an unknown layer, head or position.
        """
        model, prompt = self.predictor.model, self.predictor.task.prompted(self._encoded(text))
        if model.maximum_length is not None and len(prompt) > model.maximum_length:
            raise TooLong(
                f"this model's maximum context length is {model.maximum_length} tokens, and the text has {len(prompt)}; "
                "shorten it"
            )
        if attention is not None:
            check_written(self.predictor, attention, len(prompt), 1, 1)
        changes = language_model_changes(model, interventions, len(prompt), self._source) if interventions else None
        size = TYPED if self.batch.in_parts else len(prompt)
        last = self._last if changes is None and (attention is None or attention.rows == "all") else None
        for found in read_again(self.predictor, attention, prompt, len(prompt), size, changes, last):
            if found is not None:
                break
            pause()
        else:
            raise InputError("text: is empty; give a text")
        with torch.no_grad(), BatchInvariant():
            logs = model.logits(found.hidden[None]).float().log_softmax(dim=-1)[0]
        bars = [{"label": self._named(token)[0], "log_probability": value} for token, value in top_of(logs, top)]
        return {"next": bars, "attention": found.seen}

    def _events(self) -> list[Event]:
        if self._changes is None:
            return self.batch.turn()
        self._changes.first = self.batch.tokens_read
        try:
            with self._changes():
                return self.batch.turn()
        except InputError as error:  # an intervention does not fit
            for key in self._requests:
                self.batch.cancel(key)
            return [RequestFailed(key, error) for key in self._requests]

    def _look(self) -> Iterator[Reply]:
        """Read one chunk more of a complete text whose attention is asked for; at its end, yield the text's last piece."""
        piece, reading = self._looking[0]
        try:
            found = next(reading)
        except Exception as error:
            self.cancel(piece.key)
            yield failure(piece.key, error)
            return
        if found is not None:
            self._looking.popleft()
            yield msgspec.structs.replace(piece, attention=found.seen)

    def _replies(self, event: Event) -> Iterable[Reply]:
        key: Any = event.key
        writing = self._requests.get(key)
        if writing is None:
            return
        if isinstance(event, RequestFailed):
            del self._requests[key]
            yield failure(key, event.error)
        elif isinstance(event, PromptRead):
            yield self._began(writing, event)
            if not writing.asked.maximum and writing.asked.maximum is not None:
                del self._requests[key]
                for number in range(writing.asked.copies):
                    yield from self._with_attention(
                        writing, Piece(key=key, copy=number, text="", tokens=[], end="length"), ()
                    )
        else:
            text = writing.texts[event.copy]
            piece = self._piece(writing, event)
            if piece is not None:
                yield from self._with_attention(writing, piece, text.written)

    def _with_attention(self, writing: _Writing, piece: Piece, written: Sequence[int]) -> Iterator[Piece]:
        """The piece; or none yet, where it completes a text whose attention is asked for, which must be read first."""
        asked = writing.asked.attention
        if asked is None or not piece.end:
            yield piece
            return
        ended = bool(piece.tokens) and len(written) and piece.tokens[-1].id == written[-1]
        read = [*writing.prompt, *(written[:-1] if ended else written)]
        size = self.batch.chunk if self.batch.in_parts else len(read)
        reading = read_again(self.predictor, asked, read, len(writing.prompt), size, self._changes)
        self._looking.append((piece, reading))

    def _began(self, writing: _Writing, event: PromptRead) -> Began:
        tokens: list[Token] = []
        if writing.asked.scored:
            logs = (None, *event.log_probabilities)
            tops: tuple[Top, ...] = ((), *event.top)
            every = [self._token(*each) for each in zip(writing.prompt, logs, tops, strict=True)]
            tokens = every[writing.leading :]
        count = len(writing.prompt)
        return Began(key=writing.asked.key, prompt_tokens=count, reused=event.reused, text=writing.text, tokens=tokens)

    def _piece(self, writing: _Writing, event: TokenEvent) -> Piece | None:
        text = writing.texts[event.copy]
        tokenizer = self.predictor.task.tokenizer
        added = [] if event.end == "stop" and event.token == tokenizer.end_id else [event.token]
        text.written += added
        text.unsent.append(self._token(event.token, event.log_probability, event.top))
        if event.end:
            whole = writing.writer.decoded(writing.prompt, text.written)
        elif text.growing is None:
            return None
        else:
            whole = writing.writer.cut(text.growing.add(added))
        ready = len(whole) if event.end else len(whole) - writing.writer.unsure(whole)
        if not event.end and ready <= text.shown:
            return None
        own_ends = writing.writer.settings.end_tokens or (tokenizer.end_id,)
        piece = Piece(
            key=writing.asked.key,
            copy=event.copy,
            text=whole[text.shown : ready],
            tokens=text.unsent,
            end=event.end,
            at_stop=event.end == "stop" and event.token not in own_ends,
        )
        text.shown, text.unsent = max(ready, text.shown), []
        if event.end:
            writing.texts[event.copy] = _Text(shown=-1)
            if all(each.shown < 0 for each in writing.texts):
                del self._requests[writing.asked.key]
        return piece

    def _token(self, index: int, log_probability: float | None, top: Top) -> Token:
        likely = [Likely(each, *self._named(each), value) for each, value in top]
        return Token(index, *self._named(index), log_probability, likely)

    def _prompt(self, asked: Write) -> tuple[list[int], int, str]:
        """The token ids of the prompt, how many of them precede its text, and the text."""
        task = self.predictor.task
        if asked.messages is not None:
            prompt = self.predictor.prompt_of(asked.messages, **asked.template)
            return list(prompt.ids) or task.prompted(()), 0, prompt.text
        if isinstance(asked.prompt, str):
            read = self._encoded(asked.prompt)[-asked.kept if asked.kept else 0 :]
            ids = task.prompted(read)
            return ids, len(ids) - len(read), asked.prompt
        ids = list(asked.prompt or ())
        check_ids(task.tokenizer, ids)
        return ids or task.prompted(()), 0, task.tokenizer.decode(ids)

    def _encoded(self, text: str) -> list[int]:
        """The tokens of a prompt's text, or of a patch's `from`.

        Raises:
            TooLong: where it has more characters than any tokens in the model's positions could hold.
        """
        positions = self.predictor.model.maximum_length
        if positions is not None and len(text) > positions * self._longest:
            raise TooLong(  # refused without tokenizing it
                f"this model's maximum context length is {positions} tokens, and the prompt has {len(text):,} characters; "
                "shorten it"
            )
        return self.predictor.task.tokenizer.encode(text)

    def _source(self, given: Any) -> Sequence[int]:
        """The token ids of a patch's `from`."""
        task, positions = self.predictor.task, self.predictor.model.maximum_length
        if isinstance(given, str):
            ids = task.prompted(self._encoded(given))
        elif isinstance(given, list) and given and all(type(each) is int for each in given):
            check_ids(task.tokenizer, given)
            ids = given
        else:
            raise InputError("it is no text, and no list of token ids; give one of them")
        if positions is not None and len(ids) > positions:
            raise TooLong(f"this model's maximum context length is {positions} tokens, and the text has {len(ids)}")
        return ids

    def _room(self, prompt: int) -> int | None:
        """The most tokens after a prompt of `prompt` tokens; the last generated token takes no position. None for no limit."""
        limit = self.predictor.model.maximum_length
        return None if limit is None else limit + 1 - prompt


def _config(model: Any) -> Any:
    from regard.generation import Continuation

    return Continuation(model).config


def check_ids(tokenizer: Tokenizer, ids: Sequence[int]) -> None:
    """Refuse ids outside of the vocabulary.

    Raises:
        InputError: with the first such id.
    """
    wrong = next((index for index in ids if not 0 <= index < tokenizer.size), None)
    if wrong is not None:
        raise InputError(f"the model has tokens from 0 to {tokenizer.size - 1}, and {wrong} is none of them")
