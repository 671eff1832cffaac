"""The old name of `regard.word_embeddings`, for one release: `from regard.vectors.store import WordVectors` still works."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

from regard.word_embeddings import Neighbour, Subwords, WordVectors, analogy, neighbours, odd_one_out

__all__ = ["Neighbour", "Subwords", "WordVectors", "analogy", "neighbours", "odd_one_out"]
__path__: list[str] = []  # a package, whose modules the finder below gives

MOVED = {
    "evaluation.extrinsic.tagging": "evaluation.tagging",
    "evaluation.extrinsic.texts": "evaluation.extrinsic",
    "evaluation.extrinsic.words": "evaluation.extrinsic",
    "evaluation.lookup": "evaluation.similarity",
    "evaluation.robustness": "evaluation.probes",
    "formats.folder": "formats.files",
    "formats.text": "formats.word2vec",
    "formats.word2vec_binary": "formats.word2vec",
    "judging": "survey",
    "judging.questionnaire": "survey",
    "judging.scores": "survey",
    "reading": "files",
    "subwords": "store",
    "training.cooccurrence": "training.counting",
    "training.settings": "training.corpus",
    "writing": "files",
}
"""Modules that were renamed or joined since, old name to new, both without the package's."""


class OldNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Give `regard.vectors.X` as the very module `regard.word_embeddings.X`, imported when it is asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{__name__}.") or importlib.util.find_spec(new_name(fullname)) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(new_name(module.__name__))
        for old in MOVED:  # the modules of a package that is one module now: nothing is looked for inside a module
            if (name := f"{__name__}.{old}").startswith(f"{module.__name__}."):
                sys.modules[name] = importlib.import_module(new_name(name))


def new_name(old: str) -> str:
    """The module's name today.

    >>> new_name("regard.vectors.bias.direction")
    'regard.word_embeddings.bias.direction'
    """
    tail = old.removeprefix(f"{__name__}.")
    return f"regard.word_embeddings.{MOVED.get(tail, tail)}"


warnings.warn("regard.vectors is called regard.word_embeddings; use that name", DeprecationWarning, stacklevel=2)
if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
    # before the finder of files, which would import the modules of a subpackage a second time
    sys.meta_path.insert(0, OldNames())
