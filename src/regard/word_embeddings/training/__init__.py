"""Training word embeddings: skip-gram, CBoW, fastText and GloVe."""

from regard.word_embeddings.training.corpus import Corpus, Progress, VectorSettings, sentences, settings_of
from regard.word_embeddings.training.train import train_vectors

__all__ = ["Corpus", "Progress", "VectorSettings", "sentences", "settings_of", "train_vectors"]
