"""llama.cpp with the weights of a folder, by its Python binding.

Needs llama-cpp-python, gguf and numpy, but not Regard. The folder is converted to llama.cpp's own file in float32, which
llama.cpp itself quantizes to 8 or 4 bits. With 4 bits it keeps the token embeddings in more bits; `q4_0 pure` has all matrices
in 4.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Any

GPT2 = {
    "wte.weight": "token_embd.weight",
    "wpe.weight": "position_embd.weight",
    "ln_f.weight": "output_norm.weight",
    "ln_f.bias": "output_norm.bias",
    "h.{}.ln_1": "attn_norm",
    "h.{}.attn.c_attn": "attn_qkv",
    "h.{}.attn.c_proj": "attn_output",
    "h.{}.ln_2": "ffn_norm",
    "h.{}.mlp.c_fc": "ffn_up",
    "h.{}.mlp.c_proj": "ffn_down",
}
LLAMA = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "layers.{}.input_layernorm": "attn_norm",
    "layers.{}.self_attn.q_proj": "attn_q",
    "layers.{}.self_attn.k_proj": "attn_k",
    "layers.{}.self_attn.v_proj": "attn_v",
    "layers.{}.self_attn.o_proj": "attn_output",
    "layers.{}.post_attention_layernorm": "ffn_norm",
    "layers.{}.mlp.gate_proj": "ffn_gate",
    "layers.{}.mlp.up_proj": "ffn_up",
    "layers.{}.mlp.down_proj": "ffn_down",
}
"""The names of each tensor, or part of a block, of a GPT-2 and a Llama: in a folder, and in llama.cpp's file."""

KINDS_OF_FILE = {"f16": 1, "bf16": 32, "q8_0": 7, "q4_0": 2}
"""llama.cpp's numbers of the file types."""


class Decoding:
    """Greedy decoding after prompts."""

    def available(self) -> bool:
        """Whether llama.cpp and the library that writes its files are installed."""
        return all(util.find_spec(name) is not None for name in ("llama_cpp", "gguf", "numpy"))

    def versions(self) -> dict[str, str]:
        """The version of the binding, which identifies the llama.cpp in it."""
        return {"llama-cpp-python": metadata.version("llama_cpp_python")}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Write the file, quantize its weights where asked for, and load it."""
        why = unsupported(json.loads((Path(job["folder"]) / "config.json").read_text(encoding="utf-8")))
        if why:
            return {"left_out": why}
        import llama_cpp  # pyright: ignore[reportMissingImports]

        llama_cpp.llama_backend_init()
        self._folder = tempfile.TemporaryDirectory()
        plain = str(Path(self._folder.name) / "f32.gguf")
        size = write_file(Path(job["folder"]), plain)
        path = plain
        precision, _, pure = job["precision"].partition(" ")
        if precision != "f32":
            path = str(Path(self._folder.name) / "rounded.gguf")
            wanted = llama_cpp.llama_model_quantize_default_params()
            wanted.ftype = KINDS_OF_FILE[precision]
            wanted.pure = pure == "pure"
            wanted.nthread = job["threads"]
            if llama_cpp.llama_model_quantize(plain.encode(), path.encode(), wanted):
                raise RuntimeError("llama.cpp did not quantize the weights")
            size = Path(path).stat().st_size
        model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        texts = len(job["prompts"])
        settings.n_seq_max = texts
        settings.n_ctx = texts * (len(job["prompts"][0]) + job["tokens"])
        settings.kv_unified = False
        settings.n_threads = settings.n_threads_batch = job["threads"]
        self._context = llama_cpp.llama_init_from_model(model, settings)
        self._model, self._job = model, job
        self._batch = llama_cpp.llama_batch_init(texts * len(job["prompts"][0]), 0, 1)
        return {"note": f"file of {size / 1e6:.0f} MB"}

    def run(self) -> dict[str, Any]:
        """Read the prompts and generate, all texts in each batch; the amount is in generated tokens."""
        import llama_cpp  # pyright: ignore[reportMissingImports]
        import numpy

        job, context, batch = self._job, self._context, self._batch
        vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        texts: list[list[int]] = job["prompts"]
        answers: list[list[int]] = [[] for _ in texts]
        begin = 0
        began = time.perf_counter()
        for _ in range(job["tokens"]):
            asked, place = [], 0
            for row, text in enumerate(texts):
                for offset, token in enumerate(text):
                    last = offset == len(text) - 1
                    batch.token[place], batch.pos[place] = token, begin + offset
                    batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, row, last
                    if last:
                        asked.append(place)
                    place += 1
            batch.n_tokens = place
            if llama_cpp.llama_decode(context, batch):
                raise RuntimeError("llama.cpp did not read the tokens")
            begin += len(texts[0])
            for row, where in enumerate(asked):
                logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, where), (vocabulary,))
                answers[row].append(int(logits.argmax()))
            texts = [answer[-1:] for answer in answers]
        seconds = time.perf_counter() - began
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


ACTIVATIONS = {"gpt2": ("gelu_new", "gelu_pytorch_tanh"), "llama": ("silu", "swish")}
"""The activations that llama.cpp supports in each kind of model for which a file is written."""

SCALINGS = ("default", "linear", "llama3", "yarn")
YARN = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True, "attention_factor": None}
"""The settings of YaRN that llama.cpp supports."""


def unsupported(config: dict[str, Any]) -> str:
    """Why no file can be written for a folder with this config.json, as a sentence; empty where it can."""
    kind = config.get("model_type")
    if kind not in ACTIVATIONS:
        return f"files are written for a GPT-2 or a Llama only, not for a {kind}"
    field = "activation_function" if kind == "gpt2" else "hidden_act"
    if config.get(field) not in ACTIVATIONS[kind]:
        return f"{field} is {config.get(field)!r}, and llama.cpp's {kind} computes {ACTIVATIONS[kind][0]}"
    scaling = _scaling(config) if kind == "llama" else {}
    rope = scaling.get("rope_type", "default")
    if rope not in SCALINGS:
        return f"rope_type is {rope!r}, and files are written for {', '.join(SCALINGS)}"
    for name, value in YARN.items() if rope == "yarn" else ():
        if scaling.get(name, value) != value:
            return f"{name} of yarn is {scaling[name]}, and files are written for {value}"
    return ""


def _scaling(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of rotary scaling for longer texts, under either of the two names that folders use."""
    return config.get("rope_scaling") or config.get("rope_parameters") or {}


