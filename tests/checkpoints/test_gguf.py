"""Files of llama.cpp: the same numbers and tokens as the folder they were made of, and one sentence for what is damaged."""

from __future__ import annotations

import json
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

import regard
from regard.checkpoints.folder import is_gguf
from regard.checkpoints.gguf import KINDS, open_gguf, read_gguf
from regard.cli.main import main
from regard.errors import InputError
from regard.inspection.text_reader import TextReader
from regard.layers import Tokens
from regard.models import GPT2, GPT2Config, Llama, LlamaConfig

SIZES: dict[str, Any] = {"width": 64, "heads": 4, "feedforward_width": 96, "layers": 2, "maximum_positions": 32}
WORDS = ["the small dog barks loudly, isn't it so? 1234", "naïve café — 日本語 🙂"] * 6


# --- a writer, by the format's own description ------------------------------------------------------------------


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(given: Any) -> bytes:
    if isinstance(given, bool):
        return struct.pack("<I?", 7, given)
    if isinstance(given, int):
        return struct.pack("<II", 4, given)
    if isinstance(given, float):
        return struct.pack("<If", 6, given)
    if isinstance(given, str):
        return struct.pack("<I", 8) + string(given)
    kind = value(given[0])[:4]
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(given)) + b"".join(value(each)[4:] for each in given)


def packed(tensor: torch.Tensor, kind: str) -> bytes:
    array = tensor.detach().float().numpy()
    if kind == "F32":
        return array.astype("<f4").tobytes()
    if kind == "F16":
        return array.astype("<f2").tobytes()
    if kind == "BF16":
        return tensor.detach().bfloat16().view(torch.int16).numpy().tobytes()
    blocks = array.reshape(-1, 32)
    if kind == "Q8_0":
        scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype("<f2")
        levels = np.rint(blocks / np.maximum(scale.astype(np.float32), 1e-9)).clip(-127, 127).astype(np.int8)
        return b"".join(s.tobytes() + row.tobytes() for s, row in zip(scale, levels, strict=True))
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / -8).astype("<f2")
    divisor = np.where(scale == 0, 1, scale.astype(np.float32))
    levels = (np.rint(blocks / divisor) + 8).clip(0, 15).astype(np.uint8)
    both = levels[:, :16] | (levels[:, 16:] << 4)
    return b"".join(s.tobytes() + row.tobytes() for s, row in zip(scale, both, strict=True))


NUMBERS = {kind.name: number for number, kind in KINDS.items()}


def written(path: Path, values: dict[str, Any], tensors: dict[str, tuple[torch.Tensor, str]]) -> Path:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(string(key) + value(each) for key, each in values.items())
    body = b""
    for name, (tensor, kind) in tensors.items():
        shape = tensor.shape[::-1]
        head += string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", NUMBERS[kind], len(body))
        body += packed(tensor, kind)
        body += b"\0" * (-len(body) % 32)
    head += b"\0" * (-len(head) % 32)
    path.write_bytes(head + body)
    return path


# --- models -----------------------------------------------------------------------------------------------------


