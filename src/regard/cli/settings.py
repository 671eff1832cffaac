"""Groups of options, generated from the fields of a dataclass of settings, which a command gets as one argument.

A command's parameter may be annotated with such a dataclass of this package (`run: Texts`), whose fields have typer's
annotations, or with `Annotated[Given, Settings(...)]`, which reads the fields, types, defaults and docstring of a dataclass
elsewhere. `grouped` replaces the parameter by the options.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.generation import GenerationSettings

Given = Mapping[str, Any]
"""The values of a group of options, by the name of the setting; None where not given."""

NOTHING: Given = {}

FIRST = ("input_file", "text_column", "output")
LAST = ("device", "dtype", "batch_size", "as_json")
"""Options at the beginning and at the end of every --help, in this order."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a dataclass of settings, or a keyword of a function, as in the source."""

    name: str
    type: Any
    help: str
    default: Any = None
    """A number or a text; None where there is none, or it is something else."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options for fields of a dataclass of settings elsewhere, or for the keywords of a function.

    Every option may be left out; its value is then None, and the default of the class, or of a model, is used. The class checks
    the values.

    Arguments:
        place: the class, as `module:Class`, or the function.
        names: the fields that have an option, in order.
        usual: defaults of options, by field.
        called: the option's name where it is not the field's.
        help: help texts by field, where the class's docstring does not fit the command line.
        own: complete annotations by field, where its type does not fit an option.
        metavar: the placeholder of the value in --help, by field.
        defaults: whether --help shows the class's defaults; False where a model has its own.
        read: functions from an option's value, which may be None, to the field's, by field.
    """

    place: str
    names: Sequence[str]
    usual: Mapping[str, Any] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    help: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    metavar: Mapping[str, str] = field(default_factory=dict)
    defaults: bool = False
    read: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def without(self, *names: str, **usual: Any) -> Settings:
        """The same without the options of some fields, and with other defaults."""
        return dataclasses.replace(self, names=[each for each in self.names if each not in names], usual=usual)

    def only(self, *names: str) -> Settings:
        """The same with the options of these fields only."""
        return dataclasses.replace(self, names=names)

    def values(self, given: Mapping[str, Any]) -> Given:
        """The values of the options, by field."""
        return {name: self.read[name](value) if name in self.read else value for name, value in given.items()}

    def parameters(self) -> list[inspect.Parameter]:
        """A parameter for each option, for typer."""
        found = settings_in(self.place)
        return [_parameter(name, self._annotation(found[name]), self.usual.get(name)) for name in self.names]

    def _annotation(self, setting: Setting) -> Any:
        name = setting.name
        if name in self.own:
            return self.own[name]
        word = "--" + self.called.get(name, name).replace("_", "-")
        shown = self.defaults and not isinstance(setting.default, bool | None) and name not in self.usual
        default = f"  [default: {setting.default}]" if shown else ""
        flags = f"{word}/--no-{word[2:]}" if setting.type is bool else word
        option = typer.Option(
            flags,
            help=self.help.get(name, setting.help) + default,
            metavar=self.metavar.get(name, _METAVARS[setting.type]),
            show_default=name in self.usual,
        )
        return Annotated[setting.type | None, option]


_METAVARS: Mapping[Any, str | None] = {int: "N", float: "NUMBER", str: "NAME", bool: None}


@functools.cache
def settings_in(place: str) -> Mapping[str, Setting]:
    """The fields of a dataclass or keywords of a function, parsed from the source, since importing it takes PyTorch and a second.

    Arguments:
        place: `module:Class` or `module:function`, of this package.

    >>> beam = settings_in("regard.generation.settings:GenerationSettings")["beam"]
    >>> beam.type, beam.help
    (<class 'int'>, 'Beam size; 1 is greedy search.')
    """
    module, _, name = place.partition(":")
    source = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name)
    names = {alias: value for alias, value in map(_alias, tree.body) if alias}
    help = _described(ast.get_docstring(found) or "")
    parts: Iterable[tuple[str, ast.expr | None, ast.expr | None]]
    if isinstance(found, ast.ClassDef):
        fields = [part for part in found.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
        parts = [(ast.unparse(part.target), part.annotation, part.value) for part in fields]
    else:
        keywords = zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True)
        parts = [(part.arg, part.annotation, value) for part, value in keywords]
    return {
        name: Setting(
            name,
            _type(annotation, names),
            help.get(name, ""),
            value.value if isinstance(value, ast.Constant) else None,
        )
        for name, annotation, value in parts
    }


