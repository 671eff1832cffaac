"""What differs, and by how much, where the numbers of a text are not the same bits.

python benchmarks/exactness.py

A decoder and an encoder of random weights read texts alone and with others, with padding and without, on one thread and on two,
with a cache and at once. For each the share of numbers that differ in any bit is reported, and the largest difference: of
log-probabilities of the decoder's tokens, of the encoder's vectors (whose numbers are about 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from measured import record
from regard.generation import Continuation, FixedLength, generate
from regard.layers import Tokens
from regard.models import GPT2, Bert, BertConfig, GPT2Config
from regard.quantization import InferenceDecoder

SEED = 3
TEXTS = [list(range(5 + place, 5 + place + length)) for place, length in enumerate((23, 23, 40, 7, 1, 31))]


def drawn(model: Any) -> Any:
    """The model with weights so large that its answers depend on what it read."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for part in model.parameters():
            part.add_(torch.randn(part.shape, generator=generator) * 0.05)
    return model.eval()


def gpt2() -> GPT2:
    """A small decoder."""
    sizes: dict[str, Any] = {"width": 256, "heads": 4, "feedforward_width": 1024, "layers": 4, "maximum_positions": 128}
    return drawn(GPT2(GPT2Config(vocabulary=500, **sizes)))


def bert() -> Bert:
    """A small encoder."""
    sizes: dict[str, Any] = {"width": 256, "heads": 4, "feedforward_width": 1024, "layers": 4, "maximum_positions": 128}
    return drawn(Bert(BertConfig(vocabulary=500, **sizes)))


@contextmanager
def running_on(threads: int) -> Iterator[None]:
    """So many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def written(decoder: Continuation[Any], texts: list[list[int]]) -> list[Tensor]:
    """Log-probabilities of the tokens that are written after each text."""
    found = generate(decoder, Tokens.pad(texts, side="left"), limit=FixedLength(12))
    return [torch.tensor(each.token_log_probabilities) for each in found]


@torch.no_grad()
def whole_and_steps(model: Any) -> list[tuple[Tensor, Tensor]]:
    """Log-probabilities of a text read at once, and token by token with a cache."""
    found = []
    for text in TEXTS:
        whole, _ = model.read(Tokens.pad([text]), model.start(1))
        state, steps = model.start(1), []
        for token in text:
            logits, state = model.step(torch.tensor([token]), state)
            steps.append(logits)
        found.append((whole[0].float().log_softmax(-1), torch.cat(steps).float().log_softmax(-1)))
    return found


def difference(pairs: list[tuple[Tensor, Tensor]]) -> str:
    """How many numbers differ, and the largest difference."""
    one, other = (torch.cat([pair[side].flatten() for pair in pairs]).double() for side in (0, 1))
    if torch.equal(one, other):
        return "the same bits"
    return (
        f"{100 * float((one != other).double().mean()):.0f} % differ, by {float((one - other).abs().max()):.1e} at most"
    )


def decoder_figures(model: Any, batch_invariant: bool | None) -> dict[str, str]:
    """What differs in a decoder."""
    decoder = Continuation(model, batch_invariant=batch_invariant)
    with running_on(1):
        alone = [written(decoder, [text])[0] for text in TEXTS]
        together = written(decoder, TEXTS)
        cached = [] if batch_invariant else whole_and_steps(model)
    with running_on(2):
        two = [written(decoder, [text])[0] for text in TEXTS]
    found = {
        "alone and in a padded batch": difference(list(zip(alone, together, strict=True))),
        "1 thread and 2": difference(list(zip(alone, two, strict=True))),
    }
    return found | ({"at once and step by step": difference(cached)} if cached else {})


@torch.no_grad()
def encoder_figures(model: Any, dtype: torch.dtype) -> dict[str, str]:
    """What differs in an encoder."""

    def read(texts: list[list[int]], side: str = "right") -> list[Tensor]:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            tokens = Tokens.pad(texts, side=side)  # type: ignore[arg-type]
            hidden = model(tokens).hidden
        return [row[valid].float() for row, valid in zip(hidden, tokens.valid, strict=True)]

    with running_on(1):
        alone = [read([text])[0] for text in TEXTS]
        as_long = read(TEXTS[:2])
        padded = read(TEXTS)
    with running_on(2):
        two = [read([text])[0] for text in TEXTS]
    return {
        "alone and with one as long": difference(list(zip(alone[:2], as_long, strict=True))),
        "alone and in a padded batch": difference(list(zip(alone, padded, strict=True))),
        "1 thread and 2": difference(list(zip(alone, two, strict=True))),
    }


def main() -> None:
    figures: dict[str, Any] = {
        "decoder, float32": decoder_figures(gpt2(), None),
        "decoder, float32, batch_invariant": decoder_figures(gpt2(), True),
        "decoder, bfloat16": decoder_figures(gpt2().bfloat16(), None),
    }
    for precision in ("float32", "bfloat16", "int8", "int4"):
        figures[f"decoder for inference, {precision}"] = decoder_figures(InferenceDecoder(gpt2(), precision), None)
    for dtype in (torch.float32, torch.bfloat16):
        figures[f"encoder, {str(dtype).removeprefix('torch.')}"] = encoder_figures(bert(), dtype)
    record(
        Path(__file__).resolve().parent.parent / "docs" / "results" / "exactness.json",
        title="Where the numbers of a text are the same bits, and by how much they differ elsewhere",
        command="python benchmarks/exactness.py",
        precision="as named",
        seed=SEED,
        target="decoders for inference, bfloat16 and batch_invariant: the same bits in any batch",
        figures=figures,
        note="GPT-2 and BERT of width 256 and 4 layers, random weights, six texts of 1 to 40 tokens. Which numbers differ is "
        "a matter of the processor; that some do, of PyTorch, which multiplies one row by another kernel than several.",
    )


if __name__ == "__main__":
    main()
