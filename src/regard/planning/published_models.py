"""Published models that can be planned by their names: their sizes, and what their papers say they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from regard.errors import InputError, nearest
from regard.models import (
    BertConfig,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    GPTNeoXConfig,
    LlamaConfig,
    T5Config,
    TransformerConfig,
)
from regard.models.gpt import SIZES
from regard.planning.counting import Shape, Work


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A part of a training run in which all texts have the same length.

    Arguments:
        updates: number of parameter updates.
        tokens: of one update's batch, source and target together.
        length: of each text or source, in tokens.
        target: of each target, in tokens; 0 without targets.
        predicted_share: the fraction of a text's tokens whose logits are computed; None for all, or all of the target.
    """

    updates: float
    tokens: float
    length: int
    target: int = 0
    predicted_share: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A published model.

    Arguments:
        config: its sizes.
        stages: of its training; empty where they were not published.
        source: where they are from, or why they are not known.
        length: of a text, in tokens, where there are no stages.
    """

    config: Any
    stages: tuple[Stage, ...]
    source: str
    length: int = 512

    def work(self, *, tokens: float | None, length: int | None, rows: int) -> Work:
        """The batches that its training read.

        Arguments:
            tokens: of the whole run, in place of the published number.
            length: of a text, in place of the published one; all stages then become one.
            rows: texts per device and batch.

        Raises:
            InputError: where the number of tokens is neither published nor given.
        """
        stages = self.stages
        if not stages and tokens is None:
            raise InputError(f"{self.source}; give the number with --tokens, such as --tokens 300e9")
        if not stages or length is not None:
            whole = sum(stage.updates * stage.tokens for stage in stages) or float(tokens or 0)
            stage = stages[-1] if stages else Stage(updates=0, tokens=0, length=self.length)
            side = length if length is not None else self.length
            new = replace(stage, length=side, target=side if stage.target else 0)
            updates = sum(each.updates for each in stages)
            stages = (replace(new, updates=updates, tokens=whole / updates) if updates else new,)
        shapes = [_texts(stage) for stage in stages]
        found = sum(shape.times * shape.tokens for shape in shapes)
        if tokens is not None:
            scale = tokens / found if found else 1.0
            shapes = [replace(shape, times=shape.times * scale if found else tokens / shape.tokens) for shape in shapes]
        known = sum(stage.updates for stage in stages) if tokens is None else 0
        longest = max(shapes, key=lambda shape: shape.length)
        return Work(
            shapes=tuple(shapes),
            updates=known or None,
            largest=_rows(longest, rows),
            source=self.source if tokens is None else f"{tokens:,.0f} tokens, as asked",
        )


def _texts(stage: Stage) -> Shape:
    """A stage as batches of single texts."""
    predicted = None if stage.predicted_share is None else float(round(stage.predicted_share * stage.length))
    each = Shape(rows=1, length=stage.length, target=stage.target, predicted=predicted)
    return replace(each, times=stage.updates * stage.tokens / each.tokens)


def _rows(shape: Shape, rows: int) -> Shape:
    predicted = None if shape.predicted is None else shape.predicted * rows
    return replace(shape, rows=rows, predicted=predicted, times=1)


def _gpt3() -> dict[str, Published]:
    """Batch sizes in tokens from table 2.1, 300 billion tokens in all; texts fill the context of 2048 tokens."""
    batches = {
        "125m": 0.5e6,
        "350m": 0.5e6,
        "760m": 0.5e6,
        "1.3b": 1e6,
        "2.7b": 1e6,
        "6.7b": 2e6,
        "13b": 2e6,
        "175b": 3.2e6,
    }
    return {
        f"gpt3-{size}": Published(
            config=GPT3Config.named(size),
            stages=(Stage(updates=300e9 / batches[size], tokens=batches[size], length=2048),),
            source="Brown et al. 2020: 300 billion tokens, in batches as in table 2.1, contexts of 2048",
        )
        for size in SIZES
    }


def _gpt2() -> dict[str, Published]:
    unknown = "Radford et al. 2019 do not say how many tokens GPT-2 was trained on"
    configs = {"medium": GPT2Config.medium(), "large": GPT2Config.large(), "xl": GPT2Config.xl()}
    small = Published(
        config=GPT2Config.small(),
        stages=(Stage(updates=600_000, tokens=491_520, length=1024),),
        source=f"{unknown}; these are nanoGPT's (config/train_gpt2.py): 600,000 updates of 480 texts of 1024 tokens",
    )
    others = {
        f"gpt2-{name}": Published(config=each, stages=(), source=unknown, length=1024) for name, each in configs.items()
    }
    return {"gpt2-small": small, **others}


def _bert() -> dict[str, Published]:
    """Nine tenths of the updates with 128 tokens, the rest with 512 (appendix A.2)."""
    stages = tuple(
        Stage(updates=updates, tokens=256 * length, length=length, predicted_share=0.15)
        for updates, length in ((900_000, 128), (100_000, 512))
    )
    source = (
        "Devlin et al. 2019, appendix A.2: a million updates of 256 texts, nine tenths of 128 tokens, the rest of 512"
    )
    head: dict[str, Any] = {"head": "pretraining", "outputs": 2}
    return {
        name: Published(config=replace(config, **head), stages=stages, source=source)
        for name, config in (("bert-base", BertConfig.base()), ("bert-large", BertConfig.large()))
    }


def _transformer() -> dict[str, Published]:
    return {
        name: Published(
            config=config,
            stages=(Stage(updates=updates, tokens=50_000, length=30, target=30),),
            source=f"Vaswani et al. 2017, sections 5.1 and 5.2: {updates:,} updates of 25,000 source and 25,000 target tokens; "
            "the length of sentences is not given; 30 tokens a side are assumed",
        )
        for name, config, updates in (
            ("transformer-base", TransformerConfig.base(), 100_000),
            ("transformer-big", TransformerConfig.big(), 300_000),
        )
    }


def _t5() -> dict[str, Published]:
    """Inputs of 512 tokens with 15 % corrupted in spans of 3 have targets of 114 tokens (the authors' code)."""
    configs = {
        "small": T5Config.small(),
        "base": T5Config.base(),
        "large": T5Config.large(),
        "3b": T5Config.three_billion(),
        "11b": T5Config.eleven_billion(),
    }
    stages = (Stage(updates=1_000_000, tokens=2048 * (512 + 114), length=512, target=114),)
    source = "Raffel et al. 2020, section 3.7: a million updates of 2048 inputs of 512 tokens, targets of 114"
    return {f"t5-{name}": Published(config=config, stages=stages, source=source) for name, config in configs.items()}


def _pythia() -> dict[str, Published]:
    """GPT-NeoX in eight sizes, by width, heads, layers and tokens; and GPT-NeoX-20B itself."""
    sizes = {
        "70m": (512, 8, 6, 50_304),
        "160m": (768, 12, 12, 50_304),
        "410m": (1024, 16, 24, 50_304),
        "1b": (2048, 8, 16, 50_304),
        "1.4b": (2048, 16, 24, 50_304),
        "2.8b": (2560, 32, 32, 50_304),
        "6.9b": (4096, 32, 32, 50_432),
        "12b": (5120, 40, 36, 50_688),
    }

    def config(width: int, heads: int, layers: int, vocabulary: int, **others: Any) -> GPTNeoXConfig:
        sides = {"width": width, "heads": heads, "layers": layers, "feedforward_width": 4 * width}
        return GPTNeoXConfig(vocabulary=vocabulary, **sides, **others)

    pythia = {
        f"pythia-{size}": Published(
            config=config(*each),
            stages=(Stage(updates=143_000, tokens=1024 * 2048, length=2048),),
            source="Biderman et al. 2023: 143,000 updates of 1024 texts of 2048 tokens",
        )
        for size, each in sizes.items()
    }
    largest = Published(
        config=config(6144, 64, 44, 50_432, activation="gelu_tanh"),
        stages=(Stage(updates=150_000, tokens=1538 * 2048, length=2048),),
        source="Black et al. 2022: 150,000 updates of 1538 texts of 2048 tokens",
    )
    return {**pythia, "gpt-neox-20b": largest}


def _llama() -> dict[str, Published]:
    """Llama, Llama 2 and models of the same type, with grouped-query attention."""

    def config(width: int, heads: int, key_heads: int, inner: int, layers: int, **others: Any) -> LlamaConfig:
        sides = {"width": width, "heads": heads, "key_heads": key_heads, "feedforward_width": inner, "layers": layers}
        return LlamaConfig(**sides, **({"vocabulary": 32_000, "tied_output": False} | others))

    llama = {
        f"llama-{size}": Published(
            config=config(*sides, maximum_positions=2048, rotary_base=10_000.0),
            stages=(Stage(updates=trillions * 1e12 / 4e6, tokens=4e6, length=2048),),
            source=f"Touvron et al. 2023, table 2: {trillions} trillion tokens in batches of 4 million, contexts of 2048",
        )
        for size, sides, trillions in (
            ("7b", (4096, 32, 32, 11_008, 32), 1.0),
            ("13b", (5120, 40, 40, 13_824, 40), 1.0),
            ("33b", (6656, 52, 52, 17_920, 60), 1.4),
            ("65b", (8192, 64, 64, 22_016, 80), 1.4),
        )
    }
    llama2 = {
        f"llama2-{size}": Published(
            config=config(*sides, maximum_positions=4096, rotary_base=10_000.0),
            stages=(Stage(updates=500_000, tokens=4e6, length=4096),),
            source="Touvron et al. 2023, Llama 2: 2 trillion tokens in batches of 4 million, contexts of 4096",
        )
        for size, sides in {
            "7b": (4096, 32, 32, 11_008, 32),
            "13b": (5120, 40, 40, 13_824, 40),
            "70b": (8192, 64, 8, 28_672, 80),
        }.items()
    }
    small: dict[str, Any] = {"vocabulary": 49_152, "tied_output": True}
    smollm2 = {
        f"smollm2-{size}": Published(
            config=config(*sides, **small),
            stages=(),
            source=f"Ben Allal et al. 2025 trained SmolLM2 of {size} on {trillions} trillion tokens, in batches not known here",
            length=2048,
        )
        for size, sides, trillions in (
            ("135m", (576, 9, 3, 1536, 30), 2),
            ("360m", (960, 15, 5, 2560, 32), 4),
        )
    }
    mistral = Published(
        config=config(4096, 32, 8, 14_336, 32, sliding_window=4096, rotary_base=10_000.0),
        stages=(),
        source="Jiang et al. 2023 do not say how many tokens Mistral 7B was trained on",
        length=8192,
    )
    return {**llama, **llama2, **smollm2, "mistral-7b": mistral}


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "gpt": Published(
            config=GPTConfig(),
            stages=(),
            source="Radford et al. 2018 trained GPT for 100 epochs of a corpus whose tokens they do not count",
        ),
        **_gpt2(),
        **_gpt3(),
        **_pythia(),
        **_llama(),
        **_bert(),
        **_transformer(),
        **_t5(),
    }
)
"""The published models that can be planned by name."""


def published(name: str) -> Published:
    """A published model by name.

    Raises:
        InputError: for an unknown name; the message has the nearest one.
    """
    if name not in PUBLISHED:
        raise InputError(
            f"{name}: no such recipe, and no published model of that name; {nearest(name, list(PUBLISHED))}"
        )
    return PUBLISHED[name]
