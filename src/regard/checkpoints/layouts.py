"""Which of Hugging Face's layouts there are, which one a model is written in, and which other programs open it.

`FORMATS` names every format, so a new layout is a table (`hf_format`) and a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.checkpoints.hf_format import HFFormat
from regard.errors import InputError
from regard.reading import read_json_object

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "marian": "translators:MARIAN",
        "pegasus": "translators:PEGASUS",
        "bart": "translators:BART",
        "bert": "encoders:BERT",
        "distilbert": "encoders:DISTILBERT",
        "roberta": "later_encoders:ROBERTA",
        "xlm-roberta": "later_encoders:XLM_ROBERTA",
        "electra": "later_encoders:ELECTRA",
        "modernbert": "modern_encoders:MODERNBERT",
        "openai-gpt": "decoders:GPT",
        "gpt2": "decoders:GPT2",
        "reformer": "decoders:REFORMER",
        "gpt_neox": "rotary_decoders:GPT_NEOX",
        "llama": "rotary_decoders:LLAMA",
        "mistral": "rotary_decoders:MISTRAL",
        "qwen2": "rotary_decoders:QWEN2",
        "qwen3": "rotary_decoders:QWEN3",
        "t5": "translators:T5",
        "mt5": "translators:MT5",
        "vit": "images:VIT",
    }
)
"""The module and the name of the table of each `model_type` of their config.json; imported when it is needed."""

FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "transformer": ("marian", "pegasus", "bart"),
        "bert": ("bert",),
        "distilbert": ("distilbert",),
        "roberta": ("roberta",),
        "xlm_roberta": ("xlm-roberta",),
        "electra": ("electra",),
        "modernbert": ("modernbert",),
        "gpt": ("openai-gpt",),
        "gpt2": ("gpt2",),
        "gpt3": ("gpt2",),
        "reformer": ("reformer",),
        "gpt_neox": ("gpt_neox",),
        "llama": ("llama", "mistral", "qwen2", "qwen3"),
        "llama_classifier": ("llama", "mistral", "qwen2", "qwen3"),
        "t5": ("t5",),
        "vit": ("vit",),
    }
)
"""The formats in which a model of each of our families can be written; no other library has the families that are missing."""


def hf_format(model_type: str) -> HFFormat:
    """The format of a `model_type` of theirs.

    >>> hf_format("gpt2").fields["width"]
    'n_embd'
    """
    module, _, name = FORMATS[model_type].partition(":")
    return getattr(importlib.import_module(f"regard.checkpoints.{module}"), name)


def format_of(config: Any) -> tuple[HFFormat | None, str]:
    """The format in which a model is written, and ""; or None, and the reason why there is none, as half a sentence."""
    formats = [hf_format(name) for name in FAMILIES.get(config.model_type, ())]
    if not formats:
        return None, f"no other library has the family {config.model_type}"
    reasons = [each.unsupported_reasons(config) for each in formats]
    nearest = min(range(len(formats)), key=lambda number: len(reasons[number]))
    return (None, reasons[nearest][0]) if reasons[nearest] else (formats[nearest], "")


def called(model_type: str) -> str:
    """The usual name of a layout.

    >>> called("gpt2"), called("marian")
    ('GPT-2', 'Marian')
    """
    return hf_format(model_type).title if model_type in FORMATS else model_type.capitalize()


def readers(values: Mapping[str, Any], tokens: int | None = None) -> dict[str, str]:
    """The other programs that open a folder in another library's layout, and the class or command for it.

    Arguments:
        values: the content of its config.json, of which `model_type`, `architectures`, `pruned_heads` and `vocab_size` are used.
        tokens: the number of tokens of its tokenizer in transformers, from `tokens_in`; CTranslate2 refuses a model with fewer
            rows, and for some families one with more. None if it is unknown.

    >>> readers({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    {'transformers': 'GPT2LMHeadModel', 'CTranslate2': 'ct2-transformers-converter'}
    >>> readers({"model_type": "vit"})
    {'transformers': 'AutoModel'}
    >>> readers({"model_type": "gpt2", "vocab_size": 50_304}, tokens=50_257)
    {'transformers': 'AutoModel'}
    """
    named = values.get("architectures")
    kind = str(named[0]) if isinstance(named, list) and named else "AutoModel"
    if values.get("pruned_heads"):
        return {"transformers": f"{kind} (up to version 4, because heads were pruned)"}
    found = {"transformers": kind}
    model_type = str(values.get("model_type"))
    converted = hf_format(model_type).converted if model_type in FORMATS else ""
    rows = values.get("vocab_size")
    if isinstance(rows, int) and tokens is not None and (tokens > rows or (converted == "equal" and tokens < rows)):
        converted = ""
    if converted:
        bare = model_type in ("bert", "distilbert")
        found["CTranslate2"] = "ct2-transformers-converter" + (", without a head" if bare else "")
    return found


def tokens_in(folder: Path, *, unfinished: bool = False) -> int | None:
    """The number of tokens that transformers finds in a folder's tokenizer.json; None if it cannot be read.

    For a T5 without a tokenizer_config.json that names another class, transformers adds 100 sentinels.

    Arguments:
        unfinished: whether tokenizer_config.json will be written later, with another class.
    """
    file, config_file = folder / "tokenizer.json", folder / "tokenizer_config.json"
    try:
        values = read_json_object(file, "") if file.is_file() else {}
        named = read_json_object(config_file, "") if config_file.is_file() else {}
        kind = read_json_object(folder / "config.json", "").get("model_type")
    except InputError:
        return None
    model, added = values.get("model"), values.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict | list):
        return None
    tokens = {str(each[0]) if isinstance(each, list) and each else str(each) for each in vocabulary}
    tokens |= {str(each.get("content")) for each in added or () if isinstance(each, dict)}
    if (
        not unfinished
        and kind in ("t5", "mt5")
        and str(named.get("tokenizer_class", "T5Tokenizer")).startswith("T5Tokenizer")
    ):
        count = named.get("extra_ids")
        tokens |= {f"<extra_id_{number}>" for number in range(count if isinstance(count, int) else 100)}
    return len(tokens)
