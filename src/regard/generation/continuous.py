"""Continuous batching: texts join a batch and leave it between any two steps, and none changes another.

Orca (Yu et al. 2022, section 3.1) schedules a language model by the step and not by the batch: a text that ends leaves at once,
and one that waits takes its place. Here a text and its log-probabilities also have the same bits alone and next to any others:

    each prompt is read as if by itself, in chunks that begin at multiples of `chunk`, so its keys and values depend on it alone
    (`CausalStack.read_texts`, `regard.attention.BatchInvariant`);
    a step's logits of a row do not depend on the other rows (`regard.attention.BatchInvariant`, or a kernel that is so);
    each row has its own rules and its own random numbers.

Between two steps one chunk of one prompt is read, or short prompts that make up two chunks together, so nobody waits for a long
prompt of somebody else.
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
"""Tokens of a prompt that are read between two steps."""

TOGETHER = 2
"""Chunks that short prompts make up which are read together: a reading of twice as many tokens takes less than twice as long."""

Top = tuple[tuple[int, float], ...]
"""Ids and log-probabilities of the most probable tokens at a place, the most probable first."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Wanted:
    """A text to write.

    Arguments:
        rules: how its tokens are chosen; its choice function serves this text alone.
        limit: the most tokens, 0 for none: then the prompt is only read.
        top: how many of the most probable tokens to tell of each place.
    """

    rules: NextToken
    limit: int
    top: int = 0

    def __post_init__(self) -> None:
        whole("limit", self.limit, least=0)
        whole("top", self.top, least=0)


@dataclass(frozen=True, slots=True)
class Told:
    """One token of a text, as soon as it is written.

    Arguments:
        key: of the request.
        copy: which of its texts, from 0.
        token: its id.
        log_probability: natural log, the model's own.
        top: the most probable tokens at its place, where asked for.
        end: `stop` where the text ended by itself or at a stop, `length` where it came to its limit; empty where it continues.
    """

    key: Hashable
    copy: int
    token: int
    log_probability: float
    top: Top
    end: str


