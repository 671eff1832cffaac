"""Chat templates: turn a conversation into the text that a model reads, with the Jinja template in the model's folder.

A template comes with a downloaded model and is not trusted. It runs in Jinja's sandbox, cannot reach attributes, files or
modules, and sees the messages as plain data. A template that loops too often or makes too much text is stopped with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, wraps
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.reading import read_json_object, read_text
from regard.text.files import CHAT_TEMPLATE, CONFIG_NAME, MORE_CHAT_TEMPLATES
from regard.text.tokenizer import Tokenizer

Message = Mapping[str, Any]
"""A mapping with `role` and `content`, and any other keys that the template reads, such as `tool_calls`."""

DEFAULT, FOR_TOOLS = "default", "tool_use"
"""Names of templates: the default one, and the one for conversations with tools."""

TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The variables of special tokens that a template may write; they have the same names in tokenizer_config.json."""

LONGEST = 2_000_000
"""The maximum length, in characters, of a string that a template makes."""

MOST_ROUNDS = 100_000
"""The maximum number of loop iterations and macro calls in one rendering, over all loops and macros."""

MOST_MADE = 300_000_000
"""The maximum number of characters and list items that one rendering reads and makes. It bounds time and memory."""

ITEM = 20
"""The number of characters that one list item counts as where a filter visits every item.

A visit is a step of the Python interpreter; a string is copied in one operation."""

GUARDS = range(0xE000, 0xF900)
"""Unicode private use characters. One that occurs in no message marks the places where a message spells a special token."""

