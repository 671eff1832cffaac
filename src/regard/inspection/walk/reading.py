"""How a loaded model reads a text for a walk, and what the vector that asks is in each model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from torch import Tensor, nn

from regard.attention.layer import Side
from regard.errors import InputError
from regard.inspection.memory import numbers_of, slot_names, step_names, vectors_in
from regard.inspection.patches import episode_names, places_named
from regard.inspection.walk.memory_steps import written_step
from regard.inspection.walk.steps import Scene, Step, quoted
from regard.inspection.walk.watching import Seen, Walked, sequences_of, watching
from regard.layers import Tokens
from regard.models import GNMT, HAN, LSTMN, NTM, Bahdanau, Luong, ShowAttendAndTell
from regard.tasks import LanguageModel
from regard.tasks.captioning import Captioner
from regard.tasks.copying import Copier
from regard.tasks.encoders import EncoderPredictor, join, padded, tokens_of
from regard.tasks.few_shot import FewShotClassifier
from regard.tasks.image_classification import ImageClassifierPredictor
from regard.tasks.pairs import PairPredictor

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
        after: what the model does with the weights of a call besides gathering, as steps.
    """

    title: str
    seen: Seen
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...] = ()
    after: Callable[[Scene, int], Step | None] = lambda scene, call: None


