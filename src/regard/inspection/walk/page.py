"""A walk as one HTML page that needs no other file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError
from regard.inspection.walk.steps import (
    BARRED,
    Numbers,
    Shown,
    Step,
    Strips,
    Table,
    blocks,
    decimals,
    kept,
    left_out,
    legend,
    query_text,
    subject,
    three,
    with_whole,
    written,
)
from regard.inspection.words import readable, shown_tokens, visible
from regard.web import framed, page, signed_colours

if TYPE_CHECKING:
    from regard.inspection.walk.walking import Walk

SPACE = visible(" ")
QUERIES = 32
"""Other queries whose walks are in the page, each a few times ten kilobytes."""


def html_page(walk: Walk) -> str:
    """The page of a walk: the steps one under the other, words and code on the left, numbers on the right.

    The walks of other queries near it are in the page too, and a click on a token goes over to it.

    One file without any link to another; a content security policy has the browser load none. Vectors are strips of colour whose
    numbers are read with the pointer or the arrow keys, and it prints without them.

    >>> import torch
    >>> from regard.attention import AttentionInputs, Dot, ScoredAttention
    >>> from regard.inspection.walk import walk_attention
    >>> inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.ones(1, 1, 2, 2))
    >>> page = html_page(walk_attention(ScoredAttention(Dot()), inputs, torch.ones(1, 1, 2, 2), keys=["<q>", "b"]))
    >>> "<q>" in page, "&lt;q&gt;" in page
    (False, True)
    """
    data: list[dict[str, Any]] = []
    walks = {walk.position: walk} | _others(walk)
    walked = [_parts(each, data, walks.keys()) for each in walks.values()]
    word = walked[0]["word"]
    parts = {
        "title": f"{word} · {readable(walk.title)}",
        "word": word,
        "text": readable(walk.title),
        "subject": readable(subject(walk)),
        "walked": walked,
        "colours": [f"#{colour}" for colour in signed_colours()],
    }
    return page("walk", parts, data=data, styles=("walk.css",))


def _others(walk: Walk) -> dict[int, Walk]:
    """The walks of other queries that the page can go over to: those nearest to its own."""
    nearest = sorted(range(len(walk.queries)), key=lambda place: abs(place - walk.position))[1 : QUERIES + 1]
    found = {}
    for place in sorted(nearest) if walk.again else ():
        with contextlib.suppress(InputError):  # a first token may have nothing to look at
            found[place] = walk.at(place)
    return found


def _parts(walk: Walk, data: list[dict[str, Any]], positions: Collection[int]) -> dict[str, Any]:
    """What the template shows of one query's walk."""
    shown = _Page(walk, data)
    notes = [note for note in (*walk.notes, left_out(walk, shown.keep)) if note]
    if any(text.startswith(SPACE) for text in (*shown_tokens(walk.keys), *shown_tokens(walk.queries))):
        notes.append(f"{SPACE} in a token is a space.")
    return {
        "position": walk.position,
        "word": query_text(walk).removeprefix(SPACE) or SPACE,
        "tokens": _token_lines(walk, positions),
        "letters": legend(walk),
        "notes": notes,
        "steps": shown.steps(),
    }


def html_fragment(walk: Walk, *, height: int = 720) -> str:
    """The page inside a frame, for a notebook's `_repr_html_`; nothing in it can touch what is around it.

    Arguments:
        walk: what to show.
        height: of the frame, in CSS pixels.
    """
    return framed(html_page(walk), readable(walk.title), height=height)


