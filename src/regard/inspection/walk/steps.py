"""A walk as data: its steps, the lines of code that compute them, the call that is followed, and the layout of numbers.

The lines are read from the code itself, so that they can never say something else. The layout is the same on the terminal and on
the page.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attention import Attention, AttentionInputs
from regard.errors import InputError
from regard.inspection.words import readable, shown_tokens, visible

if TYPE_CHECKING:
    from regard.inspection.walk.walking import Walk

Kind = Literal["step", "aside"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A statement of the code, as it is in its file.

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


# The lines of code that a step is computed by.


def statement(function: Callable[..., Any], fragment: str) -> tuple[SourceLine, ...]:
    """The statement of `function` in which `fragment` stands, with its file and line.

    Where the fragment stands further down in a statement of several lines, only its own line is given.

    Where the code no longer has the fragment, all statements of the function are given: a reader then sees more than the one
    line, never another one. Where there is no source to read (a function typed into a prompt), there is none.

    Arguments:
        function: a function or method.
        fragment: a part of the statement; the first one that has it counts.

    >>> from regard.attention import ScaledDot
    >>> print(statement(ScaledDot.forward, "query @ key")[0].text)
    return query @ key.transpose(-2, -1) / query.shape[-1] ** self.power
    """
    read = _read(function)
    if read is None:
        return ()
    lines, first, definition, file = read
    found = [node for node in _simple(definition) if fragment in _text(lines, node.lineno, node.end_lineno)]
    if not found:
        return body(function)
    start, stop = found[0].lineno, found[0].end_lineno or found[0].lineno
    own = next((line for line in range(start, stop + 1) if fragment in lines[line - 1]), start)
    if own > start:
        start = stop = own
    return (SourceLine(file, first + start - 1, _symbol(function), _text(lines, start, stop)),)


def body(function: Callable[..., Any]) -> tuple[SourceLine, ...]:
    """All that `function` does, without its signature and docstring; none where there is no source to read."""
    read = _read(function)
    if read is None:
        return ()
    lines, first, definition, file = read
    statements = definition.body
    if ast.get_docstring(definition) is not None and len(statements) > 1:
        statements = statements[1:]
    start, stop = statements[0].lineno, statements[-1].end_lineno
    return (SourceLine(file, first + start - 1, _symbol(function), _text(lines, start, stop)),)


def _read(function: Callable[..., Any]) -> tuple[list[str], int, ast.FunctionDef, str] | None:
    """The function's own lines, the number of their first, their syntax tree and the file."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
        definition = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    if file is None or not isinstance(definition, ast.FunctionDef):
        return None
    return lines, first, definition, _inside_package(function, file)


def _simple(definition: ast.FunctionDef) -> list[ast.stmt]:
    """The statements that hold no others, in order, the docstring left out."""
    compound = (ast.FunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try)
    nodes = [node for node in ast.walk(definition) if isinstance(node, ast.stmt) and not isinstance(node, compound)]
    docstring = definition.body[0] if ast.get_docstring(definition) is not None else None
    return sorted((node for node in nodes if node is not docstring), key=lambda node: node.lineno)


def _text(lines: list[str], start: int, stop: int | None) -> str:
    # Not ast.unparse: what is shown is what is in the file, with its spacing and comments.
    return textwrap.dedent("".join(lines[start - 1 : stop])).rstrip()


