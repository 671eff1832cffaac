"""Reading a `tokenizer.json` and what is JSON beside it, with faults told in a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError

FILE_NAME = "tokenizer.json"


def text_of(file: Path) -> str:
    """The content of a tokenizer.json.

    Raises:
        InputError: it is missing, cannot be read, or is not UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        models = sorted(file.parent.glob("*.model"))
        if models:
            raise InputError(
                f"{file}: no such file; {models[0].name} beside it is SentencePiece's, so write a {FILE_NAME} of it first: "
                "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
            ) from None
        raise InputError(
            f"{file}: no such file; give a folder with a {FILE_NAME} or a vocab.txt in it, or train a tokenizer"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not a tokenizer file (it is not UTF-8 text); save or copy it again") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}); check the path") from None


def check_layout(text: str, name: str) -> None:
    """Refuse what is no tokenizer.json, or one without a vocabulary; `name` is what errors call it.

    Raises:
        InputError: saying which.
    """
    try:
        layout = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name}: is empty, cut short or not JSON ({error}); save or copy the tokenizer again"
        ) from None
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
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); the file is damaged, copy it again") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds no JSON object; the file is damaged, copy it again")
    return values