class _Page:
    """What the template shows of the steps, and the numbers behind the strips in the order they are on the page."""

    def __init__(self, walk: Walk, data: list[dict[str, Any]]) -> None:
        self.walk = walk
        self.keep = kept(walk)
        self.colours = signed_colours()
        self.data = data

    def steps(self) -> list[dict[str, Any]]:
        steps, number = [], 0
        for index, step in enumerate(self.walk.steps):
            number += step.kind == "step"
            shown_number = str(number) if step.kind == "step" else ""
            steps.append(
                {
                    "id": f"step-{index}",
                    "kind": step.kind,
                    "number": shown_number,
                    "called": f"{shown_number} {step.title}".strip(),
                    "title": step.title,
                    "sentence": step.sentence,
                    "equation": list(_equation(step.equation)),
                    "lines": step.lines,
                    "notes": step.notes,
                    "blocks": list(self.blocks(step)),
                }
            )
        return steps

    def blocks(self, step: Step) -> Iterator[dict[str, Any]]:
        for block in blocks(step, self.keep, self.walk.keys):
            if isinstance(block, Numbers):
                shown = [
                    {"name": item.name, "value": three(float(item.values)), "note": item.note} for item in block.shown
                ]
                yield {"form": "numbers", "shown": shown}
            elif isinstance(block, Table):
                yield self.table(block)
            else:
                yield self.strips(block)

    def table(self, table: Table) -> dict[str, Any]:
        last = table.columns[-1]
        of_keys = last.letters == "S"
        values = np.nan_to_num(last.values[list(table.rows)])
        low = min(0.0, float(values.min(initial=0.0)))
        span = (max(0.0, float(values.max(initial=0.0))) - low) or 1.0
        barred = len(table.columns) <= BARRED
        largest = max(item.largest for item in table.columns)
        places = [decimals(item.values) for item in table.columns]
        rows = []
        for label, token, row in zip(table.labels, table.tokens, table.rows, strict=True):
            unseen = of_keys and row in self.walk.hidden
            cells = [
                {
                    "text": written(float(item.values[row]), count),
                    "whole": f"{float(item.values[row]):.7g}",
                    "shade": "" if barred else self.colour(float(item.values[row]) / largest, strongest=140),
                }
                for item, count in zip(table.columns, places, strict=True)
            ]
            rows.append(
                {
                    "kinds": " ".join(kind for kind, on in (("own", self.is_own(last, row)), ("unseen", unseen)) if on),
                    "token": _token(token, label) if of_keys else {"space": "", "text": label, "raw": ""},
                    "cells": cells,
                    "bar": None if unseen else _bar(float(last.values[row]), -low / span, span),
                }
            )
        return {
            "form": "table",
            "corner": "key" if of_keys else "",
            "names": [item.name for item in table.columns],
            "barred": barred,
            "rows": rows,
            "notes": [(item.name, with_whole(item)) for item in table.columns if item.note or item.of],
        }

    def strips(self, block: Strips) -> dict[str, Any]:
        item, labels = block.shown, block.labels
        values = [[_six(value) for value in row] for row in block.values.tolist()]
        numbers = {"name": item.name, "labels": labels, "values": values, "largest": _six(item.largest)}
        # Keys and values are the same for every query.
        number = self.data.index(numbers) if numbers in self.data else len(self.data)
        if number == len(self.data):
            self.data.append(numbers)
        rows: list[dict[str, Any]] = [{"gradient": self.gradient(row, item.largest)} for row in block.values]
        if labels is not None:
            of_keys = item.letters.startswith("S")
            for place, row in enumerate(rows):
                row["own"] = self.is_own(item, block.rows[place])
                row["token"] = _token(block.tokens[place] if of_keys else labels[place], labels[place])
        low, high = float(item.values.min(initial=0.0)), float(item.values.max(initial=0.0))
        return {
            "form": "strips",
            "name": item.name,
            "shape": item.shape,
            "note": with_whole(item),
            "labelled": labels is not None,
            "number": number,
            "rows": rows,
            "spoken": f"{item.name}, {item.shape}, from {three(low)} to {three(high)}; arrow keys read the numbers",
            "colours": [f"#{colour}" for colour in self.colours],
            # The ends of the colours, which are those of another vector where two are to be compared.
            "scale": [three(-item.largest), three(item.largest)],
            "range": f"{three(low)} to {three(high)}",
        }

    def colour(self, share: float, strongest: int = 255) -> str:
        """The hue is the sign and the opacity the size, so that zero is the paper, light or dark."""
        share = float(np.clip(np.nan_to_num(share), -1, 1))
        return f"#{self.colours[int(share > 0)]}{round(abs(share) * strongest):02x}"

    def gradient(self, values: np.ndarray, largest: float) -> str:
        """A row of cells as hard stops of one gradient: an image that needs no script and prints."""
        width = 100 / max(len(values), 1)
        colours = [self.colour(value) for value in (values / largest).tolist()]
        stops = [f"{colour} {index * width:.3f}% {(index + 1) * width:.3f}%" for index, colour in enumerate(colours)]
        return f"linear-gradient(to right,{','.join(stops)})"

    def is_own(self, item: Shown, row: int) -> bool:
        """Whether a row is the head that is walked through, or the token that asks, in attention of a sequence to itself."""
        if item.letters == "H":
            return row == self.walk.head
        of_itself = item.letters.startswith("S") and self.walk.keys == self.walk.queries
        return of_itself and row == self.walk.position


def _bar(value: float, zero: float, span: float) -> dict[str, Any]:
    length = abs(value) / span if np.isfinite(value) else 0.0
    left = zero if value >= 0 else zero - length
    axis = f"{100 * zero:.2f}" if zero > 0 else ""
    return {"left": f"{100 * left:.2f}", "width": f"{100 * length:.2f}", "negative": value < 0, "zero": axis}


def _token_lines(walk: Walk, positions: Collection[int]) -> list[dict[str, Any]]:
    def line(
        name: str, tokens: Sequence[str], kind: str, marked: Sequence[int], walks: Collection[int] = ()
    ) -> dict[str, Any]:
        shown = enumerate(zip(tokens, shown_tokens(tokens), strict=True))
        return {
            "name": name,
            "tokens": [
                {
                    **_token(*both),
                    "kind": kind if index in marked else "",
                    "position": index if len(walks) > 1 and index in walks else None,
                }
                for index, both in shown
            ],
        }

    lines = [line("asking", walk.queries, "asks", (walk.position,), positions)]
    if walk.keys != walk.queries or walk.hidden:
        lines.append(line("looked at", walk.keys, "unseen", walk.hidden))
    return lines


def _token(token: str, label: str) -> dict[str, str]:
    """A token as `shown_tokens` gives it, without the mark of a space before it, and what the tokenizer itself calls it."""
    marked = label.startswith(SPACE) and len(label) > 1
    raw = visible(token)
    return {
        "space": SPACE if marked else "",
        "text": label[len(SPACE) :] if marked else label,
        "raw": "" if raw == label else raw,
    }


def _equation(text: str) -> Iterator[dict[str, Any]]:
    """The parts of an equation; what follows `_` is below the line."""
    for place, part in enumerate(re.split(r"_(\w+|\([^)]*\))", text)):
        if part:
            yield {"text": part, "below": place % 2 == 1}


def _six(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
