"""A walk as one HTML page that needs nothing beside itself."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.inspection.view import readable, visible
from regard.inspection.walk import layout
from regard.inspection.walk.steps import Shown, SourceLine, Step, Walk
from regard.inspection.words import shown_tokens
from regard.offline_page import asset, filled, framed, json_in_script

SPACE = visible(" ")
COLOURS = ("6a4fc4", "d9730d")  # below and above zero, on either background; told apart by colour-blind readers


def html_page(walk: Walk) -> str:
    """The page of a walk: the steps one under the other, words and code on the left, numbers on the right.

    One file without any link to another; the browser is told so by a content security policy. Vectors are strips of colour whose
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
    keep = layout.kept(walk)
    sections, contents, number = [], [], 0
    for index, step in enumerate(walk.steps):
        number += step.kind == "step"
        told = str(number) if step.kind == "step" else ""
        sections.append(_section(walk, step, f"step-{index}", told, keep, data))
        contents.append(f'<a href="#step-{index}" class="{step.kind}">{_text(f"{told} {step.title}".strip())}</a>')
    notes = [note for note in (*walk.notes, layout.left_out(walk, keep)) if note]
    if any(text.startswith(SPACE) for text in (*shown_tokens(walk.keys), *shown_tokens(walk.queries))):
        notes.append(f"{SPACE} in a token is a space.")
    word = layout.query_text(walk).removeprefix(SPACE) or SPACE
    parts = {
        "title": _text(f"{word} · {readable(walk.title)}"),
        "heading": f"What <em>{_text(word)}</em> looks at, step by step",
        "text": _text(readable(walk.title)),
        "subject": _text(readable(layout.subject(walk))),
        "tokens": _tokens(walk),
        "letters": _text(layout.legend(walk)),
        "notes": f"<ul>{''.join(f'<li>{_text(note)}</li>' for note in notes)}</ul>" if notes else "",
        "contents": "".join(contents),
        "steps": "\n".join(sections),
        "style": _asset("page.css"),
        "script": _asset("page.js"),
        "data": json_in_script(data),
    }
    return filled(_asset("page.html"), parts)


def html_fragment(walk: Walk, *, height: int = 720) -> str:
    """The page inside a frame, for a notebook's `_repr_html_`; nothing in it can touch what is around it.

    Arguments:
        walk: what to show.
        height: of the frame, in CSS pixels.
    """
    return framed(html_page(walk), readable(walk.title), height=height)


def _section(walk: Walk, step: Step, name: str, number: str, keep: Sequence[int], data: list[dict[str, Any]]) -> str:
    badge = f'<span class="number">{number}</span>' if number else ""
    equation = f'<p class="equation">{_equation(step.equation)}</p>' if step.equation else ""
    notes = "".join(f"<li>{_text(note)}</li>" for note in step.notes)
    shown = "".join(_block(walk, block, data) for block in layout.blocks(step, keep, walk.keys))
    return (
        f'<section id="{name}" class="{step.kind}" aria-labelledby="{name}-title">'
        f'<div class="told"><h2 id="{name}-title">{badge}{_text(step.title)}</h2><p>{_text(step.sentence)}</p>{equation}'
        f"{''.join(map(_source, step.lines))}"
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}</div>"
        f'<div class="numbers">{shown}</div></section>'
    )


def _source(line: SourceLine) -> str:
    place = f"{line.file}:{line.line} · {line.symbol}"
    return f"<figure><figcaption>{_text(place)}</figcaption><pre><code>{_text(line.text)}</code></pre></figure>"


def _block(walk: Walk, block: layout.Block, data: list[dict[str, Any]]) -> str:
    if isinstance(block, layout.Numbers):
        return "".join(
            f'<p class="figure">{_text(item.name)} = <b>{float(item.values):.6g}</b> '
            f'<span class="quiet">{_text(item.note)}</span></p>'
            for item in block.shown
        )
    if isinstance(block, layout.Table):
        return _table(walk, block)
    return _strips(walk, block, data)


def _table(walk: Walk, table: layout.Table) -> str:
    last = table.columns[-1]
    of_keys = last.letters == "S"
    values = np.nan_to_num(last.values[list(table.rows)])
    low = min(0.0, float(values.min(initial=0.0)))
    span = (max(0.0, float(values.max(initial=0.0))) - low) or 1.0
    barred = len(table.columns) <= layout.BARRED
    largest = max(item.largest for item in table.columns)
    rows = []
    places = [layout.decimals(item.values) for item in table.columns]
    for label, token, row in zip(table.labels, table.tokens, table.rows, strict=True):
        unseen = of_keys and row in walk.hidden
        kinds = " ".join(kind for kind, on in (("own", _own(walk, last, row)), ("unseen", unseen)) if on)
        cells = "".join(
            f"<td{'' if barred else _shade(float(item.values[row]) / largest)}>"
            f"{layout.written(float(item.values[row]), count)}</td>"
            for item, count in zip(table.columns, places, strict=True)
        )
        bar = f'<td class="bar">{_bar(float(last.values[row]), -low / span, span, unseen)}</td>' if barred else ""
        name = _token(label) if of_keys else _text(label)
        called = _called(token, label) if of_keys else ""
        rows.append(f'<tr class="{kinds}"><th scope="row" dir="auto"{called}>{name}</th>{cells}{bar}</tr>')
    names = "".join(f'<th scope="col">{_text(item.name)}</th>' for item in table.columns)
    names += f'<th scope="col"><span class="quiet">{_text(last.name)} as a bar</span></th>' if barred else ""
    notes = "".join(
        f'<p class="name">{_text(item.name)}: {_text(layout.with_whole(item))}</p>'
        for item in table.columns
        if item.note or item.of
    )
    corner, wide = "key" if of_keys else "", "" if barred else ' class="wide"'
    return (
        f'<div class="shown"><div class="scroll"><table{wide}><thead><tr><th scope="col">{corner}</th>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}</div>"
    )


