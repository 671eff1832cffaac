"""How fast several tokens are read at once, and what n-gram speculation gains by it: python benchmarks/reading.py --text FILE

A GPT-2 of the small size with random weights is prepared for inference in each precision. A prompt of 512 tokens is read as for
generation; its operations, twice the weights of the blocks for each token and those of attention, are compared with the fastest
product of two square matrices in PyTorch (float32, else bfloat16). Then 1 and 5 tokens are read, as in speculative decoding.

What n-grams guess right depends on the text. The second half of a given text stands for what a model writes; no model is asked.
Counted are the readings that `NGramDraft` then needs, and, with the times measured, how much faster that is than one by one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from measured import record
from regard.generation import NGramDraft
from regard.machine import keep_freed_memory
from regard.models import GPT2, GPT2Config
from regard.quantization import InferenceDecoder
from regard.text import Tokenizer

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
PROMPT, AHEAD, VOCABULARY = 512, 4, 8_000


def seconds(run: Callable[[], object], times: int = 9) -> float:
    """The median, after one call that does not count."""
    run()
    found = []
    for _ in range(times):
        before = time.perf_counter()
        run()
        found.append(time.perf_counter() - before)
    return median(found)


def peak(dtype: torch.dtype) -> float:
    """Operations per second of the fastest product of two square matrices."""
    square = torch.randn(2048, 2048).to(dtype)
    found = []
    for _ in range(12):
        before = time.perf_counter()
        square @ square
        found.append(time.perf_counter() - before)
    return 2 * 2048**3 / min(found)


def readings(tokens: list[int]) -> list[int]:
    """How many tokens each reading has, if the second half of the tokens is what the model writes."""
    half = len(tokens) // 2
    seen, found, place = NGramDraft().begin(tokens[:half]), [], half
    while place < len(tokens):
        proposed = seen.proposed(AHEAD)
        right = 0
        while right < len(proposed) and place + right < len(tokens) and proposed[right] == tokens[place + right]:
            right += 1
        found.append(1 + len(proposed))
        for token in tokens[place : place + right + 1]:
            seen.add(token)
        place += right + 1
    return found


def encoded(path: Path) -> list[int]:
    """Tokens of the beginning of a text, by pieces that are learned from it."""
    text = path.read_text(encoding="utf-8")[:60_000]
    return list(Tokenizer.train([text], kind="bpe", size=VOCABULARY).encode(text))


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--text", type=Path, action="append", default=[], help="a text file; its first 60,000 characters"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", default="reading")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    torch.manual_seed(1)
    config = GPT2Config.small()
    model = GPT2(config).eval()
    blocks = sum(part.numel() for part in model.layers.parameters() if part.dim() > 1)
    work = 2 * PROMPT * blocks + 2 * PROMPT**2 * config.width * config.layers
    figures: dict[str, object] = {}
    peaks = {dtype: peak(dtype) for dtype in (torch.float32, torch.bfloat16)}
    ids = torch.randint(config.vocabulary, (PROMPT,))
    written = {path.name: encoded(path) for path in options.text}
    needed = {name: readings(tokens) for name, tokens in written.items()}
    for name, own in needed.items():
        figures[f"{name}, tokens for each reading"] = round(
            (len(written[name]) - len(written[name]) // 2) / len(own), 2
        )
    for precision in ("float32", "bfloat16", "int8", "int4"):
        decoder = InferenceDecoder(model, precision)
        best = peaks[torch.float32 if precision == "float32" else torch.bfloat16]
        with torch.no_grad():
            whole = seconds(lambda decoder=decoder: decoder.read_texts([ids]), 5)
            state = decoder.read_texts([ids[:64]])
            few = {
                count: seconds(
                    lambda decoder=decoder, state=state, count=count: decoder.step_through(ids[None, :count], state)
                )
                for count in (1, AHEAD + 1)
            }
        figures[f"{precision}, prompt of {PROMPT} tokens, tokens/s"] = round(PROMPT / whole)
        figures[f"{precision}, prompt of {PROMPT} tokens, share of the peak"] = round(work / whole / best, 2)
        for count, spent in few.items():
            figures[f"{precision}, reading of {count}, ms"] = round(1000 * spent, 1)
        for name, own in needed.items():
            tokens = len(written[name]) - len(written[name]) // 2
            spent = sum(few[1] + (few[AHEAD + 1] - few[1]) * (count - 1) / AHEAD for count in own)
            figures[f"{precision}, {name}, times as fast as one by one"] = round(tokens * few[1] / spent, 2)
    record(
        RESULTS / f"{options.name}.json",
        title="Reading several tokens at once: prompts, and n-gram speculation",
        command=f"python benchmarks/reading.py --threads {options.threads}"
        + "".join(f" --text {path.name}" for path in options.text),
        precision="named in each figure",
        seed=1,
        figures=figures,
        target="prompts at 60 % of the processor's peak",
    )


if __name__ == "__main__":
    main()
