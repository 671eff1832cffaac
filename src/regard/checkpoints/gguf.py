"""Files of llama.cpp (GGUF): decoders of Llama's type and GPT-2 with their tokenizers, converted to Hugging Face's layout.

The file is not read with the package `gguf`, which does not end for some malicious files: here every count is compared with the
file's size before memory is allocated. Weights of 8 and 4 bits are converted to float32.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.checkpoints.tensors import write_tensors
from regard.errors import InputError
from regard.reading import file_errors, open_regular
from regard.text.gguf import tokenizer_files

MAGIC, VERSIONS = b"GGUF", (2, 3)
CURE = "copy the file again"

NUMBERS: Mapping[int, str] = {
    0: "B", 1: "b", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"
}  # fmt: skip
"""The types of values as NumPy types; besides these there are strings and arrays."""
STRING, ARRAY = 8, 9

LARGEST = 1 << 32
"""The maximum size of an axis of a tensor; the total size is compared with the file."""

LONGEST_NAME = 200
"""The maximum number of characters of a tensor's name; llama.cpp's own limit is 64 bytes."""

BLOCK = 32
"""The number of weights of 8 or 4 bits that share a scale."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of tensors.

    Arguments:
        name: its name in llama.cpp.
        block: the number of values in a block.
        size: the number of bytes of a block.
    """

    name: str
    block: int
    size: int


KINDS: Mapping[int, Kind] = {
    0: Kind("F32", 1, 4),
    1: Kind("F16", 1, 2),
    2: Kind("Q4_0", BLOCK, 18),
    8: Kind("Q8_0", BLOCK, 34),
    30: Kind("BF16", 1, 2),
}
"""The supported types, by their numbers."""

OTHERS: Mapping[int, str] = {
    3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 20: "IQ4_NL", 23: "IQ4_XS", 28: "F64",
}  # fmt: skip
"""The names of unsupported types, for messages."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The position of a tensor in the file.

    Arguments:
        kind: its type.
        shape: its shape in PyTorch's order, with the contiguous axis last.
        start, stop: the first byte, and the one after the last.
    """

    kind: Kind
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """The content of a file.

    Arguments:
        path: the file.
        values: its metadata.
        tensors: its tensors, yet to be read.
        data: all bytes of the file.
    """

    path: Path
    values: Mapping[str, Any]
    tensors: Mapping[str, Stored]
    data: mmap.mmap

    def tensor(self, name: str) -> Tensor:
        """A tensor; types of 16 bits are kept, 8 and 4 bits are converted to float32."""
        stored = self.tensors[name]
        raw = np.frombuffer(self.data, dtype=np.uint8, count=stored.stop - stored.start, offset=stored.start)
        if stored.kind.name == "BF16":
            return torch.from_numpy(raw.copy()).view(torch.bfloat16).view(stored.shape)
        if stored.kind.block == 1:
            return torch.from_numpy(raw.view("<f4" if stored.kind.name == "F32" else "<f2").copy()).view(stored.shape)
        blocks = raw.reshape(-1, stored.kind.size)
        scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
        return torch.from_numpy(scales * _levels(stored.kind, blocks[:, 2:])).view(stored.shape)


def _levels(kind: Kind, packed: np.ndarray) -> np.ndarray:
    """The values to multiply by a block's scale, (blocks, 32) float32; with 4 bits the low halves of all bytes come first."""
    if kind.name == "Q8_0":
        return packed.view(np.int8).astype(np.float32)
    halves = np.concatenate([packed & 0x0F, packed >> 4], axis=1)
    return halves.astype(np.float32) - 8


