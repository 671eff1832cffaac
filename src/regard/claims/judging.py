"""Judging a trained model on pairs: all metrics at once, over all pairs and by length of the source."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from regard.claims.measure import Measure
from regard.generation import GenerationSettings
from regard.tasks.translation.evaluation import evaluate, teacher_forced
from regard.tasks.translation.translator import Translator

Pairs = Sequence[tuple[str, str]]


def judged(translator: Translator, pairs: Pairs, measure: Measure, generation: GenerationSettings) -> dict[str, Any]:
    """All metrics of a measure's kind as JSON values: `metrics`, the same in `bins` where asked for, `count` and a `note`.

    Raises:
        InputError: for an empty list, or texts that the model cannot read.
    """
    if measure.kind == "decoded":
        found = evaluate(translator, pairs, generation, to=measure.to, bins=measure.bins)
        bins = [dataclasses.asdict(part) for part in found.bins]
        return {"metrics": found.metrics, "bins": bins, "note": found.note, "count": found.count}
    metrics = dataclasses.asdict(teacher_forced(translator, pairs, to=measure.to))
    bins = []
    for shortest, longest in bounds(measure.bins) if measure.bins else ():
        inside = [pair for pair in pairs if shortest <= len(pair[0].split()) <= (longest or math.inf)]
        part = dataclasses.asdict(teacher_forced(translator, inside, to=measure.to)) if inside else {}
        bins.append({"shortest": shortest, "longest": longest, "count": len(inside), "metrics": part})
    return {"metrics": metrics, "bins": bins, "note": "", "count": len(pairs)}


def bounds(bins: Sequence[int]) -> list[tuple[int, int | None]]:
    """The ranges that edges make, as `regard.evaluate` counts them.

    >>> bounds((10, 20))
    [(1, 10), (11, 20), (21, None)]
    """
    starts = [1, *(edge + 1 for edge in bins)]
    return list(zip(starts, [*bins, None], strict=True))
