"""What all model configs share: checks with readable messages, and JSON that refuses unknown fields.

After them come the checks that models of one kind share: models that make one vector of a text, and classifiers of images.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import InputError
from regard.layers import FIXED_OUTPUTS, LayeredHead
from regard.layers.heads import NoHead
from regard.machine import memory
from regard.structure import coerced, from_mapping


class ModelConfig(Protocol):
    """A frozen dataclass that describes one model completely."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    model_type: ClassVar[str]
    """The family's name in config.json and in recipes."""


C = TypeVar("C", bound=ModelConfig)


def check(holds: bool, field: str, value: object, allowed: str, remedy: str) -> None:
    """Refuse a setting in one sentence: the field, its value, what is allowed, what to do.

    Raises:
        InputError: where `holds` is false.

    >>> check(False, "heads", 3, "a divisor of width 8", "choose 2 or 4")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: heads is 3 but must be a divisor of width 8; choose 2 or 4
    """
    if not holds:
        raise InputError(f"{field} is {value!r} but must be {allowed}; {remedy}")


def check_types(config: Any) -> None:
    """Refuse a setting of another type or outside its choices, however the config was made.

    A misspelt choice would otherwise pass every comparison in the wiring and quietly build another model.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    hints = typing.get_type_hints(type(config), include_extras=True)
    for part in dataclasses.fields(config):
        coerced(getattr(config, part.name), hints[part.name], part.name)


MOST_LAYERS = 1_000
"""Layers of a model: several times what the deepest in use have."""
LARGEST_SIZE = 1 << 24
"""Any other size of one, such as a width or a vocabulary."""


def check_sizes(config: Any, *names: str) -> None:
    """Refuse a size or a count below one, or so large that no model has it and building it would take all memory.

    Arguments:
        config: whose settings they are.
        names: of the settings.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    for name in names:
        size, most = getattr(config, name), MOST_LAYERS if name.endswith("layers") else LARGEST_SIZE
        check(size > 0, name, size, "at least 1", "give a size")
        if type(size) is int:  # a subclass stands for a size that the data will fill in
            check(size <= most, name, size, f"at most {most:,}", "give a smaller size")


class _NothingDrawn(TorchFunctionMode):
    """Leaves parameters as they are where they would be sampled, and joins shapes."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _DRAWN or getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0]
        if func is torch.cat:
            return _joined(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


_DRAWN = (torch.Tensor.normal_, torch.Tensor.uniform_)


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    shape[dim] = sum(each.shape[dim] for each in tensors)
    return tensors[0].new_empty(shape)


@contextmanager
def shapes_only() -> Iterator[None]:
    """A model that is made inside has parameters with shapes and dtypes, and no numbers.

    `torch.device("meta")` alone does that too, but sampling and joining there import PyTorch's compiler, which takes a second.

    >>> with shapes_only():
    ...     layer = nn.Linear(2, 3)
    >>> layer.weight.shape, layer.weight.device.type
    (torch.Size([3, 2]), 'meta')
    """
    with torch.device("meta"), _NothingDrawn():
        yield


def check_memory(model: Callable[[Any], nn.Module], config: Any) -> None:
    """Refuse a config whose parameters alone, in float32, are more than the machine's memory, before any is made.

    Raises:
        InputError: naming both sizes.
    """
    with shapes_only():
        count = sum(parameter.numel() for parameter in model(config).parameters())
    there = memory()
    if there is not None and 4 * count > there:
        raise InputError(
            f"model: {count:,} parameters take {4 * count / 2**30:,.1f} GiB and this machine has {there / 2**30:,.1f}; "
            "choose smaller sizes"
        )


def check_shares(config: Any, *names: str, usual: str) -> None:
    """Refuse a probability of dropping that is not in [0, 1); None, where a type allows it, is another setting's.

    Arguments:
        config: whose settings they are.
        names: of the settings.
        usual: what is usual, or published, for the message.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    for name in names:
        share = getattr(config, name)
        check(share is None or 0 <= share < 1, name, share, "in [0, 1)", usual)


