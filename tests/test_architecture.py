"""The rules of the house that a reader of the installed package can check: which way imports point, and what is never done."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

# cli -> serving -> bench, claims, inspection -> training -> ... : a package may import those of later lines.
LINES = [
    {"cli"},
    {"serving"},
    {"bench", "checking", "claims", "inspection", "estimators", "planning", "testing"},
    {"training", "word_embeddings", "prompting"},
    {"tasks", "embeddings"},
    {"generation", "checkpoints"},
    {"data", "metrics", "text", "models", "quantization"},
    {"layers"},
    {"attention"},
    {"web", "kernels"},
]
# Within a line: who may import whom.
BESIDE = {
    ("bench", "inspection"),
    ("claims", "inspection"),
    ("testing", "inspection"),
    ("tasks", "embeddings"),
    ("generation", "checkpoints"),
    ("data", "text"),
    ("data", "models"),
    ("text", "models"),
    ("quantization", "models"),
}
RANK = {package: rank for rank, line in enumerate(LINES) for package in line}
UNPICKLING = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def home() -> Path:
    spec = importlib.util.find_spec("regard")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


ROOT = {path.stem for path in home().glob("*.py")}


@cache
def files() -> dict[str, ast.Module]:
    """Every file of the package, parsed by the first test that looks: a process of xdist that runs none of them parses none."""
    return {
        str(path.relative_to(home())): ast.parse(path.read_text("utf-8"))
        for path in sorted(home().rglob("*.py*"))
        if path.suffix in (".py", ".pyi")
    }


@cache
def catalogue() -> dict[str, ast.Module]:
    """Every file of the catalogue of claims beside the package, which may import anything of it."""
    spec = importlib.util.find_spec("regard_claims")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    return {
        str(path.relative_to(folder.parent)): ast.parse(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def imported(name: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of every module imported anywhere in a file, inside functions and type checks too."""
    package = ["regard", *Path(name).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "regard":  # `from regard import inspection`
                yield from ((node.lineno, f"regard.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def wrong_imports(name: str, tree: ast.Module) -> list[str]:
    own = name.split("/")[0] if "/" in name else None
    faults = []
    for line, module in imported(name, tree):
        parts = module.split(".")
        if parts[0] == "regard_claims":  # found by its entry point or its name, and imported when a claim runs
            faults.append(f"{name}:{line} imports {module}")
        if parts[0] != "regard" or len(parts) < 2:
            continue
        other = parts[1]
        if other in ROOT or other.startswith("__") or other == own:
            continue
        # A root module is a leaf: it imports none of the packages.
        if own is None or not (RANK.get(own, 99) < RANK.get(other, -1) or (own, other) in BESIDE):
            faults.append(f"{name}:{line} imports {module}")
    return faults


def test_every_package_has_its_place():
    packages = {name.split("/")[0] for name in files() if "/" in name}
    assert packages <= set(RANK), "give a new package a place in LINES, and in the plan"
    assert {"attention", "layers", "models"} <= packages


def test_imports_point_one_way():
    front_door = (
        "__init__.py",
        "__main__.py",
        "vectors.py",
    )  # names what users import, on first use; old names
    assert [
        fault for name, tree in files().items() if name not in front_door for fault in wrong_imports(name, tree)
    ] == []


@pytest.mark.parametrize(
    ("name", "line", "fault"),
    [
        ("attention/scores.py", "from regard.layers import Tokens", True),
        ("models/bahdanau.py", "import regard.generation.beam", True),
        ("models/bahdanau.py", "from ..checkpoints import names", True),
        ("training/loop.py", "def f():\n    from regard import inspection", True),
        ("text/tokenizer.py", "from regard.data.pairs import Pair", True),
        ("inspection/page.py", "from regard.claims import judge", True),
        ("errors.py", "from regard.attention import Soft", True),
        ("claims/claim.py", "from regard_claims.shared import trained", True),
        ("models/bahdanau.py", "from regard.attention import Soft", False),
        ("models/bahdanau.py", "from .config import check", False),
        ("data/pairs.py", "from regard.text import Tokenizer", False),
        ("cli/main.py", "from regard.errors import InputError\nimport torch", False),
    ],
)
def test_the_rule_itself_sees_a_wrong_import(name, line, fault):
    assert bool(wrong_imports(name, ast.parse(line))) == fault


def test_no_assert_speaks_to_users():
    """`python -O` drops them, and their tracebacks say nothing to a person."""
    assert [
        f"{name}:{node.lineno}"
        for name, tree in (files() | catalogue()).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ] == []


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def pickling(name: str, tree: ast.Module) -> list[str]:
    """What in a file reads or writes pickles, or imports what does."""
    faults = [f"line {line}: {module}" for line, module in imported(name, tree) if module.split(".")[0] in UNPICKLING]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if dotted(node.func) in ("torch.load", "torch.save", "pandas.read_pickle"):
                faults.append(f"line {node.lineno}: {dotted(node.func)}")
            for option in node.keywords:
                if option.arg == "allow_pickle" and not (
                    isinstance(option.value, ast.Constant) and option.value.value is False
                ):
                    faults.append(f"line {node.lineno}: allow_pickle")
    return faults


def test_nothing_is_pickled():
    """Reading a pickle runs whatever its writer wanted; files here are safetensors, JSON and plain arrays."""
    everything = files() | catalogue()
    assert {name: faults for name, tree in everything.items() if (faults := pickling(name, tree))} == {}
    for text in ("import pickle", "torch.load(a)", "np.load(a, allow_pickle=True)"):
        assert pickling("a.py", ast.parse(text)), f"the rule does not see {text}"
    assert not pickling("a.py", ast.parse("np.load(a, allow_pickle=False)"))


def test_only_training_sets_the_global_seed():
    """Elsewhere chance comes from a generator that is passed in; but the contract of mechanisms seeds a fork for dropout."""
    seeding = {
        "torch.manual_seed",
        "torch.random.manual_seed",
        "torch.cuda.manual_seed",
        "torch.cuda.manual_seed_all",
        "torch.seed",
        "random.seed",
        "np.random.seed",
        "numpy.random.seed",
    }
    assert [
        f"{name}:{node.lineno}"
        for name, tree in (files() | catalogue()).items()
        if not name.startswith("training/") and name != "testing/mechanism_inputs.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func) in seeding
    ] == []


PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text("utf-8")


def told(state: str) -> set[str]:
    """The packages that the page's plan of the house marks so."""
    return set(re.findall(rf"^  (\w+)/ +{state}\b", PAGE, flags=re.MULTILINE))


def test_the_page_marks_what_exists_as_existing_and_what_does_not_as_planned():
    packages = {name.split("/")[0] for name in files() if "/" in name}
    assert told("now") == packages
    assert told("planned") == set()
    assert not told("planned") & packages


def test_the_page_marks_each_command_as_it_is():
    import typer

    from regard.cli.main import app

    commands = set(typer.main.get_command(app).commands)
    rows = re.findall(r"^\| (`regard .*) \| now \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 2
    for names in rows:
        listed = set(re.findall(r"`(?:regard )?([\w-]+)`", names))
        if "vectors" in names:
            group = typer.main.get_command(app).commands["vectors"]
            assert listed - {"vectors"} == set(group.commands)
        else:
            assert listed | {"vectors"} == commands


def test_the_names_that_the_page_says_exist_now_exist():
    now = "".join(re.findall(r"^> \*\*Now\*\*.*?(?=\*Planned\*|\n\n)", PAGE, flags=re.MULTILINE | re.DOTALL))
    names = set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", now))
    assert {"ScoredAttention", "RelativeAttention", "LSHAttention", "KVBuffer", "KVCache"} <= names
    classes = {node.name for tree in files().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert names <= classes


def test_the_page_names_every_extra():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    section = re.search(r"Extras now:(.*?)`transformers` is never", PAGE, flags=re.DOTALL)
    assert section is not None
    assert set(re.findall(r"`(\w+)`", section.group(1))) == set(project["optional-dependencies"])


READERS = {
    ("json", "load"),
    ("json", "loads"),
    ("json", "JSONDecoder"),
    ("yaml", "SafeLoader"),
    ("yaml", "load"),
    ("yaml", "safe_load"),
    ("yaml", "full_load"),
    ("yaml", "unsafe_load"),
    ("yaml", "load_all"),
    ("yaml", "safe_load_all"),
}
# What they read is text that the same process has just made, or in bench what a process that it has started answers.
OWN_TEXT = {
    "reading.py",
    "bench/driver.py",
    "bench/peers/llamacpp.py",
    "bench/peers/runner.py",
    "claims/catalogue.py",
    "claims/measuring.py",
    "text/bert.py",
    "text/sampling.py",
    "text/files.py",
    "text/training.py",
    "text/vocabulary.py",
    "yaml_nodes.py",
}


def lax_readers(tree: ast.Module) -> list[int]:
    """Lines that read JSON or YAML by the libraries' own readers."""
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    faults = [node.lineno for node in named if tuple(dotted(node).split(".")) in READERS]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module in ("json", "yaml")]
    return faults + [node.lineno for node in imports]


def test_only_the_strict_reader_reads_json_and_yaml():
    """A user's file is bounded, read strictly and refused in a sentence; `regard.reading` does all three."""
    others = {name: tree for name, tree in (files() | catalogue()).items() if name not in OWN_TEXT}
    assert {name: lines for name, tree in others.items() if (lines := lax_readers(tree))} == {}


def test_the_rule_sees_each_lax_reader():
    for text in ("json.loads(a)", "yaml.safe_load(a)", "map(json.loads, a)", "from json import load", "json.load(f)"):
        assert lax_readers(ast.parse(text)) == [1]
    assert all(lax_readers(files()[name]) for name in OWN_TEXT), "take out what reads no more"
    assert lax_readers(ast.parse("json.dumps(a)")) == []


def imported_files(name: str, tree: ast.Module, known: set[str]) -> set[str]:
    """The files of the package that a file imports, in its functions too; what only type checkers read is left out."""
    package = ["regard", *Path(name).parent.parts]
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in dotted(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                module = ".".join([*base, *([child.module] if child.module else [])])
                found.update(full if (full := f"{module}.{alias.name}") in known else module for alias in child.names)
            visit(child)

    visit(tree)
    return found & known


def test_no_file_imports_itself_through_others():
    """Not in functions either: what needs one another is one chapter, or has its parts in the wrong file."""
    trees = {
        ".".join(["regard", *Path(name).with_suffix("").parts]): (name, tree)
        for name, tree in files().items()
        if name.endswith(".py") and not name.endswith(("__init__.py", "__main__.py"))
    }
    graph = {module: imported_files(name, tree, set(trees)) - {module} for module, (name, tree) in trees.items()}
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()  # graphlib.CycleError names the files


def test_opening_a_model_imports_its_own_family_and_task_alone():
    """Half a second of every command; the bound may only fall."""
    folder = Path(__file__).parent / "golden" / "folders" / "bert"
    code = (
        f"import json, sys, regard\nregard.load({str(folder)!r})\n"
        "print(json.dumps([name for name in sys.modules if name.split('.')[0] == 'regard']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert len(found) <= 150, sorted(found)
    assert [name for name in found if "tagging" in name or "gpt_classifiers" in name or "bahdanau" in name] == []