def write_file(folder: Path, path: str, tokens: Sequence[str] = (), merges: Sequence[str] = ()) -> int:
    """Write llama.cpp's file in float32 for a folder of a GPT-2 or a Llama; returns its size in bytes.

    Arguments:
        folder: of a model that `unsupported` accepts.
        path: of the file.
        tokens, merges: of a byte-level tokenizer like GPT-2's, whose last token ends a text, for a server that reads texts; empty
            where only ids are given.
    """
    import gguf  # pyright: ignore[reportMissingImports]
    import numpy

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    llama = config["model_type"] == "llama"
    writer = gguf.GGUFWriter(path, config["model_type"])
    (_describe_llama if llama else _describe_gpt2)(writer, config)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2" if tokens else "no_vocab")
    if tokens:
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(list(tokens))
        writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
        writer.add_token_merges(list(merges))
        writer.add_bos_token_id(len(tokens) - 1)
        writer.add_eos_token_id(len(tokens) - 1)
        writer.add_add_bos_token(False)
    if llama and _scaling(config).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", numpy.array(_divisors(config), dtype=numpy.float32))
    for name, array in _tensors(folder / "model.safetensors"):
        name = name.removeprefix("transformer.").removeprefix("model.")
        found = _called(name, LLAMA if llama else GPT2)
        if found is None:
            continue
        if not llama and name.startswith("h.") and array.ndim == 2:
            array = numpy.ascontiguousarray(array.T)  # GPT-2's weights are (inputs, outputs)
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
        if heads is not None:
            array = _neighbours(array, config[heads])
        writer.add_tensor(found, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path).stat().st_size


def _describe_gpt2(writer: Any, config: dict[str, Any]) -> None:
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])


def _describe_llama(writer: Any, config: dict[str, Any]) -> None:
    import gguf  # pyright: ignore[reportMissingImports]

    scaling, width = _scaling(config), _head_width(config)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(_base(config))
    if scaling.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling["rope_type"]))
        writer.add_rope_scaling_factor(scaling["factor"])
    if scaling.get("rope_type") == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def _head_width(config: dict[str, Any]) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _base(config: dict[str, Any]) -> float:
    return (config.get("rope_parameters") or config)["rope_theta"]


def _divisors(config: dict[str, Any]) -> list[float]:
    """The divisor of each frequency of a head for longer texts, by the rule of Llama 3.1."""
    scaling, width, found = _scaling(config), _head_width(config), []
    trained, low, high = (
        scaling[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    for channel in range(0, width, 2):
        turns = trained * _base(config) ** (-channel / width) / (2 * math.pi)
        share = min(max((turns - low) / (high - low), 0.0), 1.0)
        found.append(1 / ((1 - share) / scaling["factor"] + share))
    return found


def _called(name: str, names: dict[str, str]) -> str | None:
    """The name of a folder's tensor in llama.cpp's file; None for one that is not needed."""
    if name in names:
        return names[name]
    stack, number, *part = name.split(".")
    found = names.get(".".join([stack, "{}", *part[:-1]]))
    return None if found is None else f"blk.{number}.{found}.{part[-1]}"


def _neighbours(array: Any, heads: int) -> Any:
    """Rows of a projection reordered so that channels rotated together are adjacent, as in llama.cpp."""
    import numpy

    turned = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2)
    return numpy.ascontiguousarray(turned.reshape(array.shape))


def _tensors(path: Path) -> Any:
    """Names and arrays of a safetensors file in float32."""
    import numpy

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, stop = (8 + length + place for place in entry["data_offsets"])
            array = numpy.frombuffer(data[start:stop], dtype=numpy.float32).reshape(entry["shape"])
            yield name, array


KINDS = {"decoding": Decoding}
