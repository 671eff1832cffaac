"""The very lines of code a step is computed by, read from the code itself, so that they can never say something else."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.inspection.walk.steps import SourceLine


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
    # Not ast.unparse: what is shown is what stands in the file, with its spacing and comments.
    return textwrap.dedent("".join(lines[start - 1 : stop])).rstrip()


def _symbol(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _inside_package(function: Callable[..., Any], file: str) -> str:
    """`regard/attention/scores.py`: of where it is installed nothing, since pages are passed on."""
    module = getattr(function, "__module__", None) or ""
    path = Path(file)
    named = Path(*module.split(".")).with_suffix(".py")
    return named.as_posix() if path.parts[-len(named.parts) :] == named.parts else path.name
