"""Graph runtimes: onnxruntime and OpenVINO on the encoder as ONNX, in float32, bfloat16 or int8.

Each is quantized by its own tool: onnxruntime's dynamic quantization per channel; NNCF's, calibrated on some of the sentences.
Texts are truncated by the model's own `tokenizer.json` and read in batches of 32 of similar length, as in sentence-transformers.

Needs tokenizers and numpy, onnxruntime and onnx or openvino and nncf, but not Regard.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from .shared import Installed, cosines

BATCH = 32
CALIBRATED = 128
"""Sentences that NNCF is calibrated on."""


class _Embedding(Installed):
    """Mean-pooled sentence embeddings, from strings to an array."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the graph in a precision."""
        import numpy as np
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(os.path.join(job["folder"], "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(job["maximum"])
        self._job = job
        self._reference = np.load(job["vectors"], allow_pickle=False)
        return self._open(job)

    def _open(self, job: dict[str, Any]) -> dict[str, str]:
        raise NotImplementedError

    def _hidden(self, given: dict[str, Any]) -> Any:
        """The last layer's states, (B, L, D)."""
        raise NotImplementedError

    def _given(self, ids: list[list[int]]) -> dict[str, Any]:
        import numpy as np

        mask = np.zeros((len(ids), max(map(len, ids))), dtype=np.int64)
        tokens = mask.copy()
        for row, own in enumerate(ids):
            tokens[row, : len(own)] = own
            mask[row, : len(own)] = 1
        return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}

    def run(self) -> dict[str, Any]:
        """Embed all sentences once; the amount is in sentences."""
        import numpy as np

        sentences = self._job["sentences"]
        began = time.perf_counter()
        ids = [found.ids for found in self._tokenizer.encode_batch(sentences)]
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        vectors: Any = None
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            given = self._given([ids[row] for row in rows])
            hidden = self._hidden(given)
            counts = given["attention_mask"][..., None]
            means = (hidden * counts).sum(axis=1) / counts.sum(axis=1)
            if vectors is None:
                vectors = np.empty((len(ids), means.shape[1]), dtype=np.float32)
            vectors[rows] = means / np.linalg.norm(means, axis=1, keepdims=True)
        seconds = time.perf_counter() - began
        return {"amount": len(sentences), "seconds": seconds, "measures": cosines(vectors, self._reference)}


class OnnxRuntime(_Embedding):
    """`InferenceSession` with default settings except threads."""

    needs = ("onnxruntime", "onnx", "tokenizers", "numpy")

    def _open(self, job: dict[str, Any]) -> dict[str, str]:
        import onnxruntime

        if job["precision"] == "bfloat16":
            return {"left_out": "onnxruntime computes encoders in float32 and in 8 bits on processors"}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job["threads"]
        with tempfile.TemporaryDirectory() as place:
            path = job["onnx"]
            if job["precision"] == "int8":
                from onnxruntime.quantization import QuantType, quantize_dynamic

                path = os.path.join(place, "int8.onnx")
                quantize_dynamic(job["onnx"], path, weight_type=QuantType.QInt8, per_channel=True)
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._names = {one.name for one in self._session.get_inputs()}
        return {"note": f"dynamic quantization, {job['precision']}" if job["precision"] == "int8" else job["precision"]}

    def _hidden(self, given: dict[str, Any]) -> Any:
        own = {name: part for name, part in given.items() if name in self._names}
        return self._session.run(["last_hidden_state"], own)[0]


class OpenVINO(_Embedding):
    """A compiled model with default settings except threads and precision."""

    needs = ("openvino", "nncf", "tokenizers", "numpy")

    def _open(self, job: dict[str, Any]) -> dict[str, str]:
        import openvino  # pyright: ignore[reportMissingImports]

        core = openvino.Core()
        model = core.read_model(job["onnx"])
        self._names = {one.get_any_name() for one in model.inputs}
        low = job["precision"]
        if low == "int8":
            import nncf  # pyright: ignore[reportMissingImports]

            rows = [self._tokenizer.encode(text).ids for text in job["sentences"][:CALIBRATED]]
            data = nncf.Dataset([self._own(self._given([ids])) for ids in rows])
            model = nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(rows))
        hint = "f32" if low == "float32" else "bf16"
        if low != "float32" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            if low == "bfloat16":
                return {"left_out": "OpenVINO does not compute in bfloat16 on this processor"}
            hint = "f32"
        settings = {"INFERENCE_NUM_THREADS": job["threads"], "INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": 1}
        self._model = core.compile_model(model, "CPU", settings)
        return {"note": f"NNCF's quantization, the rest in {hint}" if low == "int8" else hint}

    def _own(self, given: dict[str, Any]) -> dict[str, Any]:
        return {name: part for name, part in given.items() if name in self._names}

    def _hidden(self, given: dict[str, Any]) -> Any:
        return self._model(self._own(given))["last_hidden_state"]


KINDS = {"embedding_onnxruntime": OnnxRuntime, "embedding_openvino": OpenVINO}
