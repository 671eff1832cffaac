"""Parts of one's own: scores, alignments, mechanisms, models, tasks, metrics and readers that the package does not have.

A part has a name, which recipes and folders use. It comes from a file (`--code my.py`, `code="my.py"`), from an installed package
that has an entry point in the group `regard.parts`, or from a decorator in the program that runs.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from regard.errors import InputError
from regard.reading import read_bytes

__all__ = ["alignment", "load_code", "mechanism", "metric", "model", "reader", "score", "task"]

Kind = Literal["score", "alignment", "mechanism", "model", "task", "metric", "reader"]
NEEDED: tuple[Kind, ...] = ("task", "model", "score", "mechanism", "alignment")
"""The kinds without which a model cannot be opened."""

GROUP = "regard.parts"
FOLDER = "code"
"""The folder next to a model that holds the files its parts came from."""

Code = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a part came from.

    Arguments:
        module: the module it is defined in.
        file: its file; None in a notebook or an interactive session.
        source: the content of that file when it was read.
        package: the installed package whose entry point named it, and its version; empty for others.
    """

    module: str
    file: Path | None = None
    source: bytes = b""
    package: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of the file; empty where there is none."""
        return hashlib.sha256(self.source).hexdigest() if self.file is not None else ""

    def __str__(self) -> str:
        return f"the package {self.package}" if self.package else str(self.file or self.module)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of one's own.

    Arguments:
        value: the class or function.
        settings: what its decorator said besides.
        origin: where it came from.
    """

    kind: Kind
    name: str
    value: Any
    settings: Mapping[str, Any]
    origin: Origin


class Parts:
    """The parts of this process, by kind and name; entry points are read when a name is first asked for.

    Arguments:
        builtin: what gives the names that the package itself has of a kind.
    """

    def __init__(self, builtin: Mapping[Kind, Callable[[], Sequence[str]]] | None = None) -> None:
        self._parts: dict[tuple[Kind, str], Part] = {}
        self._files: set[tuple[Path, str]] = set()
        self._reading: Origin | None = None
        self.files: dict[str, Path] = {}
        self._package = ""
        self._installed = False
        self.builtin: dict[Kind, Callable[[], Sequence[str]]] = dict(builtin or {})

    def add(self, kind: Kind, name: str, value: Any, settings: Mapping[str, Any]) -> None:
        """Name a part. The same definition, run again in a notebook, takes the place of the earlier one.

        Raises:
            InputError: for a name that is taken.
        """
        if not isinstance(name, str) or not name.replace("_", "").isalnum():
            raise InputError(f"a {kind} is named {name!r}; take letters, digits and underscores")
        if name in (self.builtin[kind]() if kind in self.builtin else ()):
            raise InputError(f"there is a {kind} {name!r} in the package already; name yours otherwise")
        new = Part(kind=kind, name=name, value=value, settings=settings, origin=self._origin(value))
        old = self._parts.get((kind, name))
        if old is not None and old.origin.file != new.origin.file:
            raise InputError(
                f"there is a {kind} {name!r} from {old.origin} already; name the one from {new.origin} otherwise"
            )
        self._parts[kind, name] = new

    def get(self, kind: Kind, name: object) -> Part | None:
        """A part, or None where there is none of that name."""
        found = self._parts.get((kind, name))  # type: ignore[arg-type]
        if found is None:
            self._read_entry_points()
            found = self._parts.get((kind, name))  # type: ignore[arg-type]
        return found

    def names(self, kind: Kind) -> list[str]:
        """The names of all parts of a kind."""
        self._read_entry_points()
        return [name for each, name in self._parts if each == kind]

    def read_file(self, path: str | os.PathLike[str]) -> None:
        """Run a file whose decorators name parts; once, as long as its content is the same.

        Raises:
            InputError: where it cannot be read, or fails.
        """
        file = Path(path).resolve()
        source = read_bytes(path, "give a Python file as code")
        digest = hashlib.sha256(source).hexdigest()
        if (file, digest) in self._files:
            return
        name = f"regard_code_{file.stem}_{digest[:8]}"
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None:
            raise InputError(f"{path}: is no Python file; give one whose name ends in .py as code")
        module = importlib.util.module_from_spec(spec)
        before = dict(self._parts)
        sys.modules[name] = module  # dataclasses look their module up
        self._reading = Origin(module=name, file=file, source=source)
        try:
            exec(compile(source, str(file), "exec"), module.__dict__)
        except Exception as error:
            self._parts = before
            del sys.modules[name]
            if isinstance(error, InputError):
                raise
            said = f"{type(error).__name__}: {error}"
            raise InputError(f"{path}: the code failed{_line(error, file)} ({said}); mend the file") from error
        finally:
            self._reading = None
        self._files.add((file, digest))
        self.files[str(path)] = file

    def _origin(self, value: Any) -> Origin:
        if self._reading is not None:
            return self._reading
        module = getattr(value, "__module__", None) or "__main__"
        try:
            file = Path(inspect.getfile(sys.modules[module])).resolve()
            return Origin(module=module, file=file, source=file.read_bytes(), package=self._package)
        except (TypeError, OSError, KeyError):  # a notebook
            return Origin(module=module, package=self._package)

    def _read_entry_points(self) -> None:
        if self._installed:
            return
        self._installed = True
        for point in importlib.metadata.entry_points(group=GROUP):
            package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
            self._package = package
            try:
                point.load()
            except InputError:
                raise
            except Exception as error:
                raise InputError(
                    f"the package {package} has parts for regard ({point.value}) that cannot be imported: "
                    f"{type(error).__name__}: {error}; mend or uninstall it"
                ) from error
            finally:
                self._package = ""