def vocabulary() -> dict[str, Any]:
    """Bytes and merges of them, as of a GPT-2 with a start and an end of its own."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        WORDS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, show_progress=False)
    )
    model = json.loads(backend.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*tokens, "<|start|>", "<|end|>"],
        "tokenizer.ggml.token_type": [1] * len(tokens) + [3, 3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": len(tokens),
        "tokenizer.ggml.eos_token_id": len(tokens) + 1,
        "tokenizer.ggml.padding_token_id": len(tokens) + 1,
    }


def drawn(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2, generator=torch.Generator().manual_seed(parameter.numel()))
            if parameter.dim() == 1:
                parameter.add_(1)
    return model.eval()


def made(path: Path, kind: str, matrices: str, **changes: Any) -> tuple[Path, Any]:
    """A file, and the model that it was made of, its numbers as the file has them."""
    said = vocabulary()
    size, architecture = len(said["tokenizer.ggml.tokens"]), "llama" if kind == "mistral" else kind
    end = {"vocabulary": size, "end_id": size - 1, "padding_id": size - 1}
    if kind == "gpt2":
        model: Any = drawn(GPT2(GPT2Config(**SIZES | end)))
        own = {"attention.layer_norm_epsilon": model.config.norm_epsilon}
    else:
        more = {"qwen2": {"attention_bias": True}, "qwen3": {"query_key_norm": True, "head_width": 32}}.get(kind, {})
        more |= {"sliding_window": 5} if kind == "mistral" else {}
        model = drawn(Llama(LlamaConfig(**SIZES | end | {"key_heads": 2, "tied_output": False} | more | changes)))
        config = model.config
        width = model.layers[0].attention.query.out_features // config.heads
        own = {"attention.layer_norm_rms_epsilon": config.norm_epsilon, "rope.freq_base": config.rotary_base}
        own |= {"attention.head_count_kv": 2, "rope.dimension_count": width, "attention.key_length": width}
        own |= {"attention.value_length": width} | ({"attention.sliding_window": 5} if kind == "mistral" else {})
    own |= {
        "context_length": 32, "embedding_length": 64, "block_count": 2, "feed_forward_length": 96,
        "attention.head_count": 4,
    }  # fmt: skip
    tensors: dict[str, tuple[torch.Tensor, str]] = {}
    names = {"embedding.tokens.weight": "token_embd.weight", "embedding.positions.weight": "position_embd.weight"}
    names |= {"norm.weight": "output_norm.weight", "norm.bias": "output_norm.bias", "output.weight": "output.weight"}
    parts = {
        "attention.query": "attn_q", "attention.key": "attn_k", "attention.value": "attn_v",
        "attention.output": "attn_output", "attention.query_norm": "attn_q_norm", "attention.key_norm": "attn_k_norm",
        "attention_residual.before": "attn_norm", "feedforward_residual.before": "ffn_norm",
        "feedforward.gate": "ffn_gate", "feedforward.inner": "ffn_up", "feedforward.outer": "ffn_down",
    }  # fmt: skip
    for name, tensor in model.named_parameters():
        called = names.get(name)
        if called is None:
            _, layer, *part, ending = name.split(".")
            called = f"blk.{layer}.{parts['.'.join(part)]}.{ending}"
        if architecture == "llama" and (".attn_q." in called or ".attn_k." in called):
            heads = 4 if ".attn_q." in called else 2
            tensor = tensor.view(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
        tensors[called] = (tensor, matrices if tensor.dim() == 2 else "F32")
    if kind == "gpt2":
        for layer in range(2):
            for ending in ("weight", "bias"):
                three = [tensors.pop(f"blk.{layer}.attn_{each}.{ending}") for each in "qkv"]
                tensors[f"blk.{layer}.attn_qkv.{ending}"] = (torch.cat([each for each, _ in three]), three[0][1])
    values = {"general.architecture": architecture, "general.name": "made", **said}
    return written(path, values | {f"{architecture}.{key}": each for key, each in own.items()}, tensors), model


KINDS_OF_MODEL = ("llama", "mistral", "qwen2", "qwen3", "gpt2")


@pytest.mark.parametrize("kind", KINDS_OF_MODEL)
@pytest.mark.parametrize("matrices", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
def test_logits_are_those_of_the_numbers_in_the_file(kind, matrices, tmp_path):
    file, model = made(tmp_path / "model.gguf", kind, matrices)
    ours = regard.load(file)
    tokens = Tokens.pad([[3, 4, 5, 6, 7, 8, 9, 10], [6, 7, 11]])
    with torch.no_grad():
        found, wanted = ours.model(tokens)[tokens.valid], model(tokens)[tokens.valid]
    apart = float((found - wanted).norm() / wanted.norm())
    if matrices == "F32":
        assert torch.equal(found, wanted)
    else:
        assert 0 < apart < {"F16": 3e-3, "BF16": 2e-2, "Q8_0": 5e-2, "Q4_0": 0.6}[matrices]
    text = "the small dog"
    assert ours.task.tokenizer.decode(ours.task.tokenizer.encode(text)) == text
    ours.save(tmp_path / "folder")
    again = regard.load(tmp_path / "folder")
    with torch.no_grad():
        assert torch.equal(again.model(tokens)[tokens.valid], found)
    assert again.generate(text).text == ours.generate(text).text


def test_eight_and_four_bits_are_what_llama_cpps_own_package_makes_of_them(tmp_path):
    quants = pytest.importorskip("gguf.quants")
    constants = pytest.importorskip("gguf.constants")
    weights = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    for name in ("Q8_0", "Q4_0"):
        kind = constants.GGMLQuantizationType[name]
        raw = quants.quantize(weights.numpy(), kind)
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + string("a") + struct.pack("<IQQIQ", 2, 64, 8, int(kind), 0)
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(head + b"\0" * (-len(head) % 32) + raw.tobytes())
        found = open_gguf(path).tensor("a")
        assert torch.equal(found, torch.from_numpy(quants.dequantize(raw, kind)))


def test_what_stands_in_the_file_is_followed_or_named(tmp_path):
    path, _ = made(tmp_path / "a.gguf", "llama", "F32")
    file = open_gguf(path)

    def changed(**changes: Any) -> Path:
        values = dict(file.values) | {key.replace("__", "."): each for key, each in changes.items()}
        values = {key: each for key, each in values.items() if each is not None}
        tensors = {name: (file.tensor(name), "F32") for name in file.tensors}
        return written(tmp_path / "b.gguf", values, tensors)

    with pytest.warns(UserWarning, match=r"not followed: llama\.expert_count"):
        read_gguf(changed(llama__expert_count=2))
    for changes, sentence in (
        ({"general__architecture": "mamba"}, "general.architecture is 'mamba'"),
        ({"llama__block_count": None}, "has no llama.block_count"),
        ({"llama__block_count": "two"}, "llama.block_count is 'two'"),
        (
            {"llama__rope.scaling.type": "longrope", "llama__rope.scaling.factor": 2.0},
            "rope.scaling.type is 'longrope'",
        ),
        ({"llama__rope.scaling.type": "yarn"}, "with the factor None"),
        ({"general__architecture": ["llama"]}, "general.architecture is"),
        ({"llama__rope.dimension_count": 8}, "rotates whole heads"),
        ({"tokenizer.ggml__pre": "tekken"}, "tokenizer.ggml.pre is 'tekken'"),
        ({"tokenizer.ggml__model": "bert"}, "tokenizer.ggml.model is 'bert'"),
        ({"tokenizer.ggml__eos_token_id": 99_999}, "its eos_token is 99999"),
    ):
        with pytest.raises(InputError, match=sentence):
            regard.load(changed(**changes))
    values, _, files = read_gguf(changed(**{"llama__rope.scaling.type": "linear", "llama__rope.scaling.factor": 4.0}))
    assert values["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}
    _, _, files = read_gguf(changed(tokenizer__chat_template="{{ messages }}"))
    assert json.loads(files["tokenizer_config.json"])["chat_template"] == "{{ messages }}"


def test_sentencepieces_pieces_are_put_together_by_their_scores(tmp_path):
    path, _ = made(tmp_path / "a.gguf", "llama", "F32")
    file = open_gguf(path)
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "ab", "▁ab"]
    rest = len(file.values["tokenizer.ggml.tokens"]) - len(pieces)
    pieces += [f"x{number}" for number in range(rest)]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (len(pieces) - 259)]
    scores = [0.0] * 259 + [-float(number) for number in range(len(pieces) - 259)]
    own = {
        "model": "llama",
        "tokens": pieces,
        "token_type": kinds,
        "scores": scores,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    values = {key: each for key, each in file.values.items() if not key.startswith("tokenizer.")}
    values |= {f"tokenizer.ggml.{key}": each for key, each in own.items()} | {"tokenizer.ggml.unknown_token_id": 0}
    tensors = {name: (file.tensor(name), "F32") for name in file.tensors}
    model = regard.load(written(tmp_path / "b.gguf", values, tensors))
    tokenizer = model.task.tokenizer
    assert tokenizer.tokens(tokenizer.encode("ab a")) == ["▁ab", "▁a"]
    assert tokenizer.tokens(tokenizer.encode("é")) == ["▁", "<0xC3>", "<0xA9>"]
    assert model.task.before_prompts == (1,)


def test_the_command_line_makes_a_folder_of_it_and_says_so_where_one_is_wanted(tmp_path):
    file, model = made(tmp_path / "model.gguf", "llama", "F32")
    assert is_gguf(file)
    assert main(["export", str(file), str(tmp_path / "folder")]) == 0
    assert type(regard.load(tmp_path / "folder").model) is type(model)
    with pytest.raises(InputError, match=r"regard export .*model.gguf FOLDER"):
        TextReader.load(file)


@pytest.mark.parametrize("matrices", ["F16", "BF16", "Q8_0", "Q4_0"])
def test_logits_are_to_the_bit_those_of_the_rounded_numbers(matrices, tmp_path):
    """Of a model whose weights are the numbers that the file's tensors stand for."""
    file, model = made(tmp_path / "model.gguf", "qwen2", matrices)
    stored = open_gguf(file)
    names = {"query": "attn_q", "key": "attn_k", "value": "attn_v", "output": "attn_output"}
    parts = {"gate": "ffn_gate", "inner": "ffn_up", "outer": "ffn_down"}
    with torch.no_grad():
        model.embedding.tokens.weight.copy_(stored.tensor("token_embd.weight"))
        model.output.weight.copy_(stored.tensor("output.weight"))
        for number, layer in enumerate(model.layers):
            for held, found in ((layer.attention, names), (layer.feedforward, parts)):
                for ours, theirs in found.items():
                    getattr(held, ours).weight.copy_(stored.tensor(f"blk.{number}.{theirs}.weight"))
        tokens = Tokens.pad([[3, 4, 5, 6, 7, 8, 9, 10], [6, 7, 11]])
        logits = regard.load(file).model(tokens)[tokens.valid]
        assert torch.equal(logits, model(tokens)[tokens.valid])


