"""Reading a `tokenizer.json` and what is JSON beside it, with faults told in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.reading import parse_json, read_json_object, read_text

FILE_NAME = "tokenizer.json"


def text_of(file: Path) -> str:
    """The content of a tokenizer.json.

    Raises:
        InputError: it is missing, cannot be read, or is not UTF-8.
    """
    if not file.exists():
        models = sorted(file.parent.glob("*.model"))
        if models:
            raise InputError(
                f"{file}: no such file; {models[0].name} beside it is SentencePiece's, so write a {FILE_NAME} of it first: "
                "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
            )
        raise InputError(
            f"{file}: no such file; give a folder with a {FILE_NAME} or a vocab.txt in it, or train a tokenizer"
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
        raise InputError(f"{name}: is not a tokenizer (it has no 'model'); give a {FILE_NAME} of `tokenizers`")
    if not model.get("vocab"):
        raise InputError(f"{name}: the tokenizer has no vocabulary; train it on some text and save it again")


def object_of(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; an empty one where there is no file.

    Raises:
        InputError: for anything else.
    """
    return read_json_object(path, "copy the file again") if path.exists() else {}
