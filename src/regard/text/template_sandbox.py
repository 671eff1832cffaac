"""The sandbox of chat templates: Jinja's, in which nothing grows beyond a bound and little can be called.

A template comes with a model and need not be trusted: it reaches no attribute, file or module, and is stopped where it loops too
often or makes too much text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache, wraps
from types import CodeType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.errors import InputError

LONGEST = 2_000_000
"""The maximum length, in characters, of a string that a template makes."""

MOST_ROUNDS = 100_000
"""The maximum number of loop iterations and macro calls in one rendering, over all loops and macros."""

MOST_MADE = 300_000_000
"""The maximum number of characters and list items that one rendering reads and makes. It bounds time and memory."""

ITEM = 20
"""The number of characters that one list item counts as where a filter visits every item.

A visit is a step of the Python interpreter; a string is copied in one operation."""


ROUND, JOIN, PART = "regard_round", "regard_concatenate", "regard_part"
"""Names of functions that compiled templates call. `_bounded` inserts the calls; a template that uses the names is refused."""

FILTERS = frozenset(
    [
        "abs",
        "attr",
        "capitalize",
        "count",
        "d",
        "default",
        "dictsort",
        "e",
        "escape",
        "first",
        "float",
        "groupby",
        "indent",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "safe",
        "select",
        "selectattr",
        "sort",
        "string",
        "title",
        "trim",
        "unique",
        "upper",
        "wordcount",
    ]
)
"""The filters of Jinja that are allowed: those that templates use and whose results have a bounded length."""

COMPARING = frozenset(["dictsort", "groupby", "max", "min", "sort", "unique"])
"""The allowed filters that compare lower-case copies of the values' contents."""

METHODS = frozenset(
    [
        "capitalize",
        "casefold",
        "count",
        "endswith",
        "find",
        "get",
        "index",
        "isalnum",
        "isalpha",
        "isdecimal",
        "isdigit",
        "islower",
        "isnumeric",
        "isspace",
        "istitle",
        "isupper",
        "items",
        "join",
        "keys",
        "lower",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rindex",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "title",
        "upper",
        "values",
    ]
)
"""The methods of strings, lists and mappings that are allowed, chosen by the same two conditions."""


def run_template(source: str, given: Mapping[str, Any]) -> str:
    """The text that a template makes.

    Arguments:
        source: the template.
        given: the values that it reads, by name, as plain data.

    Raises:
        InputError: for a template that cannot be read, that refuses what it is given, fails, or does too much.

    >>> run_template("{% for each in names %}{{ each }} {% endfor %}", {"names": ["a", "b"]})
    'a b '
    """
    try:
        return _joined(_pieces(source, given))
    except InputError:
        raise
    # A number too large for a float becomes the bare name `inf` in what Jinja compiles.
    except (
        *(jinja2.TemplateError, RecursionError, ArithmeticError, LookupError, NameError, TypeError, ValueError),
    ) as error:
        why = str(error) or type(error).__name__
        raise InputError(f"the chat template cannot render this conversation: {why}") from None


def _short_enough(length: float) -> None:
    if length > LONGEST:
        raise InputError(f"the chat template makes more than {LONGEST:,} characters; stopped")


def _written(value: Any) -> Any:
    """Check that the value's text is within `LONGEST`, and return the value. Nested lists that share items can be far longer."""
    waiting, length = [value], 0
    while waiting:
        part = waiting.pop()
        length += len(part) if isinstance(part, str) else 1
        _short_enough(length)
        if isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
    return value


def _concatenated(*parts: Any) -> str:
    texts = [str(_written(part)) for part in parts]
    _short_enough(sum(map(len, texts)))
    return "".join(texts)


def _joined(pieces: Any) -> str:
    found, length = [], 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        _short_enough(length)
    return "".join(found)


def _replaced(text: Any, old: Any, new: Any, count: Any = None) -> str:
    text, old, new = str(text), str(old), str(new)
    times = text.count(old) if count is None or count < 0 else min(text.count(old), int(count))
    _short_enough(len(text) + times * (len(new) - len(old)))
    return text.replace(old, new, times)


