"""Regard: the attention lineage in one package. Train it, run it, look inside it.

>>> import regard
>>> regard.__version__
'0.1.0'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.old_names import add_old_modules

if TYPE_CHECKING:
    from regard.claims.comparing import compare
    from regard.errors import InputError
    from regard.inspection import look
    from regard.planning.plan import plan
    from regard.tasks.evaluation import evaluate
    from regard.tasks.loading import load
    from regard.tasks.predictor import export
    from regard.training.run import train

__version__ = "0.1.0"

__all__ = ["InputError", "__version__", "compare", "evaluate", "export", "load", "look", "plan", "train"]

_HOMES = {
    "InputError": "regard.errors",
    "compare": "regard.claims.comparing",
    "evaluate": "regard.tasks.evaluation",
    "export": "regard.tasks.predictor",
    "load": "regard.tasks.loading",
    "look": "regard.inspection",
    "plan": "regard.planning.plan",
    "train": "regard.training.run",
}


add_old_modules(__name__, {"prepared": "regard.quantization"})


if not TYPE_CHECKING:  # a type checker has the names from above, and so tells of one that there is not

    def __getattr__(name: str) -> object:
        # Import on first use: `regard --help` must not wait for torch.
        if name in _HOMES:
            import importlib

            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
