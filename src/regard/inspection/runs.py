"""The recording of one forward pass or search (`Run`): its calls joined to one map, and the tokens of rows and columns.

A search calls its model once for each token: `followed` takes the weights of an answer from its row at each step, and `Joined`
joins several passes of another library's model. `Labels` holds the names of rows and columns of a map.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention.layer import Side
from regard.errors import InputError
from regard.generation import Hypothesis
from regard.inspection.calls import Call, Kept, described
from regard.inspection.patches import places_named
from regard.layers import Images, Tokens

if TYPE_CHECKING:
    from regard.tasks.task import Task
    from regard.text import Tokenizer

Index = int | slice | Sequence[int] | Tensor


def followed(
    seen: Run, calls: Sequence[Call], rows: Index | None, heads: Tensor | None, hypothesis: int, *, growing: bool
) -> Tensor:
    """One map per source row of a search, with the row of the hypothesis at every step.

    Arguments:
        growing: whether the keys are the generated tokens so far. The keys of all hypotheses of a source can be in one row.
    """
    answers = seen.hypotheses or []
    sources = list(range(len(answers))) if rows is None else indices(rows, len(answers)).tolist()
    for source in sources:
        check_hypothesis(answers, source, hypothesis)
    paths = [answers[source][hypothesis].rows for source in sources]
    steps = max((len(path) for path in paths), default=0)
    count = calls[0].shape[1] if heads is None else len(heads)
    longest = len(calls) if growing else max((call.shape[3] for call in calls), default=0)
    weights = torch.zeros(len(sources), count, steps, longest)
    for step in range(steps):
        present = [place for place, path in enumerate(paths) if step < len(path)]
        # Hypotheses about one source may have been so many queries of one batch row.
        rows_then = torch.tensor([paths[place][step] for place in present])
        width = calls[step].shape[2]
        part = calls[step].read(rows_then // width, heads)
        found = part[torch.arange(len(present)), :, rows_then % width].cpu()
        places = calls[step].places
        if growing and places is not None:
            # Of the keys at one place a hypothesis sees one; the weights of the others are zero.
            own = places.cpu()[rows_then // width].unsqueeze(1).expand_as(found)
            found = torch.zeros(*found.shape[:2], step + 1).scatter_add_(2, own, found)
        weights[present, :, step, : found.shape[2]] = found
    return weights


def check_hypothesis(answers: Sequence[Sequence[Hypothesis]], row: int, hypothesis: int) -> None:
    """Check that a search found this many answers.

    Raises:
        InputError: if it did not.
    """
    if not 0 <= hypothesis < len(answers[row]):
        raise InputError(
            f"hypothesis {hypothesis} of {len(answers[row])} found for row {row}; search with a larger n_best"
        )


def indices(index: Index, size: int) -> Tensor:
    """An index of any kind as a list of positions, counted from 0.

    Raises:
        InputError: for a position outside.
    """
    if isinstance(index, slice):
        return torch.arange(size)[index]
    places = torch.as_tensor([index] if isinstance(index, int) else index, dtype=torch.long).reshape(-1)
    if len(places) and not -size <= int(places.min()) <= int(places.max()) < size:
        raise InputError(f"index {places.tolist()} is outside 0 to {size - 1}")
    return places % max(size, 1)


# Several passes of another library's model as one map: which place each key has, and which rows continue which.


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """How the calls of several passes are joined to one map.

    Arguments:
        offsets: by address, the position of the first key of each call; above 0 if a cache has dropped the oldest keys.
        rows: (answers, passes), the batch row of an answer in each pass, -1 after its end; None if rows are not reordered.
        width: the number of batch rows in the last pass.
    """

    offsets: dict[str, list[int]]
    rows: Tensor | None
    width: int

    @classmethod
    def of(cls, calls: dict[str, list[Call]], rows: Tensor | None) -> Joined:
        """Find the positions of keys from the keys of the passes: a cache holds the keys of the previous pass.

        Raises:
            InputError: if the passes do not continue each other, or rows were reordered and `rows` is not given.
        """
        width = max((one[-1].shape[0] for one in calls.values()), default=0)
        if rows is not None and (rows.dim() != 2 or not rows.numel() or int(rows.max()) >= width):
            raise InputError(
                f"rows: give for each answer its batch row in each pass, 0 to {width - 1} or -1 after its end"
            )
        return cls({address: _offsets(address, one, rows) for address, one in calls.items()}, rows, width)

    @property
    def size(self) -> int:
        """The number of rows of the map."""
        return self.width if self.rows is None else len(self.rows)

    def weights(self, address: str, calls: Sequence[Call], rows: Index | None, heads: Tensor | None) -> Tensor:
        """The joined map, (rows, heads, L, S) float32; keys that a pass did not have are zero."""
        offsets = self.offsets[address]
        columns = max(offset + call.shape[3] for offset, call in zip(offsets, calls, strict=True))
        chosen = None if rows is None else indices(rows, calls[0].shape[0] if self.rows is None else len(self.rows))
        parts = []
        for step, (offset, call) in enumerate(zip(offsets, calls, strict=True)):
            here = chosen
            gone = None
            if self.rows is not None:
                if step >= self.rows.shape[1]:
                    break
                paths = self.rows[:, step] if chosen is None else self.rows[chosen, step]
                # What is the same for all answers to one source may be there once.
                here, gone = paths.clamp(min=0) // (self.width // call.shape[0]), paths < 0
            part = call.read(here, heads)
            if gone is not None:
                part = part.masked_fill(gone.to(part.device)[:, None, None, None], 0.0)
            parts.append(torch.nn.functional.pad(part, (offset, columns - offset - part.shape[3])))
        return torch.cat(parts, dim=2)


def _offsets(address: str, calls: Sequence[Call], rows: Tensor | None) -> list[int]:
    found, read = [0], calls[0].shape[2]
    for step, (before, now) in enumerate(itertools.pairwise(calls)):
        if rows is not None and step + 1 >= rows.shape[1]:
            found.append(found[-1])
            continue
        pair = (None, None) if rows is None else (rows[:, step], rows[:, step + 1])
        found.append(found[-1] + _let_go(address, before, now, read, *pair))
        read += now.shape[2]
    return found


def _let_go(address: str, before: Call, now: Call, read: int, was: Tensor | None, goes: Tensor | None) -> int:
    """The number of oldest keys that a cache dropped between two passes."""
    queries, keys = now.shape[2:]
    if before.shape[0] != now.shape[0]:
        raise InputError(
            f"{address}: a pass of {now.shape[0]} rows follows one of {before.shape[0]}, so they are not one generation; "
            "choose passes that are with joined(runs=slice(...))"
        )
    past, present = before.trace, now.trace
    if past is None or present is None:
        if keys == before.shape[3] + queries and now.shape[0] == 1:
            return 0
        raise InputError(
            f"{address}: what this module keeps of earlier passes was not seen, so which key is whose is not known; look at one "
            "pass over the whole text instead"
        )
    if was is not None and goes is not None:
        there = goes >= 0
        past, present = past[was[there]], present[goes[there]]
    shift = before.shape[3] + queries - keys
    same = _agree_outside(past, present[:, : past.shape[1]], read, queries) if keys >= before.shape[3] else None
    if same is not None and bool(same.diagonal().all()):
        return 0
    slid = (
        _agree(past[:, shift:], present[:, : keys - queries])
        if 0 <= shift <= before.shape[3] and keys > queries
        else None
    )
    if slid is not None and bool(slid.diagonal().all()):
        return shift
    if queries == keys > 1:
        raise InputError(
            f"{address}: each pass read the whole text again, without a cache, so the last run is the whole map already: leave "
            "joined() out"
        )
    if was is not None:
        raise InputError(
            f"{address}: the cache of pass after pass does not continue as rows says; give the beam_indices of this "
            "very generation"
        )
    if any(one is not None and bool(one.any(dim=1).all()) for one in (same, slid)):
        raise InputError(
            f"{address}: rows changed places between passes, as in a beam search, so a row is not one text; give "
            "joined(rows=answer.beam_indices) of generate(..., return_dict_in_generate=True, output_scores=True), or look at one "
            "pass over what was written"
        )
    raise InputError(
        f"{address}: the cache changed or let go keys between two passes in a way that does not show which are left; look at one "
        "pass over the whole text instead"
    )


def _agree(past: Tensor, present: Tensor) -> Tensor:
    """(B, B): whether the keys of row i equal the previous keys of row j, bit for bit."""
    return (present[:, None] == past[None]).flatten(2).all(dim=-1)


def _agree_outside(past: Tensor, present: Tensor, start: int, count: int) -> Tensor:
    """The same, apart from the places that were just written."""
    kept = torch.ones(past.shape[1], dtype=torch.bool, device=past.device)
    kept[start : start + count] = False
    return _agree(past[:, kept], present[:, kept])


# What was seen of one forward pass, or of one search.


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """The calls of one forward pass, or of one search.

    Arguments:
        calls: by address, in order.
        hidden: outputs of the requested modules, by address, in order.
        source, target: the inputs of the model; the target only in a forward pass.
        grid: rows and columns of positions in one frame, if it read images.
        leading: the number of vectors before those of the grid, such as a class token.
        hypotheses: of a search, per source row, best first; their `rows` hold the batch row at every step.
        predictions: the task's predictions from the hypotheses, if there are any.
        joined: how calls of several passes are joined to one map, if there are several.
    """

    calls: dict[str, list[Call]] = field(default_factory=dict)
    hidden: dict[str, list[Kept]] = field(default_factory=dict)
    source: Tokens | Images | None = None
    target: Tokens | None = None
    grid: tuple[int, int] | None = None
    leading: int = 0
    hypotheses: list[list[Hypothesis]] | None = None
    predictions: list[Any] | None = None
    joined: Joined | None = None

    def __repr__(self) -> str:
        kind = "joined passes" if self.joined is not None else "search" if self.searched else "forward pass"
        parts = [f"{address}: {len(calls)} x {calls[-1].shape}" for address, calls in self.calls.items()]
        parts += [f"{address}: {len(kept)} x {described(kept[-1].tensor)}" for address, kept in self.hidden.items()]
        return f"Run({kind}; {', '.join(parts) or 'no attention'})"

    @property
    def searched(self) -> bool:
        """Whether this is a search."""
        return self.hypotheses is not None


Places = list[tuple[int, str]]
"""Positions in a batch row, each with its token, without padding."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The tokens of one batch row of a run.

    Arguments:
        title: the source, and the target.
        source: source tokens by position; None if unknown.
        consumed: target tokens by the position at which the decoder reads them, the start token first.
        produced: target tokens by the position at which the decoder predicts them.
        given: the tokens of source and target from the caller, with padding, for modules that do not read `Tokens`.
    """

    title: str
    source: Places | None = None
    consumed: Places | None = None
    produced: Places | None = None
    given: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None)

    @classmethod
    def of(
        cls,
        run: Run,
        row: int,
        hypothesis: int,
        task: Task | None,
        tokens: Sequence[str] | None = None,
        target_tokens: Sequence[str] | None = None,
    ) -> Labels:
        """The labels of batch row `row`; ids as text if neither a task nor the caller gives the tokens.

        Raises:
            InputError: if tokens are given for a run whose tokens are known, or that fit no map of it.
        """
        if tokens is not None or target_tokens is not None:
            if run.source is not None and task is not None:
                raise InputError("the tokens of this run are known; leave tokens and target_tokens out")
            _refuse_misfits(run, tokens, target_tokens)
        if run.source is None:
            title = " ".join(tokens) if tokens is not None else f"example {row}"
            return cls(title, given=(tokens, target_tokens))
        known = {} if task is None else task.tokenizers
        reads = known.get("source", next(iter(known.values()), None))
        writes = known.get("target", reads)
        ids: list[int] = []
        if isinstance(run.source, Images):
            source = None if run.grid is None else places_named(run.source, row, run.grid, run.leading)
        else:
            places, ids = _real(run.source.ids[row], run.source.valid[row])
            source = list(zip(places, _texts(places, ids, reads, tokens), strict=True))
        consumed = produced = None
        if run.target is not None:
            places, written = _real(run.target.ids[row], run.target.valid[row])
            texts = _texts(places, written, writes, target_tokens)
            consumed = list(zip(places, texts, strict=True))
            produced = list(zip(places, [*texts[1:], _called(writes, "end", task)], strict=True))
        elif run.hypotheses is not None:
            found = run.hypotheses[row][hypothesis]
            texts = _texts([], list(found.tokens), writes, None)
            if found.length > len(texts):
                texts.append(_called(writes, "end", task))
            produced = list(enumerate(texts))
            consumed = list(enumerate([_called(writes, "start", task), *texts[:-1]]))
        title = f"example {row}" if tokens is None else " ".join(text for _, text in source or [])
        if run.predictions and run.hypotheses is not None and reads is not None and writes is not None:
            draws = len(run.hypotheses) // len(run.predictions)  # above 1 where each source was sampled several times
            answer = writes.decode(run.hypotheses[row][hypothesis].tokens)
            given = getattr(run.predictions[row // draws], "source", None)
            if isinstance(run.source, Images):
                title = f"image {row // draws + 1}, caption: {answer}"
            else:
                title = f"{reads.decode(ids) if given is None else given} → {answer}"
        elif isinstance(run.source, Images):
            title = f"image {row + 1}" + _predicted_class(run, row)
        elif reads is not None:
            fitting = run.predictions is not None and len(run.predictions) == len(run.source)
            title = _text_read(reads, ids, run.predictions[row] if run.predictions and fitting else None)
        return cls(title, source, consumed, produced)

    def axes(self, between: tuple[Side, Side], weights: Tensor) -> tuple[Places, Places]:
        """The labels of the rows and the columns of weights (H, L, S)."""
        queries_from, keys_from = between
        queries, keys = weights.shape[1:]
        if queries_from == "document":
            return [(0, "document")], _numbered("S", weights.any(dim=0).any(dim=0))
        if queries_from == "sentences":
            return _numbered("S", weights.any(dim=0).any(dim=-1)), _or_numbers(self.source, keys)
        if self.source is None:
            return self._given_axes(between, weights)
        if self.consumed is None and self.produced is None:  # a language model: what it reads is what it writes
            return _or_numbers(self.source, queries), _or_numbers(self.source, keys)
        columns = self.source if keys_from == "source" else self.consumed
        # Where a decoder looks at the source, what it was writing; where it looks at its own side, what it read of it.
        written = self.produced if keys_from == "source" else self.consumed
        rows = self.source if queries_from == "source" else written
        return _or_numbers(rows, queries), _or_numbers(columns, keys)

    def _given_axes(self, between: tuple[Side, Side], weights: Tensor) -> tuple[Places, Places]:
        source, target = self.given
        queries, keys = weights.shape[1:]
        seen = weights != 0
        columns = seen.any(dim=0).any(dim=0)
        rows = seen.any(dim=0).any(dim=-1)
        if between[0] == between[1]:
            # Both sequences may be as long: only a decoder's queries see nothing that comes later.
            causal = queries == keys and not seen.triu(1).any()
            named = next(
                (text for text in ((target, source) if causal else (source, target)) if _fits(text, keys)), None
            )
            labels = named, None if named is None else named[-queries:]
            if queries == keys:
                rows = rows & columns
        else:
            labels = source if _fits(source, keys) else None, target if _fits(target, queries) else None
        return _those(labels[1], rows), _those(labels[0], columns)


def _texts(
    places: Sequence[int], ids: Sequence[int], tokenizer: Tokenizer | None, given: Sequence[str] | None
) -> list[str]:
    """The tokens of some positions as text: from the caller, else from the tokenizer, else their ids."""
    if given is not None and all(place < len(given) for place in places):
        return [given[place] for place in places]
    return [str(index) for index in ids] if tokenizer is None else list(tokenizer.tokens(ids))


def _called(tokenizer: Tokenizer | None, role: str, task: Any) -> str:
    """The tokenizer's name of the token that a decoder reads first, or of the one that ends a text."""
    if tokenizer is None:
        return role
    first = task.model_settings().get("start_id", tokenizer.start_id)
    return tokenizer.tokens([first if role == "start" else tokenizer.end_id])[0]


