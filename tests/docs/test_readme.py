"""The README's figures are those that were measured, and it stays short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
WRITERS = "gpt2-small, int8 and q8_0"
FIGURES = [
    ("look-picture", ("page of 512 tokens (s)", "regard"), "| {:.1f} s, 1 MB |"),
    ("look-picture", ("page of 512 tokens (s)", "bertviz head_view"), "BertViz: {:.0f} s"),
    ("look-picture", ("page of 512 tokens, file (MB)", "bertviz head_view"), " s, {:,.0f} MB |"),
    ("serving-speed-writers", (WRITERS, "regard, 8 clients, tokens/s"), "| {:,.0f} tokens/s, bit-identical"),
    ("serving-speed-writers", (WRITERS, "llama.cpp, 8 clients, tokens/s"), "server: {:,.0f} tokens/s |"),
    ("speed-decoding", ("alone, int8, ours over peer", "llamacpp q8_0"), "one prompt | {:.2f} times as fast"),
    ("speed-decoding", ("alone, int8, ours over peer", "huggingface float32"), "({:.1f} times `transformers`)"),
    ("speed-embedding", ("embedding, bfloat16 (sentences/s)", "regard"), "| {:.0f} texts/s |"),
    (
        "speed-embedding",
        ("embedding, bfloat16, ours over peer", "sentence_transformers bfloat16"),
        "{:.1f} times slower in bfloat16",
    ),
    (
        "speed-embedding",
        ("embedding, bfloat16, ours over peer", "sentence_transformers float32"),
        "{:.1f} at its default",
    ),
    (
        "speed-masked-training",
        ("training, bfloat16, ours over peer", "huggingface bfloat16"),
        "masked text, bfloat16 | {:.2f} times as fast |",
    ),
    (
        "speed-masked-training",
        ("training, bfloat16, ours over peer", "huggingface float32"),
        "({:.2f} times its default)",
    ),
    ("speed-decoding-epyc", ("alone, int8, ours over peer", "llamacpp q8_0"), "is {:.2f} times as fast as llama.cpp"),
    (
        "speed-decoding-batch-epyc",
        ("batch, bfloat16, ours over peer", "llamacpp bf16"),
        "{:.2f} times after eight prompts in bfloat16",
    ),
    (
        "speed-embedding-peers",
        ("embedding, bfloat16, ours over peer", "openvino bfloat16"),
        "embedding {:.1f} times as fast",
    ),
    ("speed-decoding-epyc-zen5", ("alone, int8, ours over peer", "llamacpp q8_0"), "(Zen 5) {:.2f}, "),
    ("speed-decoding-batch-epyc-zen5", ("batch, bfloat16, ours over peer", "llamacpp bf16"), ", {:.2f} and 1.3 times."),
    ("speed-embedding-peers-zen5", ("embedding, bfloat16, ours over peer", "openvino bfloat16"), "and {:.1f} times."),
    ("recording_transformers", ("8x512, one layer: on / off",), "| {:.2f} times the time, output bit-identical"),
]


@pytest.mark.parametrize(("result", "path", "shown"), FIGURES, ids=[shown for *_, shown in FIGURES])
def test_a_figure_is_the_one_that_was_measured(result: str, path: tuple[str, ...], shown: str) -> None:
    value = json.loads((ROOT / "docs" / "results" / f"{result}.json").read_text("utf-8"))["figures"]
    for name in path:
        value = value[name]
    assert shown.format(value) in README


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150