class _Reader:
    """Reads values one after another; reading beyond the end of the file is an error."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.place = path, data, 0

    def fault(self, what: str) -> InputError:
        return InputError(f"{self.path}: {what}; {CURE}")

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.place:
            raise self.fault("is cut short")
        found = self.data[self.place : self.place + count]
        self.place += count
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self) -> str:
        try:
            return self.take(self.number("<Q")).decode("utf-8")
        except UnicodeDecodeError:
            raise self.fault("a string in it is not UTF-8") from None

    def value(self, kind: int, *, inside: bool = False) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY and not inside:
            each, count = self.number("<I"), self.number("<Q")
            smallest = 8 if each == STRING else np.dtype(NUMBERS.get(each, "B")).itemsize
            if count * smallest > len(self.data) - self.place:
                raise self.fault("a list in it is longer than the file")
            if each in NUMBERS:
                return np.frombuffer(self.take(count * smallest), dtype=NUMBERS[each]).tolist()
            return [self.value(each, inside=True) for _ in range(count)]
        if kind not in NUMBERS:
            raise self.fault(f"a value in it has the type {kind}, which is not known")
        return np.frombuffer(self.take(np.dtype(NUMBERS[kind]).itemsize), dtype=NUMBERS[kind])[0].item()


def open_gguf(path: str | Path) -> GGUFFile:
    """The metadata of a file, and the positions of its tensors.

    Raises:
        InputError: for another kind of file, a truncated or damaged one, or tensors of an unsupported type.
    """
    file = Path(path)
    with open_regular(file, CURE) as stream, file_errors(file, CURE):
        if not os.fstat(stream.fileno()).st_size:
            raise InputError(f"{file}: is empty; {CURE}")
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    read = _Reader(file, data)
    if read.take(min(4, len(data))) != MAGIC:
        raise read.fault("is not a GGUF file")
    version = read.number("<I")
    if version not in VERSIONS:
        raise InputError(f"{file}: has the version {version}; only {VERSIONS[0]} and {VERSIONS[1]} are supported")
    tensors, pairs = read.number("<Q"), read.number("<Q")
    if (tensors + pairs) * 12 > len(data):
        raise read.fault("names more tensors and values than it can hold")
    values: dict[str, Any] = {}
    for _ in range(pairs):
        key = read.string()
        values[key] = read.value(read.number("<I"))
    places = [_outline(read) for _ in range(tensors)]
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 16:
        raise read.fault(f"general.alignment is {alignment!r:.60}")
    begin = -(-read.place // alignment) * alignment
    found: dict[str, Stored] = {}
    for name, kind, shape, offset in places:
        if shape and shape[-1] % kind.block:
            raise read.fault(f"{name} has rows of {shape[-1]} numbers, and {kind.name} has blocks of {kind.block}")
        start = begin + offset
        stop = start + math.prod(shape) // kind.block * kind.size
        if name in found or stop > len(data):
            raise read.fault(f"{name} is there twice" if name in found else f"{name} is cut short")
        found[name] = Stored(kind, shape, start, stop)
    return GGUFFile(file, values, found, data)


def _outline(read: _Reader) -> tuple[str, Kind, tuple[int, ...], int]:
    name, axes = read.string(), read.number("<I")
    if len(name) > LONGEST_NAME:
        raise read.fault(f"a tensor's name has {len(name):,} characters")
    if not 1 <= axes <= 4:
        raise read.fault(f"{name} has {axes} axes")
    shape = tuple(read.number("<Q") for _ in range(axes))[::-1]
    if not all(1 <= size <= LARGEST for size in shape):
        raise read.fault(f"{name} has the shape {shape}")
    number, offset = read.number("<I"), read.number("<Q")
    if number not in KINDS:
        known = ", ".join(kind.name for kind in KINDS.values())
        raise InputError(
            f"{read.path}: {name} is of the type {OTHERS.get(number, number)}, and {known} are read; have llama.cpp write "
            "the model in one of them"
        )
    return name, KINDS[number], shape, offset


# Conversion to a folder of Hugging Face's layout.


@contextmanager
def folder_of(path: str | Path) -> Iterator[Path]:
    """A context with a temporary folder in Hugging Face's layout with the content of a file.

    Raises:
        InputError: as `read_gguf`; messages about the temporary folder name the file instead.
    """
    values, tensors, files = read_gguf(path)
    with TemporaryDirectory() as made:
        for name, text in {**files, "config.json": json.dumps(values)}.items():
            (Path(made) / name).write_text(text, encoding="utf-8")
        write_tensors(Path(made) / "model.safetensors", tensors)
        del tensors
        try:
            yield Path(made)
        except InputError as error:
            raise InputError(str(error).replace(made, str(path))) from None


LLAMA: Mapping[str, str] = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "attn_norm": "model.layers.{}.input_layernorm",
    "attn_q": "model.layers.{}.self_attn.q_proj",
    "attn_k": "model.layers.{}.self_attn.k_proj",
    "attn_v": "model.layers.{}.self_attn.v_proj",
    "attn_output": "model.layers.{}.self_attn.o_proj",
    "attn_q_norm": "model.layers.{}.self_attn.q_norm",
    "attn_k_norm": "model.layers.{}.self_attn.k_norm",
    "ffn_norm": "model.layers.{}.post_attention_layernorm",
    "ffn_gate": "model.layers.{}.mlp.gate_proj",
    "ffn_up": "model.layers.{}.mlp.up_proj",
    "ffn_down": "model.layers.{}.mlp.down_proj",
}
GPT2: Mapping[str, str] = {
    "token_embd.weight": "transformer.wte.weight",
    "position_embd.weight": "transformer.wpe.weight",
    "output_norm.weight": "transformer.ln_f.weight",
    "output_norm.bias": "transformer.ln_f.bias",
    "output.weight": "lm_head.weight",
    "attn_norm": "transformer.h.{}.ln_1",
    "attn_qkv": "transformer.h.{}.attn.c_attn",
    "attn_output": "transformer.h.{}.attn.c_proj",
    "ffn_norm": "transformer.h.{}.ln_2",
    "ffn_up": "transformer.h.{}.mlp.c_fc",
    "ffn_down": "transformer.h.{}.mlp.c_proj",
}
"""The names of tensors, or of parts of a block, in llama.cpp and in Hugging Face's layout."""