def _join(parts: Any, between: Any = "", attribute: Any = None) -> str:
    texts = [str(_written(part if attribute is None else part[attribute])) for part in parts]
    _short_enough(sum(map(len, texts)) + len(texts) * len(str(between)))
    return str(between).join(texts)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """`tojson` without Jinja's escapes of `<` and `&`, because the text is not HTML."""
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 16):
        raise InputError(f"the chat template asks for JSON indented by {indent!r}, not 0 to 16; stopped")
    return json.dumps(
        _written(value), ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _indented(text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    space = width if isinstance(width, str) else " " * int(_within(width))
    lines = str(text).split("\n")
    _short_enough(len(str(text)) + len(lines) * len(space))
    return "\n".join(
        space + line if (line or blank) and (number or first) else line for number, line in enumerate(lines)
    )


def _within(number: Any) -> int:
    _short_enough(abs(number))
    return int(number)


def _refuse(message: Any) -> str:
    """`raise_exception` of templates: refuse a conversation with a message."""
    raise jinja2.TemplateError(str(message))


def _now(form: str) -> str:
    _short_enough(100 * len(form))
    return datetime.now().strftime(form)


class _Mappings:
    """The `dict` function of templates, which does not expose the class itself."""

    def __call__(self, *given: Any, **named: Any) -> dict[Any, Any]:
        return dict(*given, **named)

    def fromkeys(self, keys: Any, value: Any = None) -> dict[Any, Any]:
        """As `dict.fromkeys`."""
        return dict.fromkeys(keys, value)


class _Generation(Extension):
    """`{% generation %}` marks the model's own text for training; here its contents are written unchanged."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja declares it

    def parse(self, parser: Any) -> list[nodes.Node]:
        """Parse the statements up to `{% endgeneration %}`."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(jinja2.utils.Namespace):
    """Jinja's namespace without names that begin with an underscore."""

    def __setitem__(self, name: str, value: Any) -> None:
        if str(name).startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace of the chat template cannot hold the name {name!r}")
        super().__setitem__(name, value)


def _namespace(*given: Any, **named: Any) -> _Namespace:
    if any(str(name).startswith("_") for name in (*named, *(name for each in given for name in dict(each)))):
        raise jinja2.exceptions.SecurityError("a namespace of the chat template cannot hold names that begin with _")
    return _Namespace(*given, **named)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with limits on lengths and steps; only the methods in `METHODS` can be called."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})  # type: ignore[assignment]
    rounds, made = 0, 0  # counts of one rendering; each rendering has its own sandbox

    def next_round(self) -> str:
        """Count one iteration of a loop or one call of a macro."""
        self.rounds += 1
        if self.rounds > MOST_ROUNDS:
            raise InputError(f"the chat template loops more than {MOST_ROUNDS:,} times; stopped")
        return ""

    def spend(self, *values: Any) -> None:
        """Count the values that a step reads or makes: the characters of a string, the items of a list or mapping, else 1."""
        self.made += sum(len(value) if isinstance(value, str | list | tuple | dict) else 1 for value in values)
        if self.made > MOST_MADE:
            raise InputError(f"the chat template reads and makes more than {MOST_MADE:,} characters; stopped")

    def counted(self, items: Any) -> Any:
        """Yield the items and count each."""
        for item in items:
            self.spend(item)
            yield item

    def concatenate(self, *parts: Any) -> str:
        """The operator `~` of templates."""
        text = _concatenated(*parts)
        self.spend(text)
        return text

    def counting(self, function: Callable[..., Any], place: int, *, deep: bool = False) -> Callable[..., Any]:
        """The same filter or test, which also counts its arguments, each item of a list, and its result.

        Arguments:
            function: the filter or test.
            place: the position of the value among the arguments: 1 after a context or an environment, else 0.
            deep: whether the whole nested value is checked against `LONGEST`, because the filter may copy it to compare.
        """

        @wraps(
            function
        )  # also copies Jinja's attribute that says whether a context or an environment is the first argument
        def run(*given: Any, **named: Any) -> Any:
            for value in (*given[place:], *named.values()):
                self.spend(value)
                if isinstance(value, list | tuple | dict):
                    self.made += ITEM * len(value)
                    self.spend(*value)
                    if deep:
                        _written(value)
            if len(given) > place and isinstance(given[place], Iterator):
                given = (*given[:place], self.counted(given[place]), *given[place + 1 :])
            result = function(*given, **named)
            self.spend(result)
            return result

        return run

    def part(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """`value[start:stop:step]` of templates; the slice is a copy and is counted."""
        found = value[start:stop:step]
        self.spend(found)
        return found

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator after a check that its result is within `LONGEST`."""
        if operator == "**" and isinstance(left, int | float) and isinstance(right, int | float):
            _short_enough(abs(right) * max(1, abs(left).bit_length() if isinstance(left, int) else 1))
        if operator == "+" and isinstance(left, str | list | tuple):
            _short_enough(len(left) + (len(right) if isinstance(right, str | list | tuple) else 0))
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | list | tuple) and isinstance(other, int):
                    _short_enough(len(one) * max(0, other))
            if isinstance(left, int) and isinstance(right, int):
                _short_enough(left.bit_length() + right.bit_length())
        if operator == "%" and isinstance(left, str):
            raise jinja2.exceptions.SecurityError(
                "the chat template formats text with %, which is not supported; use ~"
            )
        result = super().call_binop(context, operator, left, right)
        self.spend(result)
        return result

    def call(self, context: Any, called: Any, /, *given: Any, **named: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Call a macro, one of the global functions, or a method in `METHODS`."""
        owner = getattr(called, "__self__", None)
        if isinstance(owner, str | list | tuple | dict | int | float):
            name = called.__name__
            self.spend(owner, *given)
            if name not in METHODS:
                raise jinja2.exceptions.SecurityError(f"the chat template calls .{name}(), which is not supported")
            if isinstance(owner, str) and name == "replace":
                called, given = _replaced, (owner, *given)
            elif isinstance(owner, str) and name == "join":
                called, given, named = _join, (self.counted(given[0]),), {"between": owner}
        result = super().call(context, called, *given, **named)  # pyright: ignore[reportCallIssue]
        self.spend(result)
        return result

    def wrap_str_format(self, value: Any) -> Any:
        """Refuse `str.format`, whose fields can have any width."""
        if getattr(value, "__name__", "") in ("format", "format_map") and isinstance(
            getattr(value, "__self__", None), str
        ):
            raise jinja2.exceptions.SecurityError("the chat template calls .format(), which is not supported; use ~")
        return super().wrap_str_format(value)


def _sandbox() -> _Sandbox:
    """A sandbox for one rendering, with the filters and functions that templates use."""
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=_written
    )
    kept = {name: each for name, each in environment.filters.items() if name in FILTERS}
    own = {"tojson": _to_json, "replace": _replaced, "join": _join, "indent": _indented, "string": _concatenated}
    for table, found in ((environment.filters, {**kept, **own}), (environment.tests, dict(environment.tests))):
        table.clear()
        for name, each in found.items():
            place = int(hasattr(each, "jinja_pass_arg"))
            table[name] = environment.counting(each, place, deep=name in COMPARING)
    environment.globals = {
        "range": environment.globals["range"],
        "dict": _Mappings(),
        "namespace": _namespace,
        "raise_exception": _refuse,
        "strftime_now": _now,
    }
    return environment


@lru_cache(maxsize=32)
def _compiled(source: str) -> CodeType:
    environment = _sandbox()
    try:
        return environment.compile(_bounded(environment.parse(source)))
    except InputError:
        raise
    except (jinja2.TemplateError, RecursionError, SyntaxError, TypeError, ValueError, MemoryError) as error:
        # Python's compiler has limits of its own, such as on indentation, and reports some of them as MemoryError.
        raise InputError(f"the chat template cannot be read: {str(error) or type(error).__name__}") from None


def _pieces(source: str, given: Mapping[str, Any]) -> Iterator[str]:
    """The pieces of text that a template writes, in a new sandbox whose counts begin at 0."""
    sandbox = _sandbox()
    template = jinja2.Template.from_code(sandbox, _compiled(source), dict(sandbox.globals))
    counting = {ROUND: sandbox.next_round, JOIN: sandbox.concatenate, PART: sandbox.part}
    return template.generate({**given, **counting})


def _bounded(tree: nodes.Template) -> nodes.Template:
    """The template with inserted calls that count loop iterations, macro calls, `~` joins and slices."""
    for names in tree.find_all(nodes.Name):
        if names.name in (ROUND, JOIN, PART):
            raise jinja2.TemplateSyntaxError(f"the name {names.name} is reserved", 1)
    for part in tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)):
        counted = nodes.Output([nodes.Call(nodes.Name(ROUND, "load"), [], [], None, None)])
        part.body = [counted, *part.body]  # type: ignore[attr-defined]
    _replace_joins(tree)
    return tree


def _replace_joins(tree: nodes.Node) -> None:
    """Replace every `~` and every slice below a node by a call into the sandbox."""
    for name in tree.fields:
        value = getattr(tree, name)
        if isinstance(value, list):
            setattr(tree, name, [_without_join(each) for each in value])
        elif isinstance(value, nodes.Node):
            setattr(tree, name, _without_join(value))


def _without_join(part: Any) -> Any:
    if not isinstance(part, nodes.Node):
        return part
    _replace_joins(part)
    if isinstance(part, nodes.Concat):
        return nodes.Call(nodes.Name(JOIN, "load"), part.nodes, [], None, None).set_lineno(part.lineno)
    if isinstance(part, nodes.Getitem) and isinstance(part.arg, nodes.Slice):
        borders = [each or nodes.Const(None) for each in (part.arg.start, part.arg.stop, part.arg.step)]
        return nodes.Call(nodes.Name(PART, "load"), [part.node, *borders], [], None, None).set_lineno(part.lineno)
    return part
