"""Expressions over the numbers of a comparison: conditions on medians over seeds, and contrasts of each seed.

They are parsed by Python's parser, but evaluated only by the code in this file.
"""

from __future__ import annotations

import ast
import math
import operator
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from regard.errors import InputError, nearest

Seeds = dict[int, float | None]

OVER_SEEDS: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "smallest": min,
    "largest": max,
}
"""Functions over the seeds of a measure: `median("arm", "measure")`, optionally with the length of a bin as a third argument."""

OF_NUMBERS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}

_ARITHMETIC: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.AST], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class Numbers(Protocol):
    """The source of the numbers."""

    def values(self, arm: str, measure: str, length: int | None = None) -> Seeds:
        """The number of each seed; None for no number."""
        ...


DEEPEST = 100
"""The maximum depth of nested operations."""


class NoNumber(Exception):
    """A number that an expression needs does not exist; the message names it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A measure of an arm that an expression uses."""

    arm: str
    measure: str
    length: int | None = None


class Expression:
    """A condition on the numbers of a comparison.

    It can have comparisons (also chained), `and`, `or`, `not`, `+ - * /`, numbers, `median`, `mean`, `smallest` and `largest`
    over seeds, `min`, `max` and `abs`. A threshold that was never reached is infinity; `min(median("a", "updates"), 1500)`
    limits it.

    Arguments:
        text: the expression.
        where: its name in messages.

    Raises:
        InputError: for anything else, with the position in the text.

    >>> class Two:
    ...     def values(self, arm, measure, length=None):
    ...         return {1: 0.9, 2: 0.8} if arm == "search" else {1: 0.5, 2: 0.4}
    >>> Expression('median("search", "accuracy") >= 1.5 * largest("encdec", "accuracy")').holds(Two())
    True
    """

    over_seeds: ClassVar[Mapping[str, Callable[[list[float]], float]]] = OVER_SEEDS
    gives: ClassVar[type] = bool

    def __init__(self, text: str, where: str = "judge") -> None:
        self.text, self.where = " ".join(text.split()), where
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = getattr(error, "offset", None) or 1
            raise InputError(f"{where}, column {column}: not an expression ({getattr(error, 'msg', error)})") from error
        self._check(self._tree, wanted=self.gives)

    @property
    def references(self) -> tuple[Reference, ...]:
        """The distinct measures that it uses, in the order of the text."""
        calls = [node for node in ast.walk(self._tree) if isinstance(node, ast.Call)]
        calls.sort(key=lambda node: node.col_offset)
        return tuple(dict.fromkeys(_reference(node) for node in calls if _name(node) in self.over_seeds))

    def holds(self, numbers: Numbers) -> bool:
        """Whether it is true for these numbers.

        Raises:
            NoNumber: if a number that it needs does not exist.
        """
        return bool(self._value(self._tree, numbers))

    def _value(self, node: ast.AST, numbers: Numbers) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._value(part, numbers) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self._value(part, numbers) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self._value(inner, numbers)
            case ast.UnaryOp(op=sign, operand=inner):
                value = self._value(inner, numbers)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp(left=left, op=sign, right=right):
                return self._number(
                    lambda: _ARITHMETIC[type(sign)](self._value(left, numbers), self._value(right, numbers)), node
                )
            case ast.Compare(left=left, ops=signs, comparators=others):
                values = [self._value(part, numbers) for part in (left, *others)]
                pairs = zip(signs, values, values[1:], strict=False)
                return all(_COMPARISONS[type(sign)](one, other) for sign, one, other in pairs)
            case ast.Call() as call if _name(call) in self.over_seeds:
                return self._over_seeds(call, numbers)
            case ast.Call() as call:
                values = [self._value(part, numbers) for part in call.args]
                return OF_NUMBERS[_name(call)](*values)
        raise self._error(node, "is not allowed in a judging expression")

    def _over_seeds(self, call: ast.Call, numbers: Numbers) -> float:
        asked = _reference(call)
        values = numbers.values(asked.arm, asked.measure, asked.length)
        if not values or any(value is None or math.isnan(value) for value in values.values()):
            length = "" if asked.length is None else f" at length {asked.length}"
            raise NoNumber(f"there is no number for {asked.measure!r} of {asked.arm!r}{length}")
        return self.over_seeds[_name(call)]([value for value in values.values() if value is not None])

    def _number(self, compute: Callable[[], float], node: ast.AST) -> float:
        try:
            value = compute()
        except ZeroDivisionError as error:
            raise NoNumber(f"{self._at(node)}: a division by zero") from error
        if math.isnan(value):
            raise NoNumber(f"{self._at(node)}: not a number, such as infinity minus infinity")
        return value

    def _check(self, node: ast.AST, wanted: type, depth: int = 0) -> None:
        """Refuse everything that is not allowed, and conditions instead of numbers, before anything is trained."""
        if depth > DEEPEST:
            raise self._error(node, f"is nested more than {DEEPEST} deep; write it shorter")
        gives, parts = self._kind(node)
        if gives is not wanted:
            raise self._error(node, f"is {_spoken(gives)} instead of {_spoken(wanted)}")
        for part, kind in parts:
            self._check(part, kind, depth + 1)

    def _kind(self, node: ast.AST) -> tuple[type, list[tuple[ast.AST, type]]]:
        """The type of a node's value, and its parts with the types that they must have."""
        match node:
            case ast.Constant(value=bool()):
                return bool, []
            case ast.Constant(value=int() | float()):
                return float, []
            case ast.BoolOp(values=parts):
                return bool, [(part, bool) for part in parts]
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return bool, [(inner, bool)]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                return float, [(inner, float)]
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
                return float, [(left, float), (right, float)]
            case ast.Compare(left=left, ops=signs, comparators=others) if all(type(s) in _COMPARISONS for s in signs):
                return bool, [(part, float) for part in (left, *others)]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return float, self._arguments(node, name, arguments)
        raise self._error(node, "is not allowed in a judging expression")

    def _arguments(self, node: ast.AST, name: str, arguments: list[ast.expr]) -> list[tuple[ast.AST, type]]:
        if name in self.over_seeds:
            texts = [part.value for part in arguments if isinstance(part, ast.Constant)]
            kinds = [type(text) for text in texts]
            if len(texts) != len(arguments) or kinds not in ([str, str], [str, str, int]):
                raise self._error(node, f'must read {name}("arm", "measure") or {name}("arm", "measure", length)')
            return []
        if name in OF_NUMBERS:
            if not arguments or (name == "abs") != (len(arguments) == 1):
                raise self._error(node, f"takes {'one number' if name == 'abs' else 'two numbers or more'}")
            return [(part, float) for part in arguments]
        raise self._error(node, f"is not known; {nearest(name, [*self.over_seeds, *OF_NUMBERS])}")

    def _error(self, node: ast.AST, what: str) -> InputError:
        part = ast.get_source_segment(self.text, node) or ""  # type: ignore[arg-type]
        return InputError(f"{self._at(node)}: {part[:80]!r} {what}")

    def _at(self, node: ast.AST) -> str:
        return f"{self.where}, column {getattr(node, 'col_offset', 0) + 1}"