def _text_read(tokenizer: Tokenizer, ids: Sequence[int], prediction: Any) -> str:
    """The text, or the two texts, that the model read: as given if that is known, else decoded from its tokens."""
    parts: list[list[int]] = [[]]
    for index in ids:
        if index == tokenizer.end_id:
            parts.append([])
        elif index != tokenizer.start_id:
            parts[-1].append(index)
    parts = [part for part in parts if part] or [[]]
    given: Any = getattr(prediction, "text", None)
    texts: list[str] = [
        text for text in (given if isinstance(given, tuple | list) else [given]) if isinstance(text, str)
    ]
    # Predictions may come in another order than the rows that they were made of, and a text may have been cut.
    if len(texts) == len(parts):
        encoded = tokenizer.encode_batch(texts)
        if all(whole[: len(part)] == part for whole, part in zip(encoded, parts, strict=True)):
            return " | ".join(texts)
    return " | ".join(tokenizer.decode(part) for part in parts)


def _predicted_class(run: Run, row: int) -> str:
    """The class that a classifier predicted for an image, if there is one."""
    found = run.predictions if run.source is not None and len(run.predictions or ()) == len(run.source) else None
    label = None if found is None else getattr(found[row], "label", None)
    return "" if label is None else f", predicted class: {label}"


