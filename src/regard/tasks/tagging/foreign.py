"""Taggers that another program wrote, read by us."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.tags import scheme_of
from regard.errors import InputError
from regard.tasks.classification.foreign import names_of
from regard.tasks.encoders import foreign_tokenizer
from regard.tasks.tagging.task import TaggingTask


def tags_words(config: Any) -> bool:
    """Whether a model tells of every token."""
    return getattr(config, "head", None) == "tokens"


def foreign_tagger(folder: Path, config: Any) -> TaggingTask:
    """The task of a tagger's folder: its tokenizer, its tags as config.json names them.

    Names with B- and I- alone do not tell BIO from IOB1, whose rules differ, so no rule is imposed on them: spans are then
    read as conlleval reads them. Those of BIOES and BILOU tell their own.

    Raises:
        InputError: where the names are not one for each output, or there is no tokenizer.
    """
    tags = names_of(folder, config.outputs)
    scheme = _scheme(tags)
    return TaggingTask(
        tokenizer=foreign_tokenizer(folder, config),
        maximum_length=config.maximum_positions,
        tags=tags,
        scheme=scheme,
        decoding="constrained" if scheme in ("BIOES", "BILOU") else "greedy",
    )


def _scheme(tags: Sequence[str]) -> str | None:
    try:
        return scheme_of([tag] for tag in tags)
    except InputError:
        return None
