"""What is done to a folder and may be ended, or go wrong, at any moment: a training, a save over a model, an extension."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import valid
from runs import SEED, differing, in_child, opened, remains, weights

HERE = Path(__file__).resolve().parent
LIBRARY = "REGARD_OPERATIONS"
"""The variable of the environment that names the library loaded before all others."""

TRAINING: dict[str, Any] = {
    "steps": 4, "batch_tokens": 260, "learning_rate": 1e-2, "warmup": 3, "evaluate_every": 3, "save_every": 2, "log_every": 3,
}  # fmt: skip
FURTHER = 6
"""Steps of a run that is extended."""


def with_library() -> ctypes.CDLL:
    """The library that counts operations, in a process where it is loaded before all others: this very program, started again."""
    path = os.environ.get(LIBRARY)
    if path is not None:
        library = ctypes.CDLL(path)
        library.operations.restype = ctypes.c_long
        library.crash_at.argtypes = [ctypes.c_char_p, ctypes.c_long]
        library.fail_at.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
        library.slow_down.argtypes = [ctypes.c_char_p, ctypes.c_uint]
        return library
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        built = Path(place) / "operations.so"
        compiler = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
        if compiler is None:
            raise SystemExit("there is no C compiler (gcc, cc or clang) to build operations.c with")
        source = HERE / "operations.c"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(source), "-o", str(built), "-ldl"], check=True)
        settings = os.environ | {"LD_PRELOAD": str(built), LIBRARY: str(built), "TOKENIZERS_PARALLELISM": "false"}
        settings |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        raise SystemExit(subprocess.run([sys.executable, *sys.argv], env=settings, check=False).returncode)


@dataclass(frozen=True)
class Scene:
    """Something that is done to a folder, and may be ended at any moment.

    Arguments:
        before: a folder that is copied before it begins; None to begin with nothing.
        act: does it, and does it again after a kill.
        allowed: digests of the models that the folder may hold meanwhile; None among them for no model.
        after: what is left of it when it was not ended.
        place: of the model or run in the folder.
    """

    before: Path | None
    act: Callable[[Path], Any]
    allowed: frozenset[str | None]
    after: dict[str, Any]
    place: str = "run"

    def prepare(self, folder: Path) -> None:
        """Make the folder anew."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.before is not None:
            shutil.copytree(self.before, folder / self.place)

    def judged(self, folder: Path) -> str:
        """What is wrong with what a fault left, and with what becomes of it; empty where nothing is."""
        state = opened(folder / self.place)
        if state not in self.allowed:
            return "no model" if state is None else "a model that is neither the old nor the new one"
        self.act(folder)
        names = differing(remains(folder), self.after)
        return f"{', '.join(names)} not as without the fault" if names else ""


def judged_in_child(scene: Scene, folder: Path, place: Path) -> str:
    """The same in a process of its own, with the traceback where it raises."""
    ended = in_child(lambda: scene.judged(folder), place)
    return ended.answer if ended.code == 0 else f"raised {ended.sentence}"


def trained(data: Path, folder: Path, states: list[str] | None = None, say: Any = None, **training: Any) -> None:
    """Train into a folder's run, going on where it was; the digests after each step are added to `states`."""
    import regard
    from regard.training.callbacks import Callback

    class Watching(Callback):
        def started(self, model: Any, progress: Any, total_steps: int | None) -> None:
            self.model = model

        def stepped(self, progress: Any, tokens_per_second: float) -> None:
            if states is not None:
                states.append(weights(self.model))

    recipe = valid.recipe_of("bahdanau", data)
    recipe |= {"seed": SEED, "model": {**recipe["model"], "dropout": 0.1}}
    recipe["training"] = {**recipe["training"], **TRAINING, **training}
    regard.train(recipe, output=folder / "run", resume=True, callbacks=[Watching()], say=say)


def saved(model: Path, folder: Path) -> None:
    """Save a model where another may be."""
    import regard

    regard.load(model).save(folder / "model")


def scenes(base: Path, data: Path) -> dict[str, Scene]:
    """What is ended at every crash point, after it was done once undisturbed."""

    def did(work: Callable[[], Any]) -> Any:
        ended = in_child(work, base / "scene")
        if ended.code:
            raise SystemExit(f"a run that nobody disturbed failed: {ended.said}")
        return ended.answer

    def states(name: str, **training: Any) -> list[str]:
        found: list[str] = []
        (base / name).mkdir(exist_ok=True)
        return did(lambda: [trained(data, base / name, found, **training), *found][1:])

    short = states("short")
    shutil.copytree(base / "short", base / "longer")
    longer = states("longer", steps=FURTHER)
    states("other", steps=2)
    old, new = (did(lambda name=name: opened(base / name / "run")) for name in ("short", "other"))
    for name, model in (("a", "short"), ("b", "other")):
        (base / name).mkdir()
        did(lambda name=name, model=model: saved(base / model / "run", base / name))
    return {
        "training": Scene(
            None, lambda folder: trained(data, folder), frozenset({None, *short}), remains(base / "short")
        ),
        "save over a model": Scene(
            base / "a" / "model", lambda folder: saved(base / "other" / "run", folder), frozenset({old, new}),
            remains(base / "b"), "model",
        ),
        "extending a finished run": Scene(
            base / "short" / "run",
            lambda folder: trained(data, folder, steps=FURTHER),
            frozenset((*short, *longer)),
            remains(base / "longer"),
        ),
    }  # fmt: skip
