"""Walks: the equation of one attention, step by step, for one query."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, AttentionLayer, ScoredAttention
from regard.errors import InputError
from regard.inspection.view import layer_and_head
from regard.inspection.walk.layer_steps import (
    Unrotated,
    given_step,
    output_step,
    projection_step,
    rotation_step,
    split_step,
)
from regard.inspection.walk.mechanism_steps import check_step, gathering_steps, weight_steps
from regard.inspection.walk.reading import Reading, asking, read
from regard.inspection.walk.steps import Scene, Step, quoted, walked_as
from regard.inspection.walk.watching import Seen, Walked, chosen_layer, layers_of, mechanism_of, sequences_of
from regard.inspection.walk.word_positions import Found, find_word, occurs
from regard.inspection.words import shown_tokens
from regard.tasks.predictor import Predictor

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """One query's way through one attention, step by step, with the numbers of the model.

    Arguments:
        title: what was read, and written.
        address: the attention layer, or what to call the mechanism.
        mechanism: the mechanism in words, such as `ScoredAttention(ScaledDot, Soft)`.
        query: the token that asks.
        position: which of `queries` it is, counted from 0.
        queries, keys: the tokens that ask and that are looked at.
        hidden: which keys the query may not see.
        head, heads: the head walked through, and how many there are.
        sizes: letters, what they count, and their numbers.
        notes: what was chosen for the reader, and why.
        steps: in the order of the equation.
        again: makes the walk of another query, by its position; see `at`.
    """

    title: str
    address: str
    mechanism: str
    query: str
    position: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    hidden: tuple[int, ...]
    head: int
    heads: int
    sizes: tuple[tuple[str, str, int], ...]
    notes: tuple[str, ...]
    steps: tuple[Step, ...]
    again: Callable[[int], Walk] | None = field(default=None, repr=False, compare=False)

    def at(self, position: int) -> Walk:
        """The walk of another query through the same head, from the same run of the model.

        Arguments:
            position: which of `queries`, counted from 0.

        Raises:
            InputError: for a position that is not there, or a query that has nothing to look at.
        """
        if self.again is None or not 0 <= position < len(self.queries):
            raise InputError(f"position is {position}; the queries are counted from 0 to {len(self.queries) - 1}")
        return self if position == self.position else self.again(position)

    def step(self, title: str) -> Step:
        """The step called `title`.

        Raises:
            InputError: where there is none, with those there are.
        """
        for step in self.steps:
            if step.title == title:
                return step
        raise InputError(f"the walk has no step {title!r}; it has {', '.join(step.title for step in self.steps)}")

    @property
    def weights(self) -> np.ndarray:
        """(S,) the weights of the query, those that the values are multiplied by."""
        return self.step("Weigh")["weight"]

    def show(self, path: str | os.PathLike[str] | None = None) -> None:
        """Show the walk: on the terminal, or in a file of the kind its suffix says.

        Arguments:
            path: `.html` for one self-contained page, `.json` for all numbers; None prints it.

        Raises:
            InputError: for another suffix, or a place that cannot be written to.
        """
        from regard.files import write_file

        if path is None:
            from rich.console import Console

            from regard.inspection.walk.terminal import render

            Console().print(render(self))
        elif is_page(path):
            from regard.inspection.walk.page import html_page

            write_file(path, html_page(self))
        else:
            write_file(path, self.to_json() + "\n")

    def to_json(self) -> str:
        """The walk as JSON text, every number with the nine digits that name a float32."""
        return json.dumps(
            {
                "format_version": FORMAT_VERSION,
                "title": self.title,
                "address": self.address,
                "mechanism": self.mechanism,
                "query": self.query,
                "position": self.position,
                "queries": self.queries,
                "keys": self.keys,
                "hidden": self.hidden,
                "head": self.head,
                "heads": self.heads,
                "sizes": [{"letter": letter, "counts": words, "size": size} for letter, words, size in self.sizes],
                "notes": self.notes,
                "steps": [_step(step) for step in self.steps],
            },
            ensure_ascii=False,
        )

    def _repr_html_(self) -> str:
        """The page, in a frame of its own, for notebooks."""
        from regard.inspection.walk.page import html_fragment

        return html_fragment(self)


def is_page(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name asks for a page; otherwise it asks for JSON.

    Raises:
        InputError: where it asks for neither.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".htm", ".json"):
        raise InputError(f"{path}: the name's end says what to write; give one that ends in .html or .json")
    return suffix != ".json"


def walk(
    model: Predictor,
    text: Any,
    query: str | None = None,
    *,
    position: int | None = None,
    layer: str | None = None,
    head: int | str | None = None,
    target: str | None = None,
    to: str | None = None,
) -> Walk:
    """Follow one query through one attention of a model, with the model's own numbers.

    Queries, keys and values; scores; scale; softmax; weigh; sum: each step with the line of code that computes it, then what
    the faster path of the model gave.

    Arguments:
        model: what `regard.load` gives.
        text: what the model is to read; of a captioner or a classifier of images an image, as a file or an array; of a model
            that copies vectors of zeros and ones with spaces between; of a few-shot classifier `(shown, asked)`, as its
            `classify` takes them.
        query: the word to follow: among the output tokens where a layer looks at the source, else among the tokens it reads.
        position: which token, counted from 0, where the word occurs more than once, or in place of a word.
        layer: the address of an attention layer; the last that looks from what is written at what was read where None.
        head: which head, counted from 0, or its layer and head, such as `"5.11"`; the one with the largest single weight for
            this query where None.
        target: the text the model is to have written; its own answer where None.
        to: the language wanted, of a model of several.

    Raises:
        InputError: for a model without attention or of a task that has no walk, a word that is not among the tokens or occurs
            more than once, and a layer or head that is not there.

    >>> from regard.models import Transformer, TransformerConfig
    >>> from regard.tasks import TranslationTask, Translator
    >>> from regard.text import Tokenizer
    >>> tokenizer = Tokenizer.train(["a cat sat"], kind="word", size=9)
    >>> task = TranslationTask(tokenizer, tokenizer)
    >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 8, "encoder_layers": 1, "decoder_layers": 1}
    >>> config = TransformerConfig(**task.model_settings(), **sizes)
    >>> seen = walk(Translator(Transformer(config), task), "a cat sat", "cat", layer="encoder.layers.0.attention")
    >>> [step.title for step in seen.steps if step.kind == "step"]
    ['Queries, keys, values', 'Scores', 'Scale', 'Softmax', 'Weigh', 'Sum']
    """
    if not isinstance(model, Predictor):
        raise InputError(f"a {type(model).__name__} cannot be walked through; give what regard.load gives")
    within, number = ("", None) if head is None else layer_and_head(head)
    address, part = chosen_layer(model.model, layer, within)
    reading = read(model, text, part, target=target, to=to)
    if not reading.seen.calls:
        raise InputError(f"{address} was not called while the model read this; load or build the model without compile")
    return _walked(model.model, address, part, reading, _found(model, part, reading, query, position), number)


def _walked(model: nn.Module, address: str, part: Walked, reading: Reading, found: Found, number: int | None) -> Walk:
    """The walk of one query, from what went through the layer."""
    seen = reading.seen
    call, place = seen.find(found.position)
    inputs, value, given = seen.calls[call]
    if not inputs.shape[3]:
        raise InputError(
            f"{quoted(shown_tokens(reading.queries)[found.position])} has nothing to look at in {address}: there "
            f"is no token before it; choose a later one"
        )
    mechanism = mechanism_of(part)
    with torch.no_grad():
        chosen, note = _head(mechanism, inputs, 0, place, number)
        token = shown_tokens(reading.queries)[found.position]
        scene = Scene(
            mechanism=mechanism,
            inputs=inputs,
            value=value,
            row=0,
            head=chosen,
            place=place,
            query_token=token,
            key_tokens=reading.keys[: inputs.shape[3]],
        )
        first = [given_step(scene)]
        if isinstance(part, AttentionLayer) and seen.whole:
            words = asking(model, part, token)
            unrotated = Unrotated.of(part, scene, seen, call)
            first = [projection_step(part, scene, words, seen.queries[call][0, place].to(scene.exact), unrotated)]
            if unrotated is not None:
                first.append(rotation_step(part, scene, unrotated))
        weights_, weights = walked_as(weight_steps, mechanism, "weights")(mechanism, scene)
        gathering, gathered = gathering_steps(scene, weights)
        asides = (
            *_of_layer(part, scene, seen, call, gathered, given),
            check_step(scene, weights, gathered, given),
        )
        after = reading.after(scene, call)
    steps = [*first, *weights_, *gathering, *([after] if after else []), *(step for step in asides if step is not None)]
    width = (("D", "width of the model", seen.queries[call].shape[-1]),) if seen.whole else ()
    return Walk(
        title=reading.title,
        address=address,
        mechanism=_described(mechanism),
        query=reading.queries[found.position],
        position=found.position,
        queries=reading.queries,
        keys=scene.key_tokens,
        hidden=_hidden(scene),
        head=chosen,
        heads=inputs.shape[1],
        sizes=(*_sizes(scene), *width),
        notes=tuple(note for note in (found.note, note, *reading.notes) if note),
        steps=tuple(steps),
        again=lambda position: _walked(model, address, part, reading, Found(position), chosen),
    )


def _of_layer(
    part: Walked, scene: Scene, seen: Seen, call: int, gathered: Tensor, given: Tensor
) -> tuple[Step | None, ...]:
    """What explains a layer: its scores by content and position, and its output projection."""
    if not isinstance(part, AttentionLayer) or not seen.whole:
        return ()
    return split_step(part, scene, seen, call), output_step(part, scene, gathered, given, seen.outputs[call])


def walk_attention(
    mechanism: Attention,
    inputs: AttentionInputs,
    value: Tensor,
    *,
    row: int = 0,
    head: int | None = None,
    position: int = 0,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
) -> Walk:
    """Follow one query through a mechanism alone, without a model around it.

    Arguments:
        mechanism: any attention mechanism.
        inputs: what it is called with.
        value: (B, G, S, Ev), the values.
        row: the batch row.
        head: the query head; the one with the largest single weight for this query where None.
        position: which of the L queries.
        queries, keys: L and S names; places where None.

    Raises:
        InputError: for a row, head or query that is not there, or names that are not one for each.
        ValueError: for values that do not fit the keys.

    >>> from regard.attention import Dot
    >>> inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.tensor([[[[1.0, 0.0], [3.0, 0.0]]]]))
    >>> seen = walk_attention(ScoredAttention(Dot()), inputs, torch.eye(2).view(1, 1, 2, 2), keys=["a", "b"])
    >>> seen.step("Scores")["score"].tolist()
    [1.0, 3.0]
    """
    inputs.check_value(value)
    rows, heads, asked, looked_at = inputs.shape
    for name, index, count in (("row", row, rows), ("position", position, asked), ("head", head or 0, heads)):
        if not 0 <= index < count:
            raise InputError(f"{name} is {index}; there are {count}, counted from 0")
    query_tokens = _names("queries", queries, asked)
    key_tokens = _names("keys", keys, looked_at)
    with torch.no_grad():
        chosen, note = _head(mechanism, inputs, row, position, head)
        scene = Scene(
            mechanism=mechanism,
            inputs=inputs,
            value=value,
            row=row,
            head=chosen,
            place=position,
            query_token=shown_tokens(query_tokens)[position],
            key_tokens=key_tokens,
        )
        weights_, weights = walked_as(weight_steps, mechanism, "weights")(mechanism, scene)
        gathering, gathered = gathering_steps(scene, weights)
        training = mechanism.training
        mechanism.eval()
        try:
            check = check_step(scene, weights, gathered, mechanism(inputs, value))
        finally:
            mechanism.train(training)
    steps: list[Step] = [given_step(scene), *weights_, *gathering, check]
    return Walk(
        title="A mechanism alone",
        address="attention",
        mechanism=_described(mechanism),
        query=query_tokens[position],
        position=position,
        queries=query_tokens,
        keys=key_tokens,
        hidden=_hidden(scene),
        head=chosen,
        heads=heads,
        sizes=_sizes(scene),
        notes=(note,) if note else (),
        steps=tuple(steps),
        again=lambda position: walk_attention(
            mechanism, inputs, value, row=row, head=chosen, position=position, queries=queries, keys=keys
        ),
    )


def _found(model: Predictor, layer: Walked, reading: Reading, word: str | None, position: int | None) -> Found:
    """The token to follow; where a word is only among those looked at, the error says where it would ask.

    Raises:
        InputError: as `find_word`.
    """
    try:
        return find_word(reading.queries, word, position)
    except InputError as error:
        if word is None or not occurs(reading.keys, word) or occurs(reading.queries, word):
            raise
        where = [
            name for name, other in layers_of(model.model).items() if sequences_of(other)[0] == sequences_of(layer)[1]
        ]
        hint = (
            f"; it is among those looked at, and asks in {where[0]} (--layer)"
            if where
            else "; here it is only looked at"
        )
        raise InputError(f"{error}{hint}") from None


def _head(mechanism: Attention, inputs: AttentionInputs, row: int, place: int, wanted: int | None) -> tuple[int, str]:
    """The head to follow, and a sentence where it was chosen for the reader."""
    heads = inputs.shape[1]
    if wanted is not None and not 0 <= wanted < heads:
        raise InputError(f"head is {wanted}; the layer has heads 0 to {heads - 1}")
    if heads == 1:
        return 0, ""
    largest = mechanism.weights(inputs)[row, :, place].max(dim=-1).values
    chosen = int(largest.argmax()) if wanted is None else wanted
    listed = ", ".join(f"{float(weight):.3f}" for weight in largest)
    why = "the one with the largest single weight for this query" if wanted is None else "as asked"
    return chosen, f"Head {chosen} of heads 0 to {heads - 1}, {why}. The largest weights of the heads: {listed}."


def _names(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(count)))
    if len(names) != count:
        raise InputError(f"{what}: {len(names)} names for {count}; give one for each")
    return tuple(names)


def _hidden(scene: Scene) -> tuple[int, ...]:
    return tuple((~scene.visible).nonzero()[:, 0].tolist())


def _sizes(scene: Scene) -> tuple[tuple[str, str, int], ...]:
    batch, heads, queries, keys = scene.inputs.shape
    shared = scene.inputs.key.shape[1]
    return (
        ("B", "texts in the batch", batch),
        ("H", "heads", heads),
        *([("G", "heads of keys and values", shared)] if shared != heads else []),
        ("L", "queries in this call", queries),
        ("S", "keys", keys),
        ("E", "width of a query and a key", scene.inputs.query.shape[-1]),
        ("Ev", "width of a value", scene.value.shape[-1]),
    )


def _described(mechanism: Attention) -> str:
    """`ScoredAttention(ScaledDot, Soft)`."""
    name = type(mechanism).__name__
    if not isinstance(mechanism, ScoredAttention):
        return name
    return f"{name}({type(mechanism.score).__name__}, {type(mechanism.alignment).__name__})"


def _step(step: Step) -> dict[str, Any]:
    return {
        "title": step.title,
        "kind": step.kind,
        "sentence": step.sentence,
        "equation": step.equation,
        "lines": [
            {"file": line.file, "line": line.line, "symbol": line.symbol, "text": line.text} for line in step.lines
        ],
        "shown": [
            {
                "name": item.name,
                "letters": item.letters,
                "labels": item.labels,
                "of": item.of,
                "note": item.note,
                "values": _rounded(item.values.tolist()),
            }
            for item in step.shown
        ],
        "notes": step.notes,
    }


def _rounded(value: float | Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    # JSON knows no infinity; a mechanism of someone's own may give one.
    return float(f"{value:.9g}") if np.isfinite(value) else None  # type: ignore[arg-type]
