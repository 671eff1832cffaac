from .callbacks import Callback as Callback
from .recipe import Recipe as Recipe
from .recipe import read_recipe as read_recipe
from .run import Trained as Trained
from .run import train as train
from .settings import TrainingSettings as TrainingSettings
