"""Attention and interventions in the engine: what a model attends to while it answers, and its answer when it is changed.

The attention of a task's answer is recorded while the answer is computed. A language model generates in a batch with other
requests, without recording; its text is read once more afterwards (`regard.serving.text_reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError, nearest
from regard.inspection import ScaleHeads, SetOutput, SetWeights, attention_addresses, change, look
from regard.inspection.hooks import addresses_of
from regard.inspection.memory import copied_view
from regard.inspection.patches import Patches
from regard.inspection.text_reader import is_document, with_shares
from regard.inspection.view import AttentionMap, AttentionView, is_layer
from regard.layers import Tokens
from regard.serving.attention import Attention, Grid, Map, Patch, Scale, Seen, Weigh
from regard.tasks.copying import Copier

if TYPE_CHECKING:
    from regard.inspection.editing import Edit
    from regard.tasks.predictor import Predictor


def layers_asked(model: Any, asked: Attention) -> list[str]:
    """The addresses of the attention layers that a request asks for.

    Raises:
        InputError: for an unknown layer, and for a model without attention.
    """
    known = list(attention_addresses(model))
    if not known:
        raise InputError("attention: this model has no attention layers")
    if asked.layers is None:
        return known
    chosen: dict[str, None] = {}
    for layer in asked.layers:
        found = [address for address in known if is_layer(address, str(layer))]
        if not found:
            raise InputError(f"attention.layers: no attention layer is called {layer!r}; {nearest(str(layer), known)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


class Changes:
    """The interventions of one request. Calling the object returns the context manager within which the model is changed.

    Arguments:
        model: the model to change.
        interventions: in order of application.
        act: runs the model on the `from` of a patch.
        length: the number of tokens in the prompt, for a language model that reads it in parts; before each call of the model,
            the attribute `first` must then be set to the number of tokens already read. None where the model reads its text at
            once.

    Raises:
        InputError: for an unknown address, head or position.
    """

    def __init__(
        self,
        model: Any,
        interventions: Sequence[Scale | Patch | Weigh],
        act: Callable[[Any], object],
        *,
        length: int | None = None,
    ) -> None:
        self.model = model
        self.first = 0
        self._length = length
        self._called: set[int] = set()
        self._edits: list[Edit] = []
        for number, each in enumerate(interventions):
            where = f"interventions[{number}]"
            if isinstance(each, Scale):
                self._edits.append(self._scale(each, where))
            elif isinstance(each, Weigh):
                self._edits.append(self._weigh(each, where))
            else:
                self._edits.append(self._patch(each, act, where))
        with change(model, *self._edits):  # edits that conflict are refused here
            pass

    def __call__(self) -> AbstractContextManager[None]:
        """A context manager within which the model is changed."""
        return change(self.model, *self._edits)

    def restart(self) -> None:
        """Prepare for reading the same text again: patched modules may be called once more."""
        self._called.clear()

    def _scale(self, asked: Scale, where: str) -> Edit:
        edit = ScaleHeads(address=asked.address, heads=asked.heads, factor=asked.factor)
        try:
            with change(self.model, edit):
                return edit
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def _weigh(self, asked: Weigh, where: str) -> Edit:
        known = list(attention_addresses(self.model))
        if asked.address not in known:
            raise InputError(
                f"{where}.address: no attention layer is called {asked.address!r}; {nearest(asked.address, known)}"
            )
        number, what = len(self._edits), f"{where}: row {{}}"
        row = asked.row if self._length is None else places_asked([asked.row], self._length, what)[0]

        def weighed(weights: Tensor) -> Tensor:
            heads, queries, keys = weights.shape[1:]
            if asked.head >= heads:
                raise InputError(
                    f"{where}.head: {asked.address} has heads 0 to {heads - 1}, and {asked.head} is none of them"
                )
            if self._length is None:
                if number in self._called:
                    raise InputError(
                        f"{where}.address: {asked.address} is called for each generated token; choose a layer that reads the text"
                    )
                self._called.add(number)
                place, wanted = places_asked([row], queries, what)[0], keys
            else:
                place, wanted = row - self.first, row + 1
                if not 0 <= place < queries:
                    return weights
            if len(asked.weights) != wanted or keys < wanted:
                raise InputError(
                    f"{where}.weights: {len(asked.weights)} are given, and the query attends to {min(wanted, keys)} keys; "
                    "give as many"
                )
            changed = weights.clone()
            changed[:, asked.head, place] = 0
            changed[:, asked.head, place, :wanted] = weights.new_tensor(asked.weights)
            return changed

        return SetWeights(address=asked.address, heads=[asked.head], to=weighed)

    def _patch(self, asked: Patch, act: Callable[[Any], object], where: str) -> Edit:
        known = addresses_of(self.model)
        if asked.address not in known:
            raise InputError(
                f"{where}.address: no module is called {asked.address!r}; {nearest(asked.address, list(known))}"
            )
        try:
            with torch.no_grad(), look(self.model, hidden=[asked.address]) as seen:
                act(asked.source)
        except InputError as error:
            raise type(error)(f"{where}.from: {error}") from None
        if not seen.runs or asked.address not in seen.runs[-1].hidden:
            raise InputError(f"{where}.address: {asked.address} was not called while the model read the other text")
        hidden = seen.hidden(asked.address)
        if hidden.dim() != 3 or hidden.shape[0] != 1:
            raise InputError(
                f"{where}.address: {asked.address} returns {tuple(hidden.shape)}, not a vector for each token of one text"
            )
        theirs = asked.positions if asked.source_positions is None else asked.source_positions
        if len(theirs) != len(asked.positions):
            raise InputError(
                f"{where}: {len(asked.positions)} positions and {len(theirs)} from_positions; give as many"
            )
        vectors = hidden[:, places_asked(theirs, hidden.shape[1], f"{where}: position {{}} of the other text")]
        what = f"{where}: position {{}}"
        if self._length is not None:
            places = places_asked(asked.positions, self._length, what)
            return SetOutput(address=asked.address, to=lambda output: self._put(output, vectors, places))
        number = len(self._edits)

        def at_once(output: Tensor) -> Tensor:
            if number in self._called:
                raise InputError(
                    f"{where}.address: {asked.address} is called for each generated token; choose a module that reads the text"
                )
            self._called.add(number)
            return self._put(output, vectors, places_asked(asked.positions, output.shape[1], what))

        return SetOutput(address=asked.address, to=at_once)

    def _put(self, output: Tensor, vectors: Tensor, places: Sequence[int]) -> Tensor:
        """The output (B, L, D) with `vectors` (1, P, D) at those of the P positions that are in this part of the text."""
        here = [(place - self.first, number) for number, place in enumerate(places)]
        here = [(place, number) for place, number in here if 0 <= place < output.shape[1]]
        if not here:
            return output
        changed = output.clone()
        for place, number in here:
            changed[:, place] = vectors[:, number].to(output)
        return changed


def places_asked(given: Sequence[int], count: int, what: str) -> list[int]:
    """Positions counted from 0, where some may be given as negative ones that count backwards from the end.

    Arguments:
        given: the positions.
        count: the number of positions that there are.
        what: begins the error message; `{}` in it is replaced by the position.

    Raises:
        InputError: for a position out of range.
    """
    for place in given:
        if not -count <= place < count:
            raise InputError(f"{what.format(place)} is outside 0 to {count - 1}")
    return [place % count for place in given]


def language_model_changes(
    model: Any, interventions: Sequence[Scale | Patch | Weigh], prompt: int, ids_of: Callable[[Any], Sequence[int]]
) -> Changes:
    """The interventions in a language model that generates after a prompt.

    Arguments:
        model: the language model.
        interventions: of the request.
        prompt: the number of tokens in the prompt.
        ids_of: encodes the `from` of a patch, as a prompt is encoded.

    Raises:
        InputError: as `Changes`.
    """
    return Changes(
        model,
        interventions,
        lambda source: model.prefill(Tokens.pad([list(ids_of(source))]), model.start(1)),
        length=prompt,
    )


def task_changes(predictor: Predictor[Any], route: Any, request: Any) -> Changes:
    """The interventions of a request to a task's route.

    Raises:
        InputError: as `Changes`.
    """

    def act(source: Any) -> None:
        plain = {"inputs": source, "parameters": msgspec.to_builtins(request.parameters, builtin_types=(bytes,))}
        try:
            other = msgspec.convert(plain, route.request)
        except msgspec.ValidationError as error:
            raise InputError(f"it is not allowed as inputs: {error}") from None
        route.answer(predictor, other)

    return Changes(predictor.model, request.interventions or (), act)


def answered(predictor: Predictor[Any], route: Any, request: Any) -> Any:
    """The answer of a task's route under the request's interventions, with the attention that the request asks for.

    Returns:
        What the route answers; where attention is asked for, a mapping with `answer` and `attention` (`Seen`).

    Raises:
        InputError: for several inputs at once, and for an unknown layer, head or position.
    """
    if isinstance(request.inputs, list) and len(request.inputs) != 1:
        raise InputError("inputs: attention and interventions are for one input at a time; give one")
    within: AbstractContextManager[object] = nullcontext()
    if request.interventions:
        within = task_changes(predictor, route, request)()
    asked: Attention | None = request.attention
    if asked is None:
        with within:
            return route.answer(predictor, request)
    if asked.rows == "written":
        raise InputError("attention.rows: 'written' is for language models; give 'all', or numbers")
    addresses = layers_asked(predictor.model, asked)
    with within, look(predictor, addresses) as record:
        answer = route.answer(predictor, request)
        if isinstance(predictor, Copier):  # it names its steps itself
            text = request.inputs[0] if isinstance(request.inputs, list) else request.inputs
            return {"answer": answer, "attention": _seen([copied_view(predictor, text, addresses)], asked)}
    views = [record.view(run=run) for run in range(len(record.runs))]
    return {
        "answer": answer,
        "attention": _seen([with_shares(view) if is_document(view) else view for view in views], asked),
    }


def _seen(views: Sequence[AttentionView], asked: Attention) -> Seen:
    """The attention of several views; their examples are numbered through."""
    maps: list[Map] = []
    examples: list[str] = []
    images: list[bytes | None] = []
    notes: dict[str, None] = {}
    tracks: list[dict[str, Any]] = []
    for view in views:
        check_size(asked, sum(_size(each, asked) for each in view.maps) + sum(len(each.weights) // 4 for each in maps))
        maps += [_cut(each, asked, len(examples)) for each in view.maps]
        if not isinstance(asked.rows, list):
            tracks += [track.to_json() | {"example": track.example + len(examples)} for track in view.tracks]
        examples += view.examples
        images += view.images or [None] * len(view.examples)
        notes[view.note] = None
    return Seen(maps, examples, images if any(images) else [], " ".join(filter(None, notes)), tracks)


def check_size(asked: Attention, count: int) -> None:
    """Refuse more weights than an answer may hold.

    Raises:
        InputError: with both numbers, and how to ask for fewer.
    """
    if count > asked.most:
        raise InputError(
            f"attention: {count:,} weights are asked for, and an answer holds {asked.most:,} at most; shorten the text, or "
            "ask for fewer layers, heads or rows"
            + ("" if asked.page or asked.encoding_format == "base64" else ", or for base64 or a page")
        )


def _size(item: AttentionMap, asked: Attention) -> int:
    heads = item.heads if asked.heads is None else len(asked.heads)
    rows = len(asked.rows) if isinstance(asked.rows, list) else len(item.query_tokens)
    return heads * rows * len(item.key_tokens)


def heads_asked(asked: Attention, count: int, address: str) -> list[int]:
    """The numbers of the heads that are asked for in a layer with `count` heads.

    Raises:
        InputError: for a head that the layer does not have.
    """
    if asked.heads is None:
        return list(range(count))
    wrong = next((head for head in asked.heads if head >= count), None)
    if wrong is not None:
        raise InputError(f"attention.heads: {address} has heads 0 to {count - 1}, and {wrong} is none of them")
    return asked.heads


def _cut(item: AttentionMap, asked: Attention, before: int) -> Map:
    heads, count = heads_asked(asked, item.heads, item.address), len(item.query_tokens)
    rows = list(range(count))
    if isinstance(asked.rows, list):
        rows = places_asked(asked.rows, count, f"attention.rows: {item.address}: row {{}}")
    return Map(
        address=item.address,
        kind=item.kind,
        example=item.example + before,
        heads=heads,
        rows=rows,
        query_tokens=[item.query_tokens[row] for row in rows],
        key_tokens=list(item.key_tokens),
        weights=np.ascontiguousarray(item.weights[heads][:, rows], dtype="<f4").tobytes(),
        query_patches=None if isinstance(asked.rows, list) else _grid(item.query_patches),
        key_patches=_grid(item.key_patches),
        query_words=None if isinstance(asked.rows, list) else item.query_words,
        key_words=item.key_words,
        marks=None if item.marks is None or asked.heads or isinstance(asked.rows, list) else item.marks.to_json(),
    )


def _grid(patches: Patches | None) -> Grid | None:
    return None if patches is None else Grid(patches.rows, patches.columns, patches.first)
