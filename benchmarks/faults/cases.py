"""Valid folders, the cases made of them, and how many ended in which way."""

from __future__ import annotations

import collections
import contextlib
import importlib
import os
import pkgutil
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_lines
import doing
import judging
import mutating
import recipe_cases
import valid

import regard

NAMES = {"model": [*valid.RECIPES, *valid.FOREIGN], "run": list(valid.RUNS), "vectors": list(valid.VECTORS)}

Case = tuple[str, Callable[[], Any]]
"""What is done, in words and as a function."""


class Faults:
    """Valid folders, and cases made of them.

    Arguments:
        place: where everything is written.
        seed: of all cases.
        names: the kinds of model, run and vectors to make.
    """

    def __init__(self, place: Path, seed: int, names: dict[str, list[str]]) -> None:
        self.seed, self.names = seed, names
        self.valid, self.scratch = place / "valid", place / "scratch"
        # matplotlib keeps a list of fonts in the user's home; here in its own folder, and made before the first case.
        os.environ["MPLCONFIGDIR"] = str(place / "matplotlib")
        with contextlib.suppress(ImportError):
            import matplotlib.pyplot  # noqa: F401
        self.valid.mkdir()
        self.scratch.mkdir()
        self.data = self.valid / "data"
        valid.write_data(self.data)
        valid.write_models(self.valid / "model", self.data, [*names["model"], "encoder"])
        valid.write_runs(self.valid / "run", self.data, names["run"])
        valid.write_word_vectors(self.valid / "vectors", names["vectors"])
        work = judging.emptied(self.scratch)
        tempfile.tempdir = str(self.scratch / "temporary")
        shutil.copytree(self.data / "notes", self.valid / "index")
        _, do = self._do("index", "index", work, random.Random(0))
        if judging.judged(self.scratch, do).kind != "answer":
            raise SystemExit("a search in undamaged files has no answer")
        shutil.copytree(work / "notes", self.valid / "index", dirs_exist_ok=True)
        command_lines.write_material(self.valid / "material", self.valid / "model", self.valid / "vectors", self.data)

    def warm(self) -> None:
        """Import all, and do with undamaged folders what is done with damaged ones; each has to answer.

        Raises:
            SystemExit: where one does not.
        """
        import_all()
        here = Path.cwd()
        for kind in ("model", "run", "vectors", "index"):
            for name in self.names.get(kind, [kind]):
                done = set[str]()
                for number in range(20):
                    work = judging.emptied(self.scratch)
                    what, do = self._do(kind, name, work, random.Random(number))
                    if what in done:
                        continue
                    done.add(what)
                    outcome = judging.judged(self.scratch, do)
                    if outcome.kind != "answer":
                        raise SystemExit(f"{name}: {what}: {outcome}")
                    os.chdir(work)
                    _quietly(do)
                    os.chdir(here)

    def _do(self, kind: str, name: str, work: Path, draw: random.Random, damage: bool = False) -> Case:
        """Copy a valid folder into `work`, damage it, and say what to do with it."""
        target = {"model": work / "model", "run": work / "run", "vectors": work / name, "index": work / "notes"}[kind]
        if kind == "index":
            shutil.copytree(self.valid / "model" / "encoder", work / "model")
        source = self.valid / kind / name if kind != "index" else self.valid / "index"
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
        said: list[str] = []
        if damage and target.is_dir() and kind != "index":
            said = mutating.mutate(target, draw, self.valid / kind)
        elif damage:
            found = (
                target
                if kind != "index"
                else draw.choice([target / ".regard-index.safetensors"] * 6 + sorted(target.glob("*.txt")))
            )
            said = [mutating.fault(found, draw)]
        if kind == "model":
            what, do = doing.with_model(name, work, self.data, draw)
        elif kind == "run":
            what, do = doing.with_run(draw)
        elif kind == "vectors":
            what, do = doing.with_vectors(name, draw)
        else:
            what, do = doing.with_index()
        return f"{name}: {what} ({'; '.join(said)})", do

    def case(self, kind: str, number: int) -> tuple[str, judging.Outcome]:
        """One case: what it was, and how it ended."""
        draw = random.Random(f"{self.seed} {kind} {number}")
        work = judging.emptied(self.scratch)
        if kind == "command":
            words = command_lines.line(draw)
            command_lines.bring(words, self.valid / "material", work)
            what, do = " ".join(map(_shown, words)), judging.command(*words)
        elif kind == "recipe":
            recipe_cases.write(work / "recipe.yaml", self.data, draw)
            what, do = "recipe", judging.command("train", "recipe.yaml", "-o", "run")
        else:
            name = draw.choice(self.names[kind]) if kind != "index" else "index"
            what, do = self._do(kind, name, work, draw, damage=True)
        return what, judging.judged(self.scratch, do)


def import_all() -> None:
    """Import the whole package, so that no case does, and what the first step of an optimizer imports."""
    importlib.import_module("torch._dynamo")
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if ".peers." not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _shown(word: str) -> str:
    return ascii(word) if len(word) < 60 else f"{word[:20]!a}..."


def _quietly(do: Callable[[], Any]) -> None:
    """Do it in this process, for what it imports."""
    out, err = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        try:
            do()
        except judging.Unclear:  # the streams that it reads are another's
            pass
        finally:
            sys.stdout, sys.stderr = out, err


def run(
    faults: Faults, counts: dict[str, int], say: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """All cases: figures for each kind, and the cases that ended as none may."""
    judging.until_started()
    figures: dict[str, dict[str, Any]] = {}
    wrong: list[dict[str, Any]] = []
    for kind, count in counts.items():
        ends: collections.Counter[str] = collections.Counter()
        slowest, largest = 0.0, 0
        for number in range(count):
            what, outcome = faults.case(kind, number)
            ends[outcome.kind] += 1
            if outcome.allowed:
                slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.memory)
            else:
                wrong.append({"case": f"{kind}:{number}", "did": what, "ended": outcome.kind, "where": outcome.detail})
                say(f"{kind}:{number} {outcome.kind}: {outcome.detail[:300]} | {what}")
            if number % 500 == 499:
                say(f"{kind}: {number + 1:,} of {count:,}, {dict(ends)}")
        figures[kind] = {
            "cases": count,
            **{end: ends[end] for end in judging.ALLOWED},
            "otherwise": count - sum(ends[end] for end in judging.ALLOWED),
            "slowest, processor seconds": round(slowest, 2),
            "largest, MB": round(largest / 1e6),
        }
    return figures, wrong
