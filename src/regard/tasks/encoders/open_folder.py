"""What an encoder's folder holds beside config and weights for other programs to open it, and theirs read by us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import replace_file
from regard.models import MODELS
from regard.text import Tokenizer, tokenizer_config
from regard.text.spelling import SIZE

NAMES = ("tokenizer.json", "vocab.txt")
TOKENIZER_CONFIG = "tokenizer_config.json"


def obstacle(tokenizer: Tokenizer) -> str:
    """Why other programs could not read texts as this tokenizer does, as half a sentence; empty where they can."""
    if tokenizer.kind != "bert":
        return f"the tokenizer is of kind {tokenizer.kind} and puts no [CLS] and [SEP] around a text"
    return ""


def write_tokenizer_config(folder: Path, tokenizer: Tokenizer, *, maximum: int) -> None:
    """Write tokenizer_config.json.

    Arguments:
        maximum: the model's positions.
    """
    values = tokenizer_config(tokenizer, maximum_length=maximum)
    replace_file(folder / TOKENIZER_CONFIG, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def foreign_tokenizer(folder: Path, config: Any) -> Tokenizer:
    """The tokenizer of a folder that another program wrote.

    Arguments:
        config: of the model in it.

    Raises:
        InputError: where there is none that can be read, or it and config.json do not belong together.
    """
    if MODELS[config.model_type].spelling:
        return Tokenizer.train([], kind="spelling", size=SIZE)
    if not any((folder / name).is_file() for name in NAMES):
        raise InputError(
            f"{folder}: holds neither {NAMES[0]} nor {NAMES[1]}; copy the tokenizer from the model's source"
        )
    tokenizer = Tokenizer.load(folder)
    if tokenizer.size > config.vocabulary:
        raise InputError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens where config.json's vocab_size is {config.vocabulary}; "
            "tokenizer and model must come from the same folder"
        )
    return tokenizer
