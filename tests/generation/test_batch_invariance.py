"""A text's tokens and log-probabilities are the same bits alone and in any batch, on one thread and on two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import BatchInvariant
from regard.generation import Continuation, FixedLength, Hypothesis, SampleRows, beam_search, generate
from regard.kernels.building import has_bfloat16_products
from regard.layers import Tokens
from regard.models import GPT2, GPT3, GPT2Config, GPT3Config, GPTNeoX, GPTNeoXConfig, Llama, LlamaConfig
from regard.quantization import InferenceDecoder

VOCABULARY = 61


def drawn(model: Any) -> Any:
    """The model with larger weights, so that its answers depend on what it read."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for part in model.parameters():
            part.add_(torch.randn(part.shape, generator=generator) * 0.15)
    return model.eval()


def gpt2() -> GPT2:
    return drawn(
        GPT2(
            GPT2Config(vocabulary=VOCABULARY, width=64, heads=2, feedforward_width=128, layers=2, maximum_positions=80)
        )
    )


def odd() -> GPT2:
    """Sizes that fill no vector of the processor."""
    return drawn(
        GPT2(GPT2Config(vocabulary=VOCABULARY, width=21, heads=3, feedforward_width=35, layers=2, maximum_positions=80))
    )


def banded() -> GPT3:
    """Every other block looks a few tokens back."""
    return drawn(
        GPT3(
            GPT3Config(
                vocabulary=VOCABULARY, width=32, heads=2, feedforward_width=64, layers=2, maximum_positions=80, band=5
            )
        )
    )


def llama() -> Llama:
    """Groups of query heads share keys, and look a few tokens back."""
    sizes: dict[str, Any] = {"vocabulary": VOCABULARY, "width": 64, "heads": 4, "key_heads": 2, "head_width": 32}
    return drawn(Llama(LlamaConfig(**sizes, feedforward_width=96, layers=2, maximum_positions=80, sliding_window=7)))


def gpt_neox() -> GPTNeoX:
    """Sub-layers in parallel, heads turned in part."""
    sizes: dict[str, Any] = {"vocabulary": VOCABULARY, "width": 64, "heads": 2, "feedforward_width": 96, "layers": 2}
    return drawn(GPTNeoX(GPTNeoXConfig(**sizes, maximum_positions=80)))


MADE = {"gpt2": gpt2(), "odd": odd(), "banded": banded(), "gpt_neox": gpt_neox(), "llama": llama()}
MODELS: dict[str, tuple[Any, bool | None]] = {
    **{f"{name}, float32": (model, True) for name, model in MADE.items()},
    **{f"{name}, bfloat16": (drawn(type(model)(model.config)).bfloat16(), None) for name, model in MADE.items()},
    **{
        f"{name}, prepared in {precision}": (InferenceDecoder(MADE[name], precision), None)
        for name, precision in (
            *((name, "int8") for name in ("gpt2", "gpt_neox", "llama")),
            *((name, precision) for name in ("gpt2", "llama") for precision in ("int4", "bfloat16", "float32")),
            ("gpt_neox", "float32"),
        )
    },
}

prompts = st.lists(
    st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=30).map(tuple), min_size=2, max_size=5, unique=True
)


@contextmanager
def running_on(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def answers(decoder: Continuation[Any], texts: list[tuple[int, ...]], way: str) -> list[Any]:
    source = Tokens.pad(texts, side="left")
    if way == "beam":
        found: Any = beam_search(decoder, source, beam=3, n_best=3, limit=FixedLength(6))
        return [[bits(each) for each in best] for best in found]
    choose = SampleRows([sum(text) for text in texts]) if way == "sampled" else None
    return [bits(each) for each in generate(decoder, source, choose=choose, limit=FixedLength(9))]


def bits(found: Hypothesis) -> tuple[Any, ...]:
    return found.tokens, found.token_log_probabilities


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("way", ["greedy", pytest.param("sampled", marks=pytest.mark.slow), "beam"])
@pytest.mark.parametrize("name", MODELS)
@given(texts=prompts)
@settings(max_examples=3)
def test_a_text_has_the_same_bits_alone_and_in_any_batch(
    name: str, way: str, threads: int, texts: list[tuple[int, ...]]
) -> None:
    model, batch_invariant = MODELS[name]
    decoder = Continuation(model, batch_invariant=batch_invariant)
    with running_on(threads):
        together = answers(decoder, texts, way)
        assert answers(decoder, texts[::-1], way)[::-1] == together
        for text, found in zip(texts, together, strict=True):
            assert answers(decoder, [text], way) == [found]


@pytest.mark.parametrize("name", [name for name, (_, batch_invariant) in MODELS.items() if batch_invariant is None])
def test_one_thread_and_two_give_the_same_bits(name: str) -> None:
    """Not so in float32 by PyTorch's own kernels, which part a product among the threads there are."""
    decoder = Continuation(MODELS[name][0])
    texts = [tuple(range(3, 3 + length)) for length in (17, 1, 30)]
    with running_on(1):
        one = answers(decoder, texts, "greedy")
    with running_on(2):
        assert answers(decoder, texts, "greedy") == one


@pytest.mark.parametrize("seed", [187, 319])
def test_a_prompt_of_one_token_before_the_last_is_read_as_in_a_batch(seed: int) -> None:
    """Of 400 models that were drawn, these two gave other bits when such a prompt alone was read by the kernel of steps."""
    torch.manual_seed(seed)
    decoder = Continuation(InferenceDecoder(gpt2(), "int8"))
    texts = [(3, 3), (3, 4)]
    assert answers(decoder, texts, "beam") == [answers(decoder, [text], "beam")[0] for text in texts]


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_one_text_pays_for_the_mode_only_where_it_changes_bits(name: str) -> None:
    model, batch_invariant = MODELS[name]
    assert Continuation(model, batch_invariant=batch_invariant).same_alone == (
        name == "gpt2, bfloat16" and not has_bfloat16_products()
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(96, 96), (40, 72), (33, 65), (768, 192)])
def test_a_product_in_bfloat16_is_the_same_bits_in_any_number_of_rows(shape: tuple[int, int], threads: int) -> None:
    """Processors with AVX-512 or AMX take other kernels for 1 row, for few and for many."""
    draw = torch.Generator().manual_seed(shape[0])
    weight = (torch.randn(shape[::-1], generator=draw) * shape[0] ** -0.5).bfloat16()
    x = torch.randn(256, shape[0], generator=draw).bfloat16()
    with torch.no_grad(), running_on(threads), BatchInvariant():
        together = F.linear(x, weight)
        for rows in (1, 3, 8, 20, 33, 64, 129):
            apart = torch.cat([F.linear(part, weight) for part in x.split(rows)])
            assert torch.equal(apart, together), rows


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(("rows", "width"), [(57, 480), (33, 1568), (687, 64), (33, 3072), (512, 768), (3, 20_480)])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "sigmoid"])
def test_an_activation_is_the_same_bits_in_any_number_of_rows(name: str, rows: int, width: int, threads: int) -> None:
    """Alone and together, whatever share of the numbers each thread has."""
    functions = {
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "sigmoid": torch.sigmoid,
    }
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)) * 3
    with torch.no_grad(), running_on(threads), BatchInvariant():
        together = functions[name](x)
        for row in {0, 1, rows // 2, rows - 1}:
            assert torch.equal(functions[name](x[row : row + 1].clone()), together[row : row + 1])
