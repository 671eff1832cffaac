"""Continuous batching: texts join and leave a batch between any two decoding steps, and no text changes another.

Orca (Yu et al. 2022, section 3.1) schedules a language model by decoding steps instead of batches: a finished text leaves the
batch at once, and a waiting request takes its place. Here a text and its log-probabilities also have the same bits in any batch:

    each prompt is read separately, in chunks that begin at multiples of `chunk`, so its keys and values depend on it alone
    (`CausalStack.read_texts`, `regard.attention.BatchInvariant`);
    the logits of a row do not depend on the other rows (`regard.attention.BatchInvariant`, or a batch-invariant kernel);
    each row has its own rules and its own random numbers.

Between two decoding steps one chunk of one prompt is read, or several short prompts of two chunks in total. So no request waits
until the long prompt of another one is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention import BatchInvariant
from regard.errors import InputError
from regard.generation.choosing import allowed_best
from regard.generation.hypothesis import Paths
from regard.generation.penalties import whole
from regard.generation.streaming import NextToken
from regard.generation.turns import Turns
from regard.layers import CausalLM, CausalStack, DecoderState, Tokens, join

CHUNK = 128
"""The number of tokens of a prompt that are read between two decoding steps."""

TOGETHER = 2
"""The number of chunks up to which short prompts are read together; reading twice the tokens takes less than twice the time."""

Top = tuple[tuple[int, float], ...]
"""The (id, log-probability) of the most probable tokens at one position, the most probable first."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TextRequest:
    """The settings of one text to generate.

    Arguments:
        rules: how its tokens are chosen. Its choice function must not be shared with other texts.
        limit: the maximum number of tokens; 0 to only read the prompt.
        top: the number of most probable tokens to return for each position.
    """

    rules: NextToken
    limit: int
    top: int = 0

    def __post_init__(self) -> None:
        whole("limit", self.limit, least=0)
        whole("top", self.top, least=0)


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token was generated.

    Arguments:
        key: the key of the request.
        copy: the number of the text within the request, from 0.
        token: the token's id.
        log_probability: the token's log-probability under the model, natural log, before penalties and temperature.
        top: the most probable tokens at its position, if requested.
        end: `stop` if the text ended at an end token or a stop rule, `length` if it reached its limit; empty if it continues.
    """

    key: Hashable
    copy: int
    token: int
    log_probability: float
    top: Top
    end: str


@dataclass(frozen=True, slots=True)
class PromptRead:
    """A prompt was read completely.

    Arguments:
        key: the key of the request.
        reused: the number of tokens whose keys and values were reused from an earlier prompt.
        log_probabilities: log p(token | tokens before it) of each token except the first; empty if not requested.
        top: the most probable tokens at each of these positions.
    """

    key: Hashable
    reused: int
    log_probabilities: tuple[float, ...] = ()
    top: tuple[Top, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request ended with an error; other requests continue.

    Arguments:
        key: the key of the request.
        error: the exception.
    """

    key: Hashable
    error: Exception


Event = TokenEvent | PromptRead | RequestFailed


@dataclass(kw_only=True, slots=True, eq=False)
class _Request:
    """A request whose prompt is waiting or being read."""

    key: Hashable
    prompt: Sequence[int]
    wanted: Sequence[TextRequest]
    scored: bool
    state: Any = None
    reused: int = 0
    log_probabilities: list[float] = field(default_factory=list)
    top: list[Top] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class _Row:
    """A text that is being generated."""

    key: Hashable
    copy: int
    wanted: TextRequest
    token: int
    paths: Paths
    length: int = 0