def _symbol(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _inside_package(function: Callable[..., Any], file: str) -> str:
    """`regard/attention/scores.py`: of where it is installed nothing, since pages are passed on."""
    module = getattr(function, "__module__", None) or ""
    path = Path(file)
    named = Path(*module.split(".")).with_suffix(".py")
    return named.as_posix() if path.parts[-len(named.parts) :] == named.parts else path.name


# The call that is followed: one mechanism, one head, one query.


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scene:
    """One call of a mechanism, and which query of it is followed.

    Arguments:
        mechanism: what was called.
        inputs: with what.
        value: (B, G, S, Ev), the values weighed.
        row, head, place: the batch row, the query head and the query that are followed.
        query_token: the token that asks, as it is shown.
        key_tokens: S tokens that are looked at.
    """

    mechanism: Attention
    inputs: AttentionInputs
    value: Tensor
    row: int
    head: int
    place: int
    query_token: str
    key_tokens: tuple[str, ...]

    @property
    def key_texts(self) -> tuple[str, ...]:
        """The keys as they are shown."""
        return shown_tokens(self.key_tokens)

    @property
    def exact(self) -> torch.dtype:
        """The precision of the equation: that of `weights`."""
        return self.inputs.exact

    @property
    def query(self) -> Tensor:
        """(B, H, L, E), as the equation takes it."""
        return self.inputs.query.to(self.exact)

    @property
    def key(self) -> Tensor:
        """(B, H, S, E), repeated where several query heads share one key head."""
        return self.inputs.key_per_query_head.to(self.exact)

    @property
    def values(self) -> Tensor:
        """(S, Ev), those of this head."""
        group = self.inputs.query.shape[1] // self.value.shape[1]
        return self.value[self.row, self.head // group].to(self.exact)

    @property
    def visible(self) -> Tensor:
        """(S,) bool, the keys that this query may attend to."""
        shape = self.inputs.shape
        visible = self.inputs.visible()
        if visible is None:
            return torch.ones(shape[3], dtype=torch.bool, device=self.inputs.query.device)
        return self.mine(visible.expand(shape))

    def mine(self, whole: Tensor) -> Tensor:
        """Of (B, H, L, ...) what belongs to this query: (...)."""
        return whole[self.row, self.head, self.place]

    def heads(self, whole: Tensor) -> Tensor:
        """Of (B, H, S, ...) what belongs to this head: (S, ...)."""
        return whole[self.row, self.head]

    def vector(
        self, name: str, values: Tensor, *, letter: str = "E", of: str = "", note: str = "", scale: float | None = None
    ) -> Shown:
        """A vector over features."""
        return Shown(name=name, letters=letter, values=array(values), of=of, note=note, scale=scale)

    def number(self, name: str, value: Tensor | float, *, note: str = "") -> Shown:
        """A single number."""
        tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=self.exact)
        return Shown(name=name, letters="", values=array(tensor), note=note)

    def per_key(
        self, name: str, values: Tensor, *, letter: str = "E", of: str = "", note: str = "", scale: float | None = None
    ) -> Shown:
        """A number (S,) or a vector (S, ...) for each key."""
        letters = "S" if values.dim() == 1 else f"S, {letter}"
        return Shown(
            name=name, letters=letters, values=array(values), labels=self.key_tokens, of=of, note=note, scale=scale
        )


def array(tensor: Tensor) -> Any:
    """A tensor as a numpy array."""
    return tensor.detach().cpu().numpy()


def shape_of(name: str, letters: str, tensor: Tensor) -> str:
    """A tensor's name, letters and sizes: `query (B, H, L, E) = (1, 4, 9, 64)`."""
    return f"{name} ({letters}) = ({', '.join(map(str, tensor.shape))})"


def quoted(token: str) -> str:
    """A token in a sentence, without the mark of a space before it and with nothing that would act on what is around it.

    Arguments:
        token: as `regard.inspection.words.shown_tokens` gives it, or a word of the user's.

    >>> quoted("␣Hund"), quoted("␣")
    ('“Hund”', '“␣”')
    """
    text = visible(token)
    return f"“{text.removeprefix('␣') or text}”"


def defining_class(part: object, method: str) -> type:
    """The class whose `method` a part runs: its own, or the one it inherits it from."""
    return next(owner for owner in type(part).__mro__ if method in vars(owner))


def walked_as(steps: Any, part: object, method: str) -> Callable[..., Any]:
    """The steps registered for what a part computes, or the general ones.

    They describe a method, so they are looked for up to the class that defines it and no further: a subclass with a method of its
    own does not pass for its parent.

    Arguments:
        steps: a `functools.singledispatch` function.
        part: a mechanism, score or alignment.
        method: the method the steps describe.
    """
    last = defining_class(part, method)
    for owner in type(part).__mro__:
        if owner in steps.registry:
            return steps.registry[owner]
        if owner is last:
            break
    return steps.registry[object]


BARRED = 3  # columns of a table that leave room for a bar
MOST = 24  # keys in a table or a stack of strips; of more the ones with the largest weights


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers side by side, a row for each label.

    Arguments:
        labels: of the rows that are shown, as they are printed.
        tokens: what the tokenizer calls them.
        columns: the numbers next to them.
        rows: which entries the rows are.
    """

    labels: tuple[str, ...]
    tokens: tuple[str, ...]
    columns: tuple[Shown, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Strips:
    """A vector, or one for each label, as a strip of colours.

    Arguments:
        shown: the numbers.
        labels: of the rows that are shown, as they are printed; None for a single vector.
        tokens: what the tokenizer calls them.
        rows: which rows they are; empty for a single vector.
    """

    shown: Shown
    labels: tuple[str, ...] | None
    tokens: tuple[str, ...]
    rows: tuple[int, ...]

    @property
    def values(self) -> np.ndarray:
        """(rows, entries)."""
        return self.shown.values[list(self.rows)] if self.rows else self.shown.values.reshape(1, -1)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Single numbers."""

    shown: tuple[Shown, ...]


Block = Table | Strips | Numbers


def blocks(step: Step, keep: Sequence[int], keys: Sequence[str]) -> Iterator[Block]:
    """What a step shows: neighbours with the same labels share a table, single numbers a line.

    Arguments:
        step: the step.
        keep: which keys to show.
        keys: the tokens looked at; labels of another number are shown in full.
    """
    together: list[Shown] = []
    names = dict(zip(keys, shown_tokens(keys), strict=True))
    for item in (*step.shown, None):
        if together and (item is None or _form(item) != _form(together[0])):
            yield _block(together, keep, len(keys), names)
            together = []
        if item is not None:
            if _form(item) == "strips":
                yield _block([item], keep, len(keys), names)
            else:
                together.append(item)


def kept(walk: Walk, most: int = MOST) -> tuple[int, ...]:
    """The keys to show, in their order: all, or of too many those with the largest weights."""
    if len(walk.keys) <= most:
        return tuple(range(len(walk.keys)))
    order = np.argsort(-np.abs(walk.weights), kind="stable")[:most]
    return tuple(sorted(order.tolist()))


def left_out(walk: Walk, keep: Sequence[int]) -> str:
    """A sentence about the keys that are not shown; empty where all are."""
    if len(keep) == len(walk.keys):
        return ""
    return f"Of the {len(walk.keys)} keys the {len(keep)} with the largest weights are shown; the JSON has all."


def legend(walk: Walk) -> str:
    """The letters of the shapes and their sizes."""
    return " · ".join(f"{letter} {words} = {size}" for letter, words, size in walk.sizes)


def subject(walk: Walk) -> str:
    """Which layer, mechanism and head."""
    head = f" · head {walk.head} of heads 0 to {walk.heads - 1}" if walk.heads > 1 else ""
    return f"{walk.address} · {walk.mechanism}{head}"


def query_text(walk: Walk) -> str:
    """The token that asks, as it is shown."""
    names = dict(zip(walk.queries, shown_tokens(walk.queries), strict=True))
    return names.get(walk.query, visible(walk.query))


def with_whole(shown: Shown) -> str:
    """What tensor the numbers are a part of, and the note about them."""
    return "; ".join(part for part in (f"of {shown.of}" if shown.of else "", shown.note) if part)


def decimals(values: np.ndarray) -> int:
    """How many decimals show three digits of the largest number, and never fewer than two.

    >>> decimals(np.array([0.25])), decimals(np.array([12.5, 3.0])), decimals(np.array([0.012]))
    (3, 2, 4)
    """
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0))
    return min(max(2, 2 - int(np.floor(np.log10(largest)))), 6) if largest else 2


