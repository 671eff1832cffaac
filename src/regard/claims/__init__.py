"""Comparisons of variants on an equal budget, and the claims of papers as comparisons that an expression judges."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
