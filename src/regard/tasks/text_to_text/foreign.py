"""Text-to-text models that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.reading import read_json_object
from regard.tasks.text_to_text.task import LONGEST, TextToTextTask
from regard.tasks.translation.foreign import foreign_translation

CONFIG = "config.json"
TASKS_THERE, PREFIX = "task_specific_params", "prefix"
"""Where a config.json has the tasks that a T5 was trained for, and of each what stands in front of its sources."""


def foreign_text_to_text(folder: Path, config: Any) -> TextToTextTask:
    """The task of a folder that another program wrote: its tokenizer, decoding settings, and the prefixes it knows.

    Arguments:
        config: of the model in it.

    Raises:
        InputError: where there is no tokenizer.json, or it and config.json do not belong together.
    """
    read = foreign_translation(folder, config)
    return TextToTextTask(
        read.source_tokenizer, read.generation, prefixes={"": "", **_prefixes(folder)}, maximum_source=LONGEST
    )


def _prefixes(folder: Path) -> dict[str, str]:
    """By the name of each task its prefix; none where the config.json tells none."""
    tasks = read_json_object(folder / CONFIG, "copy the file again").get(TASKS_THERE)
    found = (
        {} if not isinstance(tasks, dict) else {name: task for name, task in tasks.items() if isinstance(task, dict)}
    )
    return {name: task[PREFIX] for name, task in found.items() if isinstance(task.get(PREFIX), str)}
