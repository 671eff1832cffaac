"""Recipe, one loop, optimisers and schedules, exact resume, trackers."""

from regard.training.callbacks import Callback
from regard.training.recipe import Recipe, read_recipe
from regard.training.run import Trained, train
from regard.training.settings import TrainingSettings

__all__ = ["Callback", "Recipe", "Trained", "TrainingSettings", "read_recipe", "train"]
