"""Other libraries that do the same work: a driver file for each, run in any interpreter that has the library."""

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
"""The driver file of each peer, by its name in reports and for `--peer`."""

__all__ = ["PEERS", "RUNNER"]