@dataclass(frozen=True, slots=True)
class PromptRead:
    """A prompt was read.

    Arguments:
        key: of the request.
        reused: tokens whose keys and values were kept from an earlier prompt.
        log_probabilities: of each token but the first, given those before it; empty where not asked for.
        top: for each of these places the most probable tokens.
    """

    key: Hashable
    reused: int
    log_probabilities: tuple[float, ...] = ()
    top: tuple[Top, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request ended with an error; no other is touched by it.

    Arguments:
        key: of the request.
        error: what went wrong.
    """

    key: Hashable
    error: Exception


Event = Told | PromptRead | Refused


@dataclass(kw_only=True, slots=True, eq=False)
class _Request:
    """A prompt with its texts, while it waits or is read."""

    key: Hashable
    prompt: Sequence[int]
    wanted: Sequence[Wanted]
    scored: bool
    state: Any = None
    reused: int = 0
    log_probabilities: list[float] = field(default_factory=list)
    top: list[Top] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class _Row:
    """A text that is being written."""

    key: Hashable
    copy: int
    wanted: Wanted
    token: int
    paths: Paths
    length: int = 0


class ContinuousBatch:
    """Texts of one language model that are written side by side, each as if it were alone.

    `add` takes requests at any time, `turn` goes one step on and says what came of it. An error that one request meets, in its
    rules or while its prompt is read, ends that request alone; one of the model's step ends the texts that are being written, and
    no others. Not for two threads at once.

    Arguments:
        model: in evaluation mode.
        rows: the most texts that are written together; others wait, and clients take turns.
        chunk: tokens of a prompt read between two steps. The bits of an answer depend on it, as rounding does. A model that
            cannot (`in_parts` is then false) reads each prompt at once.
        kept_bytes: memory for keys and values of prompts that were read, whose beginnings are not read again.

    >>> from regard.generation import Greedy, NextToken
    >>> from regard.models import GPT2, GPT2Config
    >>> model = GPT2(GPT2Config(vocabulary=9, width=8, heads=1, feedforward_width=8, layers=1, maximum_positions=20)).eval()
    >>> from regard.generation import Continuation
    >>> config = Continuation(model).config
    >>> batch = ContinuousBatch(model)
    >>> for name in ("first", "second"):
    ...     batch.add(name, [1, 2, 3], [Wanted(rules=NextToken(config=config, choice=Greedy().begin(1)), limit=4)])
    >>> events = [event for _ in range(9) for event in batch.turn() if isinstance(event, Told)]
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
        """Where the rows that are active are in the state; None where those are all of its rows."""
        self._kept = KeptPrompts(kept_bytes)
        self._invariant = isinstance(model, CausalStack) and model.batch_invariant_steps
        self.in_parts = bool(getattr(model, "reads_in_parts", True))
        self._packs = self.in_parts and isinstance(model, CausalStack) and model.packs_texts

    @property
    def writing(self) -> int:
        """Texts that are being written."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """Requests that wait or are being read."""
        return len(self._waiting) + (self._reading is not None)

    @property
    def tokens_read(self) -> int:
        """Of the prompt that is being read, or else of the longest text that is being written, the tokens that were read."""
        if self._reading is not None:
            return 0 if self._reading.state is None else self._reading.state.length
        return 0 if self._state is None else self._state.length

    @property
    def busy(self) -> bool:
        """Whether `turn` has something to do."""
        return bool(self.writing or self.waiting)

    def add(
        self,
        key: Hashable,
        prompt: Sequence[int],
        wanted: Sequence[Wanted],
        *,
        scored: bool = False,
        client: Sequence[str] = (),
    ) -> None:
        """Ask for one or several texts after a prompt, which is read once.

        Arguments:
            key: what events name the request by.
            prompt: token ids, one at least.
            wanted: a text each.
            scored: whether to return the log-probabilities of the prompt's tokens. The whole prompt is then read, none of it
                reused.
            client: whose it is, as a path of names (`Turns`). Clients take turns, however many requests one has.

        Raises:
            InputError: for a prompt without a token, one longer than the model has positions for, and more texts than rows.
        """
        limit = self.model.maximum_length
        if not prompt:
            raise InputError("the prompt has no token, and there is nothing to continue")
        if limit is not None and len(prompt) > limit:
            raise InputError(f"the prompt has {len(prompt)} tokens and the model has positions for {limit}; shorten it")
        if not 1 <= len(wanted) <= self.rows:
            raise InputError(f"{len(wanted)} texts are asked for at once; ask for 1 to {self.rows}")
        request = _Request(key=key, prompt=tuple(prompt), wanted=tuple(wanted), scored=scored)
        self._waiting.add(request, client)

    def cancel(self, key: Hashable) -> None:
        """Forget a request; its rows are free before the next step."""
        self._waiting.remove(lambda request: request.key == key)
        if self._reading is not None and self._reading.key == key:
            self._reading = None
        self._keep([place for place, row in enumerate(self._active) if row.key != key])

    @torch.no_grad()
    def turn(self) -> list[Event]:
        """One token of every text that is being written, then one chunk of a prompt, or several short prompts."""
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
            events.append(Refused(request.key, error))
        return events

    def _next(self, texts: int = 0, most: int | None = None) -> _Request | None:
        """The request whose turn it is, where its texts have room.

        Arguments:
            texts: others that will begin with it.
            most: it has to be short, of so many tokens at most; None where any will do.
        """
        if not self._waiting:
            return None
        first = self._waiting.first()
        if self.writing + texts + len(first.wanted) > self.rows:
            return None  # nobody overtakes one that asks for several, who would wait for ever
        if most is not None and not (self._is_short(first) and len(first.prompt) <= most):
            return None
        return self._waiting.take()

    def _is_short(self, request: _Request) -> bool:
        """Whether a prompt is read together with others: less than a chunk, so that no beginning of it was kept."""
        return self._packs and not request.scored and len(request.prompt) <= self.chunk

    def _with_others(self, first: _Request) -> list[_Request]:
        """A short prompt and those after it in the queue, as many as make up `TOGETHER` chunks."""
        requests, texts, left = [first], len(first.wanted), TOGETHER * self.chunk - len(first.prompt)
        while (another := self._next(texts, left)) is not None:
            requests.append(another)
            texts, left = texts + len(another.wanted), left - len(another.prompt)
        return requests

    def _read_together(self, requests: Sequence[_Request]) -> list[Event]:
        """Short prompts, each as by itself; then their texts begin. After an error each is read alone."""
        model: Any = self.model
        try:
            with self._exact():
                state = model.read_texts([torch.tensor(each.prompt[:-1], dtype=torch.long) for each in requests])
        except Exception as error:
            if len(requests) == 1:
                return [Refused(requests[0].key, error)]
            return [event for each in requests for event in self._read_together([each])]
        return self._begun(requests, state)

    def _read(self, request: _Request) -> list[Event]:
        """A chunk more of a prompt, all but its last token, which the first step reads; at its end the texts begin."""
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

    def _score(self, request: _Request, logits: Tensor, told: Sequence[int]) -> None:
        """The log-probabilities of a chunk's tokens, each place by itself."""
        count = max((wanted.top for wanted in request.wanted), default=0)
        for place, token in zip(logits, told, strict=True):
            log_probabilities = place[None].log_softmax(dim=-1)[0]
            request.log_probabilities.append(float(log_probabilities[token]))
            request.top.append(top_of(log_probabilities, count))

    def _begun(self, requests: Sequence[_Request], state: DecoderState) -> list[Event]:
        """The texts of requests begin, whose prompts are the rows of a state."""
        events: list[Event] = []
        rows: list[_Row] = []
        of: list[int] = []
        for place, request in enumerate(requests):
            told = (tuple(request.log_probabilities), tuple(request.top))
            events.append(PromptRead(request.key, request.reused, *told))
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
        """The state of the rows that are active; none where there is none. Those who left are left out at last."""
        places, self._places = self._places, None
        if not self._active:
            return []
        return [self._state if places is None else self._state.select(torch.tensor(places))]

    def _exact(self) -> AbstractContextManager[object]:
        return nullcontext() if self._invariant else BatchInvariant()

    def _step(self) -> list[Event]:
        try:
            if self._places is not None:  # joined again, which leaves out the columns that only those saw who are gone
                self._state = join(self._staying())
            with self._exact():
                logits, self._state = self.model.step(torch.tensor([row.token for row in self._active]), self._state)
        except Exception as error:  # nobody knows what became of the state, in which all rows stand
            lost = dict.fromkeys(row.key for row in self._active)
            self._keep(())
            return [Refused(key, error) for key in lost]
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
                        events.append(Refused(row.key, error))
                    refused.add(row.key)
                    continue
                row.token, finished = int(row.paths.newest[0]), bool(ended)
            row.length += 1
            end = "stop" if finished else "length" if row.length >= row.wanted.limit else ""
            top = top_of(log_probabilities[place], row.wanted.top)
            events.append(Told(row.key, row.copy, row.token, float(found[place, row.token]), top, end))
            if not end:
                staying.append(place)
        self._keep([place for place in staying if self._active[place].key not in refused])
        return [event for event in events if isinstance(event, Refused) or event.key not in refused]

    def _most_probable(self, logits: Tensor) -> list[int | None]:
        """The next tokens of the rows with plain rules, of all of them at once.

        None for other rows, and for those whose logits are not finite, or whose forbidden tokens the model does not have: their
        own rules say what is wrong.
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
        """Go on with these rows alone."""
        if len(places) == len(self._active):
            return
        self._active = [self._active[place] for place in places]
        self._places = list(places) if self._places is None else [self._places[place] for place in places]
        if not places:
            self._state = self._places = None


def top_of(log_probabilities: Tensor, count: int) -> Top:
    """Of (V,) the `count` largest, each with its id before it; of equal ones the lower id first."""
    if not count:
        return ()
    found = log_probabilities.topk(min(count, len(log_probabilities)))
    pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


class KeptPrompts:
    """States after prompts that were read, so that a prompt with the same beginning continues from there.

    Only whole chunks are reused, so what is read after them is read in the chunks that it would be read in without: the bits are
    the same. What was used longest ago is forgotten first.

    Arguments:
        most: bytes of all that the states hold.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        """What all states take; memory that two of them share counts twice."""
        self._states: OrderedDict[tuple[int, ...], tuple[Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def keep(self, prompt: Sequence[int], state: Any, chunk: int) -> None:
        """Remember the state after the whole chunks of a prompt, where it can be cut there."""
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
        """The state after as many whole chunks of a prompt as were read before; None where none was."""
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
    """How many tokens both begin with."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most  # the first `low` are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low


def held_bytes(value: Any) -> int:
    """Of the memory in which the tensors of a state stand, each stretch once; a part of a stretch holds all of it."""
    stretches: dict[int, int] = {}
    seen: set[int] = set()
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, Tensor):
            stretch = part.untyped_storage()
            stretches[stretch.data_ptr()] = stretch.nbytes()
        elif isinstance(part, list | tuple):
            left += part
        elif is_dataclass(part) and id(part) not in seen:
            seen.add(id(part))
            left += [getattr(part, each.name) for each in fields(part)]
    return sum(stretches.values())
