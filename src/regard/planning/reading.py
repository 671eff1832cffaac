"""What is planned: a published model by its name, as its paper says, or a recipe; and what a recipe's run reads."""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import nn

from regard.data.batching import Batches
from regard.errors import InputError, nearest
from regard.models import (
    MODELS,
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
from regard.planning.counting import Shape, Work, outline
from regard.planning.devices import Device, NumberFormat
from regard.tasks.preparation import Prepared
from regard.tasks.spec import spec_of
from regard.training.optimizers import freeze, give_adapters
from regard.training.recipe import Recipe, folder_of, packaged_recipe, read_recipe
from regard.training.settings import OptimizerName, TrainingSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A part of a training run, all its texts of one length.

    Arguments:
        updates: of the parameters.
        tokens: of one update's batch, both sides together where there are two.
        length: of each text, or of each source, in tokens.
        target: of each target; 0 where there is none.
        predicted_share: of a text's tokens, those whose logits are computed; None = all, or all of the target.
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
        stages: what it was trained on; empty where nobody says.
        source: where that is from, or why it is not known.
        length: of a text, in tokens, where there are no stages.
    """

    config: Any
    stages: tuple[Stage, ...]
    source: str
    length: int = 512

    def work(self, *, tokens: float | None, length: int | None, rows: int) -> Work:
        """What its training read.

        Arguments:
            tokens: of the whole run, instead of what was published.
            length: of a text, likewise; of the only stage, or of one that stands for all.
            rows: texts that one device holds at a time.

        Raises:
            InputError: where the run's tokens are neither published nor given.
        """
        stages = self.stages
        if not stages and tokens is None:
            raise InputError(f"{self.source}; say how many with --tokens, such as --tokens 300e9")
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
    """A stage as single texts, each read once."""
    predicted = None if stage.predicted_share is None else float(round(stage.predicted_share * stage.length))
    each = Shape(rows=1, length=stage.length, target=stage.target, predicted=predicted)
    return replace(each, times=stage.updates * stage.tokens / each.tokens)


def _rows(shape: Shape, rows: int) -> Shape:
    predicted = None if shape.predicted is None else shape.predicted * rows
    return replace(shape, rows=rows, predicted=predicted, times=1)


def _gpt3() -> dict[str, Published]:
    """Tokens of a batch from table 2.1, 300 billion in all; a text fills the context of 2048 tokens."""
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
    """Nine tenths of the updates at 128 tokens, the rest at 512 (appendix A.2)."""
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
            "how long sentences were is not said, and 30 tokens a side assumed",
        )
        for name, config, updates in (
            ("transformer-base", TransformerConfig.base(), 100_000),
            ("transformer-big", TransformerConfig.big(), 300_000),
        )
    }


def _t5() -> dict[str, Published]:
    """512 tokens with 15 % of them taken out in spans of 3 have targets of 114 (the authors' code)."""
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
    """Llama, Llama 2 and others of their type, with their groups of heads that share keys and values."""

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
"""Every published model that can be planned by its name."""


def published(name: str) -> Published:
    """A published model by its name.

    Raises:
        InputError: where there is none of that name, with the nearest.
    """
    if name not in PUBLISHED:
        raise InputError(
            f"{name}: no such recipe, and no published model of that name; {nearest(name, list(PUBLISHED))}"
        )
    return PUBLISHED[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is planned.

    Arguments:
        name: of the recipe or published model.
        config: of the model.
        model: its outline, without numbers; what is not trained is frozen.
        work: what it reads.
        precision: of matrix products, as the recipe has it; `16` for the fastest 16-bit format.
        recomputed: whether the recipe has activation checkpointing.
        optimizer, momentum: the recipe's, and whether it has one.
    """

    name: str
    config: Any
    model: nn.Module
    work: Work
    precision: str
    recomputed: bool
    optimizer: OptimizerName = "adamw"
    momentum: bool = False


def subject_of(what: Any, overrides: Sequence[str], asked: Asked, *, count: int, read: bool) -> Subject:
    """The published model of a name, or a recipe.

    Raises:
        InputError: as `regard.planning.plan`.
    """
    named = isinstance(what, str) and not Path(what).exists() and not what.endswith((".yaml", ".yml"))
    if named and packaged_recipe(what) is None:
        if overrides:
            raise InputError(
                f"{what} is a published model, which takes no settings such as {overrides[0]}; use a recipe"
            )
        found = published(what)
        length = asked.length or max((stage.length for stage in found.stages), default=found.length)
        rows = max(1, (asked.batch_tokens or 0) // length)
        work = found.work(tokens=asked.tokens, length=asked.length, rows=rows)
        return Subject(
            name=what, config=found.config, model=outline(found.config), work=work, precision="16", recomputed=False
        )
    recipe = read_recipe(what, overrides)
    config, work = recipe_work(recipe, asked, count=count, read=read)
    model = outline(config)
    if recipe.adapters is not None:
        start = folder_of(recipe.model["pretrained"])
        give_adapters(model, recipe.adapters, start, recipe.model.get("pretrained_layers"))
    if recipe.training.frozen:
        freeze(model, recipe.training.frozen)
    return Subject(
        name=str(what) if isinstance(what, str | os.PathLike) else config.model_type,
        config=config,
        model=model,
        work=work,
        precision=recipe.training.precision,
        recomputed=recipe.training.activation_checkpointing,
        optimizer=recipe.training.optimizer,
        momentum=recipe.training.momentum > 0,
    )


def number_format(asked: str, own: str, device: Device) -> NumberFormat:
    """What matrices are multiplied in: as asked for, or as the subject has it.

    Raises:
        InputError: where the device does not multiply it.
    """
    wanted = asked if asked != "auto" else own
    if wanted == "16":
        return device.fastest
    if wanted == "auto":
        wanted = "bfloat16" if device.peak.get("bfloat16", 0.0) > device.peak["float32"] else "float32"
    if wanted not in device.peak:
        raise InputError(f"--dtype: {device.title} does not multiply {wanted}; choose {' or '.join(device.peak)}")
    return wanted  # type: ignore[return-value]


# What a recipe's run reads: its data prepared as training would, where it is here, else what its settings say.


WITHOUT_TEXTS = ("transducer", "few_shot", "captioner", "image_classifier")
"""What models are called with whose work is not counted in tokens."""

BUILTIN = {"builtin", "dates", "sequences", "maps", "repeats"}
"""Settings of a data section that name data which is always there."""

MOST_MADE = 100_000
"""Examples of builtin data that are made for a plan, in fifteen seconds; more of them are counted by these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a plan may say instead of a recipe or a paper.

    Arguments:
        tokens: read in the whole run, padding included.
        batch_tokens: that one device reads at a time.
        length: of a text, in tokens; of source and of target alike.
    """

    tokens: float | None = None
    batch_tokens: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        for name, option in (("tokens", "--tokens"), ("batch_tokens", "--batch-tokens"), ("length", "--length")):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{option} is {value!r}; give a number above 0")


def recipe_work(recipe: Recipe, asked: Asked, *, count: int, read: bool) -> tuple[Any, Work]:
    """A recipe's model, with the sizes of its vocabularies, and what its run reads.

    Arguments:
        count: devices; each takes batches of its own.
        read: prepare the data, as training would, where it is here.

    Raises:
        InputError: where the length of the run, or of a text, can be known neither from the recipe nor from its data, and for
            tasks that read no texts.
    """
    if MODELS[str(recipe.model["name"])].interface in WITHOUT_TEXTS:
        raise InputError(
            f"a plan counts tokens of texts, and task {recipe.task} reads none; train for some steps instead"
        )
    if asked.batch_tokens is not None:
        training = dataclasses.replace(recipe.training, batch_tokens=asked.batch_tokens)
        recipe = dataclasses.replace(recipe, training=training)
    if read and asked.length is None and is_here(recipe.sections["data"]):
        data, times = _made(recipe.sections["data"])
        with tempfile.TemporaryDirectory() as folder:
            kind = spec_of(recipe.task)
            prepared = kind.prepare(
                folder=Path(folder) / "data",
                seed=recipe.seed,
                given=None,
                given_validation=None,
                **{**recipe.sections, "data": data},
            )
            config = recipe.model_config(prepared.task.model_settings(), prepared.task.settings_of_some())
            return config, _from_data(recipe, config, prepared, asked, count, times)
    config = recipe.model_config(_sizes(recipe))
    return config, _from_settings(recipe, asked, count)


def is_here(data: Any) -> bool:
    """Whether all that a data section names is on this machine: builtin data, or files."""
    targets = getattr(data, "targets", None)
    if isinstance(targets, Mapping):
        return all(is_here(part) for part in targets.values())
    if any(getattr(data, name, None) is not None for name in BUILTIN):
        return True
    files = [*_files(getattr(data, "train", None)), *_files(getattr(data, "validation", None))]
    return getattr(data, "train", None) is not None and all(Path(file).is_file() for file in files)


def _made(data: Any) -> tuple[Any, float]:
    """A data section whose builtin examples can be made in a short time, and how many times as many it names."""
    for name in BUILTIN & {field.name for field in dataclasses.fields(data)}:
        part: Any = getattr(data, name)
        less = {size: MOST_MADE for size in ("size", "validation_size") if getattr(part, size, 0) > MOST_MADE}
        if less:
            return dataclasses.replace(data, **{name: dataclasses.replace(part, **less)}), max(
                1.0, part.size / MOST_MADE
            )
    return data, 1.0


def _files(place: Any) -> Iterator[str]:
    if isinstance(place, str):
        yield place
    elif place is not None:
        yield from place


def _sizes(recipe: Recipe) -> dict[str, Any]:
    """What the task decides of the config, the vocabularies as large as the tokenizer may become."""
    derived_config = dict(spec_of(recipe.task).derived_config)
    if recipe.model.get("pretrained") is None and recipe.tokenizer is not None:
        derived_config |= {name: recipe.tokenizer.size for name in derived_config if name.endswith("vocabulary")}
    return derived_config


def _from_data(
    recipe: Recipe, config: Any, prepared: Prepared[Any], asked: Asked, count: int, times_as_many: float
) -> Work:
    """The very batches of the first epoch, or of a share of it, as often as the run reads each."""
    training, task, store = recipe.training, prepared.task, prepared.train
    lengths, predicted = np.asarray(task.lengths(store)), _predicted(task, store, config)
    chosen = task.epoch_rows(store)
    batches = Batches(lengths, maximum_tokens=training.tokens_of_a_batch(lengths), seed=recipe.seed, rows=chosen).epoch(
        0
    )
    sides = MODELS[config.model_type].interface == "encoder_decoder"
    counted: Counter[Shape] = Counter()
    for batch in batches:
        widest = lengths[batch].max(axis=0).tolist()
        answers = None if predicted is None else float(predicted[batch].sum())
        if sides:
            counted[Shape(rows=len(batch), length=widest[0], target=widest[1], predicted=answers)] += 1
        else:  # several texts of an example are read one after another
            for each in widest:
                counted[Shape(rows=len(batch), length=each, predicted=answers)] += 1
    per_epoch = sum(shape.tokens * times for shape, times in counted.items()) * times_as_many
    labels = task.labels(store)
    labels_read = sum(int(labels[batch].sum()) for batch in batches)
    of_epoch = round(len(batches) * times_as_many)
    updates = _updates(training, of_epoch, round(labels_read * times_as_many), count)
    epochs = (asked.tokens / per_epoch) if asked.tokens is not None else None
    if epochs is None:
        if updates is None:
            raise InputError(_no_end(training))
        epochs = updates * training.accumulate * count / of_epoch
    shapes = tuple(dataclasses.replace(shape, times=times * epochs * times_as_many) for shape, times in counted.items())
    examples = round(len(store) * times_as_many)
    by = "" if times_as_many == 1 else f", by {len(store):,} of them"
    return Work(
        shapes=shapes,
        updates=epochs * of_epoch / (training.accumulate * count),
        largest=dataclasses.replace(max(shapes, key=lambda shape: shape.tokens), times=1),
        source=f"its data: {examples:,} examples{by}, {of_epoch:,} batches an epoch, {epochs:,.4g} epochs",
    )


def _predicted(task: Any, store: Any, config: Any) -> np.ndarray | None:
    """Of each example, how many tokens' logits over the vocabulary a model with a head computes; None where all have some."""
    head = getattr(config, "head", None)
    if head is None:
        return None
    if head in ("masked", "pretraining"):
        return np.asarray(task.labels(store))
    auxiliary = [np.asarray(each) for each in task.auxiliary_labels(store).values()]
    return np.asarray(sum(auxiliary)) if auxiliary else np.zeros(len(store))


def _updates(training: TrainingSettings, batches: int, labels: int, count: int) -> float | None:
    """How many updates the limits allow; a limit in seconds says nothing before the run."""
    each = training.accumulate * count
    limits: list[float] = [] if training.steps is None else [training.steps]
    if training.epochs is not None:
        limits.append(training.epochs * math.ceil(batches / each))
    if training.tokens is not None:
        limits.append(training.tokens / (labels / math.ceil(batches / each)))
    return min(limits) if limits else None


def _from_settings(recipe: Recipe, asked: Asked, count: int) -> Work:
    """Batches that are all full, of texts that are all as long as they may be."""
    training, data = recipe.training, recipe.sections["data"]
    length = asked.length or getattr(data, "length", None) or getattr(data, "maximum_length", None)
    if length is None:
        raise InputError(
            "how long texts are is known from the data alone, and what the recipe names is not here; say it with --length"
        )
    sides = 2 if MODELS[str(recipe.model["name"])].interface == "encoder_decoder" else 1
    rows = max(1, training.batch_tokens // (sides * length))
    share = getattr(data, "chosen_share", None)
    shape = Shape(
        rows=rows,
        length=length,
        target=length if sides == 2 else 0,
        predicted=None if share is None else rows * round(share * length),
    )
    each = training.accumulate * count
    if asked.tokens is not None:
        times = asked.tokens / shape.tokens
    elif training.steps is not None:
        times = training.steps * each
    elif training.tokens is not None:
        times = training.tokens / (shape.rows * (shape.target or shape.length))
    else:
        raise InputError(_no_end(training))
    whole = dataclasses.replace(shape, times=times)
    return Work(
        shapes=(whole,),
        updates=times / each,
        largest=shape,
        source="the recipe's settings, every batch full and every text as long as it may be; its data was not read",
    )


def _no_end(training: TrainingSettings) -> str:
    if training.epochs is not None:
        return (
            f"the run ends after {training.epochs:g} epochs, of data that is not here; name its files by data.train=..., or say "
            "how many tokens with --tokens"
        )
    return f"the run ends after {training.seconds:g} seconds; say training.steps=... or --tokens"
