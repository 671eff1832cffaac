"""What to write beside the rows and columns of a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from regard.attention.layer import Side
from regard.inspection.recorder import Run

if TYPE_CHECKING:
    from regard.tasks import TranslationTask

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
    """

    title: str
    source: Places | None = None
    consumed: Places | None = None
    produced: Places | None = None

    @classmethod
    def of(cls, run: Run, row: int, hypothesis: int, task: TranslationTask | None) -> Labels:
        """The labels of batch row `row`; ids as text where no task knows better."""
        source_tokenizer = None if task is None else task.source_tokenizer
        target_tokenizer = None if task is None else task.target_tokenizer

        def texts(ids: list[int], tokenizer: object) -> list[str]:
            return [str(i) for i in ids] if tokenizer is None else list(tokenizer.tokens(ids))  # type: ignore[attr-defined]

        source = None
        if run.source is not None:
            places, ids = _real(run.source.ids[row], run.source.valid[row])
            source = list(zip(places, texts(ids, source_tokenizer), strict=True))
        consumed = produced = None
        if run.target is not None:
            places, ids = _real(run.target.ids[row], run.target.valid[row])
            written = texts(ids, target_tokenizer)
            end = "end" if target_tokenizer is None else target_tokenizer.tokens([target_tokenizer.end_id])[0]
            consumed = list(zip(places, written, strict=True))
            produced = list(zip(places, [*written[1:], end], strict=True))
        elif run.hypotheses is not None:
            found = run.hypotheses[row][hypothesis]
            ids = list(found.tokens)
            written = texts(ids, target_tokenizer)
            if found.length > len(ids):
                written.append(
                    "end" if target_tokenizer is None else target_tokenizer.tokens([target_tokenizer.end_id])[0]
                )
            start = "start" if target_tokenizer is None else target_tokenizer.tokens([target_tokenizer.start_id])[0]
            produced = list(enumerate(written))
            consumed = list(enumerate([start, *written[:-1]]))
        title = f"example {row}"
        if run.predictions and run.hypotheses is not None and task is not None:
            draws = len(run.hypotheses) // len(run.predictions)  # above 1 where each source was sampled several times
            answer = task.target_tokenizer.decode(run.hypotheses[row][hypothesis].tokens)
            title = f"{run.predictions[row // draws].source} → {answer}"
        elif task is not None and run.source is not None:
            title = task.source_tokenizer.decode(run.source.ids[row][run.source.valid[row]].tolist())
        return cls(title, source, consumed, produced)

    def queries(self, queries_from: Side, keys_from: Side, size: int) -> Places:
        """Rows: what was being written where a decoder looks at the source, else what was read."""
        if queries_from == "source":
            return _or_numbers(self.source, size)
        return _or_numbers(self.produced if keys_from == "source" else self.consumed, size)

    def keys(self, keys_from: Side, size: int) -> Places:
        """Columns: what was looked at."""
        return _or_numbers(self.source if keys_from == "source" else self.consumed, size)


def _real(ids: Tensor, valid: Tensor) -> tuple[list[int], list[int]]:
    places = valid.nonzero()[:, 0].tolist()
    return places, ids[valid].tolist()


def _or_numbers(places: Places | None, size: int) -> Places:
    return [(i, str(i)) for i in range(size)] if places is None else [p for p in places if p[0] < size]
