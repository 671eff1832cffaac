"""Converting the tokenizer in a GGUF file (llama.cpp) to Hugging Face's tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from regard.errors import InputError
from regard.text.sampling import guarded

CONTROL, OWN, BYTE = 3, 4, 6
"""The types of special tokens, of tokens added by a user, and of bytes."""

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS: Mapping[str, str] = {
    "llama-bpe": LETTERS + r"\p{N}{1,3}" + REST,
    "qwen2": LETTERS + r"\p{N}" + REST,
}
"""The patterns that pre-tokenize text in Llama 3 and in Qwen, by their names in GGUF files."""

PLAIN = ("gpt-2", "default")
"""The names of GPT-2's pre-tokenization."""

LONGEST = 512
"""The most characters of a SentencePiece piece."""

ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def tokenizer_files(values: Mapping[str, Any], where: str) -> dict[str, str]:
    """The contents of the tokenizer's files, by file name.

    Arguments:
        values: the metadata of the GGUF file.
        where: the name of the file in messages.

    Raises:
        InputError: for an unsupported kind of tokenizer or pre-tokenization (the message names it), or damaged data.
    """
    kind, tokens = values.get("tokenizer.ggml.model"), values.get("tokenizer.ggml.tokens")
    if kind not in ("gpt2", "llama"):
        raise InputError(
            f"{where}: tokenizer.ggml.model is {kind!r:.60}; only gpt2 (bytes) and llama (SentencePiece) can be read"
        )
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise InputError(f"{where}: has no tokenizer.ggml.tokens; copy the file again")
    types = values.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    if not isinstance(types, list) or len(types) != len(tokens) or len(set(tokens)) < len(tokens):
        raise InputError(f"{where}: it has different numbers of tokens and types, or a token twice; copy it again")
    named = {name: values.get(f"tokenizer.ggml.{key}_token_id") for name, key in ROLES.items()}
    for name, index in named.items():
        if index is not None and not (isinstance(index, int) and 0 <= index < len(tokens)):
            raise InputError(
                f"{where}: its {name} is {index!r:.60}, and it has {len(tokens)} tokens; copy the file again"
            )
    roles = {name: tokens[index] for name, index in named.items() if index is not None}
    started = kind == "llama" or values.get("tokenizer.ggml.pre") == "llama-bpe"
    special = [token for token, each in zip(tokens, types, strict=True) if each == CONTROL or token in roles.values()]
    own = [token for token, each in zip(tokens, types, strict=True) if each == OWN and token not in special]

    def made() -> tokenizers.Tokenizer:
        backend = (_of_bytes if kind == "gpt2" else _of_pieces)(values, tokens, where)
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
        backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in own])
        _surround(backend, values, roles, started=started)
        return backend

    try:
        backend = cast(tokenizers.Tokenizer, guarded(made, f"{where}: its tokenizer cannot be used"))
    except InputError:
        raise
    except Exception as error:  # the library raises a bare Exception for any fault in a vocabulary
        raise InputError(f"{where}: its tokenizer cannot be used ({str(error)[:300]}); copy the file again") from None
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
    template = values.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return {
        "tokenizer.json": backend.to_str(),
        "tokenizer_config.json": json.dumps(config, indent=2, ensure_ascii=False) + "\n",
    }


def _of_bytes(values: Mapping[str, Any], tokens: list[str], where: str) -> tokenizers.Tokenizer:
    """Byte-level BPE, as in GPT-2, Llama 3 and Qwen."""
    cut, merges = values.get("tokenizer.ggml.pre", "default"), values.get("tokenizer.ggml.merges") or []
    if cut not in (*PLAIN, "smollm", *SPLITS):
        known = ", ".join((*PLAIN, "smollm", *SPLITS))
        raise InputError(
            f"{where}: tokenizer.ggml.pre is {cut!r:.60}; only {known} can be read; open the folder it was made from"
        )
    pairs = [tuple(str(merge).split(" ")) for merge in merges]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(f"{where}: one of tokenizer.ggml.merges is not a merge of two pieces; copy the file again")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=cut == "llama-bpe"))  # type: ignore[arg-type]
    if cut == "qwen2":
        backend.normalizer = normalizers.NFC()
    steps: list[pre_tokenizers.PreTokenizer] = []
    if cut in SPLITS:
        steps.append(pre_tokenizers.Split(Regex(SPLITS[cut]), behavior="isolated"))
    if cut == "smollm":
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut not in SPLITS)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, level]) if steps else level
    backend.decoder = decoders.ByteLevel()
    return backend


def _of_pieces(values: Mapping[str, Any], tokens: list[str], where: str) -> tokenizers.Tokenizer:
    """SentencePiece's BPE, as in Llama 2 and Mistral; the merges are ordered by the scores of the resulting pieces."""
    scores = values.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise InputError(f"{where}: has no tokenizer.ggml.scores, one for each token; copy the file again")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    for index, piece in enumerate(tokens):
        if len(piece) > LONGEST:
            raise InputError(f"{where}: token {index} has {len(piece):,} characters; copy the file again")
        for place in range(1, len(piece)):
            left, right = piece[:place], piece[place:]
            if left in vocabulary and right in vocabulary:
                merges.append((-scores[index], vocabulary[left], vocabulary[right], (left, right)))
    merges.sort(key=lambda each: each[:3])
    unknown = values.get("tokenizer.ggml.unknown_token_id", 0)
    bytes_too = all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))
    backend = tokenizers.Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=[pair for *_, pair in merges],
            unk_token=tokens[unknown],
            fuse_unk=True,
            byte_fallback=bytes_too,
        )
    )
    prefix = [normalizers.Prepend("▁")] if values.get("tokenizer.ggml.add_space_prefix", True) else []
    backend.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return backend


def _surround(
    backend: tokenizers.Tokenizer, values: Mapping[str, Any], roles: Mapping[str, str], *, started: bool
) -> None:
    """Set a post-processor that adds the start token before and the end token after a text, if the file requires it."""
    before = values.get("tokenizer.ggml.add_bos_token", started) and roles.get("bos_token")
    behind = values.get("tokenizer.ggml.add_eos_token", False) and roles.get("eos_token")
    if not before and not behind:
        return
    single = [*([before] if before else []), "$A", *([behind] if behind else [])]
    pair = [*single, *(each if each != "$A" else "$B" for each in single)]
    pair = [f"{each}:1" if place >= len(single) else each for place, each in enumerate(pair)]
    ids = [(token, backend.token_to_id(token)) for token in dict.fromkeys((before, behind)) if token]
    backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)  # type: ignore[arg-type]
