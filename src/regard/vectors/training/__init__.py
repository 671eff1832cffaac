"""Training vectors of words: skip-gram, CBoW, fastText and GloVe."""

from regard.vectors.training.corpus import Corpus, Progress, sentences
from regard.vectors.training.settings import VectorSettings, settings_of
from regard.vectors.training.train import train_vectors

__all__ = ["Corpus", "Progress", "VectorSettings", "sentences", "settings_of", "train_vectors"]