def _alias(node: ast.stmt) -> tuple[str, ast.expr | None]:
    """The name and value of a module-level assignment; empty for other statements."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    return "", None


def _type(annotation: ast.expr | None, names: Mapping[str, ast.expr | None]) -> Any:
    """The type of an option: int, float, bool or str; str for a Literal and any other type."""
    if annotation is None:
        return str
    text = ast.unparse(names.get(annotation.id) or annotation if isinstance(annotation, ast.Name) else annotation)
    return {"int": int, "float": float, "bool": bool}.get(text.removesuffix(" | None"), str)


def _described(docstring: str) -> dict[str, str]:
    """The description of each argument in a docstring, as a sentence, without what None means, which options cannot be."""
    found: dict[str, str] = {}
    current: list[str] = []
    _, _, section = docstring.partition("Arguments:\n")
    for line in section.split("\n\n")[0].splitlines():
        if line.startswith("        "):
            found |= {name: f"{found[name]} {line.strip()}" for name in current}
            continue
        names, _, text = line.strip().partition(": ")
        current = [name.strip() for name in names.split(",")]
        found |= {name: text[:1].upper() + text[1:] for name in current}
    return {name: re.sub(r"; None [^;.]*", "", text.replace("`", "")) for name, text in found.items()}


def grouped(
    *, without: Sequence[str] = (), usual: Given = NOTHING, **help: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that replaces parameters that stand for groups by the options of the groups.

    Arguments:
        without: fields of a group that have no option here.
        usual: other defaults, by field.
        help: other help texts, by field.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        groups = {name: group for name, part in signature.parameters.items() if (group := _group(part.annotation))}
        parts = {name: _parameters(group) for name, group in groups.items()}

        @functools.wraps(command)
        def whole(**given: Any) -> None:
            for name, group in groups.items():
                found = {part.name: given.pop(part.name, part.default) for part in parts[name] if part.name in shown}
                given[name] = group.values(found) if isinstance(group, Settings) else group(**found)
            command(**given)

        parameters = [each for part in signature.parameters.values() for each in parts.get(part.name, [part])]
        parameters = [_changed(each, usual, help) for each in parameters if each.name not in without]
        shown = {each.name for each in parameters}
        defaults = {each.name: each for each in parameters}
        parts = {name: [defaults.get(each.name, each) for each in some] for name, some in parts.items()}
        place = {name: number for number, name in enumerate((*FIRST, "", *LAST))}
        # typer passes arguments by name; this is the order of --help.
        parameters.sort(key=lambda each: place.get(each.name, place[""]))
        whole.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        whole.__annotations__ = {each.name: each.annotation for each in parameters}
        return whole

    return decorated


def _group(annotation: Any) -> Any:
    """The dataclass or `Settings` in a parameter's annotation; None where the parameter is an option itself."""
    if get_origin(annotation) is Annotated:
        return next((each for each in get_args(annotation)[1:] if isinstance(each, Settings)), None)
    return annotation if dataclasses.is_dataclass(annotation) else None


def _parameters(group: Any) -> list[inspect.Parameter]:
    if isinstance(group, Settings):
        return group.parameters()
    hints = get_type_hints(group, include_extras=True)
    missing = dataclasses.MISSING
    return [
        _parameter(part.name, hints[part.name], inspect.Parameter.empty if part.default is missing else part.default)
        for part in dataclasses.fields(group)
    ]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _changed(part: inspect.Parameter, usual: Given, help: Mapping[str, str]) -> inspect.Parameter:
    """A parameter with another default or help text, where there is one."""
    part = part.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    if part.name in usual:
        part = part.replace(default=usual[part.name])
    if part.name in help:
        kind, info = get_args(part.annotation)
        info = copy.copy(info)
        info.help = help[part.name]
        part = part.replace(annotation=Annotated[kind, info])
    return part


