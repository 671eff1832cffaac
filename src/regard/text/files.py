"""The files of a tokenizer: `tokenizer.json`, and the `tokenizer_config.json` by which other programs open the folder."""

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
"""A folder's chat template, and the folder of those besides."""
PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of `transformers` that take a tokenizer.json as it is; BERT's own let the config next to it overrule it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning:
    """What a tokenizer_config.json says of how a text is cleaned before it is cut into pieces; null where it says nothing.

    Arguments:
        lowercase: `do_lower_case`.
        strip_accents: `strip_accents`; where null, accents go with case.
        space_chinese: `tokenize_chinese_chars`.
        overrules: whether the programs that wrote the folder believe this more than the tokenizer.json next to it.
    """

    lowercase: bool | None = None
    strip_accents: bool | None = None
    space_chinese: bool | None = None
    overrules: bool = True


def cleaning_beside(file: Path) -> Cleaning:
    """What the tokenizer_config.json next to a tokenizer's file says; nothing where there is none.

    Raises:
        InputError: for one that is damaged, or has settings of another type.
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
"""The parts that special tokens play, and the keys that name these tokens; of two the later counts."""


def special_names(file: Path) -> dict[str, str]:
    """The tokens that the tokenizer_config.json next to a tokenizer.json names as start, end, padding and mask.

    Encoders name the first two `cls_token` and `sep_token`, decoders `bos_token` and `eos_token`; of both the encoder's count.

    Raises:
        InputError: for a damaged file, or an end token that is no string.
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
    """Whether a folder has a chat template: so that what reads it is only imported then."""
    named = object_of(folder / CONFIG_NAME).get("chat_template")
    return bool(named) or (folder / CHAT_TEMPLATE).is_file() or (folder / MORE_CHAT_TEMPLATES).is_dir()


def check_basic(file: Path) -> None:
    """Refuse a vocab.txt whose words are split otherwise than by white space and punctuation, as the Japanese ones are.

    Raises:
        InputError: naming the tokenizer_config.json that says so.
    """
    path = file.parent / CONFIG_NAME
    values = object_of(path)
    name, words = str(values.get("tokenizer_class") or ""), values.get("word_tokenizer_type") or "basic"
    if "Japanese" in name or words != "basic" or values.get("do_basic_tokenize") is False:
        raise InputError(
            f"{path}: asks for words to be split otherwise than by white space and punctuation ({name or words}); give a folder "
            "with a tokenizer.json, which says how"
        )


def overruled(text: str, cleaning: Cleaning) -> str:
    """The content of BERT's tokenizer.json with what the config next to it says otherwise, as `transformers` opens the folder.

    Arguments:
        text: as it is in the file.
    """
    said = {
        "lowercase": cleaning.lowercase,
        "strip_accents": cleaning.strip_accents,
        "handle_chinese_chars": cleaning.space_chinese,
    }
    layout = json.loads(text)
    changed = layout["normalizer"] | {key: value for key, value in said.items() if value is not None}
    if not cleaning.overrules or changed == layout["normalizer"]:
        return text
    return json.dumps(layout | {"normalizer": changed}, ensure_ascii=False)


def with_prefix_space(text: str, file: Path) -> str:
    """The content of RoBERTa's tokenizer.json, which the config next to it may tell to put a space before each text.

    Arguments:
        text: as it is in the file, or made of a vocab.json and merges.txt.
        file: any file of the folder.

    Raises:
        InputError: where `add_prefix_space` is no truth value.
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
    """The content of a tokenizer_config.json, by which `AutoTokenizer` opens the folder that `Tokenizer.save` wrote.

    BERT's opens as a `BertTokenizer`, which gives segment ids too; the spelling of a special token in a text is that token there,
    as everywhere with BERT, unless `split_special_tokens` is asked for.

    Arguments:
        tokenizer: as it was saved.
        maximum_length: the tokens that the model can read, `[CLS]` and `[SEP]` included; None where there is no end.

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
        # Said in any case: where it is not, case is dropped.
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
                f"{file}: no such file; {models[0].name} next to it is SentencePiece's, so write a {TOKENIZER_FILE} of it first: "
                "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
            )
        raise InputError(
            f"{file}: no such file; give a folder with a {TOKENIZER_FILE} or a vocab.txt in it, or train a tokenizer"
        )
    return read_text(file, "save or copy the tokenizer again")


def check_layout(text: str, name: str) -> None:
    """Refuse what is no tokenizer.json, or one without a vocabulary; `name` is what errors call it.

    Raises:
        InputError: saying which.
    """
    layout = parse_json(text, name, "save or copy the tokenizer again")
    model = layout.get("model") if isinstance(layout, dict) else None
    if not isinstance(model, dict):
        raise InputError(f"{name}: is not a tokenizer (it has no 'model'); give a {TOKENIZER_FILE} of `tokenizers`")
    if not model.get("vocab"):
        raise InputError(f"{name}: the tokenizer has no vocabulary; train it on some text and save it again")


def object_of(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; an empty one where there is no file.

    Raises:
        InputError: for anything else.
    """
    return read_json_object(path, "copy the file again") if path.exists() else {}
