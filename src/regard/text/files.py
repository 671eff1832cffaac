"""The files of a tokenizer: `tokenizer.json`, and the `tokenizer_config.json` that other programs open the folder by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.reading import parse_json, read_json_object, read_text
from regard.text.vocabulary import Vocabulary

CONFIG_NAME = "tokenizer_config.json"
CHAT_TEMPLATE, MORE_CHAT_TEMPLATES = "chat_template.jinja", "additional_chat_templates"
"""The file of a folder's chat template, and the subfolder of further chat templates."""
PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of `transformers` that use a tokenizer.json unchanged; for BERT's own classes the tokenizer_config.json takes
precedence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning:
    """The settings of text normalisation in a tokenizer_config.json; None for settings that it does not have.

    Arguments:
        lowercase: `do_lower_case`.
        strip_accents: `strip_accents`; None = if `lowercase`.
        space_chinese: `tokenize_chinese_chars`.
        overrules: whether the program that wrote the folder gives these settings precedence over the tokenizer.json.
    """

    lowercase: bool | None = None
    strip_accents: bool | None = None
    space_chinese: bool | None = None
    overrules: bool = True


def cleaning_of_config(file: Path) -> Cleaning:
    """The settings of the tokenizer_config.json in the folder of a tokenizer's file; all None if it does not exist.

    Raises:
        InputError: if it is damaged, or a setting has another type.
    """
    path = file.parent / CONFIG_NAME
    values = object_of(path)
    found: dict[str, bool | None] = {}
    for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        value = values.get(key)
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{path}: {key} is {value!r}; it must be true, false or null")
        found[key] = value
    return Cleaning(
        lowercase=found["do_lower_case"],
        strip_accents=found["strip_accents"],
        space_chinese=found["tokenize_chinese_chars"],
        overrules=values.get("tokenizer_class") not in PLAIN,
    )


NAMED_ROLES = (
    ("start", "bos_token"),
    ("start", "cls_token"),
    ("end", "eos_token"),
    ("end", "sep_token"),
    ("padding", "pad_token"),
    ("mask", "mask_token"),
)
"""The roles of special tokens, and the keys that name these tokens; of two keys with the same role, the later one is used."""


def special_names(file: Path) -> dict[str, str]:
    """The start, end, padding and mask tokens named by the tokenizer_config.json in the folder of a tokenizer.json.

    Encoders name the start and end tokens `cls_token` and `sep_token`, decoders `bos_token` and `eos_token`; if a config has all
    of them, the encoder's are used.

    Raises:
        InputError: if the file is damaged, or a token is not a string.
    """
    values = object_of(file.parent / CONFIG_NAME)
    found: dict[str, str] = {}
    for role, key in NAMED_ROLES:
        token = values.get(key)
        token = token.get("content") if isinstance(token, dict) else token  # an added token with its settings
        if token is not None and not isinstance(token, str):
            raise InputError(f"{file.parent / CONFIG_NAME}: {key} is {token!r}; it must be a token")
        if token:
            found[role] = token
    return found


def has_chat_template(folder: Path) -> bool:
    """Whether a folder has a chat template. This is checked first, so that Jinja is imported only if needed."""
    named = object_of(folder / CONFIG_NAME).get("chat_template")
    return bool(named) or (folder / CHAT_TEMPLATE).is_file() or (folder / MORE_CHAT_TEMPLATES).is_dir()


def check_basic(file: Path) -> None:
    """Check that the words of a vocab.txt are split by white space and punctuation, unlike in Japanese models.

    Raises:
        InputError: if its tokenizer_config.json sets another way of splitting.
    """
    path = file.parent / CONFIG_NAME
    values = object_of(path)
    name, words = str(values.get("tokenizer_class") or ""), values.get("word_tokenizer_type") or "basic"
    if "Japanese" in name or words != "basic" or values.get("do_basic_tokenize") is False:
        raise InputError(
            f"{path}: words are not split by white space and punctuation ({name or words}); give a folder with a "
            "tokenizer.json, which defines the splitting"
        )


def overruled(text: str, cleaning: Cleaning) -> str:
    """The content of BERT's tokenizer.json with the settings of the tokenizer_config.json, which `transformers` prefers.

    Arguments:
        text: the content of the file.
        cleaning: the settings of the tokenizer_config.json.
    """
    settings = {
        "lowercase": cleaning.lowercase,
        "strip_accents": cleaning.strip_accents,
        "handle_chinese_chars": cleaning.space_chinese,
    }
    layout = json.loads(text)
    changed = layout["normalizer"] | {key: value for key, value in settings.items() if value is not None}
    if not cleaning.overrules or changed == layout["normalizer"]:
        return text
    return json.dumps(layout | {"normalizer": changed}, ensure_ascii=False)