PARTS = Parts()


def load_code(code: Code | None) -> None:
    """Run files of one's own, so that the parts they name can be used; each once.

    Arguments:
        code: the path of a Python file, or of several.

    Raises:
        InputError: for a file that cannot be read or fails, naming the line, or a name that is taken.
    """
    for path in [code] if isinstance(code, str | os.PathLike) else code or ():
        PARTS.read_file(path)


def code_files() -> list[str]:
    """The paths of the files that `load_code` ran: as they were given, or absolute where the current folder has changed since."""
    return [given if Path(given).resolve() == file else str(file) for given, file in PARTS.files.items()]


def score(name: str) -> Callable[[type[T]], type[T]]:
    """Name a `regard.attention.Score`, for `model.score` of a recipe.

    The class is called without arguments, or with `width`, the size of a query and a key, where its `__init__` has it.
    """
    return _decorator("score", name)


def mechanism(name: str) -> Callable[[type[T]], type[T]]:
    """Name a whole `regard.attention.Attention`, for `model.score`; it takes the place of score and alignment.

    The class is called as a score's is, and with `dropout` where its `__init__` has it.
    """
    return _decorator("mechanism", name)


def alignment(name: str) -> Callable[[type[T]], type[T]]:
    """Name a `regard.attention.Alignment`, for `model.alignment`. The class is called without arguments."""
    return _decorator("alignment", name)