NAMES: Mapping[str, Mapping[str, str]] = {"llama": LLAMA, "qwen2": LLAMA, "qwen3": LLAMA, "gpt2": GPT2}
"""The tables of names by architecture."""

FOLLOWED = frozenset(
    {
        *("context_length", "embedding_length", "block_count", "feed_forward_length"),
        *(
            "attention.head_count",
            "attention.head_count_kv",
            "attention.layer_norm_rms_epsilon",
            "attention.layer_norm_epsilon",
        ),
        *("attention.key_length", "attention.value_length", "attention.sliding_window"),
        *(
            "rope.dimension_count",
            "rope.freq_base",
            "rope.scaling.type",
            "rope.scaling.factor",
            "rope.scaling.original_context_length",
        ),
        *("vocab_size",),
    }
)
"""The supported keys of an architecture."""


def read_gguf(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, str]]:
    """A file in Hugging Face's layout: the content of config.json, the tensors, and the tokenizer's files by name.

    Raises:
        InputError: as `open_gguf`, and for an architecture, a setting or a tokenizer that Regard does not have, by name.
    """
    file = open_gguf(path)
    values, files = described(file)
    tensors = {}
    names = NAMES[str(file.values["general.architecture"])]
    for name in file.tensors:
        called = _called(name, names)
        if called is None:
            raise InputError(f"{file.path}: has the tensor {name}, which Regard's {values['model_type']} does not know")
        tensors[called] = _as_there(file.tensor(name), called, file, values)
    return values, tensors, files


def described(file: GGUFFile) -> tuple[dict[str, Any], dict[str, str]]:
    """The content of config.json, and the tokenizer's files by name.

    Raises:
        InputError: as `read_gguf`.
    """
    architecture = file.values.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in NAMES:
        known = ", ".join(NAMES)
        raise InputError(f"{file.path}: general.architecture is {architecture!r:.60}, and {known} are read")
    settings = _Settings(file, str(architecture))
    if "token_embd.weight" not in file.tensors or len(file.tensors["token_embd.weight"].shape) != 2:
        raise InputError(f"{file.path}: has no token_embd.weight of two axes; {CURE}")
    values = _gpt2(settings) if architecture == "gpt2" else _llama(settings)
    settings.report()
    ids = {name: file.values.get(f"tokenizer.ggml.{key}_token_id") for name, key in TOKENS.items()}
    values |= {name: index for name, index in ids.items() if index is not None}
    files = tokenizer_files(file.values, str(file.path))
    ends = [file.values.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot")]
    several = list(dict.fromkeys(index for index in ends if isinstance(index, int)))
    if len(several) > 1:  # the end of a text and the end of a turn in a conversation
        files["generation_config.json"] = json.dumps({"eos_token_id": several}) + "\n"
    return values, files


TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}


@dataclass(slots=True)
class _Settings:
    """The keys of an architecture."""

    file: GGUFFile
    architecture: str

    def get(self, key: str, hint: type, default: Any = None) -> Any:
        """The value of a key as the type `hint`; the default if it is absent."""
        value = self.file.values.get(f"{self.architecture}.{key}", default)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and hint is float):
            return value
        if not isinstance(value, hint) or isinstance(value, bool):
            raise InputError(f"{self.file.path}: {self.architecture}.{key} is {value!r:.60}; {CURE}")
        return value

    def need(self, key: str, hint: type = int) -> Any:
        """The value of a required key."""
        value = self.get(key, hint)
        if value is None:
            raise InputError(f"{self.file.path}: has no {self.architecture}.{key}; {CURE}")
        return value

    def report(self) -> None:
        """Warn of unsupported keys."""
        start = f"{self.architecture}."
        left = sorted(
            key for key in self.file.values if key.startswith(start) and key.removeprefix(start) not in FOLLOWED
        )
        if left:
            warnings.warn(f"{self.file.path}: not followed: {', '.join(left)}", stacklevel=4)