def check_tokens(config: Any, *names: str, of: str = "vocabulary") -> None:
    """Refuse special tokens that are not among a model's tokens.

    Arguments:
        config: whose settings they are.
        names: of the special tokens.
        of: the setting that counts the tokens.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    count = getattr(config, of)
    for name in names:
        token = getattr(config, name)
        check(0 <= token < count, name, token, f"in [0, {count})", f"it is one of the tokens that {of} counts")


def check_outputs(config: Any) -> None:
    """Refuse a number of outputs that the config's head cannot have.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    wanted = FIXED_OUTPUTS.get(config.head)
    check(
        config.outputs >= 1 if wanted is None else config.outputs == wanted,
        "outputs",
        config.outputs,
        "at least 1" if wanted is None else str(wanted),
        f"for the head {config.head!r}",
    )


def config_to_json(config: ModelConfig) -> dict[str, Any]:
    """The config as JSON values, its family under `model_type`."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {"model_type": config.model_type, "format_version": 1, **values}


def config_from_json(family: type[C], values: Mapping[str, Any], where: str) -> C:
    """The config that `config_to_json` wrote, or one made of a recipe's settings.

    Arguments:
        family: the config class.
        values: the settings; `model_type` and `format_version` are allowed and not passed on.
        where: how messages call the place, such as a file's name.

    Raises:
        InputError: for a missing or unknown key (naming the nearest) or a value of the wrong type.
    """
    settings = {key: value for key, value in values.items() if key not in ("model_type", "format_version")}
    return from_mapping(family, settings, where)


def check_sentence_encoder(config: Any) -> None:
    """Refuse a vocabulary, dropout or head that no such model can have.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_sizes(config, "vocabulary")
    check_shares(config, "dropout", usual="0.1 is usual")
    check(config.texts in (1, 2), "texts", config.texts, "1 or 2", "the head reads one text, or a pair")
    check_tokens(config, "padding_id")
    check_outputs(config)


def vector_head(config: Any, hidden_width: int) -> nn.Module:
    """The head that a config asks for, on the vector of one text or on what two are compared by.

    Arguments:
        hidden_width: of its hidden layer; 0 for a linear map.
    """
    if config.head == "none":
        return NoHead()
    width = config.width if config.texts == 1 else 4 * config.width
    return LayeredHead(width, hidden_width, config.outputs, dropout=config.dropout)


def check_image_classifier(config: Any, *sizes: str, least: int = 1) -> None:
    """Refuse what no such model can be.

    Arguments:
        sizes: further settings that are at least 1.
        least: the fewest classes.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_types(config)
    check_sizes(config, "image_height", "image_width", "image_channels", *sizes)
    check(config.outputs >= least, "outputs", config.outputs, f"at least {least}", "there is one for each class")
    dropout = getattr(config, "dropout", 0.0)
    check(0 <= dropout < 1, "dropout", dropout, "in [0, 1)", "0.1 is usual")


def check_divides(config: Any, name: str, step: int, why: str) -> None:
    """Refuse images that cannot be cut into whole steps.

    Arguments:
        name: of the setting that says the step.
        why: what that is, as half a sentence.

    Raises:
        InputError: naming the side that does not divide.
    """
    for side in ("image_height", "image_width"):
        size = getattr(config, side)
        check(
            size % step == 0,
            side,
            size,
            f"a multiple of {step}, {why}",
            f"change the size of the images (data.height, data.width), or model.{name}",
        )


def check_channels(name: str, channels: Sequence[int], *, some: bool) -> None:
    """Refuse numbers of channels below 1, and none where there must be some.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    fits = all(each > 0 for each in channels) and (bool(channels) or not some)
    check(fits, name, tuple(channels), "numbers of channels, each at least 1", "such as [32, 64]")
