"""How a loaded model reads a text for a walk, what went through the layer meanwhile, and where a word stands among its tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, AttentionLayer
from regard.attention.layer import Side
from regard.errors import InputError, nearest
from regard.inspection.memory import numbers_of, slot_names, step_names, vectors_in
from regard.inspection.patches import episode_names, places_named
from regard.inspection.view import is_layer
from regard.inspection.walk.memory_steps import written_step
from regard.inspection.walk.steps import Scene, Step, quoted
from regard.inspection.words import shown_tokens, token_texts
from regard.layers import PositionedEmbedding, Tokens
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


Walked = AttentionLayer | Attention
"""What a walk goes through: a layer, or a mechanism that its model uses without one."""


def mechanism_of(part: Walked) -> Attention:
    """The mechanism of a layer, or the mechanism itself."""
    return part.attention if isinstance(part, AttentionLayer) else part


def sequences_of(part: Walked) -> tuple[Side, Side]:
    """What asks and what is looked at; a mechanism alone does not say, and both are what was read."""
    return part.sequences if isinstance(part, AttentionLayer) else ("source", "source")


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


# What one attention layer was given and gave in a run of its model, kept by hooks that return nothing.
#
# Tensors are copied: what the model does to them afterwards is no part of the walk, and they are few.


@dataclass(slots=True, eq=False)
class Summed:
    """One call of an embedding with positions: its two terms and their sum, each (B, L, D)."""

    address: str
    content: Tensor
    position: Tensor
    total: Tensor


@dataclass(slots=True, eq=False)
class Seen:
    """What went through one attention layer while its model ran.

    Arguments:
        calls: inputs, values and output of the mechanism, one for each call: a recurrent decoder makes one for each step.
        queries: what `layer.query` read, one for each call, (B, L, D).
        keys: what `layer.key` read last, (B, S, D); None where it was not called.
        outputs: what `layer.output` gave, one for each call.
        embeddings: of the model, where they add positions.
        norms: what each norm of the model read and gave last, by address.
    """

    calls: list[tuple[AttentionInputs, Tensor, Tensor]] = field(default_factory=list)
    queries: list[Tensor] = field(default_factory=list)
    keys: Tensor | None = None
    outputs: list[Tensor] = field(default_factory=list)
    embeddings: list[Summed] = field(default_factory=list)
    norms: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the layer's projections were used once for each call, so that what they read belongs to it."""
        return len(self.queries) == len(self.calls) == len(self.outputs) and self.keys is not None

    def find(self, place: int) -> tuple[int, int]:
        """In which call the query at `place` was made, and its place there."""
        before = 0
        for number, (inputs, _, _) in enumerate(self.calls):
            count = inputs.shape[2]
            if place < before + count:
                return number, place - before
            before += count
        raise InputError(f"there is no query {place}; the layer was asked {before} times")


def layers_of(model: nn.Module) -> dict[str, Walked]:
    """Every attention layer of a model by its address, and every mechanism that is in none."""
    found: dict[str, Walked] = {}
    for name, part in model.named_modules():
        if isinstance(part, AttentionLayer | Attention) and not any(name.startswith(f"{other}.") for other in found):
            found[name] = part
    return found


def chosen_layer(model: nn.Module, address: str | None, within: str = "") -> tuple[str, Walked]:
    """The layer at an address; where None, the last in which what is written looks at what was read, else the last.

    Arguments:
        model: which has it.
        address: its name; of all layers where None.
        within: only of layers of this number or name, as in `--head 5.11`.

    Raises:
        InputError: for a model without attention, or an address that no layer has.
    """
    layers = layers_of(model)
    if not layers:
        raise InputError(
            "there is no attention in this model to walk through: no layer of regard.attention; choose a model that has some "
            "(regard look shows attention of torch's functions too)"
        )
    if within and not any(is_layer(name, within) for name in layers):
        raise InputError(f"there is no layer {within!r} among {', '.join(layers)}")
    if address is None:
        fitting = {name: layer for name, layer in layers.items() if is_layer(name, within)}
        between = [name for name, layer in fitting.items() if sequences_of(layer) == ("target", "source")]
        address = (between or list(fitting))[-1]
    if address not in layers:
        raise InputError(
            f"no attention layer is called {address!r}: {nearest(address, list(layers))} (there are {', '.join(layers)})"
        )
    if not is_layer(address, within):
        raise InputError(f"{address} is not of layer {within!r}; name the layer once, or name the same one")
    return address, layers[address]


