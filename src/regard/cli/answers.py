"""A model's answers, as lines of text and as JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.tasks import Translation


def line_of(translation: Translation | None) -> str:
    """A translation as a line of text, its end included; the further answers after tabs."""
    if translation is None:
        return "\n"
    answers = [translation.text, *(text for text, _ in translation.alternatives)]
    breaks = "\r\n\t" if len(answers) > 1 else "\r\n"
    table = str.maketrans(dict.fromkeys(breaks, " "))
    return "\t".join(answer.translate(table) for answer in answers) + "\n"


def object_of(source: str, translation: Translation | None) -> dict[str, Any]:
    """A translation as a JSON object; without scores where the text was empty."""
    if translation is None:
        return {"source": source, "text": "", "score": None, "log_probability": None, "alternatives": []}
    return {
        "source": source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "alternatives": [{"text": answer, "score": score} for answer, score in translation.alternatives],
    }
