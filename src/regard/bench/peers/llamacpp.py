"""llama.cpp on the weights of a folder, by its Python binding.

Needs llama-cpp-python, gguf and numpy; nothing of Regard. The folder is turned into llama.cpp's own file in 32 bits, and that
into 8 or 4 bits by llama.cpp itself.
"""

from __future__ import annotations

import json
import tempfile
import time
from importlib import metadata, util
from pathlib import Path
from typing import Any

NAMES = {
    "wte.weight": "token_embd.weight",
    "wpe.weight": "position_embd.weight",
    "ln_f.weight": "output_norm.weight",
    "ln_f.bias": "output_norm.bias",
}
PARTS = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
"""What each part of a GPT-2 is called in a folder, and here."""

KINDS_OF_FILE = {"q8_0": 7, "q4_0": 2}
"""llama.cpp's numbers for them."""


class Decoding:
    """The most probable token each time, after a prompt."""

    def available(self) -> bool:
        """Whether llama.cpp and what writes its files are installed."""
        return all(util.find_spec(name) is not None for name in ("llama_cpp", "gguf", "numpy"))

    def versions(self) -> dict[str, str]:
        """Of the binding, which names the llama.cpp inside it by its own number."""
        return {"llama-cpp-python": metadata.version("llama_cpp_python")}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Write the file, round its weights where asked, and load it."""
        if len(job["prompts"]) > 1:
            return {"left_out": "one text at a time"}
        import llama_cpp  # pyright: ignore[reportMissingImports]

        llama_cpp.llama_backend_init()
        self._folder = tempfile.TemporaryDirectory()
        plain = str(Path(self._folder.name) / "f32.gguf")
        size = _write(Path(job["folder"]), plain)
        path = plain
        if job["precision"] != "f32":
            path = str(Path(self._folder.name) / "rounded.gguf")
            wanted = llama_cpp.llama_model_quantize_default_params()
            wanted.ftype = KINDS_OF_FILE[job["precision"]]
            wanted.nthread = job["threads"]
            if llama_cpp.llama_model_quantize(plain.encode(), path.encode(), wanted):
                raise RuntimeError("llama.cpp did not round the weights")
            size = Path(path).stat().st_size
        model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = len(job["prompts"][0]) + job["tokens"]
        settings.n_threads = settings.n_threads_batch = job["threads"]
        self._context = llama_cpp.llama_init_from_model(model, settings)
        self._model, self._job = model, job
        return {"note": f"file of {size / 1e6:.0f} MB"}

    def run(self) -> dict[str, Any]:
        """Read the prompt and write on; the amount is tokens written."""
        import llama_cpp  # pyright: ignore[reportMissingImports]
        import numpy

        job, context = self._job, self._context
        prompt, answer = job["prompts"][0], []
        vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        read = prompt
        began = time.perf_counter()
        for _ in range(job["tokens"]):
            ids = (llama_cpp.llama_token * len(read))(*read)
            if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(ids, len(read))):
                raise RuntimeError("llama.cpp did not read the tokens")
            logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (vocabulary,))
            answer.append(int(logits.argmax()))
            read = answer[-1:]
        seconds = time.perf_counter() - began
        return {"amount": len(answer), "seconds": seconds, "answers": [answer]}


def _write(folder: Path, path: str) -> int:
    """A GPT-2's folder as llama.cpp's file in 32 bits; returns its size."""
    import gguf  # pyright: ignore[reportMissingImports]
    import numpy

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    for name, array in _tensors(folder / "model.safetensors"):
        name = name.removeprefix("transformer.")
        if name in NAMES:
            found = NAMES[name]
        else:
            _, number, *rest = name.split(".")
            *part, kind = rest
            if ".".join(part) not in PARTS:
                continue
            found = f"blk.{number}.{PARTS['.'.join(part)]}.{kind}"
            if kind == "weight" and array.ndim == 2:
                array = numpy.ascontiguousarray(array.T)  # GPT-2's maps are (inputs, outputs)
        writer.add_tensor(found, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path).stat().st_size


def _tensors(path: Path) -> Any:
    """Names and arrays of a safetensors file in 32 bits."""
    import numpy

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, stop = (8 + length + place for place in entry["data_offsets"])
            array = numpy.frombuffer(data[start:stop], dtype=numpy.float32).reshape(entry["shape"])
            yield name, array


KINDS = {"decoding": Decoding}
