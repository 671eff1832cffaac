from .callbacks import Callback as Callback
from .proof import Proof as Proof
from .proof import prove_resume as prove_resume
from .recipe import Recipe as Recipe
from .recipe import read_recipe as read_recipe
from .run import Trained as Trained
from .run import train as train
from .settings import TrainingSettings as TrainingSettings
