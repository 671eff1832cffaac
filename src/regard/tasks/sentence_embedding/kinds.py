"""Sentence embedding, as a task."""

from __future__ import annotations

from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.sentence_embedding.data import SentenceData
from regard.tasks.sentence_embedding.encoder import SentenceEncoder
from regard.tasks.sentence_embedding.evaluation import evaluate_sentences, read_sentences, similarity_beside
from regard.tasks.sentence_embedding.foreign import foreign_encoder, gives_vectors
from regard.tasks.sentence_embedding.preparation import prepare_sentences
from regard.tasks.sentence_embedding.task import SentenceEmbeddingTask
from regard.tasks.spec import OF_VECTOR_READERS, TaskSpec, decided_of_encoder

SENTENCE_EMBEDDING = TaskSpec(
    task=SentenceEmbeddingTask,
    predictor=SentenceEncoder,
    interface="text_vectors",
    sections={"data": SentenceData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_sentences,
    evaluate=evaluate_sentences,
    read=read_sentences,
    beside=similarity_beside,
    filled_in=decided_of_encoder("none", 0),
    decided_of_some=OF_VECTOR_READERS,
    fits=gives_vectors,
    foreign=foreign_encoder,
)
