"""What a model is for: encoding, loss, metric, prediction. Strings in, typed results out. `TASKS` names every task."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