def _gpt2(settings: _Settings) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": settings.file.tensors["token_embd.weight"].shape[0],
        "n_positions": settings.need("context_length"),
        "n_embd": settings.need("embedding_length"),
        "n_layer": settings.need("block_count"),
        "n_head": settings.need("attention.head_count"),
        "n_inner": settings.need("feed_forward_length"),
        "layer_norm_epsilon": settings.need("attention.layer_norm_epsilon", float),
        "activation_function": "gelu_new",
    }


def _llama(settings: _Settings) -> dict[str, Any]:
    tensors, kind = settings.file.tensors, settings.architecture
    heads, width = settings.need("attention.head_count"), settings.need("embedding_length")
    window = settings.get("attention.sliding_window", int)
    head_width = settings.get("attention.key_length", int, width // max(heads, 1))
    for key in ("attention.value_length", "rope.dimension_count"):
        if settings.get(key, int, head_width) != head_width:
            raise InputError(
                f"{settings.file.path}: {kind}.{key} is {settings.get(key, int)}, and Regard's Llama rotates whole heads of "
                f"{head_width} channels"
            )
    if "rope_freqs.weight" in tensors:
        raise InputError(
            f"{settings.file.path}: has rope_freqs.weight, factors of the rotation for longer texts, without the rule by which "
            "they were computed; open the folder from which the file was made"
        )
    values: dict[str, Any] = {
        "model_type": "mistral" if window and kind == "llama" else kind,
        "vocab_size": tensors["token_embd.weight"].shape[0],
        "hidden_size": width,
        "intermediate_size": settings.need("feed_forward_length"),
        "num_hidden_layers": settings.need("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": settings.get("attention.head_count_kv", int, heads),
        "head_dim": head_width,
        "max_position_embeddings": settings.need("context_length"),
        "rms_norm_eps": settings.need("attention.layer_norm_rms_epsilon", float),
        "rope_theta": float(settings.get("rope.freq_base", float, 10_000.0)),
        "tie_word_embeddings": "output.weight" not in tensors,
        "hidden_act": "silu",
    }
    values["architectures"] = [f"{values['model_type'].capitalize()}ForCausalLM"]
    if window:
        values["sliding_window"] = window
        if kind != "llama":
            values |= {"use_sliding_window": True, "max_window_layers": 0}
    if kind in ("llama", "qwen3"):
        values["attention_bias"] = "blk.0.attn_q.bias" in tensors
    return values | _scaling(settings)


def _scaling(settings: _Settings) -> dict[str, Any]:
    kind, factor = settings.get("rope.scaling.type", str, "none"), settings.get("rope.scaling.factor", float)
    if kind == "none" or factor in (1, 1.0):
        return {}
    if kind not in ("linear", "yarn") or factor is None:
        raise InputError(
            f"{settings.file.path}: {settings.architecture}.rope.scaling.type is {kind!r:.60} with the factor {factor}, and "
            "none, linear and yarn are read"
        )
    said: dict[str, Any] = {"rope_type": kind, "factor": float(factor)}
    original = settings.get("rope.scaling.original_context_length", int)
    if kind == "yarn" and original is not None:
        said["original_max_position_embeddings"] = original
    return {"rope_scaling": said}


def _called(name: str, names: Mapping[str, str]) -> str | None:
    """The name of a tensor in Hugging Face's layout; None if it has none."""
    if name in names:
        return names[name]
    parts = name.split(".")
    if len(parts) != 4 or parts[0] != "blk" or parts[2] not in names or not parts[1].isdecimal():
        return None
    return f"{names[parts[2]].format(parts[1])}.{parts[3]}"


def _as_there(tensor: Tensor, called: str, file: GGUFFile, values: Mapping[str, Any]) -> Tensor:
    """A tensor with its rows in the order of Hugging Face's layout."""
    if values["model_type"] == "gpt2":
        behind = tensor.dim() == 2 and called.startswith("transformer.h.")
        return tensor.t().contiguous() if behind else tensor
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(called.split(".")[-2])
    if heads is None or file.values["general.architecture"] != "llama":
        return tensor
    # Channels that are rotated together are adjacent in llama.cpp, and half a head apart in Hugging Face's layout.
    count, rest = values[heads], tensor.shape[1:]
    if count < 1 or tensor.shape[0] % (2 * count):
        raise InputError(f"{file.path}: {called} has {tensor.shape[0]} rows for {count} heads; {CURE}")
    return tensor.view(count, -1, 2, *rest).transpose(1, 2).reshape(tensor.shape)