def with_prefix_space(text: str, file: Path) -> str:
    """The content of RoBERTa's tokenizer.json with `add_prefix_space` from the tokenizer_config.json.

    Arguments:
        text: the content of the file, or made from a vocab.json and merges.txt.
        file: any file of the folder.

    Raises:
        InputError: if `add_prefix_space` is not true, false or null.
    """
    path = file.parent / CONFIG_NAME
    values = object_of(path)
    wanted = values.get("add_prefix_space")
    if wanted is not None and not isinstance(wanted, bool):
        raise InputError(f"{path}: add_prefix_space is {wanted!r}; it must be true, false or null")
    layout = json.loads(text)
    parts = [layout["pre_tokenizer"], layout["post_processor"]]
    plain = values.get("tokenizer_class") in PLAIN
    if wanted is None or plain or all(part["add_prefix_space"] == wanted for part in parts):
        return text
    for part in parts:
        part["add_prefix_space"] = wanted
    return json.dumps(layout, ensure_ascii=False)


def tokenizer_config(tokenizer: Vocabulary, *, maximum_length: int | None = None) -> dict[str, Any]:
    """The content of a tokenizer_config.json, with which `AutoTokenizer` can open a folder written by `Tokenizer.save`.

    BERT's tokenizer opens as a `BertTokenizer`, which also returns segment ids. Unlike in Regard, it recognises special tokens
    in texts unless `split_special_tokens` is set.

    Arguments:
        tokenizer: the saved tokenizer.
        maximum_length: the longest input of the model in tokens, with special tokens; None for no limit.

    >>> from regard.text import Tokenizer
    >>> config = tokenizer_config(Tokenizer.train(["a dog"], kind="bert", size=60), maximum_length=512)
    >>> config["tokenizer_class"], config["do_lower_case"], config["mask_token"]
    ('BertTokenizer', False, '[MASK]')
    """
    bert = tokenizer.kind == "bert"
    around = {"cls_token": tokenizer.start_id, "sep_token": tokenizer.end_id}
    roles = {
        "pad_token": tokenizer.padding_id,
        "unk_token": tokenizer.unknown_id,
        "mask_token": tokenizer.mask_id,
        "bos_token": tokenizer.start_id if tokenizer.names_start else None,
        **(around if bert or tokenizer.surrounds else {}),
        **({} if bert else {"eos_token": tokenizer.end_id}),
    }
    named = {role: tokenizer.tokens([index])[0] for role, index in roles.items() if index is not None}
    config: dict[str, Any] = {"tokenizer_class": "BertTokenizer" if bert else "PreTrainedTokenizerFast", **named}
    if bert:
        # Always written, because the default of `do_lower_case` is true.
        cleaning = tokenizer.layout["normalizer"]
        config |= {
            "do_lower_case": cleaning["lowercase"],
            "strip_accents": cleaning["strip_accents"],
            "tokenize_chinese_chars": cleaning["handle_chinese_chars"],
        }
    if maximum_length is not None:
        config["model_max_length"] = maximum_length
    return config | {"clean_up_tokenization_spaces": False, "padding_side": "right"}


# Reading a `tokenizer.json`.

TOKENIZER_FILE = "tokenizer.json"


def text_of(file: Path) -> str:
    """The content of a tokenizer.json.

    Raises:
        InputError: it is missing, cannot be read, or is not UTF-8.
    """
    if not file.exists():
        models = sorted(file.parent.glob("*.model"))
        if models:
            raise InputError(
                f"{file}: no such file; {models[0].name} in its folder is a SentencePiece model, so convert it to a "
                f"{TOKENIZER_FILE} first: transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
            )
        raise InputError(
            f"{file}: no such file; give a folder with a {TOKENIZER_FILE} or a vocab.txt in it, or train a tokenizer"
        )
    return read_text(file, "save or copy the tokenizer again")


def check_layout(text: str, name: str) -> None:
    """Check that a text is a tokenizer.json with a vocabulary; `name` is its name in messages.

    Raises:
        InputError: if not.
    """
    layout = parse_json(text, name, "save or copy the tokenizer again")
    model = layout.get("model") if isinstance(layout, dict) else None
    if not isinstance(model, dict):
        raise InputError(f"{name}: is not a tokenizer (it has no 'model'); give a {TOKENIZER_FILE} of `tokenizers`")
    if not model.get("vocab"):
        raise InputError(f"{name}: the tokenizer has no vocabulary; train it on some text and save it again")


def object_of(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; an empty object if the file does not exist.

    Raises:
        InputError: if the file cannot be read, or is not a JSON object.
    """
    return read_json_object(path, "copy the file again") if path.exists() else {}
