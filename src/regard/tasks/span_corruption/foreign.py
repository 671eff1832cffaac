"""Models pre-trained by span corruption that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.tasks.span_corruption.task import SpanCorruptionTask, with_sentinels
from regard.tasks.translation.foreign import foreign_translation


def foreign_spans(folder: Path, config: Any) -> SpanCorruptionTask:
    """The task of a folder that another program wrote: its tokenizer, and spans as published.

    Arguments:
        config: of the model in it.

    Raises:
        InputError: where there is no tokenizer.json, it and config.json do not belong together, or it has no sentinels.
    """
    return SpanCorruptionTask(with_sentinels(foreign_translation(folder, config).source_tokenizer, str(folder)))
