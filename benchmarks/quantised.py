"""What fewer bits cost: perplexity of a trained language model on a text in float32, bfloat16, and with weights of 8 and 4 bits.

python benchmarks/quantised.py MODEL TEXT

MODEL is the folder of a language model of GPT's family, TEXT a file of documents, one in each line, perhaps gzip. Beside each
perplexity stand the bytes that the weights take, and after how many of 200 prompts (the first 16 words of as many long lines) the
next 32 greedy tokens are those of float32.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

import regard
from measured import record
from regard.data.malformed import MalformedRows
from regard.data.running_text import read_texts
from regard.generation import GenerationSettings
from regard.tasks.language_modelling import evaluate

ROOT = Path(__file__).resolve().parent.parent
PROMPTS, WORDS, TOKENS = 200, 16, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    arguments = parser.parse_args()
    texts = list(read_texts([str(arguments.text)], unit="line", malformed=MalformedRows()))
    long = [text for text in texts if len(text.split()) > 2 * WORDS][:PROMPTS]
    prompts = [" ".join(text.split()[:WORDS]) for text in long]
    figures: dict[str, Any] = {"lines": len(texts), "threads": torch.get_num_threads()}
    plain: list[Any] = []
    for precision in ("float32", "bfloat16", "int8", "int4"):
        model: Any = regard.load(arguments.model, task="language_modelling", dtype=precision)
        found = evaluate(model, texts)
        figures[f"{precision}, perplexity per piece"] = round(found.metrics["perplexity"], 3)
        figures[f"{precision}, perplexity per word"] = round(found.metrics["word_perplexity"], 2)
        figures[f"{precision}, MB of weights"] = round(size(model.model) / 1e6, 2)
        written = [each.tokens for each in model.generate(prompts, GenerationSettings(maximum_length=TOKENS))]
        plain = plain or written
        figures[f"{precision}, texts written alike, of {len(prompts)}"] = sum(map(tuple.__eq__, written, plain))
    record(
        ROOT / "docs" / "results" / "quantised.json",
        title="What fewer bits cost: a small GPT on WikiText-2's validation text",
        command="python benchmarks/quantised.py MODEL TEXT",
        precision="as named",
        seed=None,
        target="the loss with each precision",
        figures=figures,
        note="weights of 8 bits with one scale for each output, of 4 with one for each output and 32 inputs, the embedding "
        "in bfloat16; activations in bytes; keys and values in bfloat16",
    )


def size(model: Any) -> int:
    """Bytes of all tensors that a model holds, each once."""
    held = {tensor.data_ptr(): tensor.nbytes for tensor in [*model.parameters(), *model.buffers()]}
    for part in model.modules():
        for name in ("projections", "output", "inner", "outer"):
            for tensor in getattr(getattr(part, name, None), "held", ()):
                held[tensor.data_ptr()] = tensor.nbytes
    return sum(held.values())


if __name__ == "__main__":
    main()
