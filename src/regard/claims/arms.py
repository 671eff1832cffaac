"""The arms of a comparison: what each changes of the recipe."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import InputError, nearest
from regard.training.recipe import put, read_override

TRAINS = "trains"
"""The key of an arm that says whose trained runs it takes."""

RUN = "run:"
"""What a setting begins with that stands for the folder of another arm's run with the same seed: `run:teacher`."""

_NAME = re.compile(r"\w[\w .,+=-]*")
_LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One variant.

    Arguments:
        name: also of its folder.
        settings: dotted keys of the recipe and their values; `model` alone replaces the whole section. `run:teacher` stands for
            the folder of the arm `teacher`, trained with the same seed, as in `model.pretrained` and `data.teacher.folder`.
        trains: another arm whose trained runs this one takes; it may then change `generation` and nothing else.

    Raises:
        InputError: for a name that is none for a folder.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    trains: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise InputError(
                f"an arm cannot be called {self.name!r}: its name is that of a folder; use letters, digits, spaces and .,+=-_"
            )
        trained = [key for key in self.settings if key.split(".")[0] != "generation"]
        if self.trains is not None and trained:
            raise InputError(
                f"arm {self.name!r} takes the runs of {self.trains!r} and changes {', '.join(trained)}; "
                "without training anew it can change generation alone"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        """The arms whose runs its settings name."""
        return tuple(dict.fromkeys(name for _, name in _named_runs(self.settings)))

    @property
    def referring(self) -> frozenset[str]:
        """The dotted keys of the recipe in which it names a run; where it starts from a model, the tokenizer's too."""
        keys = {key for key, _ in _named_runs(self.settings)}
        return frozenset(keys | ({"tokenizer.path"} if "model.pretrained" in keys else set()))

    def to_mapping(self) -> dict[str, Any]:
        """As YAML values, as `arms_of` reads them."""
        return dict(self.settings) | ({TRAINS: self.trains} if self.trains is not None else {})

    def applied(self, recipe: Mapping[str, Any], runs: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A copy of a recipe's values with this arm's settings.

        Arguments:
            runs: the folders of the runs that it needs, by arm; they stay `run:...` where None.
        """
        values = copied(recipe)
        for key, value in self.settings.items():
            put(values, key, _found(value, runs or {}))
        return values


def _named_runs(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys, and the arms whose runs stand there."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _named_runs(part, f"{key}.{name}".lstrip("."))
    elif isinstance(value, str) and value.startswith(RUN):
        yield key, value.removeprefix(RUN)


def _found(value: Any, runs: Mapping[str, str]) -> Any:
    """YAML values with the folders of runs in place of their names."""
    if isinstance(value, Mapping):
        return {key: _found(part, runs) for key, part in value.items()}
    if isinstance(value, str) and value.startswith(RUN):
        return runs.get(value.removeprefix(RUN), value)
    return copied(value)


def copied(value: Any) -> Any:
    """YAML values without anything shared with the original."""
    if isinstance(value, Mapping):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list | tuple) else value


def arms_of(values: Any, where: str) -> tuple[Arm, ...]:
    """Arms as YAML has them: names, and for each a mapping of dotted keys to values, or a list of `key=value`.

    Raises:
        InputError: naming the place.

    >>> arms_of({"small": ["model.width=8"], "large": {"model.width": 32}}, "arms")[0].settings
    {'model.width': 8}
    """
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"{where}: must name at least one arm, such as {where}: {{dot: [model.score=dot]}}")
    found = []
    for name, entry in values.items():
        settings: dict[str, Any]
        if entry is None:
            settings = {}
        elif isinstance(entry, Mapping):
            settings = {str(key): copied(value) for key, value in entry.items()}
        elif isinstance(entry, list | tuple) and all(isinstance(part, str) for part in entry):
            settings = dict(read_override(part) for part in entry)
        else:
            raise InputError(f"{where}.{name}: must be a list of key=value, or a mapping of keys to values")
        trains = settings.pop(TRAINS, None)
        found.append(Arm(name=str(name), settings=settings, trains=None if trains is None else str(trains)))
    check_together(found)
    return tuple(found)


def check_together(arms: Sequence[Arm]) -> None:
    """Refuse arms that are called alike, or need the runs of one that does not train, or not before them.

    Raises:
        InputError: naming the arm.
    """
    names = [arm.name for arm in arms]
    folded = [name.casefold() for name in names]  # on some file systems they would share a folder
    for name in names:
        if folded.count(name.casefold()) > 1:
            raise InputError(f"two arms are called {name!r}; give each its own name")
    trained = [arm.name for arm in arms if arm.trains is None]
    for place, arm in enumerate(arms):
        for name in arm.needs:
            if name not in trained:
                raise InputError(
                    f"arm {arm.name!r} needs the run of {name!r}, which trains none; {nearest(name, trained)}"
                )
            if name not in names[:place]:
                raise InputError(f"arm {arm.name!r} needs the run of {name!r}; name that arm before it")
        if arm.trains is not None and arm.trains not in trained:
            raise InputError(
                f"arm {arm.name!r} takes the runs of {arm.trains!r}, which trains none; {nearest(arm.trains, trained)}"
            )


def grid_arms(grid: Mapping[str, Sequence[Any]]) -> tuple[Arm, ...]:
    """An arm for every combination of values.

    Arguments:
        grid: dotted keys, and for each the values to compare.

    Raises:
        InputError: for a key without values.

    >>> [arm.name for arm in grid_arms({"model.score": ["dot", "general"], "model.width": [8, 16]})]
    ['score=dot,width=8', 'score=dot,width=16', 'score=general,width=8', 'score=general,width=16']
    """
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InputError(f"{key}: give a list of values to compare, such as {key}=a,b")
    last = [key.rpartition(".")[2] for key in grid]
    short = {key: name if last.count(name) == 1 else key for key, name in zip(grid, last, strict=True)}
    arms: list[Arm] = []
    for combination in itertools.product(*grid.values()):
        settings = dict(zip(grid, combination, strict=True))
        name = ",".join(f"{short[key]}={_spoken(value)}" for key, value in settings.items())
        arms.append(Arm(name=_unused(_for_folder(name), {arm.name.casefold() for arm in arms}), settings=settings))
    return tuple(arms)


def split_values(text: str) -> list[str]:
    """The values between the commas that stand outside brackets and quotes.

    >>> split_values("[a, b],[c],'d,e',f")
    ['[a, b]', '[c]', "'d,e'", 'f']
    """
    parts, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and not text[start:place].strip(" [{,:"):
            quote = letter  # elsewhere it is an apostrophe
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def read_grid(words: Iterable[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Words of a command line: overrides with one value for all arms, and keys with several values to compare.

    Raises:
        InputError: for a word without `=`, an empty value, or a key given twice.

    >>> read_grid(["training.steps=5", "model.score=dot,general", "data.train=[a.en, a.de]"])
    (['training.steps=5', 'data.train=[a.en, a.de]'], {'model.score': ['dot', 'general']})
    """
    overrides: list[str] = []
    grid: dict[str, list[Any]] = {}
    for word in words:
        key, separator, text = word.partition("=")
        values = split_values(text)
        if not separator or len(values) == 1:
            read_override(word)
            overrides.append(word)
            continue
        if key in grid:
            raise InputError(f"{key} is given twice; write all its values in one, {key}=a,b,c")
        if not all(value.strip() for value in values):
            raise InputError(f"{word!r}: there is nothing between two commas; leave one out, or write null")
        grid[key] = [read_override(f"{key}={value}")[1] for value in values]
    return overrides, grid


def _spoken(value: Any) -> str:
    if isinstance(value, Mapping):
        name = value.get("name")
        return str(name) if name is not None else " ".join(f"{key} {_spoken(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return "+".join(map(_spoken, value))
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if _is_constant(value) else str(value)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _for_folder(name: str) -> str:
    name = re.sub(r"[^\w .,+=-]", "-", name)[: _LONGEST_NAME - 4].strip(" .-")
    return name or "arm"


def _unused(name: str, taken: set[str]) -> str:
    numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each.casefold() not in taken)
