"""What this machine allows at most in the rows of docs/speed.md: python benchmarks/speed_limits.py --name speed-limits

Generating one token reads every weight once, so it is limited by the memory's speed; the other rows are matrix products, limited
by the speed of these. Both are measured here with PyTorch: the fastest of repeated sums over 256 MiB, and of products of two
square matrices. Operations are counted by `regard.planning` (a multiplication and an addition are two, the backward pass twice
the forward pass), without padding, softmax, norms and optimizer. So no program reaches these limits.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from measured import record
from regard.models import (
    GPT2,
    BahdanauConfig,
    BertConfig,
    GPT2Config,
    LSTMLanguageModelConfig,
    LuongConfig,
    TransformerConfig,
    ViTConfig,
)
from regard.planning.counting import Shape, count_operations, outline
from regard.planning.devices import here
from regard.quantization import InferenceDecoder

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
LENGTH = 15
"""Pieces of a sentence of Multi30k, about; the operations for one hardly depend on it."""


def bytes_per_second(seconds: float = 2.0) -> float:
    """The fastest sum over 256 MiB."""
    block = torch.ones(2**26)
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = time.perf_counter()
        block.sum()
        best = min(best, time.perf_counter() - before)
    return block.nbytes / best


def decoding() -> dict[str, float]:
    """Bytes of the matrices that a token of a GPT-2 of the small size is multiplied by, by dtype."""
    torch.manual_seed(1)
    model = GPT2(GPT2Config.small()).eval()
    found = {}
    for precision in ("float32", "bfloat16", "int8", "int4"):
        decoder = InferenceDecoder(model, precision)
        matrices = {}
        for module in (*decoder.layers.modules(), decoder.output):
            for name in ("values", "scales", "weight"):
                tensor = (
                    getattr(module, name, None) if name != "weight" or isinstance(module, torch.nn.Linear) else None
                )
                if isinstance(tensor, torch.Tensor):
                    matrices[tensor.data_ptr()] = tensor.nbytes
        found[precision] = float(sum(matrices.values()))
    return found


def training() -> dict[str, float]:
    """Operations of an update for each unit of a row: a target token, a token, an image."""
    pair = Shape(rows=1, length=LENGTH, target=LENGTH)
    both = {"source_vocabulary": 8_000, "target_vocabulary": 8_000}
    wide = {"embedding_width": 256, "hidden_width": 512}
    transformer = TransformerConfig(
        **both,
        width=256,
        heads=4,
        feedforward_width=1_024,
        encoder_layers=3,
        decoder_layers=3,
        norm="pre",
        sharing="all",
    )
    sides = {"image_height": 224, "image_width": 224, "image_channels": 3}
    image = ViTConfig(**sides, outputs=1_000, width=192, heads=3, feedforward_width=768)
    models = {
        "Transformer": (transformer, pair, LENGTH),
        "Bahdanau": (BahdanauConfig(**both, **wide, attention_width=512, maxout_width=384), pair, LENGTH),
        "Luong": (LuongConfig(**both, **wide, layers=2), pair, LENGTH),
        "LSTM": (LSTMLanguageModelConfig(vocabulary=10_000), Shape(rows=1, length=35), 35),
        "ViT": (image, Shape(rows=1, length=197), 1),
        "BERT": (BertConfig.base(), Shape(rows=1, length=40, predicted=0), 40),
    }
    return {
        name: count_operations(outline(config), [shape]).training / units
        for name, (config, shape, units) in models.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device, bandwidth = here("cpu", seconds=3.0), bytes_per_second()
    figures: dict[str, object] = {
        "memory, read, GB/s": round(bandwidth / 1e9, 1),
        "matrix products, float32, GFLOP/s": round(device.peak["float32"] / 1e9),
        "matrix products, bfloat16, GFLOP/s": round(device.peak["bfloat16"] / 1e9),
    }
    for precision, size in decoding().items():
        figures[f"GPT-2, MB of weights for a token, {precision}"] = round(size / 1e6, 1)
    # Of a prompt only the last token has logits.
    prompt = count_operations(outline(GPT2Config.small()), [Shape(rows=1, length=512, predicted=1)]).forward
    figures["GPT-2, prompt of 512 tokens, GFLOP"] = round(prompt / 1e9, 2)
    for name, operations in training().items():
        figures[f"{name}, training, GFLOP"] = round(operations / 1e9, 4)
    record(
        RESULTS / f"{arguments.name}.json",
        title="What this machine allows at most: memory, matrix products, and the work of each row",
        command=f"python benchmarks/speed_limits.py --threads {arguments.threads} --name {arguments.name}",
        precision="named in each figure",
        seed=1,
        threads=arguments.threads,
        figures=figures,
        note="The units of work: a target token of the Transformer, Bahdanau's and Luong's models, a token of the LSTM and BERT, "
        "an image of the ViT.",
    )


if __name__ == "__main__":
    main()