class Contrast(Expression):
    """A number for each seed, from the arms trained with that seed: `value("arm", "measure")` with arithmetic.

    >>> class Two:
    ...     def values(self, arm, measure, length=None):
    ...         return {1: 0.9, 2: 0.8} if arm == "search" else {1: 0.5, 2: 0.6}
    >>> Contrast('value("search", "accuracy") - value("encdec", "accuracy")').by_seed(Two(), (1, 2))
    {1: 0.4, 2: 0.20000000000000007}
    """

    over_seeds: ClassVar[Mapping[str, Callable[[list[float]], float]]] = {"value": statistics.fmean}
    gives: ClassVar[type] = float

    def by_seed(self, numbers: Numbers, seeds: Sequence[int]) -> dict[int, float]:
        """The contrast of each seed.

        Raises:
            NoNumber: if a number that it needs does not exist for a seed.
        """
        return {seed: float(self._value(self._tree, _OneSeed(numbers, seed))) for seed in seeds}


@dataclass(frozen=True, slots=True)
class _OneSeed:
    """The numbers of one seed."""

    numbers: Numbers
    seed: int

    def values(self, arm: str, measure: str, length: int | None = None) -> Seeds:
        """The number of that seed only."""
        return {self.seed: self.numbers.values(arm, measure, length).get(self.seed)}


def references(*expressions: Expression | None) -> Iterator[Reference]:
    """The distinct measures that several expressions use."""
    yield from dict.fromkeys(asked for each in expressions if each is not None for asked in each.references)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _reference(call: ast.Call) -> Reference:
    return Reference(*(part.value for part in call.args if isinstance(part, ast.Constant)))  # type: ignore[arg-type]


def _spoken(kind: type) -> str:
    return "a condition" if kind is bool else "a number"