class ContinuousBatch:
    """Generates texts of one language model in one batch, with the same results as each text alone.

    `add` accepts requests at any time, and `turn` makes one decoding step and returns its events. An error in the rules or the
    prompt of one request ends that request alone. An error in the model's step ends all texts that are being generated, but no
    waiting requests. Not thread-safe.

    Arguments:
        model: in evaluation mode.
        rows: the maximum number of texts in the batch. Other requests wait; clients take turns (`Turns`).
        chunk: the number of tokens of a prompt that are read between two decoding steps. It changes results by rounding. A model
            that cannot read prompts in parts (then `in_parts` is false) reads each prompt at once.
        kept_bytes: memory for keys and values of earlier prompts; a prompt with the same first tokens reuses them.

    >>> from regard.generation import Greedy, NextToken
    >>> from regard.models import GPT2, GPT2Config
    >>> model = GPT2(GPT2Config(vocabulary=9, width=8, heads=1, feedforward_width=8, layers=1, maximum_positions=20)).eval()
    >>> from regard.generation import Continuation
    >>> config = Continuation(model).config
    >>> batch = ContinuousBatch(model)
    >>> for name in ("first", "second"):
    ...     batch.add(name, [1, 2, 3], [TextRequest(rules=NextToken(config=config, choice=Greedy().begin(1)), limit=4)])
    >>> events = [event for _ in range(9) for event in batch.turn() if isinstance(event, TokenEvent)]
    >>> first, second = ([each.token for each in events if each.key == name] for name in ("first", "second"))
    >>> first == second and 1 <= len(first) <= 4
    True
    """

    def __init__(self, model: CausalLM[Any], *, rows: int = 16, chunk: int = CHUNK, kept_bytes: int = 2**28) -> None:
        whole("rows", rows, least=1)
        whole("chunk", chunk, least=1)
        self.model = model
        self.rows = rows
        self.chunk = chunk
        self._waiting: Turns[_Request] = Turns()
        self._reading: _Request | None = None
        self._active: list[_Row] = []
        self._state: Any = None
        self._places: list[int] | None = None
        """The row of `_state` of each active text; None if the texts are exactly the rows of the state, in order."""
        self._kept = KeptPrompts(kept_bytes)
        self._invariant = isinstance(model, CausalStack) and model.batch_invariant_steps
        self.in_parts = bool(getattr(model, "reads_in_parts", True))
        self._packs = self.in_parts and isinstance(model, CausalStack) and model.packs_texts

    @property
    def writing(self) -> int:
        """The number of texts that are being generated."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """The number of requests whose prompts are waiting or being read."""
        return len(self._waiting) + (self._reading is not None)

    @property
    def tokens_read(self) -> int:
        """The number of tokens read of the current prompt; if no prompt is being read, the tokens of the longest text."""
        if self._reading is not None:
            return 0 if self._reading.state is None else self._reading.state.length
        return 0 if self._state is None else self._state.length

    @property
    def busy(self) -> bool:
        """Whether there are requests or texts, so that `turn` has something to do."""
        return bool(self.writing or self.waiting)

    def add(
        self,
        key: Hashable,
        prompt: Sequence[int],
        wanted: Sequence[TextRequest],
        *,
        scored: bool = False,
        client: Sequence[str] = (),
    ) -> None:
        """Add a request for one or several continuations of a prompt, which is read once.

        Arguments:
            key: the key of the request in events.
            prompt: token ids, at least one.
            wanted: the settings of each text.
            scored: whether to return the log-probabilities of the prompt's tokens. Then the whole prompt is read, and no keys
                and values are reused.
            client: who made the request, as a path of names (`Turns`). Clients take turns, however many requests each has.

        Raises:
            InputError: for an empty prompt, a prompt longer than the model's positions, or more texts than `rows`.
        """
        limit = self.model.maximum_length
        if not prompt:
            raise InputError("the prompt has no token, and there is nothing to continue")
        if limit is not None and len(prompt) > limit:
            raise InputError(f"the prompt has {len(prompt)} tokens and the model has positions for {limit}; shorten it")
        if not 1 <= len(wanted) <= self.rows:
            raise InputError(f"{len(wanted)} texts were requested for one prompt; request 1 to {self.rows}")
        request = _Request(key=key, prompt=tuple(prompt), wanted=tuple(wanted), scored=scored)
        self._waiting.add(request, client)

    def cancel(self, key: Hashable) -> None:
        """Remove a request and its texts; its rows are free before the next step."""
        self._waiting.remove(lambda request: request.key == key)
        if self._reading is not None and self._reading.key == key:
            self._reading = None
        self._keep([place for place, row in enumerate(self._active) if row.key != key])

    @torch.no_grad()
    def turn(self) -> list[Event]:
        """Generate one token of every text, then read one chunk of a prompt, or several short prompts; return the events."""
        events: list[Event] = []
        if self._active:
            events += self._step()
        if self._reading is None:
            self._reading = self._next()
        if self._reading is None:
            return events
        request = self._reading
        if self._is_short(request):
            self._reading = None
            return events + self._read_together(self._with_others(request))
        try:
            events += self._read(request)
        except Exception as error:
            self._reading = None
            events.append(RequestFailed(request.key, error))
        return events

    def _next(self, texts: int = 0, most: int | None = None) -> _Request | None:
        """Take the next request from the queue if the batch has room for its texts.

        Arguments:
            texts: the number of texts that requests already taken will add to the batch.
            most: take it only if it is short and has at most this number of tokens; None = no condition.
        """
        if not self._waiting:
            return None
        first = self._waiting.first()
        if self.writing + texts + len(first.wanted) > self.rows:
            return None  # a later, smaller request must not overtake this one, which could then wait for ever
        if most is not None and not (self._is_short(first) and len(first.prompt) <= most):
            return None
        return self._waiting.take()

    def _is_short(self, request: _Request) -> bool:
        """Whether a prompt is read together with others: it is at most one chunk, so it cannot reuse keys and values."""
        return self._packs and not request.scored and len(request.prompt) <= self.chunk

    def _with_others(self, first: _Request) -> list[_Request]:
        """A short prompt and the short prompts after it in the queue, up to `TOGETHER` chunks in total."""
        requests, texts, left = [first], len(first.wanted), TOGETHER * self.chunk - len(first.prompt)
        while (another := self._next(texts, left)) is not None:
            requests.append(another)
            texts, left = texts + len(another.wanted), left - len(another.prompt)
        return requests

    def _read_together(self, requests: Sequence[_Request]) -> list[Event]:
        """Read short prompts together, with the same result as separately, and start their texts; after an error, one by one."""
        model: Any = self.model
        try:
            with self._exact():
                state = model.read_texts([torch.tensor(each.prompt[:-1], dtype=torch.long) for each in requests])
        except Exception as error:
            if len(requests) == 1:
                return [RequestFailed(requests[0].key, error)]
            return [event for each in requests for event in self._read_together([each])]
        return self._begun(requests, state)

    def _read(self, request: _Request) -> list[Event]:
        """Read the next chunk of a prompt; after its last chunk start the texts, whose first step reads the last token."""
        before = request.prompt[:-1]
        if request.state is None:
            request.state = self.model.start(1)
            if self.in_parts and not request.scored:
                kept = self._kept.beginning(before, self.chunk)
                if kept is not None:
                    request.state, request.reused = kept, kept.length
        done = request.state.length
        if done < len(before):
            size = self.chunk if self.in_parts else len(before)
            part = before[done : done + size]
            ids = torch.tensor([part])
            tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")
            with self._exact():
                if request.scored:
                    logits, request.state = self.model.read(tokens, request.state)
                    self._score(request, logits[0].float(), request.prompt[done + 1 : done + 1 + len(part)])
                else:
                    request.state = self.model.prefill(tokens, request.state)
            if done + len(part) < len(before):
                return []
        self._reading = None
        if self.in_parts:
            self._kept.keep(before, request.state, self.chunk)
        return self._begun([request], request.state)

    def _score(self, request: _Request, logits: Tensor, targets: Sequence[int]) -> None:
        """Append the log-probabilities of a chunk's tokens to the request, one position at a time (for identical bits)."""
        count = max((wanted.top for wanted in request.wanted), default=0)
        for place, token in zip(logits, targets, strict=True):
            log_probabilities = place[None].log_softmax(dim=-1)[0]
            request.log_probabilities.append(float(log_probabilities[token]))
            request.top.append(top_of(log_probabilities, count))

    def _begun(self, requests: Sequence[_Request], state: DecoderState) -> list[Event]:
        """Start the texts of requests; row i of `state` is the prompt of request i."""
        events: list[Event] = []
        rows: list[_Row] = []
        of: list[int] = []
        for place, request in enumerate(requests):
            log_probabilities, top = tuple(request.log_probabilities), tuple(request.top)
            events.append(PromptRead(request.key, request.reused, log_probabilities, top))
            for copy, wanted in enumerate(request.wanted):
                if wanted.limit:
                    rows.append(
                        _Row(
                            key=request.key,
                            copy=copy,
                            wanted=wanted,
                            token=request.prompt[-1],
                            paths=Paths.begin(1, "cpu"),
                        )
                    )
                    of.append(place)
        if rows:
            own = state if of == list(range(len(requests))) else state.select(torch.tensor(of))
            self._state = join([*self._staying(), own])
            self._active += rows
        return events

    def _staying(self) -> list[DecoderState]:
        """The state of the active rows alone, as a list of one; an empty list if no text is active."""
        places, self._places = self._places, None
        if not self._active:
            return []
        return [self._state if places is None else self._state.select(torch.tensor(places))]

    def _exact(self) -> AbstractContextManager[object]:
        return nullcontext() if self._invariant else BatchInvariant()

    def _step(self) -> list[Event]:
        try:
            if self._places is not None:  # joining again drops the cache columns that only removed rows used
                self._state = join(self._staying())
            with self._exact():
                logits, self._state = self.model.step(torch.tensor([row.token for row in self._active]), self._state)
        except Exception as error:  # the state of all rows may be damaged
            lost = dict.fromkeys(row.key for row in self._active)
            self._keep(())
            return [RequestFailed(key, error) for key in lost]
        logits = logits.float()
        log_probabilities = logits.log_softmax(dim=-1)
        found = log_probabilities.numpy()
        plain = self._most_probable(logits)
        events: list[Event] = []
        staying: list[int] = []
        refused: set[Hashable] = set()
        for place, (row, best) in enumerate(zip(self._active, plain, strict=True)):
            rules = row.wanted.rules
            if best is not None:
                row.token = best
                finished = row.token in rules.ends
            else:
                try:
                    limit = torch.tensor([row.wanted.limit])
                    row.paths, ended = rules(logits[place : place + 1], row.paths, limit)
                except Exception as error:
                    if row.key not in refused:
                        events.append(RequestFailed(row.key, error))
                    refused.add(row.key)
                    continue
                row.token, finished = int(row.paths.newest[0]), bool(ended)
            row.length += 1
            end = "stop" if finished else "length" if row.length >= row.wanted.limit else ""
            top = top_of(log_probabilities[place], row.wanted.top)
            events.append(TokenEvent(row.key, row.copy, row.token, float(found[place, row.token]), top, end))
            if not end:
                staying.append(place)
        self._keep([place for place in staying if self._active[place].key not in refused])
        return [event for event in events if isinstance(event, RequestFailed) or event.key not in refused]

    def _most_probable(self, logits: Tensor) -> list[int | None]:
        """The next token of each row with plain greedy rules; computed at once, with the result of each alone.

        None for other rows, and for rows with logits that are not finite, or with forbidden tokens outside the vocabulary: their
        own rules then raise the error.
        """
        plain = [row.wanted.rules.is_plain for row in self._active]
        if not any(plain):
            return [None] * len(plain)
        never = [
            row.wanted.rules.ruled_out(row.length) if own else () for row, own in zip(self._active, plain, strict=True)
        ]
        found = allowed_best(logits, never).tolist()
        return [token if own and token >= 0 else None for token, own in zip(found, plain, strict=True)]

    def _keep(self, places: Sequence[int]) -> None:
        """Continue with these rows only."""
        if len(places) == len(self._active):
            return
        self._active = [self._active[place] for place in places]
        self._places = list(places) if self._places is None else [self._places[place] for place in places]
        if not places:
            self._state = self._places = None


