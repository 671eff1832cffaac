"""What to write beside the rows and columns of a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.attention.layer import Side
from regard.errors import InputError
from regard.inspection.joining import Run
from regard.inspection.patches import places_named
from regard.layers import Pictures

if TYPE_CHECKING:
    from regard.tasks.task import Task
    from regard.text import Tokenizer

Places = list[tuple[int, str]]
"""Positions in a batch row, each with its token; padding is not among them."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The tokens of one batch row of a run.

    Arguments:
        title: what was read, and written.
        source: source tokens by position; None where unknown.
        consumed: target tokens by the position at which the decoder reads them, the start token first.
        produced: target tokens by the position at which the decoder writes them.
        told: the tokens of source and target as somebody told them, padding among them, for modules that do not read `Tokens`.
    """

    title: str
    source: Places | None = None
    consumed: Places | None = None
    produced: Places | None = None
    told: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None)

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
        """The labels of batch row `row`; ids as text where neither a task nor the caller knows better.

        Raises:
            InputError: where tokens were told of a run whose tokens are known, or fit no map of it.
        """
        if tokens is not None or target_tokens is not None:
            if run.source is not None and task is not None:
                raise InputError("the tokens of this run are known; leave tokens and target_tokens out")
            _refuse_misfits(run, tokens, target_tokens)
        if run.source is None:
            title = " ".join(tokens) if tokens is not None else f"example {row}"
            return cls(title, told=(tokens, target_tokens))
        known = {} if task is None else task.tokenizers
        reads = known.get("source", next(iter(known.values()), None))
        writes = known.get("target", reads)
        ids: list[int] = []
        if isinstance(run.source, Pictures):
            source = None if run.grid is None else places_named(run.source, row, run.grid, run.leading)
        else:
            places, ids = _real(run.source.ids[row], run.source.valid[row])
            source = list(zip(places, _texts(places, ids, reads, tokens), strict=True))
        consumed = produced = None
        if run.target is not None:
            places, written = _real(run.target.ids[row], run.target.valid[row])
            texts = _texts(places, written, writes, target_tokens)
            consumed = list(zip(places, texts, strict=True))
            produced = list(zip(places, [*texts[1:], _called(writes, "end")], strict=True))
        elif run.hypotheses is not None:
            found = run.hypotheses[row][hypothesis]
            texts = _texts([], list(found.tokens), writes, None)
            if found.length > len(texts):
                texts.append(_called(writes, "end"))
            produced = list(enumerate(texts))
            consumed = list(enumerate([_called(writes, "start"), *texts[:-1]]))
        title = f"example {row}" if tokens is None else " ".join(text for _, text in source or [])
        if run.predictions and run.hypotheses is not None and reads is not None and writes is not None:
            draws = len(run.hypotheses) // len(run.predictions)  # above 1 where each source was sampled several times
            answer = writes.decode(run.hypotheses[row][hypothesis].tokens)
            given = getattr(run.predictions[row // draws], "source", None)
            if isinstance(run.source, Pictures):
                title = f"image {row // draws + 1}, caption: {answer}"
            else:
                title = f"{reads.decode(ids) if given is None else given} → {answer}"
        elif isinstance(run.source, Pictures):
            title = f"image {row + 1}" + _class_told(run, row)
        elif reads is not None:
            fitting = run.predictions is not None and len(run.predictions) == len(run.source)
            title = _text_read(reads, ids, run.predictions[row] if run.predictions and fitting else None)
        return cls(title, source, consumed, produced)

    def axes(self, between: tuple[Side, Side], weights: Tensor) -> tuple[Places, Places]:
        """What to write beside the rows and the columns of weights (H, L, S)."""
        queries_from, keys_from = between
        queries, keys = weights.shape[1:]
        if queries_from == "document":
            return [(0, "document")], _numbered("S", weights.any(dim=0).any(dim=0))
        if queries_from == "sentences":
            return _numbered("S", weights.any(dim=0).any(dim=-1)), _or_numbers(self.source, keys)
        if self.source is None:
            return self._told_axes(between, weights)
        if self.consumed is None and self.produced is None:  # a language model: what it reads is what it writes
            return _or_numbers(self.source, queries), _or_numbers(self.source, keys)
        columns = self.source if keys_from == "source" else self.consumed
        # Where a decoder looks at the source, what it was writing; where it looks at its own side, what it read of it.
        written = self.produced if keys_from == "source" else self.consumed
        rows = self.source if queries_from == "source" else written
        return _or_numbers(rows, queries), _or_numbers(columns, keys)

    def _told_axes(self, between: tuple[Side, Side], weights: Tensor) -> tuple[Places, Places]:
        source, target = self.told
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
    places: Sequence[int], ids: Sequence[int], tokenizer: Tokenizer | None, told: Sequence[str] | None
) -> list[str]:
    """Tokens in words, as whoever knows them best says."""
    if told is not None and all(place < len(told) for place in places):
        return [told[place] for place in places]
    return [str(index) for index in ids] if tokenizer is None else list(tokenizer.tokens(ids))


def _called(tokenizer: Tokenizer | None, role: str) -> str:
    """What a tokenizer calls its token for the start or the end of a text."""
    if tokenizer is None:
        return role
    return tokenizer.tokens([tokenizer.start_id if role == "start" else tokenizer.end_id])[0]


def _text_read(tokenizer: Tokenizer, ids: Sequence[int], prediction: Any) -> str:
    """The text, or the two, that was read: as it was given where that is known, else as its tokens tell it."""
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


def _class_told(run: Run, row: int) -> str:
    """What a classifier predicted for an image, where one did."""
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
    """Parts by their number, from 1: up to the last that any weight is of, for behind it is padding."""
    count = int(seen.nonzero().max()) + 1 if seen.any() else 1
    return [(place, f"{name}{place + 1}") for place in range(count)]


def _or_numbers(places: Places | None, size: int) -> Places:
    return [(i, str(i)) for i in range(size)] if places is None else [p for p in places if p[0] < size]