@contextlib.contextmanager
def watching(model: nn.Module, layer: Walked) -> Iterator[Seen]:
    """Inside the block, what goes through one layer of a model is kept; the model runs as it would without."""
    seen = Seen()

    def called(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        inputs, value = arguments[0], arguments[1]
        record = {name: tensor.clone() for name, tensor in inputs.record.items()}
        inputs = replace(inputs, query=inputs.query.clone(), key=inputs.key.clone(), record=record)
        seen.calls.append((inputs, value.clone(), output.clone()))

    def asked(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.queries.append(arguments[0].clone())

    def held(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.keys = arguments[0].clone()

    def gave(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.outputs.append(output.clone())

    handles = [mechanism_of(layer).register_forward_hook(called)]
    if isinstance(layer, AttentionLayer):
        handles += [
            layer.query.register_forward_pre_hook(asked),
            layer.key.register_forward_pre_hook(held),
            layer.output.register_forward_hook(gave),
        ]
    for name, part in model.named_modules():
        # Under a norm what the embedding gives is no sum of the two.
        if isinstance(part, PositionedEmbedding) and type(part.norm) is nn.Identity:
            handles.append(part.register_forward_hook(_embedding(seen, name)))
        elif isinstance(part, nn.LayerNorm):
            handles.append(part.register_forward_hook(_norm(seen, name)))
    try:
        with torch.no_grad():
            yield seen
    finally:
        for handle in handles:
            handle.remove()


def _embedding(seen: Seen, address: str) -> Any:
    def hook(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        if isinstance(module, PositionedEmbedding):
            ids, positions = arguments
            content = module.tokens(ids) * module.scale
            position = module.positions(positions).to(content.dtype).expand_as(content)
            seen.embeddings.append(Summed(address, content, position, output.clone()))

    return hook


def _norm(seen: Seen, address: str) -> Any:
    def hook(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.norms[address] = (arguments[0].clone(), output.clone())

    return hook


MOST_LISTED = 50
"""Tokens or places that a message names."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a word stands.

    Arguments:
        position: of the token taken.
        note: what was chosen for the reader, empty where there was no choice.
    """

    position: int
    note: str = ""


def find_word(tokens: Sequence[str], word: str | None, position: int | None = None) -> Found:
    """The token that a word is, or the first of its pieces.

    A word is found whole: "it" is not found inside "with". Where it does not occur so, a token spelt like it will do, and then
    the same with case left aside.

    Arguments:
        tokens: as tokenizers write them: see `regard.inspection.words.token_texts`; "##" continues a word.
        word: what to look for; None where `position` says it all.
        position: which token, counted from 0, where a word occurs more than once.

    Raises:
        InputError: where the word is not among the tokens, occurs more than once, or is not at `position`; the tokens are listed.

    >>> find_word(["▁the", "▁run", "ner", "▁it"], "runner")
    Found(position=1, note='“runner” is cut into 2 tokens, ␣run and ner; the first is taken.')
    >>> find_word(["▁with", "▁it"], "it").position
    1
    """
    if position is not None and not 0 <= position < len(tokens):
        raise InputError(f"position is {position}; the tokens are counted from 0: {_listed(tokens)}")
    if word is None:
        if position is None:
            raise InputError(
                f"name the token to follow, with query (--query) or position (--position): {_listed(tokens)}"
            )
        return Found(position)
    places = _occurrences(tokens, word.strip())
    if not places:
        raise InputError(f"{quoted(word)} is not among the tokens: {_listed(tokens)}")
    if position is not None:
        pieces = next((pieces for pieces in places if position in pieces), None)
        if pieces is None:
            raise InputError(f"{quoted(word)} is not at position {position}; it is at {_at(places)}: {_listed(tokens)}")
        return Found(position, _of_pieces(tokens, word, pieces, position))
    if len(places) > 1:
        raise InputError(
            f"{quoted(word)} occurs {len(places):,} times, at {_at(places)}; choose one with position (--position): "
            + _listed(tokens)
        )
    return Found(places[0][0], _of_pieces(tokens, word, places[0], places[0][0]))


def occurs(tokens: Sequence[str], word: str) -> bool:
    """Whether a word, or a token spelt like it, is among the tokens."""
    return bool(_occurrences(tokens, word.strip()))


def _occurrences(tokens: Sequence[str], word: str) -> list[list[int]]:
    """For each occurrence of a word the tokens it is made of."""
    if not word:
        return []
    for fold in (str, str.casefold):
        found = _whole(tokens, word, fold) or _spelt(tokens, word, fold)
        if found:
            return found
    return []


def _whole(tokens: Sequence[str], word: str, fold: Callable[[str], str]) -> list[list[int]]:
    """Occurrences in the text that the tokens make, with no letter or digit on either side."""
    text, owners = "", []
    for index, surface in enumerate(map(fold, _surfaces(tokens))):
        text += surface
        owners += [index] * len(surface)
    word = fold(word)
    found, start = [], text.find(word)
    while start >= 0:
        stop = start + len(word)
        before, after = text[start - 1 : start], text[stop : stop + 1]
        inside = (before.isalnum() and word[0].isalnum()) or (after.isalnum() and word[-1].isalnum())
        if not inside:
            found.append(sorted(set(owners[start:stop])))
        start = text.find(word, start + 1)
    return found


def _spelt(tokens: Sequence[str], word: str, fold: Callable[[str], str]) -> list[list[int]]:
    """Tokens that are written so, marks included or left out."""
    wanted = fold(word)
    written = zip(tokens, shown_tokens(tokens), _surfaces(tokens), strict=True)
    return [
        [index]
        for index, (token, shown, surface) in enumerate(written)
        if wanted in (fold(token), fold(shown), fold(surface.strip()))
    ]


def _surfaces(tokens: Sequence[str]) -> list[str]:
    """What each token stands for in the text; a special token stands apart from its neighbours."""
    return [
        f" {token} "
        if token.startswith("<") and token.endswith(">") and len(token) > 2
        else text[2:]
        if text.startswith("##") and len(text) > 2
        else text
        for token, text in zip(tokens, token_texts(tokens), strict=True)
    ]


def _of_pieces(tokens: Sequence[str], word: str, pieces: Sequence[int], taken: int) -> str:
    if len(pieces) < 2:
        return ""
    shown = shown_tokens(tokens)
    names = [shown[piece] for piece in pieces]
    which = "the first" if taken == pieces[0] else shown[taken]
    return (
        f"{quoted(word)} is cut into {len(pieces)} tokens, {', '.join(names[:-1])} and {names[-1]}; {which} is taken."
    )


def _at(places: Sequence[Sequence[int]]) -> str:
    positions = [str(pieces[0]) for pieces in places[:MOST_LISTED]]
    if len(places) > MOST_LISTED:
        return f"{', '.join(positions)} and {len(places) - MOST_LISTED:,} more"
    return positions[0] if len(positions) == 1 else f"{', '.join(positions[:-1])} and {positions[-1]}"


def _listed(tokens: Sequence[str]) -> str:
    listed = ", ".join(f"{index} {text}" for index, text in enumerate(shown_tokens(tokens[:MOST_LISTED])))
    return listed + (f" ... and {len(tokens) - MOST_LISTED:,} more" if len(tokens) > MOST_LISTED else "")