@singledispatch
def read(model: Any, text: Any, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    """Let a loaded model read `text`, and keep what goes through `layer`.

    Arguments:
        model: what `regard.load` gives.
        text: what to read: a text; an image; for a model that copies vectors of bits as text; for a few-shot classifier the
            labelled images and the one that is asked about.
        layer: one of the model's.
        target: for a model that writes, the text it is to have written; its own answer where None.
        to: the language wanted, of a model of several.

    Raises:
        InputError: for a model of a task that has no walk, or a text that is empty or too long.
    """
    raise InputError(
        f"a {type(model).__name__} cannot be walked through: its task is none of the package's; regard.look shows what it "
        "attends to, and walk_attention follows a mechanism alone"
    )


@read.register
def _language_model(model: LanguageModel, text: str, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    _only_a_text(text, target, to)
    tokenizer = model.task.tokenizer
    ids = model.task.prompted(tokenizer.encode(text))
    _check_length("the text", len(ids))
    with watching(model.model, layer) as seen:
        model.model(Tokens.pad([ids], device=model.device))
    tokens = tuple(tokenizer.tokens(ids))
    return Reading(title=text, seen=seen, queries=tokens, keys=tokens)


@read.register
def _encoder(model: EncoderPredictor, text: str, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    _only_a_text(text, target, to)
    tokenizer = model.task.tokenizer
    # A model that reads documents has a mark between their sentences.
    (ids,) = tokens_of(tokenizer, [text], sentences=getattr(model.task, "sentences", False))
    _check_length("the text", len(ids))
    joined = join(tokenizer, ids, maximum=model.maximum_length)
    if len(joined.ids) < len(ids):
        raise InputError(f"the text has {len(ids)} tokens and the model reads {model.maximum_length}; shorten it")
    tokens, segments = padded([joined], padding_id=tokenizer.padding_id)
    with watching(model.model, layer) as seen:
        model.model(tokens.to(model.device), segments.to(model.device))
    named = tuple(tokenizer.tokens(joined.ids))
    asks, held = (_members(side, seen, axis) for side, axis in zip(sequences_of(layer), (2, 3), strict=True))
    return Reading(title=text, seen=seen, queries=asks or named, keys=held or named)


def _members(side: Side, seen: Seen, axis: int) -> tuple[str, ...]:
    """What stands for a document and its sentences, where a layer gathers words and sentences; nothing where it has tokens."""
    if side == "document":
        return ("document",)
    if side != "sentences" or not seen.calls:
        return ()
    return tuple(f"S{number + 1}" for number in range(seen.calls[0][0].shape[axis]))


@read.register
def _image(model: ImageClassifierPredictor, text: Any, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    if isinstance(text, str):
        _only_a_text(text, target, to)
    images = model.read([text])
    with watching(model.model, layer) as seen:
        model.model(images)
    named = tuple(name for _, name in places_named(images, 0, model.model.grid, getattr(model.model, "leading", 0)))
    # Never the file's path: pages are passed on.
    title = f"image 1, predicted class: {model.classify(text).label}"
    return Reading(title=title, seen=seen, queries=named, keys=named)


@read.register
def _captioner(model: Captioner, text: Any, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    if to is not None:
        raise InputError("to is for models that translate; this one describes an image, leave it out")
    if target is not None and not target.strip():
        raise InputError("the target is empty; there is nothing to walk through")
    caption = model.caption(text).text if target is None else target
    batch = model.teacher_forced([(text, caption)])
    _check_length("the caption", batch.labels.shape[1])
    with watching(model.model, layer) as seen:
        model.model(batch.images, batch.target)
    grid = model.model.grid
    places = tuple(name for _, name in places_named(batch.images, 0, grid, getattr(model.model, "leading", 0)))
    whose = "The caption is the model's own" if target is None else "The caption was given"
    return Reading(
        title=f"image 1, caption: {caption}",
        seen=seen,
        queries=tuple(model.task.tokenizer.tokens(batch.labels[0].tolist())),
        keys=places,
        notes=(
            f"{whose}, and read in one pass as in training.",
            "A query is called by the word being written: it is made one place earlier, before that word is known.",
        ),
    )


@read.register
def _copier(model: Copier, text: str, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    _only_a_text(text, target, to)
    vectors, module = vectors_in(model, text), model.model
    written: list[Tensor] = []

    def wrote(_: nn.Module, given: tuple[Any, ...], gave: Tensor) -> None:
        written.append(gave)

    with contextlib.ExitStack() as until, watching(module, layer) as seen:
        if isinstance(module, NTM):
            until.callback(module.write.register_forward_hook(wrote).remove)
        copied = model.copy(numbers_of(vectors))
    steps = tuple(step_names(vectors, copied.bits))
    _check_length("the sequence", len(steps))
    title = f"{' '.join(vectors)} → {' '.join(step.removeprefix('→ ') for step in steps[len(vectors) + 1 :])}"
    slots = tuple(slot_names(seen.calls[0][0].shape[3])) if seen.calls else ()
    if not isinstance(module, NTM):
        return Reading(title=title, seen=seen, queries=steps, keys=slots)
    # In addition to each slot stands a row of the identity matrix, so that the weights come out too; the walk has them already.
    width, heads = module.config.slot_width, module.config.heads
    seen.calls = [(inputs, value[..., :width], output[..., :width]) for inputs, value, output in seen.calls]

    def after(scene: Scene, call: int) -> Step | None:
        following = seen.calls[call + 1][0].key[0, 0] if call + 1 < len(seen.calls) else None
        return written_step(module, scene, written[call], following)

    first = "head 0 reads and head 1 writes" if heads == 1 else f"heads 0 to {heads - 1} read, the others write"
    note = f"Queries are the steps of the sequence, keys the slots of the memory before each: {first}."
    return Reading(title=title, seen=seen, queries=steps, keys=slots, notes=(note,), after=after)


@read.register
def _few_shot(model: FewShotClassifier, text: Any, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    if target is not None or to is not None:
        raise InputError("target and to are for models that generate text; this one reads images, leave them out")
    if not isinstance(text, tuple) or len(text) != 2:
        raise InputError("a few-shot classifier needs labelled images: give (shown, asked), as to its classify")
    shown, asked = text
    with watching(model.model, layer) as seen:
        label = model.classify(shown, asked).label
    names = episode_names([name for _, name in shown])
    return Reading(title=f"image 1, predicted class: {label}", seen=seen, queries=names, keys=names)


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
def _pairs(model: PairPredictor, text: str, layer: Walked, *, target: str | None, to: str | None) -> Reading:
    for name, given in (("the text", text), ("the target", target)):
        if given is not None and not given.strip():
            raise InputError(f"{name} is empty; there is nothing to walk through")
    task, module = model.task, model.model
    source_tokenizer, target_tokenizer = task.sides
    ids = model.encode_source(text, to)
    _check_length("the text", len(ids))
    source = task.read([ids]).to(model.device)
    source_tokens = tuple(source_tokenizer.tokens(source.ids[0].tolist()))
    if sequences_of(layer) == ("source", "source"):
        with watching(module, layer) as seen:
            module.start(source)
        notes = ("The encoder reads only the source, for any target.",) if target is not None else ()
        return Reading(title=text, seen=seen, queries=source_tokens, keys=source_tokens, notes=notes)
    if target is None:
        written = model.searched([ids], model.usual, lambda _, found: list(found[0].tokens))[0]
        notes = ["The target is the model's own answer, read back in one pass as in training."]
        most = module.maximum_target_length
        if most is not None and len(written) >= most:  # the start token takes a place too
            written = written[: most - 1]
            notes.append(f"The answer fills all {most} places of the decoder; its last token is left out here.")
    else:
        written = model.encode_target(target)
        _check_length("the target", len(written))
        notes = ["The target was given, and read in one pass as in training."]
    batch = task.batch([ids], [written]).to(model.device)
    with watching(module, layer) as seen:
        module(batch.source, batch.target)
    read_so_far = tuple(target_tokenizer.tokens(batch.target.ids[0].tolist()))
    being_written = tuple(target_tokenizer.tokens(batch.labels[0].tolist()))
    across = sequences_of(layer) == ("target", "source")
    if across:
        notes.append(
            "A query is called by the token being written: it is made one place earlier, before that token is known."
        )
    return Reading(
        title=f"{text} → {target_tokenizer.decode(written)}",
        seen=seen,
        queries=being_written if across else read_so_far,
        keys=source_tokens if across else read_so_far,
        notes=tuple(notes),
    )


@singledispatch
def asking(model: nn.Module, layer: Walked, token: str) -> str:
    """What the vector that asks is, in words that begin a sentence."""
    asks, held = sequences_of(layer)
    if asks == held:
        return f"The vector of {quoted(token)} in this layer"
    return f"The decoder's vector at the place where {quoted(token)} is written"


@asking.register
def _bahdanau(model: Bahdanau, layer: Walked, token: str) -> str:
    return f"The decoder's state before the step that writes {quoted(token)}, sᵢ₋₁,"


@asking.register
def _luong(model: Luong, layer: Walked, token: str) -> str:
    return f"The decoder's state after the step, just before {quoted(token)} is written, hₜ,"


@asking.register
def _han(model: HAN, layer: Walked, token: str) -> str:
    level = "words, u_w," if sequences_of(layer)[1] == "source" else "sentences, u_s,"
    return f"The context vector of the {level} the same for every text,"


@asking.register
def _gnmt(model: GNMT, layer: Walked, token: str) -> str:
    return f"The bottom decoder layer's output of the step before {quoted(token)}"


@asking.register
def _show_attend_and_tell(model: ShowAttendAndTell, layer: Walked, token: str) -> str:
    return f"The decoder's state before the step that writes {quoted(token)}, hₜ₋₁,"


@asking.register
def _lstmn(model: LSTMN, layer: Walked, token: str) -> str:
    return f"The vector of {quoted(token)} beside the summary of the step before, [xₜ; h̃ₜ₋₁],"