CONTINUED = "CONTINUE_FINAL_MESSAGE_TAG "


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation as a model reads it.

    Arguments:
        text: the text that the template makes.
        ids: the token ids of `text`. Only special tokens that the template wrote become special token ids; the spelling of a
            special token inside a message is tokenized as ordinary text.
    """

    text: str
    ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """The chat templates of a model.

    Arguments:
        templates: Jinja sources by name. `tool_use`, if present, is used when tools are given; otherwise `default`.
        tokens: the spellings of special tokens by the variable names that templates use, such as `bos_token`.

    >>> source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
    >>> ChatTemplate(templates={"default": source}, tokens={"eos_token": "</s>"}).render([{"role": "user", "content": "hi"}])
    '<user>hi</s>'
    """

    templates: Mapping[str, str]
    tokens: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_folder(cls, folder: Path) -> ChatTemplate | None:
        """Read the chat templates of a model folder.

        They are in chat_template.jinja, additional_chat_templates/*.jinja and tokenizer_config.json; the files take precedence.

        Returns:
            the templates, or None if the folder has none.

        Raises:
            InputError: for a file that cannot be read, or a chat_template of another type.
        """
        path = folder / CONFIG_NAME
        values = read_json_object(path, "copy the file again") if path.is_file() else {}
        templates = _named(values.get("chat_template"), f"{path}: chat_template")
        for file in sorted((folder / MORE_CHAT_TEMPLATES).glob("*.jinja")):
            templates[file.stem] = read_text(file, "copy the file again")
        if (folder / CHAT_TEMPLATE).is_file():
            templates[DEFAULT] = read_text(folder / CHAT_TEMPLATE, "copy the file again")
        if not templates:
            return None
        tokens = {name: _content(values.get(name)) for name in TOKEN_NAMES}
        return cls(templates=templates, tokens={name: token for name, token in tokens.items() if token})

    def save(self, folder: Path) -> None:
        """Write the templates into a folder in the layout of transformers, and the tokens into its tokenizer_config.json.

        Raises:
            InputError: if the folder cannot be written.
        """
        for name, source in self.templates.items():
            replace_file(folder / (CHAT_TEMPLATE if name == DEFAULT else f"{MORE_CHAT_TEMPLATES}/{name}.jinja"), source)
        path = folder / CONFIG_NAME
        values = dict(read_json_object(path, "")) if path.is_file() else {"tokenizer_class": "PreTrainedTokenizerFast"}
        replace_file(path, json.dumps({**self.tokens, **values}, indent=2, ensure_ascii=False) + "\n")

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        answer: bool = True,
        continues: bool = False,
        template: str | None = None,
        **variables: Any,
    ) -> str:
        """Make the text that a model reads from a conversation.

        Arguments:
            messages: the messages in order. A key whose value is None is left out.
            tools: JSON schemas of functions that the model may call.
            answer: whether the text ends with the beginning of an assistant message (`add_generation_prompt` of transformers).
            continues: whether the last message is left open for the model to continue (`continue_final_message` of transformers).
            template: the template's name. None: `tool_use` if tools are given and it exists, else `default`.
            variables: other variables that the template reads, such as `enable_thinking`.

        Returns:
            the text.

        Raises:
            InputError: for an empty conversation, messages that the template refuses, an unknown template name, and a template
                that fails or exceeds a limit.
        """
        source = self.templates[self._chosen(template, tools)]
        chat = [_plain(message) for message in messages]
        if not chat:
            raise InputError("a conversation is empty; give at least one message with a role and a content")
        for number, message in enumerate(chat, start=1):
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise InputError(
                    f"message {number} is {messages[number - 1]!r:.80}; give a role, such as user, and a content"
                )
            chat[number - 1] = {key: value for key, value in message.items() if value is not None}
        last = chat[-1].get("content")
        if continues:
            if not isinstance(last, str):
                raise InputError("the last message has no text to continue; give its content as a string")
            chat[-1]["content"] = last + CONTINUED
        given = {
            **self.tokens,
            **{name: _plain(value) for name, value in variables.items()},
            "messages": chat,
            "tools": None if tools is None else _plain(list(tools)),
            "documents": _plain(variables.get("documents")),
            "add_generation_prompt": answer and not continues,
        }
        try:
            text = _joined(_pieces(source, given))
        except InputError:
            raise
        # A number too large for a float becomes the bare name `inf` in what Jinja compiles.
        except (
            *(jinja2.TemplateError, RecursionError, ArithmeticError, LookupError, NameError, TypeError, ValueError),
        ) as error:
            why = str(error) or type(error).__name__
            raise InputError(f"the chat template cannot render this conversation: {why}") from None
        return _up_to_tag(text) if continues else text

    def prompt(self, tokenizer: Tokenizer, messages: Sequence[Message], **given: Any) -> Prompt:
        """Make the text and the token ids that a model reads from a conversation.

        The spelling of a special token in a message is tokenized as ordinary text, so that a message cannot end its turn with
        `<|im_end|>`.

        Arguments:
            tokenizer: the model's tokenizer.
            messages: the messages, as for `render`.
            given: the other arguments of `render`.

        Raises:
            InputError: in the cases of `render`.
        """
        spellings = tokenizer.tokens(sorted(tokenizer.special_ids))
        chat = [_plain(message) for message in messages]
        tools = _plain(given.pop("tools", None))
        strings = set(_strings([chat, tools, _plain(given)]))
        spelt = [token for token in spellings if any(token in string for string in strings)]
        if not spelt:
            text = self.render(chat, tools=tools, **given)
            return Prompt(text, tuple(tokenizer.encode_special(text)))
        guard = next(chr(place) for place in GUARDS if not any(chr(place) in string for string in strings))

        def marked(value: Any) -> Any:
            return _changed(value, lambda text: _guarded(text, spelt, guard))

        text = self.render(marked(chat), tools=marked(tools), **marked(given))
        return Prompt(text.replace(guard, ""), tuple(tokenizer.encode_special(text, guard=guard)))

    def _chosen(self, template: str | None, tools: object) -> str:
        if template is None:
            template = FOR_TOOLS if tools is not None and FOR_TOOLS in self.templates else DEFAULT
        if template not in self.templates:
            raise InputError(f"there is no chat template {template!r}; {nearest(template, list(self.templates))}")
        return template


def _named(value: Any, where: str) -> dict[str, str]:
    """Templates by name, from the chat_template of tokenizer_config.json: one template or a list of named ones."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {DEFAULT: value}
    named = value if isinstance(value, list) else [value]
    if all(isinstance(each, dict) and {"name", "template"} <= each.keys() for each in named):
        parts = [(each["name"], each["template"]) for each in named]
        if all(
            isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) and isinstance(source, str)
            for name, source in parts
        ):
            return dict(parts)
    raise InputError(f"{where} is {value!r:.80}; it must be a template, or a list of named templates")


def _content(token: Any) -> str:
    """The spelling of a token, given as a string or as an object with the key `content`."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else ""


# Messages as plain data.


def _plain(value: Any) -> Any:
    """A copy that holds only JSON types, so that no method of a caller's class runs; other objects become their type's name."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return f"<{type(value).__name__}>"


def _strings(value: Any) -> list[str]:
    """All strings in plain data."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for each in (*value, *value.values()) for found in _strings(each)]
    return [found for each in value for found in _strings(each)] if isinstance(value, list) else []


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Plain data with `change` applied to every string except the keys of mappings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _changed(each, change) for key, each in value.items()}
    return [_changed(each, change) for each in value] if isinstance(value, list) else value


def _guarded(text: str, spelt: Sequence[str], guard: str) -> str:
    """The text with `guard` inserted after the first character of every spelling of a special token."""
    for token in spelt:
        text = text.replace(token, token[0] + guard + token[1:])
    return text


def _up_to_tag(text: str) -> str:
    """The text up to the end of the message to continue."""
    place = text.rfind(CONTINUED.strip())
    if place < 0:
        raise InputError("the chat template leaves the last message out, so it cannot be continued")
    whole = text[place : place + len(CONTINUED)] == CONTINUED
    return (
        text[:place] if whole else text[:place].rstrip()
    )  # the template stripped the message's end, so strip it here too


# The sandbox.

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
