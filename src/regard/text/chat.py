"""Chat templates: turn a conversation into the text that a model reads, with the Jinja template in the model's folder.

A template comes with a downloaded model and is not trusted. It runs in Jinja's sandbox, cannot reach attributes, files or
modules, and sees the messages as plain data. A template that loops too often or makes too much text is stopped with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.reading import read_json_object, read_text
from regard.text.files import CHAT_TEMPLATE, CONFIG_NAME, MORE_CHAT_TEMPLATES
from regard.text.template_sandbox import run_template
from regard.text.tokenizer import Tokenizer

Message = Mapping[str, Any]
"""A mapping with `role` and `content`, and any other keys that the template reads, such as `tool_calls`."""

DEFAULT, FOR_TOOLS = "default", "tool_use"
"""Names of templates: the default one, and the one for conversations with tools."""

TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The variables of special tokens that a template may write; they have the same names in tokenizer_config.json."""

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
        text = run_template(source, given)
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