def test_the_end_of_a_turn_ends_an_answer_too(tmp_path):
    path, _ = made(tmp_path / "a.gguf", "llama", "F32")
    file = open_gguf(path)
    ends = (file.values["tokenizer.ggml.eos_token_id"], 7)
    values = dict(file.values) | {"tokenizer.ggml.eot_token_id": 7}
    tensors = {name: (file.tensor(name), "F32") for name in file.tensors}
    model = regard.load(written(tmp_path / "b.gguf", values, tensors))
    assert model.task.generation is not None
    assert model.task.generation.end_tokens == ends


def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("dear")
    file, _ = made(tmp_path / "model.gguf", "llama", "F32")
    for target in (tmp_path / "letters", tmp_path):
        with pytest.raises(InputError):
            regard.export(file, target)
    assert (tmp_path / "letters" / "letter.txt").read_text() == "dear"
    assert file.is_file()


@pytest.mark.parametrize("shape", [(), (0, 2**64 - 1), (2**40, 2), (0,), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_a_tensor_of_an_impossible_shape_is_refused(shape, kind, tmp_path):
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + string("general.architecture") + value("llama")
    head += string("token_embd.weight") + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    file = tmp_path / "a.gguf"
    file.write_bytes(head + struct.pack("<IQ", NUMBERS[kind], 0) + bytes(256))
    with pytest.raises(InputError, match=r"token_embd.weight has"):
        regard.load(file)


# --- damage -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    return made(tmp_path_factory.mktemp("gguf") / "a.gguf", "llama", "Q8_0", layers=1)[0].read_bytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_ends_in_one_sentence(whole, data, tmp_path_factory):
    raw = bytearray(whole)
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    way = data.draw(st.sampled_from(["cut", "byte", "count"]))
    header = min(len(raw), 12_000)
    if way == "cut":
        raw = raw[: draw.randrange(len(raw))]
    elif way == "byte":
        for _ in range(3):
            raw[draw.randrange(header)] = draw.randrange(256)
    else:
        place = draw.randrange(0, header - 8)
        raw[place : place + 8] = struct.pack("<Q", draw.choice([2**63, 2**40, 0, 1, 2**32 - 1]))
    file = tmp_path_factory.mktemp("damaged") / "a.gguf"
    file.write_bytes(bytes(raw))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = ""
        try:
            regard.load(file)  # what is changed may be a weight
        except InputError as error:
            told = str(error)
    assert "\n" not in told
