"""Recipe, one loop, optimisers and schedules, exact resume, trackers."""

import lazy_loader

from regard.old_names import add_old_modules

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

add_old_modules(
    __name__,
    {
        "memory": "regard.machine",
        "progress": "regard.training.checkpoint",
        "schedules": "regard.training.settings",
    },
)
