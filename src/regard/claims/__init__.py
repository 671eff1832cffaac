"""Comparisons of variants on an equal budget, and the papers' claims as comparisons with a judge."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