def three(value: float) -> str:
    """A number by itself, with three digits, or as many as it has before the point.

    >>> three(2.8284), three(12345.6), three(1.2e-7)
    ('2.83', '12346', '1.2e-07')
    """
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def written(value: float, places: int) -> str:
    """A number with so many decimals; one that would read zero and is not is written with an exponent.

    >>> written(0.25, 3), written(3e-9, 3), written(0.0, 3)
    ('0.250', '3.0e-09', '0')
    """
    if value == 0:
        return "0"
    if abs(value) < 0.5 * 10.0**-places:
        return f"{value:.1e}"
    return f"{value:.{places}f}"


def first_entries(shown: Shown, count: int = 4) -> str:
    """The first numbers of a vector, and how many follow."""
    vector = shown.values.ravel()
    places = decimals(vector)
    parts = [written(float(value), places) for value in vector[:count]]
    return "(" + ", ".join(parts) + (f", … {len(vector)} numbers)" if len(vector) > count else ")")


def _form(item: Shown) -> object:
    if item.values.ndim == 0:
        return "number"
    return item.labels if item.values.ndim == 1 and item.labels is not None else "strips"


def _block(together: Sequence[Shown], keep: Sequence[int], count: int, names: Mapping[str, str]) -> Block:
    first = together[0]
    if first.values.ndim == 0:
        return Numbers(tuple(together))
    if first.labels is None:
        return Strips(first, None, (), ())
    rows = (
        tuple(keep) if first.letters.startswith("S") and len(first.labels) == count else tuple(range(len(first.labels)))
    )
    tokens = tuple(first.labels[row] for row in rows)
    of_keys = first.letters.startswith("S")
    labels = tuple(names[token] if of_keys and token in names else readable(token) for token in tokens)
    if first.values.ndim == 1:
        return Table(labels, tokens, tuple(together), rows)
    return Strips(first, labels, tokens, rows)