def model(
    *,
    config: type[Any],
    interface: str = "encoder_decoder",
    sentences: bool = False,
    input_tokens: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Name a model, for `model.name`; its name is `config.model_type`.

    Arguments:
        config: a frozen dataclass with `model_type`, from which the class is made.
        interface: what the model is called with: one of `regard.models.Interface`.
        sentences, input_tokens: as for `regard.models.Family`.
    """
    settings = {"config": config, "interface": interface, "sentences": sentences, "input_tokens": input_tokens}
    return _decorator("model", getattr(config, "model_type", config.__name__), settings)


def metric(name: str, *, task: str) -> Callable[[Callable[[Any, Any], float]], Callable[[Any, Any], float]]:
    """Name a metric, for `training.best` and evaluations: from a list of answers and a list of what is right to a number.

    A higher number is better. Answers are names of classes, numbers, or texts, as the task's own are.

    Arguments:
        task: whose models it judges: `classification`, `regression` or `translation`.
    """
    return _decorator("metric", name, {"task": task})


def reader(name: str) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    """Name a reader of files, for `data.format`: a function of a path that gives examples as `regard.train` takes in memory."""
    return _decorator("reader", name)


def task(kind: T) -> T:
    """Name a task: a `regard.tasks.TaskSpec`; its name is that of its `task`."""
    PARTS.add("task", kind.task.name, kind, {})  # type: ignore[attr-defined]
    return kind


def _decorator(kind: Kind, name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> Callable[[T], T]:
    def named(value: T) -> T:
        PARTS.add(kind, name, value, settings)
        return value

    return named


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that names a part: one of the package's, or one of the user's own.

    Arguments:
        builtin: the names that the package has.
        own: the kinds of parts of one's own that may be there.
    """

    builtin: tuple[str, ...]
    own: tuple[Kind, ...]

    def checked(self, value: object, where: str) -> str:
        """The name.

        Raises:
            InputError: where there is no such part.
        """
        if isinstance(value, str) and (value in self.builtin or any(PARTS.get(kind, value) for kind in self.own)):
            return value
        known = [*self.builtin, *(name for kind in self.own for name in PARTS.names(kind))]
        raise InputError(f"{where} is {value!r}; choose {' or '.join(map(repr, known))}{own_hint(self.own[0])}")


def own_hint(kind: Kind) -> str:
    """What a message adds where a name is not known: it may be that of a part whose code was not given."""
    return f" (a {kind} of your own: add --code FILE, in Python code=FILE)"


def own_names(kind: Kind) -> list[str]:
    """The names of all own parts of a kind."""
    return PARTS.names(kind)


def own(kind: Kind, name: str) -> Any:
    """The class or function of an own part; None where there is none of that name."""
    part = PARTS.get(kind, name)
    return None if part is None else part.value


def own_metrics(task: str) -> list[str]:
    """The names of the own metrics that judge models for a task."""
    return [
        name for name in PARTS.names("metric") if (part := PARTS.get("metric", name)) and part.settings["task"] == task
    ]


def own_scores(task: str, answers: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    """What the own metrics of a task say of answers."""
    return {name: float(own("metric", name)(list(answers), list(references))) for name in own_metrics(task)}


class Imported(Mapping[str, V]):
    """What is named by the place it is defined in, "module:name", and imported when it is asked for.

    Arguments:
        homes: the place of each, by its key.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> V:
        module, _, defined = self._homes[name].partition(":")
        return getattr(importlib.import_module(module), defined)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


class WithOwn(Mapping[str, V]):
    """What the package has by name, and after it the parts of the user's own.

    Arguments:
        kind: of the parts.
        builtin: what the package has.
        made: what a part becomes here.
    """

    def __init__(self, kind: Kind, builtin: Mapping[str, V], made: Callable[[Part], V]) -> None:
        self._kind: Kind = kind
        self.packaged, self._made = builtin, made
        PARTS.builtin[kind] = lambda: list(builtin)

    def __getitem__(self, name: str) -> V:
        if name in self.packaged:
            return self.packaged[name]
        part = PARTS.get(self._kind, name)
        if part is None:
            raise KeyError(name)
        return self._made(part)

    def __contains__(self, name: object) -> bool:
        return name in self.packaged or PARTS.get(self._kind, name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([*self.packaged, *PARTS.names(self._kind)])

    def __len__(self) -> int:
        return len(self.packaged) + len(PARTS.names(self._kind))


def built(kind: Kind, name: str, **arguments: Any) -> Any:
    """A part's class called with those of the arguments that its `__init__` names; None where there is no such part.

    Raises:
        InputError: where it needs others.
    """
    part = PARTS.get(kind, name)
    if part is None:
        return None
    known = inspect.signature(part.value).parameters
    needed = [
        each.name
        for each in known.values()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    lacking = [each for each in needed if each not in arguments]
    if lacking:
        raise InputError(
            f"the {kind} {name!r} of {part.origin}: its __init__ needs {', '.join(lacking)}, and is called with "
            f"{' and '.join(arguments) or 'nothing'} at most; give the others defaults"
        )
    return part.value(**{key: value for key, value in arguments.items() if key in known})


def used(config: Any, task: object, recipe: Mapping[str, Any]) -> list[Part]:
    """The parts of one's own that a model was made with, by its config, its task and its recipe."""
    sections = {name: recipe.get(name) or {} for name in ("data", "training")}
    named: list[tuple[Kind, object]] = [
        ("task", task),
        ("model", config.model_type),
        ("score", getattr(config, "score", None)),
        ("mechanism", getattr(config, "score", None)),
        ("alignment", getattr(config, "alignment", None)),
        ("metric", sections["training"].get("best")),
        ("reader", sections["data"].get("format")),
    ]
    return [part for kind, name in named if isinstance(name, str) and (part := PARTS.get(kind, name)) is not None]


def write_code(folder: Path, parts: Sequence[Part]) -> dict[str, dict[str, dict[str, str]]]:
    """Copy the files of parts into `code/` of a model's folder, to be read; what regard.json says of them: by kind and name."""
    said: dict[str, dict[str, dict[str, str]]] = {}
    for part in parts:
        origin = part.origin
        entry = {"package": origin.package} if origin.package else {"module": origin.module}
        if origin.file is not None:
            entry = {"package": origin.package} if origin.package else {"file": origin.file.name}
            entry["sha256"] = origin.digest
        if origin.file is not None and not origin.package:
            place = folder / FOLDER / origin.file.name
            place.parent.mkdir(exist_ok=True)
            if place.exists() and place.read_bytes() != origin.source:  # two files of one name
                place = place.with_name(f"{place.stem}-{origin.digest[:8]}{place.suffix}")
            place.write_bytes(origin.source)
            entry["copy"] = f"{FOLDER}/{place.name}"
        said.setdefault(part.kind, {})[part.name] = entry
    return said


def check_code(said: Mapping[str, Any], folder: Path) -> None:
    """Refuse to open a model whose own parts are not there; warn where their file is another than it was made with.

    Arguments:
        said: what `write_code` gave.

    Raises:
        InputError: naming the part, where it came from, and what to type.
    """
    for kind in NEEDED:
        for name, entry in (said.get(kind) or {}).items():
            part = PARTS.get(kind, name)
            if part is None:
                raise InputError(f"{folder}: {_missing(kind, name, entry, folder)}")
            if part.origin.digest and entry.get("sha256") and part.origin.digest != entry["sha256"]:
                _warn_of_another(part, entry, folder)


def _warn_of_another(part: Part, entry: Mapping[str, str], folder: Path) -> None:
    """Warn where the file of a part changed, and the part with it; what changed around it in the file is of no concern."""
    copy = folder / entry["copy"] if "copy" in entry else None
    before = read_bytes(copy, "leave it") if copy is not None and copy.is_file() else b""
    if hashlib.sha256(before).hexdigest() != entry["sha256"]:
        warnings.warn(
            f"{folder}: {part.origin} changed since the model was made; whether the {part.kind} {part.name!r} did cannot be "
            "known, for the folder has no copy of what it was",
            stacklevel=3,
        )
    elif _definition(before, part.value) != _definition(part.origin.source, part.value):
        warnings.warn(
            f"{folder}: was made with another version of the {part.kind} {part.name!r} than {part.origin} has now",
            stacklevel=3,
        )


def _definition(source: bytes, value: object) -> list[str]:
    """A class or function as it is in a file, and all of the file that it uses by name; all of it where it is not found.

    Trees and not text, so that comments and layout do not count.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [repr(source)]
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _defined(statement):
            defined.setdefault(name, []).append(statement)
    wanted = [name] if (name := getattr(value, "__name__", "")) in defined else list(defined)
    found: dict[ast.stmt, None] = {}
    while wanted:
        for statement in defined.get(wanted.pop(), ()):
            if statement not in found:
                found[statement] = None
                wanted += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return sorted(ast.dump(statement) for statement in found)


def _defined(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module gives, also within its branches."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _missing(kind: str, name: str, entry: Mapping[str, str], folder: Path) -> str:
    if "package" in entry:
        return f"needs the {kind} {name!r} of the package {entry['package']}; install it"
    if "file" not in entry:
        return (
            f"needs the {kind} {name!r}, which was defined in a notebook or session; put it into a file and add --code FILE "
            "(in Python: code=FILE)"
        )
    copy = f"; a copy is {folder / entry['copy']}, read it before you run it" if "copy" in entry else ""
    return f"needs the {kind} {name!r} of {entry['file']}; add --code {entry['file']} (in Python: code={entry['file']!r}){copy}"


def _line(error: Exception, file: Path) -> str:
    """Where in a file it failed."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f" in line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f" in line {lines[-1]}" if lines else ""
