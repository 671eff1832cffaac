"""Other libraries that do the same work: a file for each, run in whatever interpreter has the library."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent

RUNNER = HERE / "runner.py"

NAMES = (
    "joeynmt",
    "huggingface",
    "ctranslate2",
    "llamacpp",
    "bertviz",
    "sentence_transformers",
    "pytorch",
    "gensim",
    "glove",
    "timm",
)

PEERS: dict[str, Path] = {name: HERE / f"{name}.py" for name in NAMES} | dict.fromkeys(
    ("onnxruntime", "openvino"), HERE / "graphs.py"
)
"""The driver of each peer, by the name that reports and `--peer` use."""

__all__ = ["PEERS", "RUNNER"]
