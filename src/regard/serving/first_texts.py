"""The text that the studio shows for a model at first: one that suits the model.

It is the first `widget` example in the folder's README.md (as model cards on Hugging Face have them). Without one it is: for a
model trained on the builtin `dates`, a date in one of its languages; for a chat model, a question in the format of its chat
template; for a masked language model, a sentence with its own mask token; for other models, a sentence for the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.reading import yaml_value

SENTENCE = "The animal did not cross the street because it was too tired."
OF_TASK: Mapping[str, tuple[str, ...]] = {
    "question_answering": (
        "Where did the animal sleep?",
        "The animal was too tired to cross the street, so it slept in the barn.",
    ),
    "tagging": ("Marie Curie was born in Warsaw and worked in Paris.",),
    "classification": ("I have never seen a better film.",),
    "multi_label_classification": ("I have never seen a better film.",),
}
"""By task: a text, and a second one for models that read two."""

MOST = 65536
"""The most characters of a README.md that are read."""


def first_texts(predictor: Any, folder: Path) -> list[str]:
    """The first text for a model, and a second one where the model reads two; empty for models that read no text.

    Arguments:
        predictor: a loaded model.
        folder: that it was loaded from.
    """
    task = predictor.task
    if task.name in ("image_classification", "captioning"):
        return []
    found = _widget(folder)
    if found:
        return found
    if task.name == "copying":
        return [" ".join(format(number * 73 % 2**task.width, f"0{task.width}b") for number in range(1, 6))]
    dates = (predictor.recipe.get("data") or {}).get("dates")
    if isinstance(dates, Mapping):
        return [_date(dates)]
    if task.name == "language_modelling" and getattr(task, "chat", None) is not None:
        return [_turn(predictor) or SENTENCE]
    mask = getattr(getattr(task, "tokenizer", None), "mask_id", None)
    if task.name == "masked_language_modelling" and mask is not None:
        return [SENTENCE.replace("street", task.tokenizer.tokens([mask])[0])]
    if task.name == "span_corruption":
        return ["The animal did not <extra_id_0> the street because it was <extra_id_1> tired."]
    if getattr(task, "pairs", None):
        return [SENTENCE, "The animal was tired."]
    return list(OF_TASK.get(task.name, (SENTENCE,)))


def _widget(folder: Path) -> list[str]:
    """The texts of the first example in a model card's front matter."""
    try:
        with (folder / "README.md").open(encoding="utf-8") as file:
            card = file.read(MOST)
    except (OSError, UnicodeDecodeError):
        return []
    parts = card.split("---\n", 2)
    if parts[0] or len(parts) < 3:
        return []
    try:
        front = yaml_value(parts[1])
    except ValueError:
        return []  # a broken card must not keep the model from being shown
    examples = front.get("widget") if isinstance(front, Mapping) else None
    first = examples[0] if isinstance(examples, list) and examples else None
    if isinstance(first, str):
        return [first]
    if not isinstance(first, Mapping):
        return []
    texts = [first.get("text") or first.get("source_sentence"), first.get("context")]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def _date(settings: Mapping[str, Any]) -> str:
    """A date of this century in the longest form of the first language."""
    import datetime

    from regard.data.dates import written_forms

    languages = settings.get("languages")
    first = languages[0] if isinstance(languages, list | tuple) and languages else "en"
    try:
        forms = [form.source for form in written_forms(datetime.date(2017, 5, 9), str(first))]
    except InputError:  # an unknown language, or Babel is not installed
        return "May 9, 2017"
    return max(forms, key=len)


def _turn(predictor: Any) -> str | None:
    """A question in the chat template's format where that is plain text: typed special tokens are not encoded as such."""
    try:
        prompt = predictor.prompt_of([{"role": "user", "content": "Who are you?"}])
    except InputError:
        return None
    read = list(predictor.task.tokenizer.encode(prompt.text))
    return prompt.text if list(prompt.ids) in (read, list(predictor.task.prompted(read))) else None