def _refuse_misfits(run: Run, tokens: Sequence[str] | None, target_tokens: Sequence[str] | None) -> None:
    sizes = {size for calls in run.calls.values() for call in calls for size in call.shape[2:]}
    for name, given in (("tokens", tokens), ("target_tokens", target_tokens)):
        if isinstance(given, str):
            raise InputError(f"{name}: a string given; give a list of strings, one for each place")
        if given is not None and len(given) not in sizes:
            raise InputError(
                f"{name}: {len(given)} given, but the maps are over {', '.join(map(str, sorted(sizes)))} places; give one for "
                "each place, padding and special tokens among them"
            )


def _fits(tokens: Sequence[str] | None, size: int) -> bool:
    return tokens is not None and len(tokens) == size


def _those(tokens: Sequence[str] | None, places: Tensor) -> Places:
    kept = places.nonzero()[:, 0].tolist() or list(range(len(places)))
    return [(place, str(place) if tokens is None else tokens[place]) for place in kept]


def _real(ids: Tensor, valid: Tensor) -> tuple[list[int], list[int]]:
    places = valid.nonzero()[:, 0].tolist()
    return places, ids[valid].tolist()


def _numbered(name: str, seen: Tensor) -> Places:
    """The numbers of parts, from 1, up to the last one with a weight; the rest is padding."""
    count = int(seen.nonzero().max()) + 1 if seen.any() else 1
    return [(place, f"{name}{place + 1}") for place in range(count)]


def _or_numbers(places: Places | None, size: int) -> Places:
    return [(i, str(i)) for i in range(size)] if places is None else [p for p in places if p[0] < size]
