"""How a loaded model reads a text for a walk, and what its queries are in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from torch import nn

from regard.attention import AttentionLayer
from regard.errors import InputError
from regard.generation import search
from regard.inspection.walk.capture import Seen, watching
from regard.inspection.walk.scene import quoted
from regard.layers import Tokens
from regard.models import GNMT, Bahdanau, Luong
from regard.tasks import LanguageModel, Translator
from regard.tasks.encoders import EncoderPredictor, join, padded

LONGEST = 1024
"""Tokens of a text that is walked through. The weights kept grow with the square, and nobody reads a longer one."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reading:
    """What a model read, and what went through one of its layers meanwhile.

    Arguments:
        title: what was read, and written.
        seen: what went through the layer.
        queries, keys: the tokens that ask and that are looked at.
        notes: what was chosen for the reader.
    """

    title: str
    seen: Seen
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...] = ()


@singledispatch
def read(model: Any, text: str, layer: AttentionLayer, *, target: str | None, to: str | None) -> Reading:
    """Let a loaded model read `text`, and keep what goes through `layer`.

    Arguments:
        model: what `regard.load` gives.
        text: what to read.
        layer: one of the model's.
        target: for a model that writes, the text it is to have written; its own answer where None.
        to: the language wanted, of a model of several.

    Raises:
        InputError: for a model of a task that has no walk, or a text that is empty or too long.
    """
    raise InputError(
        f"a {type(model).__name__} cannot be walked through: a walk reads a text with a translator, a language model or an "
        "encoder such as BERT; regard.look shows what others attend to"
    )


@read.register
def _language_model(
    model: LanguageModel, text: str, layer: AttentionLayer, *, target: str | None, to: str | None
) -> Reading:
    _only_a_text(text, target, to)
    tokenizer = model.task.tokenizer
    ids = model.task.prompted(tokenizer.encode(text))
    _check_length("the text", len(ids))
    with watching(model.model, layer) as seen:
        model.model(Tokens.pad([ids], device=model.device))
    tokens = tuple(tokenizer.tokens(ids))
    return Reading(title=text, seen=seen, queries=tokens, keys=tokens)


@read.register
def _encoder(
    model: EncoderPredictor, text: str, layer: AttentionLayer, *, target: str | None, to: str | None
) -> Reading:
    _only_a_text(text, target, to)
    if {"sentences", "document"} & set(layer.between):
        raise InputError(
            "a model that reads words in sentences and sentences in a document cannot be walked through; regard.look shows its "
            "weights"
        )
    tokenizer = model.task.tokenizer
    ids = tokenizer.encode(text)
    _check_length("the text", len(ids))
    joined = join(tokenizer, ids, maximum=model.maximum_length)
    if len(joined.ids) < len(ids):
        raise InputError(f"the text has {len(ids)} tokens and the model reads {model.maximum_length}; shorten it")
    tokens, segments = padded([joined], padding_id=tokenizer.padding_id)
    with watching(model.model, layer) as seen:
        model.model(tokens.to(model.device), segments.to(model.device))
    named = tuple(tokenizer.tokens(joined.ids))
    return Reading(title=text, seen=seen, queries=named, keys=named)


def _check_length(what: str, count: int) -> None:
    if count > LONGEST:
        raise InputError(f"{what} has {count:,} tokens and a walk shows at most {LONGEST:,}; shorten it")


def _only_a_text(text: str, target: str | None, to: str | None) -> None:
    """Refuse an empty text, and what is for models that write another."""
    if not text.strip():
        raise InputError("the text is empty; there is nothing to walk through")
    for name, given in (("target", target), ("to", to)):
        if given is not None:
            raise InputError(f"{name} is for models that translate; this one reads one text, leave it out")


@read.register
def _translation(model: Translator, text: str, layer: AttentionLayer, *, target: str | None, to: str | None) -> Reading:
    for name, given in (("the text", text), ("the target", target)):
        if given is not None and not given.strip():
            raise InputError(f"{name} is empty; there is nothing to walk through")
    task, module = model.task, model.model
    sources = task.encode_sources([text], to)
    _check_length("the text", len(sources[0]))
    source = task.read(sources).to(model.device)
    source_tokens = tuple(task.source_tokenizer.tokens(source.ids[0].tolist()))
    if layer.between == ("source", "source"):
        with watching(module, layer) as seen:
            module.start(source)
        notes = ("The encoder reads the source alone, whatever the target is.",) if target is not None else ()
        return Reading(title=text, seen=seen, queries=source_tokens, keys=source_tokens, notes=notes)
    if target is None:
        best = search(module, source, task.generation.with_ids(task.target_tokenizer), forbid=task.tag_ids)[0][0]
        written = list(best.tokens)
        notes = ["The target is the model's own answer, read back in one pass as in training."]
    else:
        written = task.target_tokenizer.encode(target)
        _check_length("the target", len(written))
        notes = ["The target was given, and read in one pass as in training."]
    batch = task.batch(sources, [written]).to(model.device)
    with watching(module, layer) as seen:
        module(batch.source, batch.target)
    read_so_far = tuple(task.target_tokenizer.tokens(batch.target.ids[0].tolist()))
    being_written = tuple(task.target_tokenizer.tokens(batch.labels[0].tolist()))
    across = layer.between == ("target", "source")
    if across:
        notes.append(
            "A query is called by the token being written: it is made one place earlier, before that token is known."
        )
    return Reading(
        title=f"{text} → {task.target_tokenizer.decode(written)}",
        seen=seen,
        queries=being_written if across else read_so_far,
        keys=source_tokens if across else read_so_far,
        notes=tuple(notes),
    )


@singledispatch
def asking(model: nn.Module, layer: AttentionLayer, token: str) -> str:
    """What the vector that asks is, in words that begin a sentence."""
    if layer.between[0] == layer.between[1]:
        return f"The vector of {quoted(token)} in this layer"
    return f"The decoder's vector at the place where {quoted(token)} is written"


@asking.register
def _bahdanau(model: Bahdanau, layer: AttentionLayer, token: str) -> str:
    return f"The decoder's state before the step that writes {quoted(token)}, sᵢ₋₁,"


@asking.register
def _luong(model: Luong, layer: AttentionLayer, token: str) -> str:
    return f"The decoder's state after the step, just before {quoted(token)} is written, hₜ,"


@asking.register
def _gnmt(model: GNMT, layer: AttentionLayer, token: str) -> str:
    return f"The bottom decoder layer's output of the step before {quoted(token)}"