# Options of several commands.


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda; auto is cuda if PyTorch finds a GPU.")]
_DTYPES = (
    "float32, bfloat16 or float16; for GPT-like language models and models for translation also int8 or int4 weights, which are "
    "faster on a CPU"
)
DType = Annotated[str, typer.Option(metavar="NAME", help=f"{_DTYPES}.")]
DTypeOrAuto = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"{_DTYPES}; auto is bfloat16 if the device supports it natively, else float32.",
    ),
]
VectorDType = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="auto, float32, bfloat16 or int8; auto is bfloat16 if the device supports it natively."
    ),
]
BatchSize = Annotated[int, typer.Option(metavar="N", min=1, help="Texts per batch.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
To = Annotated[
    str | None,
    typer.Option(metavar="LANGUAGE", help="Target language, for a multilingual model.", show_default=False),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings to override, such as training.steps=500.", show_default=False),
]
"""Changes to a recipe in `regard train`, `plan` and other commands."""


# Options of several commands on word embeddings.


Vectors = Annotated[
    Path, typer.Argument(metavar="VECTORS", help="A file or folder of word embeddings.", show_default=False)
]
SeveralVectors = Annotated[
    list[Path], typer.Argument(metavar="VECTORS...", help="Files or folders of word embeddings.", show_default=False)
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="folder, word2vec, word2vec-binary, glove or fasttext. By default from the file name: .txt and .vec are "
        "word2vec, .bin is word2vec-binary (.gz compresses), no ending is a folder.",
        show_default=False,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Use only the first N vectors, usually the most frequent words.", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")]
Tests = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Association tests: JSON objects with the lists targ1, targ2, attr1, attr2, or a folder of such files; may be "
        "repeated.",
        show_default=False,
    ),
]


# The options of decoding.


def biases(words: Sequence[str] | None) -> list[list[Any]] | None:
    """The setting's value from --logit-bias; None where it was not given.

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


DECODING = Settings(
    place="regard.generation.settings:GenerationSettings",
    names=(
        *("beam", "n_best", "length_penalty", "coverage_penalty", "minimum_length", "maximum_length"),
        *("sample", "temperature", "top_k", "top_p", "min_p", "seed"),
        *("repetition_penalty", "no_repeat_ngram_size", "presence_penalty", "frequency_penalty", "logit_bias"),
    ),
    help={
        "maximum_length": "Maximum number of generated tokens, end token included.",
        "seed": "Random seed for sampling.",
    },
    own={
        "logit_bias": Annotated[
            list[str] | None,
            typer.Option(
                metavar="TOKEN=NUMBER",
                help="Add NUMBER to the logit of a token, given as text or as id:NUMBER; may be repeated.",
                show_default=False,
            ),
        ]
    },
    read={"logit_bias": biases},
)
"""The options of decoding, which are fields of `regard.generation.GenerationSettings`."""

Decoding = Annotated[Given, DECODING]

_OF_SEARCH = ("beam", "coverage_penalty", "early_stopping", "search_end")
_OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
_OF_SINGLE_TEXTS = ("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")


def with_options(own: GenerationSettings, options: Mapping[str, Any]) -> GenerationSettings:
    """A model's own generation settings, replaced by the given options.

    Own settings that contradict a choice between search and sampling are dropped; options are never dropped.

    Arguments:
        own: the model's settings.
        options: by field; None means not given.

    Raises:
        InputError: for an unknown field (with the nearest one), a value out of range, and options that contradict each other.
    """
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


def split_settings(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Separate the words of a command line: `key=value` settings, with values parsed as YAML, and others.

    A file with such a name can be given as ./beam=5.

    Raises:
        InputError: for a value that is not YAML.

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
        InputError: for an unknown setting; the message has the nearest one.
    """
    from regard.generation import GenerationSettings

    known = sorted(part.name for part in dataclasses.fields(GenerationSettings))
    for key in settings:
        if key not in known:
            raise InputError(f"there is no setting {key!r} of generation; {nearest(key, known)}")


def _value(text: str, word: str) -> Any:
    from regard.reading import parse_yaml

    return parse_yaml(text, f"{word[:200]!r}", "quote it")
