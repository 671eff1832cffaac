"""`regard fill` for models that were pre-trained by span corruption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.cli.inputs import Text
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.span_corruption import FilledSpans, SpanFiller


def fill_spans(model: SpanFiller, chunk: list[Text]) -> list[FilledSpans]:
    """What is missing in some texts.

    Raises:
        InputError: for one without <extra_id_0>, naming where it stands.
    """
    for text in chunk:
        if "<extra_id_0>" not in text.content:
            raise InputError(
                f"{text.where}: there is no <extra_id_0> in it; write <extra_id_0>, <extra_id_1> and so on where something is "
                "missing"
            )
    return model.fill_batch([text.content for text in chunk])


def spans_line(filled: FilledSpans | None) -> str:
    """The whole text, then what was written for each gap, after a tab each."""
    if filled is None:
        return "\n"
    return "\t".join(" ".join((span or "").split()) for span in (filled.best, *filled.spans)) + "\n"


def spans_object(text: Text, filled: FilledSpans | None) -> dict[str, Any]:
    """The same as a JSON object; null for a gap that the model left out."""
    if filled is None:
        return {"text": text.content, "best": text.content, "spans": [], "log_probability": None}
    return {
        "text": filled.text,
        "best": filled.best,
        "spans": list(filled.spans),
        "log_probability": filled.log_probability,
    }