def _bar(value: float, zero: float, span: float, unseen: bool) -> str:
    if unseen:
        return "<small>may not be seen from here</small>"
    length = abs(value) / span if np.isfinite(value) else 0.0
    left = zero if value >= 0 else zero - length
    kind = "" if value >= 0 else ' class="negative"'
    axis = f'<u style="left:{100 * zero:.2f}%"></u>' if zero > 0 else ""
    return f'<div aria-hidden="true"><i{kind} style="left:{100 * left:.2f}%;width:{100 * length:.2f}%"></i>{axis}</div>'


def _strips(walk: Walk, block: layout.Strips, data: list[dict[str, Any]]) -> str:
    item, number = block.shown, len(data)
    labels = block.labels
    data.append(
        {
            "name": item.name,
            "labels": labels,
            "values": [[_six(value) for value in row] for row in block.values.tolist()],
        }
    )
    rows = []
    for place, row in enumerate(block.values):
        if labels is not None:
            own = " own" if _own(walk, item, block.rows[place]) else ""
            called = _called(block.tokens[place], labels[place]) if item.letters.startswith("S") else ""
            rows.append(f'<span class="label{own}" dir="auto"{called}>{_token(labels[place])}</span>')
        rows.append(f'<div class="strip" style="background:{_gradient(row, item.largest)}"></div>')
    low, high = float(item.values.min(initial=0.0)), float(item.values.max(initial=0.0))
    spoken = f"{item.name}, {item.shape}, from {low:.4g} to {high:.4g}; arrow keys read the numbers"
    one = " one" if labels is None else ""
    return (
        f'<div class="shown"><p class="name"><b>{_text(item.name)}</b> <code>{_text(item.shape)}</code> '
        f"{_text(layout.with_whole(item))}</p>"
        f'<div class="strips{one}" tabindex="0" role="group" aria-label="{_text(spoken)}" data-item="{number}">'
        f"{''.join(rows)}</div>"
        f'<p class="ends"><span>{_swatch(0)} {low:.4g}</span><span>0 is blank</span><span>{high:.4g} {_swatch(1)}</span></p>'
        f'<details data-item="{number}"><summary>the numbers</summary><pre></pre></details></div>'
    )


def _shade(share: float) -> str:
    """The colour of a cell, not so strong that its number could not be read."""
    share = float(np.clip(np.nan_to_num(share), -1, 1))
    return f' style="background:#{COLOURS[int(share > 0)]}{round(abs(share) * 140):02x}"'


def _swatch(side: int) -> str:
    return f'<span aria-hidden="true" style="color:#{COLOURS[side]}">■</span>'


def _gradient(values: np.ndarray, largest: float) -> str:
    """A row of cells as hard stops of one gradient: a picture that needs no script and prints."""
    shares = np.clip(np.nan_to_num(values / largest), -1, 1)
    width = 100 / max(len(shares), 1)
    # The hue is the sign and the opacity the size, so that zero is the paper, light or dark.
    colours = [f"#{COLOURS[int(share > 0)]}{round(abs(share) * 255):02x}" for share in shares.tolist()]
    stops = [f"{colour} {index * width:.3f}% {(index + 1) * width:.3f}%" for index, colour in enumerate(colours)]
    return f"linear-gradient(to right,{','.join(stops)})"


def _tokens(walk: Walk) -> str:
    queries = "".join(
        f'<span dir="auto"{" class=asks" if index == walk.position else ""}{_called(token, label)}>{_token(label)}</span>'
        for index, (token, label) in enumerate(zip(walk.queries, shown_tokens(walk.queries), strict=True))
    )
    lines = [f'<div class="tokens"><b>asking</b>{queries}</div>']
    if walk.keys != walk.queries or walk.hidden:
        keys = "".join(
            f'<span dir="auto"{" class=unseen" if index in walk.hidden else ""}{_called(token, label)}>{_token(label)}</span>'
            for index, (token, label) in enumerate(zip(walk.keys, shown_tokens(walk.keys), strict=True))
        )
        lines.append(f'<div class="tokens"><b>looked at</b>{keys}</div>')
    return "".join(lines)


def _own(walk: Walk, item: Shown, row: int) -> bool:
    """Whether a row is the head that is walked through, or the token that asks, in attention of a sequence to itself."""
    if item.letters == "H":
        return row == walk.head
    return item.letters.startswith("S") and walk.keys == walk.queries and row == walk.position


def _token(label: str) -> str:
    """A token as `shown_tokens` gives it, the mark of a space before it small."""
    if label.startswith(SPACE) and len(label) > 1:
        return f"<small>{SPACE}</small>{_text(label[1:])}"
    return _text(label)


def _called(token: str, label: str) -> str:
    """What the tokenizer itself calls a token, for the pointer; nothing where that is what stands there."""
    raw = visible(token)
    return "" if raw == label else f' title="{_text(raw)}"'


def _equation(text: str) -> str:
    return re.sub(r"_(\w+|\([^)]*\))", r"<sub>\1</sub>", _text(text))


def _text(text: str) -> str:
    return html.escape(text)


def _six(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _asset(name: str) -> str:
    return asset("regard.inspection.walk", name)
