"""The options that say how to decode: stated once, for every command that writes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.generation import GenerationSettings

Decoding = Mapping[str, Any]
"""What was given of the options below, by the name of the setting; None where one was not given."""

NOTHING: Decoding = {}

Beam = Annotated[int | None, typer.Option(help="Live hypotheses per text; 1 is greedy search.", show_default=False)]
LengthPenalty = Annotated[float | None, typer.Option(help="Alpha of ((5 + length) / 6)^alpha; favours long answers.")]

OPTIONS: Mapping[str, Any] = {
    "beam": Beam,
    "n_best": Annotated[
        int | None, typer.Option(help="Answers per text, at most as many as the beam; or samples to draw.")
    ],
    "length_penalty": LengthPenalty,
    "coverage_penalty": Annotated[
        float | None, typer.Option(help="Beta of the coverage term; favours reading all of the source.")
    ],
    "minimum_length": Annotated[int | None, typer.Option(min=0, help="The least tokens of an answer.")],
    "maximum_length": Annotated[int | None, typer.Option(help="The most tokens of an answer.")],
    "sample": Annotated[
        bool | None, typer.Option("--sample/--no-sample", help="Draw tokens instead of taking the best.")
    ],
    "temperature": Annotated[float | None, typer.Option(help="Of sampling; below 1 is more careful, above 1 bolder.")],
    "top_k": Annotated[int | None, typer.Option(help="Draw from the k most probable tokens.")],
    "top_p": Annotated[
        float | None, typer.Option(help="Draw from the most probable tokens that hold this probability.")
    ],
    "min_p": Annotated[
        float | None, typer.Option(help="Draw from tokens at least this many times as probable as the best.")
    ],
    "seed": Annotated[int | None, typer.Option(help="Of sampling.")],
    "repetition_penalty": Annotated[
        float | None,
        typer.Option(help="Makes tokens of the prompt and of the text so far less probable; above 1, 1.2 is usual."),
    ],
    "presence_penalty": Annotated[float | None, typer.Option(help="Taken off the logits of tokens written before.")],
    "frequency_penalty": Annotated[float | None, typer.Option(help="The same, as many times as a token was written.")],
    "logit_bias": Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN=NUMBER",
            help="Added to the logit of a token, given as text or as id:NUMBER; may be repeated.",
            show_default=False,
        ),
    ],
}
"""The options of decoding, by the setting of `regard.generation.GenerationSettings` that each one gives."""

To = Annotated[
    str | None,
    typer.Option(metavar="LANGUAGE", help="The language wanted, of a model of several.", show_default=False),
]

_OF_SEARCH = ("beam", "coverage_penalty", "enough", "search_end")
_OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
_OF_SINGLE_TEXTS = ("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")


def decoding_options(*without: str, **usual: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command's parameter `decoding` stand for the options of decoding: its signature lists each of them there.

    Arguments:
        without: settings that have no option here, because the command has no place for what they ask for.
        usual: values where an option is not given, by setting; else None, which leaves the model's own.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        chosen = [name for name in OPTIONS if name not in without]

        @functools.wraps(command)
        def decoding_command(*arguments: Any, **given: Any) -> None:
            found = {name: given.pop(name, usual.get(name)) for name in chosen}
            if "logit_bias" in found:
                found["logit_bias"] = biases(found["logit_bias"])
            command(*arguments, decoding=found, **given)

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name != "decoding":
                parameters.append(parameter)
                continue
            for name in chosen:
                # typer calls by name; the order here is the order of --help.
                option = parameter.replace(name=name, annotation=OPTIONS[name], default=usual.get(name))
                parameters.append(option)
        decoding_command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        decoding_command.__annotations__ = {each.name: each.annotation for each in parameters}
        return decoding_command

    return decorated


def with_options(own: GenerationSettings, options: Mapping[str, Any]) -> GenerationSettings:
    """A model's own settings with those on top that were given.

    What contradicts a choice between searching and sampling is dropped from the model's own settings, never from the
    options.

    Arguments:
        own: the model's.
        options: by field; None means not given.

    Raises:
        InputError: for an unknown field (naming the nearest), a value out of range, or options that contradict each other.
    """
    import dataclasses

    from regard.generation import GenerationSettings
    from regard.structure import from_mapping

    given = {name: value for name, value in options.items() if value is not None}
    values = dataclasses.asdict(own)
    usual = {part.name: part.default for part in dataclasses.fields(GenerationSettings)}
    if "sample" in given:
        values |= {name: usual[name] for name in (_OF_SEARCH if given["sample"] else _OF_SAMPLING)}
    if "beam" in given and "n_best" not in given and isinstance(given["beam"], int):
        values["n_best"] = max(1, min(own.n_best, given["beam"]))
        if given["beam"] > 1:
            values |= {name: usual[name] for name in _OF_SINGLE_TEXTS}
    if "maximum_length" in given:
        values["total_length"] = None
    return from_mapping(GenerationSettings, values | given, "generation")


def biases(words: Sequence[str] | None) -> list[list[Any]] | None:
    """What --logit-bias was given, as the setting has it; None where it was not.

    Raises:
        InputError: for a word without a token or a number.

    >>> biases([" the=-2", "id:7=5", "==1"])
    [[' the', -2.0], [7, 5.0], ['=', 1.0]]
    """
    if not words:
        return None
    found: list[list[Any]] = []
    for word in words:
        token, _, number = word.rpartition("=")
        try:
            amount = float(number)
            found.append([int(token.removeprefix("id:")) if token.startswith("id:") else token, amount])
        except ValueError:
            token = ""
        if not token:
            raise InputError(f"--logit-bias {word!r}: give a token and a number, such as ' the=-2' or id:262=-2")
    return found


def split_settings(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Words of a command line apart: those that are `key=value` settings, values read as YAML, and the others.

    A file with a name like that can be given as ./beam=5.

    Raises:
        InputError: for a value that is no YAML.

    >>> split_settings(["test.tsv", "beam=5", "length_penalty=1.0"])
    (['test.tsv'], {'beam': 5, 'length_penalty': 1.0})
    """
    others: list[str] = []
    settings: dict[str, Any] = {}
    for word in words:
        key, separator, text = word.partition("=")
        if separator and key.isidentifier():
            settings[key] = _value(text, word)
        else:
            others.append(word)
    return others, settings


def check_known(settings: Iterable[str]) -> None:
    """Refuse settings that decoding does not have, before a model is loaded.

    Raises:
        InputError: for such a one, with the nearest.
    """
    import dataclasses

    from regard.generation import GenerationSettings

    known = sorted(part.name for part in dataclasses.fields(GenerationSettings))
    for key in settings:
        if key not in known:
            raise InputError(f"there is no setting {key!r} of generation; {nearest(key, known)}")


def _value(text: str, word: str) -> Any:
    from regard.reading import parse_yaml

    return parse_yaml(text, f"{word[:200]!r}", "quote it")
