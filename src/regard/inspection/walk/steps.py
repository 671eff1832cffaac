"""A walk as data: steps, what each shows, and the lines of source each stands beside."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.errors import InputError

FORMAT_VERSION = 1

Kind = Literal["step", "aside"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A statement of the code, as it stands in its file.

    Arguments:
        file: the file inside its package, such as `regard/attention/scores.py`.
        line: the number of its first line, counted from 1.
        symbol: the function or method it is part of, such as `ScaledDot.forward`.
        text: the statement, its lines without the indentation they share.
    """

    file: str
    line: int
    symbol: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shown:
    """Numbers of the model that a step shows.

    Arguments:
        name: what they are, such as `q` or `scores`.
        letters: the axes by their letters, such as `S, E`; empty for a single number.
        values: no, one or two axes, in the precision they were computed in; read-only.
        labels: a token or name for each entry of the first axis; None where that axis has no names.
        of: the whole tensor in the model that they are a part of, with its shape; empty where they are all of it.
        note: a few words about them.
        scale: the number that has the full colour, where it is not the largest of these.

    Raises:
        ValueError: where values, letters and labels do not fit together.
    """

    name: str
    letters: str
    values: np.ndarray
    labels: tuple[str, ...] | None = None
    of: str = ""
    note: str = ""
    scale: float | None = None

    def __post_init__(self) -> None:
        axes = len(self.letters.split(",")) if self.letters else 0
        if axes != self.values.ndim or axes > 2:
            raise ValueError(f"{self.name}: letters {self.letters!r} for values of shape {self.values.shape}")
        if self.labels is not None and (not axes or len(self.labels) != self.values.shape[0]):
            raise ValueError(f"{self.name}: {len(self.labels)} labels for values of shape {self.values.shape}")
        values = np.array(self.values, order="C")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def largest(self) -> float:
        """What has the full colour; never zero."""
        return self.scale or float(np.abs(self.values).max(initial=0.0)) or 1.0

    @property
    def shape(self) -> str:
        """Letters and sizes together.

        >>> Shown(name="k", letters="S, E", values=np.zeros((3, 4))).shape
        '(S, E) = (3, 4)'
        """
        if not self.letters:
            return "a number"
        return f"({self.letters}) = ({', '.join(map(str, self.values.shape))})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of the equation.

    Arguments:
        title: its name in the lectures.
        sentence: what happens, in a sentence or two.
        equation: the same in symbols.
        lines: the statements of the code that compute it; none where the code is not the package's to read.
        shown: the numbers.
        notes: what these numbers say.
        kind: `step` for a part of the equation, `aside` for what explains or checks one.
    """

    title: str
    sentence: str
    equation: str = ""
    lines: tuple[SourceLine, ...] = ()
    shown: tuple[Shown, ...] = ()
    notes: tuple[str, ...] = ()
    kind: Kind = "step"

    def __getitem__(self, name: str) -> np.ndarray:
        """The numbers called `name`.

        Raises:
            InputError: where the step shows nothing called so.
        """
        for item in self.shown:
            if item.name == name:
                return item.values
        raise InputError(
            f"step {self.title!r} shows no {name!r}; it shows {', '.join(item.name for item in self.shown) or 'no numbers'}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """One query's way through one attention, step by step, with the numbers of the model.

    Arguments:
        title: what was read, and written.
        address: the attention layer, or what to call the mechanism.
        mechanism: the mechanism in words, such as `ScoredAttention(ScaledDot, Soft)`.
        query: the token that asks.
        position: which of `queries` it is, counted from 0.
        queries, keys: the tokens that ask and that are looked at.
        hidden: which keys the query may not see.
        head, heads: the head walked through, and how many there are.
        sizes: letters, what they count, and their numbers.
        notes: what was chosen for the reader, and why.
        steps: in the order of the equation.
    """

    title: str
    address: str
    mechanism: str
    query: str
    position: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    hidden: tuple[int, ...]
    head: int
    heads: int
    sizes: tuple[tuple[str, str, int], ...]
    notes: tuple[str, ...]
    steps: tuple[Step, ...]

    def step(self, title: str) -> Step:
        """The step called `title`.

        Raises:
            InputError: where there is none, with those there are.
        """
        for step in self.steps:
            if step.title == title:
                return step
        raise InputError(f"the walk has no step {title!r}; it has {', '.join(step.title for step in self.steps)}")

    @property
    def weights(self) -> np.ndarray:
        """(S,) the weights of the query, those that the values are multiplied by."""
        return self.step("Weigh")["weight"]

    def show(self, path: str | os.PathLike[str] | None = None) -> None:
        """Show the walk: on the terminal, or in a file of the kind its suffix says.

        Arguments:
            path: `.html` for one self-contained page, `.json` for all numbers; None prints it.

        Raises:
            InputError: for another suffix, or a place that cannot be written to.
        """
        from regard.files import write_file

        if path is None:
            from rich.console import Console

            from regard.inspection.walk.terminal import render

            Console().print(render(self))
        elif is_page(path):
            from regard.inspection.walk.page import html_page

            write_file(path, html_page(self))
        else:
            write_file(path, self.to_json() + "\n")

    def to_json(self) -> str:
        """The walk as JSON text, every number with the nine digits that name a float32."""
        return json.dumps(
            {
                "format_version": FORMAT_VERSION,
                "title": self.title,
                "address": self.address,
                "mechanism": self.mechanism,
                "query": self.query,
                "position": self.position,
                "queries": self.queries,
                "keys": self.keys,
                "hidden": self.hidden,
                "head": self.head,
                "heads": self.heads,
                "sizes": [{"letter": letter, "counts": words, "size": size} for letter, words, size in self.sizes],
                "notes": self.notes,
                "steps": [_step(step) for step in self.steps],
            },
            ensure_ascii=False,
        )

    def _repr_html_(self) -> str:
        """The page, in a frame of its own, for notebooks."""
        from regard.inspection.walk.page import html_fragment

        return html_fragment(self)


def is_page(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name asks for a page; otherwise it asks for JSON.

    Raises:
        InputError: where it asks for neither.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".htm", ".json"):
        raise InputError(f"{path}: the name's end says what to write; give one that ends in .html or .json")
    return suffix != ".json"


def _step(step: Step) -> dict[str, Any]:
    return {
        "title": step.title,
        "kind": step.kind,
        "sentence": step.sentence,
        "equation": step.equation,
        "lines": [
            {"file": line.file, "line": line.line, "symbol": line.symbol, "text": line.text} for line in step.lines
        ],
        "shown": [
            {
                "name": item.name,
                "letters": item.letters,
                "labels": item.labels,
                "of": item.of,
                "note": item.note,
                "values": _rounded(item.values.tolist()),
            }
            for item in step.shown
        ],
        "notes": step.notes,
    }


def _rounded(value: float | Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    # JSON knows no infinity; a mechanism of someone's own may give one.
    return float(f"{value:.9g}") if np.isfinite(value) else None  # type: ignore[arg-type]