def top_of(log_probabilities: Tensor, count: int) -> Top:
    """The `count` largest of (V,) log-probabilities as (id, log-probability), largest first; equal ones by id, lowest first."""
    if not count:
        return ()
    found = log_probabilities.topk(min(count, len(log_probabilities)))
    pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


class KeptPrompts:
    """A cache of decoder states after prompts, so that a prompt with the same first tokens can reuse one.

    Only whole chunks are reused, so the rest of a prompt is read in the same chunks as without the cache, with the same bits. The
    least recently used state is removed first.

    Arguments:
        most: the maximum number of bytes of all states.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        """The bytes of all states; memory that two of them share counts twice."""
        self._states: OrderedDict[tuple[int, ...], tuple[Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def keep(self, prompt: Sequence[int], state: Any, chunk: int) -> None:
        """Store the state after the whole chunks of a prompt, if the state can be cropped there (recurrent states cannot)."""
        whole_chunks = len(prompt) // chunk * chunk
        if not whole_chunks or not self.most:
            return
        prompt = tuple(prompt[:whole_chunks])
        if prompt not in self._states:
            try:
                kept = state.crop(whole_chunks)
            except ValueError:  # a recurrent state
                return
            self._states[prompt] = kept, held_bytes(kept)
            self.bytes += self._states[prompt][1]
        self._states.move_to_end(prompt)
        while self.bytes > self.most:
            self.bytes -= self._states.popitem(last=False)[1][1]

    def beginning(self, prompt: Sequence[int], chunk: int) -> Any:
        """The state after the longest stored run of whole chunks that `prompt` begins with; None if there is none."""
        prompt = tuple(prompt)
        best, best_length = None, 0
        for known in self._states:
            shared = _shared(known, prompt) // chunk * chunk
            if shared > best_length:
                best, best_length = known, shared
        if best is None:
            return None
        self._states.move_to_end(best)
        return self._states[best][0].crop(best_length)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """The number of equal first tokens."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most  # the first `low` are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low


def held_bytes(value: Any) -> int:
    """The bytes that the tensors of a state keep alive; each storage counts once, and whole even if only a view uses it."""
    storages: dict[int, int] = {}
    seen: set[int] = set()
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, Tensor):
            storage = part.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(part, list | tuple):
            left += part
        elif is_dataclass(part) and id(part) not in seen:
            seen.add(id(part))
            left += [getattr(part, each.name) for each in fields(part)]
    return sum(storages.values())
