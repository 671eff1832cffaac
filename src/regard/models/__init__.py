"""One file per paper: a frozen config and the wiring. Tensors in, tensors out; no strings, no loss, no state.

`MODELS` names every family: a model joins recipes, folders and the contract battery by standing in it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
