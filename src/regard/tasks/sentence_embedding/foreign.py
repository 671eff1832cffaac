"""Any encoder's folder as one that gives texts vectors: sentence-transformers' as it is, others by the mean of their tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.embeddings.pooling import POOLER
from regard.embeddings.sentence_transformers import SentenceModules, read_modules
from regard.models import MODELS
from regard.tasks.encoders import foreign_tokenizer
from regard.tasks.sentence_embedding.task import SentenceEmbeddingTask


def gives_vectors(config: Any) -> bool:
    """Whether a model makes vectors of texts, or of their tokens, whatever its head."""
    return MODELS[config.model_type].serves("text_vectors")


def foreign_encoder(folder: Path, config: Any) -> SentenceEmbeddingTask:
    """The task of a folder: as its `modules.json` has it; without one the mean of all tokens, not normalised.

    Of a model that makes one vector of each text, that one.

    Raises:
        InputError: for modules that Regard does not have, or where there is no tokenizer.
    """
    found = read_modules(folder) or SentenceModules()
    longest = config.maximum_positions
    family = MODELS[config.model_type]
    return SentenceEmbeddingTask(
        tokenizer=foreign_tokenizer(folder, config),
        maximum_length=longest if found.maximum_length is None else min(found.maximum_length, longest),
        pooling=POOLER if family.interface == "text_vectors" else found.pooling,
        sentences=family.sentences,
        normalise=found.normalise,
        lowercase=found.lowercase,
        prompts=found.prompts,
        prompt=found.prompt,
        dense=found.dense,
    )
